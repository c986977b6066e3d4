"""A graph has one derivative: that of a compiled function is that of the graph performed again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.graph.flow.derive import Reverse
from adjoint.engine.graph.interpreter import evaluate
from adjoint.engine.graph.ir import DataflowGraph, Value, subgraphs
from adjoint.graph import capture

F = ad.nn.functional


def _loop(x: Any, w: Any) -> Any:
    def body(carry: Any, row: Any) -> Any:
        state = (carry @ w + row).tanh()
        return state, state.sin()

    return ad.scan(body, x[:1] * 0, x.unsqueeze(1))[1].sum(0)


PROGRAMS: dict[str, Callable[..., Any]] = {
    "product": lambda x, w: (x @ w).tanh(),
    "views": lambda x, w: (x.t()[:2] @ x).exp() @ w.t().reshape(-1)[:6].reshape(3, 2),
    "used twice": lambda x, w: (x * x + x.sin()) @ w,
    "composite": lambda x, w: F.layer_norm(x @ w, (3,)).softmax(-1),
    "constants": lambda x, w: ad.where(ad.arange(3) > 1, x, 2.0 * x) @ w,
    "branch": lambda x, w: ad.cond(x.sum() > 0, lambda y: y @ w, lambda y: y.cos(), (x,)),
    "loop": _loop,
}


def _operations(graph: DataflowGraph) -> Counter[str]:
    """How often each operation is applied to what comes of the cotangent, the first input.

    Views and what comes of inputs alone may be computed again or kept.
    """
    reached = set(graph.inputs[:1])
    counts: Counter[str] = Counter()
    for node in graph:
        if reached.isdisjoint(x for x in node.inputs if isinstance(x, Value)):
            continue
        reached.update(node.outputs)
        counts[node.record.name] += not node.record.is_view
        for body in subgraphs(node).values():
            counts.update(inner.record.name for inner in body if not inner.record.is_view)
    return +counts


def _gradients(graph: DataflowGraph, cotangent: Any, given: list[Any]) -> list[Any]:
    """What the reverse form of a graph by all inputs gives, with the graph that gives it."""
    every = [True] * len(graph.inputs)
    reverse = Reverse(graph, every, free=[False] * len(every), available=every)
    pulled = reverse.pull([True])
    needed = [value for value in pulled.needs if value not in reverse.position]
    forward = evaluate(reverse.forward(needed), [*given, *reverse.constants])
    known = dict(zip(reverse.position, [*given, *reverse.constants], strict=True))
    known.update(zip(needed, forward[len(graph.outputs) :], strict=True))
    operands = {value: known[needs] for needs, value in pulled.needs.items()}
    operands.update(zip(pulled.cotangents, [cotangent], strict=True))
    operands.update((x.value, x.source) for x in pulled.constants)
    backward = pulled.graph
    backward.outputs = [pulled.outputs[i] for i in range(len(graph.inputs))]
    return [backward, *evaluate(backward, [operands[v] for v in backward.inputs])]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_graph_has_one_derivative(name: str) -> None:
    ad.manual_seed(3)
    x, w = (ad.randn(3, 3).requires_grad_() for _ in range(2))
    compiled = capture(PROGRAMS[name])
    result = compiled(x, w)
    cotangent = ad.randn(*result.shape)
    expected = ad.autograd.grad(result, (x, w), cotangent)
    program = compiled.latest
    graph = program.graph.copy()  # without what it returns for backward
    graph.outputs = graph.outputs[:1]
    with ad.no_grad():
        given = [source.read([x.detach(), w.detach()]) for source in program.sources]
        backward, *gradients = _gradients(graph, cotangent, given)
    assert _operations(backward) == _operations(program.derivative.graph)  # type: ignore[union-attr]
    for mine, theirs in zip(gradients, expected, strict=True):
        np.testing.assert_array_equal(mine.numpy(), theirs.numpy())
