"""Operations inside transforms whose operands are of none of them: as fast as outside."""

from __future__ import annotations

from typing import Any

from numpy import ndarray

from adjoint.engine.autodiff.levels.steps import are_few, computes_alone, performed
from adjoint.engine.backends.array.executor import execute, run, seen_through
from adjoint.engine.core.operations.record import HOOKS, Record
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.value import TensorBase
from adjoint.engine.tensor.tensor import mark_view, window


def execute_beneath(record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """`execute`, by way of what finds native code and fragments, with the transforms left aside.

    Not what may ask for them while it runs: functions of the user's, subgraphs, and draws. A
    composition that is no fragment is a step (Note [steps of levels]). Nor where somebody looks on,
    nor on other devices than the CPU.
    """
    context = CONTEXT
    if record.window is not None:
        array = seen_through(record, operands[0], params)
        if array is None:
            return execute(record, operands, params)
        out = window(operands[0], array, record, params)
        mark_view(out, operands[0])  # the tape is its caller's
        return out
    if (
        record.is_view
        or record.opaque
        or record.push is not None
        or context.autocast is not None
        or context.anomaly
        or context.inference
        or context.saved_hooks
        or context.reference
        or context.observers
        or context.takers
    ):
        return execute(record, operands, params)
    for x in operands:
        if isinstance(x, TensorBase) and x._array.__class__ is not ndarray:
            return execute(record, operands, params)
    if record.compose is not None and not record.large:
        if context.in_step or not computes_alone(record):
            return execute(record, operands, params)
        found = performed(record, operands, params) if are_few(operands) else None
        return execute(record, operands, params) if found is None else found
    levels, tracking = context.levels, context.grad_enabled
    try:  # not `with`: a KeyboardInterrupt may come where its end is entered
        context.levels, context.grad_enabled = (), False
        context.plain = context.settled = True
        return run(record, operands, params)
    finally:
        context.levels, context.grad_enabled = levels, tracking
        context.plain = context.settled = False


HOOKS.execute_beneath = execute_beneath
