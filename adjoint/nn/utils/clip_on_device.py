"""Gradients on a GPU, clipped by one program (Note [updates]).

Gradient by gradient, each has a launch for its norm and one that scales it; as one program, the
sums of all of them are a few launches, and so is their scaling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.engine.backends.array.lists.apart import apart
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS, UPDATED
from adjoint.engine.core.operations.overrides import ORDINARY
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.shape.join import stack
from adjoint.engine.tensor.tensor import Tensor

Rule = Callable[[Sequence[Any], Sequence[Any]], None]


def joint_norm(parts: Sequence[Tensor], order: float) -> Tensor:
    """The norm of vectors, from that of each."""
    norms = [part.norm(order) for part in parts]
    return norms[0] if len(norms) == 1 and order > 0 else stack(norms).norm(order)


def factor_for(norm: Tensor, most: Any) -> Tensor:
    """What gradients of this norm are multiplied by, so that theirs is at most `most`."""
    return (most / (norm + 1e-6)).clamp(max=1.0)


def clip_norm_at_once(grads: Sequence[Tensor], most: float, order: float) -> Tensor | None:
    """Scale gradients, and give their joint norm before; None: nothing was done."""
    if not fit(grads):
        return None
    found = grads[0].new_empty(())

    def rule(tensors: Sequence[Any], numbers: Sequence[Any]) -> None:
        *parts, out = tensors
        norm = joint_norm(parts, order)
        out.copy_(norm)
        factor = factor_for(norm, numbers[0])
        for part in parts:
            part.mul_(factor)

    key = ("clip_grad_norm_", order, len(grads))
    return found if HOOKS.updates.run(key, [*grads, found], (most,), {}, rule) else None


def clip_values_at_once(grads: Sequence[Tensor], bound: float) -> bool:
    """Limit every element; False: nothing was done."""
    if not fit(grads):
        return False

    def rule(tensors: Sequence[Any], numbers: Sequence[Any]) -> None:
        for part in tensors:
            part.clamp_(min=-bound, max=bound)

    key = ("clip_grad_value_", bound, len(grads))
    return bool(HOOKS.updates.run(key, grads, (), {}, rule))


def fit(grads: Sequence[Tensor]) -> bool:
    """Whether gradients are on one GPU, of one floating dtype, each in memory of its own."""
    if not UPDATED or not CONTEXT.plain or CONTEXT.before_write is not None or not grads:
        return False
    arrays = [grad._array for grad in grads]
    kind, dtype = arrays[0].__class__, arrays[0].dtype
    if kind not in DEVICE_LAYOUTS or not grads[0].dtype.is_floating_point:
        return False
    for grad, array in zip(grads, arrays, strict=True):
        if grad.__class__ not in ORDINARY or array.__class__ is not kind or array.dtype != dtype:
            return False
        if not array.size or grad._storage.version < 0 or not array.flags.c_contiguous:
            return False
    return len({DEVICE_LAYOUTS[kind](array)[0] for array in arrays}) == 1 and apart(arrays)
