"""What tests of graphs share: a function's graph, and equality to the last bit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.engine.graph.ir import DataflowGraph
from adjoint.graph import capture, interpret


def graph_of(fn: Callable[..., Any], *args: Any) -> tuple[DataflowGraph, list[Any]]:
    """The graph of a call, and the values of its inputs."""
    captured = capture(fn)
    before = [x.clone() if hasattr(x, "clone") else x for x in args]
    captured(*args)
    program = captured.latest
    return program.graph, [source.read(before) for source in program.sources]


def names(graph: DataflowGraph) -> Counter[str]:
    """How often each record is applied."""
    return Counter(node.record.name for node in graph)


def bits(x: Any) -> Any:
    """A tensor's elements as something to compare: signs of zeros count, those of NaNs do not."""
    array = np.asarray(x.numpy())
    if array.dtype.kind not in "fc" and array.dtype.name != "bfloat16":
        return array
    wide = array.astype(np.complex128)
    parts = np.stack([wide.real, wide.imag])
    return np.stack([np.nan_to_num(parts, nan=7e300), np.signbit(parts) & ~np.isnan(parts)])


def same_results(
    first: DataflowGraph, second: DataflowGraph, inputs: list[Any], *, rtol: float = 0.0
) -> None:
    """Fail unless two graphs give the same results, dtypes and shapes for the inputs."""
    a, b = interpret(first, inputs), interpret(second, inputs)
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        assert x._spec == y._spec
        if rtol:
            np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=rtol, atol=rtol)
        else:
            np.testing.assert_array_equal(bits(x), bits(y))
