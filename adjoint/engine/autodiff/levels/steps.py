"""What a level makes of an operation on few elements, as one program.

Note [steps of levels]
    Inside of a transform an operation is several beneath it: a batched product moves and repeats
    dimensions, a rule of three operations is three for each level. Python between them takes longer
    than they do. So what the lowest level makes of an operation, of tensors that belong to no
    transform and that no tape follows, is a *step*: a record of its own, composed of what the level
    would have called one by one. It has programs as other composites do (Note [straight programs]),
    with the same bits, found by native code (Note [meeting]); where none is found, the level goes
    on as it would have. Whether it is compiled (Note [fragments]) or a straight program, the number
    of its operands' elements decides, so that every call has the same bits.

    Steps are for what computes its results from its operands and does nothing else: no draws, whose
    place in the stream the levels around decide, and nothing of the user's.

    Where a level lies on others, what it makes of an operation is one that these make a step of
    (`Level.attempt`): a jvp of a batch is the batch of a step that has primals and tangents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy import ndarray

from adjoint.engine.core.operations.large import COMPOSED
from adjoint.engine.core.operations.record import HOOKS, Record
from adjoint.engine.core.operations.small_calls import is_looked_at
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.engine.core.value import TensorBase
from adjoint.engine.tensor.tensor import Tensor, wrap

MOST = 1 << 18  # elements of an operand: beyond, what lies between operations costs little
LARGE = COMPOSED  # elements from which on it is compiled


def computes_alone(record: Record) -> bool:
    """Whether all that an operation does is to compute its results from its operands."""
    return not (
        record.draws
        or record.creates
        or record.opaque
        or record.communicates
        or record.push is not None
        or record.is_view
    )


def gives_floats(record: Record) -> bool:
    """Whether an operation is given floats at each call: programs are not made for each of them."""
    return record.given_floats or (record.family == "elementwise" and record.cost != "function")


def is_disturbed() -> bool:
    """Whether somebody looks on, or something but transforms and grad mode is on."""
    get = CONTEXT.__dict__.get
    return bool(
        LISTENERS
        or get("in_step")
        or get("autocast") is not None
        or get("capture") is not None
        or get("anomaly")
        or get("inference")
        or get("saved_hooks")
        or get("reference")
        or get("observers")
        or get("takers")
    )


def is_bottom(x: Any, tracking: bool) -> bool:
    """Whether an operand is of no transform and no tape, and has few elements."""
    array = x._array
    if array.__class__ is not ndarray or array.size > MOST:
        return False
    if tracking and (x._requires_grad or (x._base is not None and x.requires_grad)):
        return False
    return x.__class__ is Tensor or not is_of_its_own(x)


def is_of_its_own(x: Any) -> bool:
    """Whether operations do something else with a tensor than with others."""
    return any(kind is not None and kind.among((x,)) for kind in (HOOKS.sparse, HOOKS.wrappers))


def are_few(operands: Sequence[Any]) -> bool:
    """Whether no operand has many elements; all are of no transform."""
    return all(x._array.size <= MOST for x in operands if isinstance(x, TensorBase))


def are_large(operands: Sequence[Any]) -> bool:
    """Whether what is done with operands is compiled: NumPy is quicker with complex numbers."""
    arrays = [x._array for x in operands if isinstance(x, TensorBase)]
    if any(array.dtype.kind == "c" for array in arrays):
        return False
    return any(array.size >= LARGE for array in arrays)


def attempted(record: Record, operands: Sequence[Any], params: dict[str, Any]) -> Any:
    """An operation as one program of what lies at the bottom of all levels; None: it is none."""
    top: Any = None
    tracking = CONTEXT.grad_enabled
    bottom = True
    for x in operands:
        if isinstance(x, TensorBase):
            level = x._storage.level
            if level is not None:
                if top is None or level.depth > top.depth:
                    top = level
            elif bottom:
                bottom = is_bottom(x, tracking)
    if not bottom:
        return None
    if top is None:
        return performed(record, operands, params)
    return top.attempt(record, operands, params) if top.active else None


def performed(step: Record, operands: Sequence[Any], params: dict[str, Any]) -> Any:
    """The results of a step by its program; None where it has none.

    All operands are at the bottom, and nothing is on but transforms.
    """
    operands = tuple(operands)  # native code takes nothing else
    if step.given_a_draw and any(type(x) is int for x in operands):
        return None  # the place of a draw, which differs at each call
    if step.small:
        try:
            if HOOKS.meet_noted is None:
                found = HOOKS.meet(step.small, operands, params, None)
            else:
                found = HOOKS.meet_noted(step.small, operands, params, None)
        except MemoryError:  # the way it goes otherwise says what is wrong
            return None
        if found is not None:
            return born(found)
    work = HOOKS.compile_step if are_large(operands) else straight
    found = beneath_levels(lambda: work(step, operands, params))
    return None if found is None else born(found)


def straight(step: Record, operands: Sequence[Any], params: dict[str, Any]) -> Any:
    """The same by kernels one after another (Note [straight programs]), or as it is.

    As the level would have called it, its parts might be compiled steps, with other bits than the
    program will have.
    """

    def work() -> Any:
        return step.compose(*operands, **params)  # type: ignore[misc]

    if is_looked_at(step):
        tensors = [x for x in operands if isinstance(x, TensorBase)]
        literals = [(k, x) for k, x in enumerate(operands) if not isinstance(x, TensorBase)]
        owned = step, operands, params, None
        found = HOOKS.straight.run((step, params, literals), tensors, work, owned, True)
        if found is not None:
            return found
    return work()


def beneath_levels(work: Any) -> Any:
    """What `work()` gives where no transform and no tape is on."""
    context = CONTEXT
    levels, tracking, plain = context.levels, context.grad_enabled, context.plain
    try:  # not `with`: a KeyboardInterrupt may come where its end is entered
        context.levels, context.grad_enabled = (), False
        context.plain = context.settled = context.in_step = True
        return work()
    finally:
        context.levels, context.grad_enabled = levels, tracking
        context.plain = context.settled = plain
        context.in_step = False


def born(found: Any) -> Any:
    """Results as tensors of the transform they were made in."""
    depth = CONTEXT.levels[-1].depth if CONTEXT.levels else 0
    if found.__class__ is Tensor:
        found._storage.birth = depth
        return found
    tensors = []
    for x in found:
        if x is not None and x.__class__ is not Tensor:
            x = wrap(x)
        if x is not None:
            x._storage.birth = depth
        tensors.append(x)
    return tensors[0] if len(tensors) == 1 else tuple(tensors)
