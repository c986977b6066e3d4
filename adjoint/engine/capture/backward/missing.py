"""Backward graphs where some results have no cotangent, because nobody used them.

A zero in place of a cotangent that is not there would do harm: times an infinite slope (of a
logarithm at 0, say) it is NaN, where eager execution never comes, and a Function's own backward may
give gradients that do not depend on its cotangent at all. So the tape is followed once more, from
the results that have one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adjoint.engine.autodiff.tape.node import Edge
from adjoint.engine.capture.backward.derivative import (
    Derivative,
    TapeRoute,
    costs_more_to_make,
    residuals_of,
)
from adjoint.engine.capture.program.outputs import Outputs
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.backward_graph import backward_graph, outward
from adjoint.engine.graph.execution import Executable
from adjoint.engine.graph.ir import DataflowGraph, Value
from adjoint.engine.graph.record.trace import TRACING
from adjoint.engine.tensor.tensor import Tensor


@dataclass(slots=True)
class PartialBackward:
    """The backward graph of some cotangents."""

    graph: DataflowGraph  # all cotangents, then residuals, to gradients
    residuals: list[tuple[str, int]]  # as a derivative's
    places: list[int]  # per gradient: which of the derivative's it is
    executable: Executable | None = None

    def spread(self, gradients: list[Any], count: int) -> list[Any]:
        """The derivative's `count` gradients; None where nothing arrives."""
        spread: list[Any] = [None] * count
        for place, gradient in zip(self.places, gradients, strict=True):
            spread[place] = gradient
        return spread


def partial_backward(derivative: Derivative, given: frozenset[int]) -> PartialBackward:
    """The backward graph of the cotangents that are given; sizes are as they were recorded."""
    route: TapeRoute = derivative.route  # type: ignore[assignment]
    if given not in route.partly:
        part = _followed(route, given)
        kept = {k for kind, k in derivative.residuals if kind == "output"}
        if any(kind == "output" and k not in kept for kind, k in part.residuals):
            raise _untold("needs values that were not kept")
        route.partly[given] = part
    part = route.partly[given]
    return PartialBackward(part.graph, part.residuals, part.places)


def _followed(route: TapeRoute, given: frozenset[int]) -> PartialBackward:
    tape, places = route.tape, {edge: i for i, edge in enumerate(route.edges)}
    with TRACING, tape.resumed(), CONTEXT.having(grad_enabled=False):
        trace = tape.trace
        known, before = len(trace.graph.inputs), set(trace.cells)
        outputs = Outputs(trace, [])
        outputs.indices = dict(tape.indices)

        def follow(cotangents: list[Tensor]) -> dict[Edge, Value]:
            roots = [(tape.seeds[i][0], cotangents[i]) for i in sorted(given)]
            gradients = outward(trace, roots, stops=route.stops)
            return {edge: trace.value_of(g) for edge, g in gradients.items()}

        specs = [spec for _, spec in tape.seeds]
        backward = backward_graph(trace, specs, follow, costs_more_to_make)
        backward.graph.outputs += backward.gradients.values()
        residuals = residuals_of(trace, outputs, backward.needs, tape.written, tape.copied)
        for identity in trace.cells.keys() - before:
            del trace.cells[identity]
    if any(kind == "input" and k >= known for kind, k in residuals):
        raise _untold("reads a tensor from outside, or draws random numbers,")
    if not places.keys() >= backward.gradients.keys():
        raise _untold("gives gradients to others")
    return PartialBackward(backward.graph, residuals, [places[e] for e in backward.gradients])


def _untold(what: str) -> RuntimeError:
    return RuntimeError(
        f"CompiledBackward: the backward of a compiled function {what} where some of its results "
        "are not used, which cannot be told from what it does where all of them are. Return only "
        "results that are used, or call the function uncompiled."
    )
