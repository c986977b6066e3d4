"""Results of a compiled call that others were made of, as places of the tape by themselves.

Note [separating]
    A call is one node of the tape, so a gradient that goes from one of its results through another
    (`features, score = model(x)`) does not pass the other's place on the tape. When somebody wants
    to see it there (`retain_grad`, a hook, `grad(score, features)`), the node of that call is taken
    apart: its derivative then ends at such results, and each of them gets a node of its own.
"""

from __future__ import annotations

from typing import Any

from adjoint.engine.capture.backward.derivative import (
    Derivative,
    GradientTarget,
    Split,
    Tape,
    dependence,
    nodes_behind,
    outward,
    target,
)
from adjoint.engine.capture.program.outputs import Outputs
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.record.trace import TRACING


def stages_of(derivative: Derivative) -> dict[int | None, Derivative]:
    """The derivative up to inner results (under None), and from each of these on."""
    if derivative.parts is not None:
        return dict(derivative.parts)
    tape: Tape = derivative.tape  # type: ignore[assignment]
    everyone = [i for i in range(len(tape.seeds)) if i not in derivative.refused]
    inner = sorted(derivative.inner)
    with TRACING, tape.resumed(), CONTEXT.having(grad_enabled=False):
        parts: dict[Any, Derivative] = {None: _stage(tape, everyone, inner)}
        for j in inner:
            parts[j] = _stage(tape, [j], [k for k in inner if k != j])
    for key, part in parts.items():
        if derivative.resized is not None:
            parts[key] = part = derivative.resized(part)
        part.factory = derivative.factory
        part.spoils = derivative.spoils if key is None else [frozenset({0})]
        part.refused = derivative.refused if key is None else {}
    derivative.parts = parts
    return parts


def _stage(tape: Tape, seeds: list[int], stops: list[int]) -> Derivative:
    """The derivative of some seeds that goes no further than others."""
    trace, graph = tape.trace, tape.trace.graph
    outputs = Outputs(trace, [])
    outputs.positions = dict(tape.positions)
    outputs.made_leaves = dict(tape.made_leaves)
    outputs.indices = {value: i for i, value in enumerate(graph.outputs)}
    first, mark = len(graph.inputs), len(graph.nodes)
    every = range(len(tape.seeds)) if len(seeds) > 1 else seeds
    cotangents = {i: trace.wrap(graph.add_input(tape.seeds[i][1])) for i in every}
    given = graph.inputs[first:]
    del graph.inputs[first:]
    at = {tape.seeds[j][0]: j for j in stops}
    ends = {i: nodes_behind(tape.seeds[i][0], trace.start, at)[1] for i in seeds}
    found = outward(trace, [(tape.seeds[i][0], cotangents[i]) for i in seeds], stops=at)
    values = {edge: trace.value_of(g) for edge, g in found.items()}
    backward = Split(trace, outputs, given, mark, tape.written)
    backward.written |= tape.copied
    for value in values.values():
        backward.graph.outputs.append(backward.value(value))
    del graph.nodes[mark:]
    if len(outputs.indices) > len(graph.outputs):
        raise RuntimeError(
            "CompiledBackward: the gradient of a result that another result of the same compiled "
            "function was made of cannot be told apart here. Call the function uncompiled."
        )
    return Derivative(
        graph=backward.graph,
        seeds=list(every),
        targets=[
            GradientTarget(None, None, seed=at[edge])
            if edge in at
            else target(trace, outputs, edge, tape.reached)
            for edge in values
        ],
        residuals=backward.residuals,
        depends=dependence(values, [ends.get(i, frozenset()) for i in every]),
    )
