"""The derivative of a compiled function as a function that has derivatives itself.

Note [lifting]
    `create_graph=True` asks for gradients that are on the tape. The graph does not say what was on
    the tape while it was recorded (`detach`, `no_grad`, a Function's own backward, hooks), but the
    trace's tape does. So it is kept, and followed again when somebody asks, this time recording the
    backward on it: that gives a graph from inputs and cotangents to gradients, and the derivative
    of that is found as for any other program. Gradients of any order are made so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from adjoint.engine.capture.backward.derivative import Derivative, Strides, Tape, differentiate
from adjoint.engine.capture.program.layouts import permuted_strides
from adjoint.engine.capture.program.outputs import Outputs
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.graph.backward_graph import GraphCopy, outward
from adjoint.engine.graph.execution import Executable
from adjoint.engine.graph.ir import DataflowGraph
from adjoint.engine.graph.record.trace import TRACING


@dataclass(slots=True)
class GradientProgram:
    """A program for the gradients that a derivative gives."""

    graph: DataflowGraph
    operands: list[int]  # which inputs of the function it takes; after these, cotangents
    results: list[tuple[int | None, int | None]]  # per target: which output, which seed of it
    passed: list[int | None]  # per target: the cotangent that is handed on as it is
    strides: dict[int, Strides]  # by output: as gradients lie in eager execution
    derivative: Derivative | None
    executable: Executable | None = None


def lift(
    derivative: Derivative,
    inputs: int,
    leaves: int,
    layout: Sequence[Strides],
    asked: frozenset[int],
) -> GradientProgram:
    """The derivative of a function of so many inputs, called with so many leaves, lifted.

    `layout` has the strides of the cotangents, `asked` says which of them are there (`missing`).
    """
    tape: Tape = derivative.tape  # type: ignore[assignment]
    with TRACING, tape.resumed():
        trace = tape.trace
        outputs = Outputs(trace, [])
        outputs.positions = dict(tape.positions)
        outputs.made_leaves = dict(tape.made_leaves)
        roots = []
        given = []
        for i, ((edge, spec), strides) in enumerate(zip(tape.seeds, layout, strict=True)):
            cotangent = trace.wrap(trace.graph.add_input(spec), strides)
            cotangent._requires_grad = True
            given.append(cotangent)
            outputs.positions[id(cotangent)] = leaves + i
            if i in asked and i not in derivative.refused:
                roots.append((edge, cotangent))
        gradients = outward(trace, roots, create_graph=True)
        grads = [gradients.get(end) for end in tape.ends]
        lifted = _program(tape, outputs, grads, given)
        if lifted.derivative is not None and lifted.derivative.tape is not None:
            lifted.derivative.tape.graph = trace.graph
        if len(trace.graph.inputs) > inputs + len(given):
            raise RuntimeError(
                "CompiledBackward: a second derivative of a compiled function reads a tensor from "
                "outside that the function itself does not. Pass it as an argument, or call the "
                "function uncompiled."
            )
    if derivative.resized is not None:
        lifted = derivative.resized(lifted)
    if lifted.derivative is not None:
        lifted.derivative.factory = derivative.factory
        lifted.derivative.resized = derivative.resized
    return lifted


def _program(
    tape: Tape, outputs: Outputs, grads: Sequence[Any], given: list[Any]
) -> GradientProgram:
    trace = tape.trace
    passed: list[int | None] = []
    results: list[tuple[int | None, int | None]] = []
    strides: dict[int, Strides] = {}
    for g in grads:
        handed = [i for i, cotangent in enumerate(given) if g is cotangent]
        passed.append(handed[0] if handed else None)
        if handed or not is_tensor(g):
            results.append((None, None))
            continue
        value = trace.value_of(g)
        seed = outputs.seed(g, value) if g.requires_grad else None
        results.append((outputs.index(value), seed))
        strides.setdefault(outputs.index(value), permuted_strides(g))
    derivative = differentiate(trace, outputs, tape.reached, set())
    whole = GraphCopy()
    whole.graph.outputs = [whole.value(value) for value in list(outputs.indices)]
    inputs = {value: i for i, value in enumerate(trace.graph.inputs)}
    operands = [inputs[value] for value in whole.needs]  # versions tell what was written since
    return GradientProgram(whole.graph, operands, results, passed, strides, derivative)
