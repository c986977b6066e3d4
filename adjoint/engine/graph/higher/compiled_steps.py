"""Steps of levels as fragments: Note [steps of levels], Note [fragments]."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.operations.record import HOOKS, Record
from adjoint.engine.graph.eager.fragments import FRAGMENTS
from adjoint.engine.graph.eager.quick_keys import add_operands, given_kind
from adjoint.engine.graph.ir import frozen
from adjoint.engine.tensor.tensor import Tensor


def compiled_step(step: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """The results of a step of many elements, compiled; None where it runs as it is.

    What is recorded is its composition: parameters of a step are those of several operations, and a
    trace that knew it as one might take one's (`strides`) for another's.
    """
    key: list[Any] = [step, frozen(params)]
    tensors: list[Tensor] = []
    numbers: list[float] = []
    given = FRAGMENTS.given.get(step) or FRAGMENTS.given.setdefault(step, given_kind(step))
    if not add_operands(key, operands, given, tensors, numbers):
        return FRAGMENTS.described(step, operands, params, None, step.compose)
    quick = tuple(key)
    try:
        fragment = FRAGMENTS.quick[quick]
    except KeyError:
        return FRAGMENTS.described(step, operands, params, quick, step.compose)
    except TypeError:  # something in it has no hash
        return None
    if fragment is None:
        return None
    if not fragment.is_settled:
        fragment.settle(numbers, (step, operands, params, None))
    try:
        return fragment(tensors, numbers)
    except MemoryError:
        raise
    except (RuntimeError, IndexError):  # which says what is wrong
        return FRAGMENTS.described(step, operands, params, None, step.compose)


HOOKS.compile_step = compiled_step
