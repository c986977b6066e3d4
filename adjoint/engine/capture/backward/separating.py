"""Results of a compiled call that others were made of, as places of the tape by themselves.

Note [separating]
    A call is one node of the tape, so a gradient that goes from one of its results through another
    (`features, score = model(x)`) does not pass the other's place on the tape. When somebody wants
    to see it there (`retain_grad`, a hook, `grad(score, features)`), the node of that call is taken
    apart: its derivative then ends at such results, and each of them gets a node of its own.
"""

from __future__ import annotations

from typing import Any

from adjoint.engine.autodiff.tape.node import Edge
from adjoint.engine.capture.backward.derivative import (
    Derivative,
    GradientTarget,
    Strides,
    Tape,
    TapeRoute,
    costs_more_to_make,
    dependence,
    nodes_behind,
    residuals_of,
    target,
)
from adjoint.engine.capture.program.layouts import permuted_strides
from adjoint.engine.capture.program.outputs import Outputs
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.backward_graph import backward_graph, outward
from adjoint.engine.graph.ir import Value
from adjoint.engine.graph.record.trace import TRACING
from adjoint.engine.tensor.tensor import Tensor


def stages_of(derivative: Derivative) -> dict[int | None, Derivative]:
    """The derivative up to inner results (under None), and from each of these on."""
    if derivative.parts is not None:
        return dict(derivative.parts)
    tape: Tape = derivative.tape  # type: ignore[assignment]
    everyone = [i for i in range(len(tape.seeds)) if i not in derivative.refused]
    inner = sorted(derivative.inner - derivative.refused.keys())
    with TRACING, tape.resumed(), CONTEXT.having(grad_enabled=False):
        parts: dict[Any, Derivative] = {None: _stage(tape, everyone, inner)}
        for j in inner:
            parts[j] = _stage(tape, [j], [k for k in inner if k != j])
    for key, part in parts.items():
        if derivative.resized is not None:
            parts[key] = part = derivative.resized(part)
        part.factory = derivative.factory
        part.resized = derivative.resized
        part.spoils = derivative.spoils if key is None else [frozenset({0})]
        part.refused = derivative.refused if key is None else {}
    derivative.parts = parts
    return parts


def _stage(tape: Tape, seeds: list[int], stops: list[int]) -> Derivative:
    """The derivative of some seeds that goes no further than others."""
    trace = tape.trace
    outputs = Outputs(trace, [])
    outputs.positions = dict(tape.positions)
    outputs.made_leaves = dict(tape.made_leaves)
    outputs.indices = dict(tape.indices)
    every = list(range(len(tape.seeds)) if len(seeds) > 1 else seeds)
    at = {tape.seeds[j][0]: j for j in stops}
    ends = {i: nodes_behind(tape.seeds[i][0], trace.start, at)[1] for i in seeds}

    strides: dict[Edge, Strides] = {}

    def follow(cotangents: list[Tensor]) -> dict[Edge, Value]:
        given = dict(zip(every, cotangents, strict=True))
        gradients = outward(trace, [(tape.seeds[i][0], given[i]) for i in seeds], stops=at)
        strides.update({edge: permuted_strides(g) for edge, g in gradients.items()})
        return {edge: trace.value_of(g) for edge, g in gradients.items()}

    backward = backward_graph(trace, [tape.seeds[i][1] for i in every], follow, costs_more_to_make)
    backward.graph.outputs += backward.gradients.values()
    values = backward.gradients
    residuals = residuals_of(trace, outputs, backward.needs, tape.written, tape.copied)
    if len(outputs.indices) > len(tape.indices):
        raise RuntimeError(
            "CompiledBackward: the gradient of a result that another result of the same compiled "
            "function was made of cannot be told apart here. Call the function uncompiled."
        )
    return Derivative(
        graph=backward.graph,
        seeds=every,
        targets=[
            GradientTarget(None, None, seed=at[edge])
            if edge in at
            else target(trace, outputs, edge, tape.reached)
            for edge in values
        ],
        residuals=residuals,
        depends=dependence(values, [ends.get(i, frozenset()) for i in every]),
        strides=[strides[edge] for edge in values],
        route=TapeRoute(tape, list(values), at) if len(every) > 1 else None,
    )
