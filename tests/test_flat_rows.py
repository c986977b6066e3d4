"""Rows of several dimensions as rows of one: random programs give what they gave."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.triton.flat_rows import flatten_rows
from adjoint.engine.compiler.executors import register_backend
from adjoint.engine.graph.execution import interpreted
from adjoint.engine.graph.passes.pipeline import run_passes
from adjoint.engine.graph.verify import verify

PART = 4  # rows of a part; 4 x 3 rows have parts that begin within sequences
SHAPE = (4, 3, 5)
SEEN: list[tuple[Any, Any]] = []


def make(mode: str, options: dict[str, Any]) -> Any:
    def executable(task: Any) -> Any:
        graph = run_passes(task.graph)
        flat = flatten_rows(graph, PART)
        verify(flat)
        SEEN.append((graph, flat))
        return interpreted(dataclasses.replace(task, graph=flat))

    return executable


register_backend("flat-rows", make)


def grown(rng: np.random.Generator, x: Any, vector: Any, places: Any) -> list[Any]:
    """Values made of each other at random; some are sums of rows and of columns."""
    values, results = [x], []
    steps = {
        "sin": lambda a, b: a.sin(),
        "sum of two": lambda a, b: a + b,
        "by a vector": lambda a, b: a * vector - 1,
        "by places": lambda a, b: a * places + b,  # one of its operands has no rows of that number
        "norm": lambda a, b: a - a.mean(-1, keepdim=True) * b,
        "largest": lambda a, b: a / (1 + a.abs().amax(-1, keepdim=True)),
        "halves": lambda a, b: a.bfloat16().float() + b,
        "other shape": lambda a, b: a.reshape(12, 5).cos().reshape(SHAPE),
        "turned": lambda a, b: a.transpose(0, 1).contiguous().transpose(0, 1) * b,
        "chosen": lambda a, b: ad.where(a > b, a, 0.5),
    }
    for name in rng.choice(list(steps), 8):
        a, b = (values[int(k)] for k in rng.integers(0, len(values), 2))
        values.append(steps[str(name)](a, b))
        results.append(values[-1].sum((0, 1)))
        if rng.random() < 0.3:
            results.append(values[-1].sum(0))
    return [*results, values[-1]]


@pytest.mark.parametrize("seed", range(20))
def test_random_programs(seed: int) -> None:
    given = [ad.from_numpy(np.random.default_rng(seed).standard_normal(s).astype(np.float32))
             for s in (SHAPE, SHAPE[-1:], (1, *SHAPE[1:]))]  # fmt: skip

    def program(x: Any, vector: Any, places: Any) -> Any:
        x = x + x.sum(-1, keepdim=True)  # a row reduced, whatever is drawn
        return grown(np.random.default_rng(seed), x, vector, places)

    got = ad.compile(program, backend="flat-rows")(*given)
    for a, b in zip(got, program(*given), strict=True):
        ad.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
    graph, flat = SEEN[-1]
    assert flat is not graph
    assert any(node.record.name == "sum" and node.params["dims"] == (0,)
               and node.inputs[0].spec.shape == (12, 5) for node in flat.nodes)  # fmt: skip


@pytest.mark.parametrize("shape", [(3, 4, 5), (3, 8, 5), (5, 3, 5), (12, 5)])
def test_other_shapes_stay_as_they_are(shape: tuple[int, ...]) -> None:
    """Lengths that parts divide, rows that make no whole parts, and matrices."""

    def program(x: Any) -> Any:
        y = x - x.sum(-1, keepdim=True)
        return y.sin().sum(tuple(range(len(shape) - 1)))

    ad.compile(program, backend="flat-rows")(ad.ones(*shape))
    graph, flat = SEEN[-1]
    assert flat is graph
