"""Graphs as text: the text runs, and gives what the graph gives.

Every operation's: `tests/conformance/test_graph_forms.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.core.spec import Spec
from adjoint.engine.graph.text import literal, ops, subgraph
from adjoint.graph import (
    capture,
    cond,
    interpret,
    load,
    scan,
    to_text,
    verify,
    while_loop,
)
from adjoint.nn import functional as F
from tests.graph_checks import bits, graph_of


def runs_alike(graph: Any, inputs: list[Any]) -> None:
    got = load(to_text(graph))(*inputs)
    for x, y in zip(interpret(graph, inputs), got, strict=True):
        np.testing.assert_array_equal(bits(x), bits(y))


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "numbers": lambda x: (x * float("inf"), x - float("nan"), x + -0.0, x**0.5, x * (1 + 2j)),
    "several results": lambda x: (*x.sort(), x.topk(1).values, *x.split(1)),
    "writes": lambda x: x.clone().t().add_(1),
    "draws": lambda x: x * ad.rand(2, 3),
    "nothing": lambda x: (),
    "branches": lambda x: cond(x.sum() > 0, lambda a: a * 2, lambda a: -a, (x,)),
    "loops": lambda x: while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 2), (x[0, 0], x)),
    "scans": lambda x: scan(lambda c, t: (c + t, F.gelu(c)), x[0], x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_text_of_programs(name: str) -> None:
    graph, inputs = graph_of(PROGRAMS[name], ad.arange(6.0).reshape(2, 3))
    runs_alike(graph, inputs)


def test_text_is_python_by_itself() -> None:
    captured = capture(lambda x: F.softmax(x, 0))
    x = ad.tensor([1.0, 2.0])
    expected = captured(x)
    scope: dict[str, Any] = {}
    exec(captured.graph_text(), scope)
    (got,) = scope["graph"](x)
    assert got.equal(expected)


def test_text_of_a_subgraph() -> None:
    def outer(x: Any, y: Any) -> tuple[Any, ...]:
        return (ops.mul(ops.add(x, y), 2),)

    graph = verify(subgraph(outer, Spec((3,), ad.float32), (Spec((), ad.float32),)))
    assert graph.inputs[1].host
    (got,) = interpret(graph, [ad.tensor([1.0, 2.0, 3.0]), 0.5])
    assert got.tolist() == [3.0, 5.0, 7.0]
    text = literal({"body": graph, "others": (graph, 1)}, "f")
    assert text == (
        "{'body': subgraph(f_body, spec((3,), dtype('float32')), (spec((), dtype('float32')),)), "
        "'others': (subgraph(f_others_0, spec((3,), dtype('float32')), (spec((), dtype('float32')),)"
        "), 1)}"
    )


def test_unknown_operation() -> None:
    with pytest.raises(AttributeError, match="no operation called 'frobnicate'"):
        ops.frobnicate(1)
