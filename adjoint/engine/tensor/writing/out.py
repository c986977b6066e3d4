"""`out=`: results written into tensors the caller provides."""

from __future__ import annotations

import warnings
from typing import Any

from numpy import ndarray

from adjoint.engine.core.dtype import can_cast
from adjoint.engine.core.errors import DeviceError, DTypeError
from adjoint.engine.core.operations.record import HOOKS, is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.tensor.tensor import Tensor
from adjoint.engine.tensor.writing.mutation import direct_array, write


def assign_out(name: str, out: Any, result: Any) -> Any:
    """Put `result` into `out`, resizing it if need be; returns what the function returns."""
    if isinstance(result, tuple):
        if not isinstance(out, (tuple, list)) or len(out) != len(result):
            raise TypeError(
                f"{name}: out= expects a tuple of {len(result)} tensors, received "
                f"{type(out).__name__}"
            )
        filled = [_fill(name, o, r) for o, r in zip(out, result, strict=True)]
        return type(result)(*filled) if hasattr(result, "_fields") else tuple(filled)
    return _fill(name, out, result)


def _filled_at_once(out: Tensor, result: Tensor) -> bool:
    """Whether a result that is like `out` was put there with nobody to tell of it."""
    array, source = out._array, result._array
    if array.__class__ is not ndarray or source.__class__ is not ndarray:
        return False
    if array.dtype is not source.dtype or array.shape != source.shape:
        return False
    if result._requires_grad or result._base is not None or not array.flags.writeable:
        return False
    if not CONTEXT.plain or direct_array(out) is None:
        return False
    HOOKS.array.copy_into(array, source)
    out._storage.version += 1
    return True


def _fill(name: str, out: Any, result: Tensor) -> Tensor:
    if not is_tensor(out):
        raise TypeError(f"{name}: argument 'out' must be Tensor, not {type(out).__name__}")
    if _filled_at_once(out, result):
        return out
    if CONTEXT.grad_enabled and (out.requires_grad or result.requires_grad):
        raise RuntimeError(
            f"{name}: functions with out=... arguments don't support automatic differentiation, "
            "but one of the arguments requires grad. Use the form without out=, or no_grad()."
        )
    if not can_cast(result.dtype, out.dtype):
        raise DTypeError(
            f"{name}: result type {result.dtype.name} can't be cast to the desired output type "
            f"{out.dtype.name}"
        )
    if out.device != result.device:
        raise DeviceError(
            f"{name}: expected out tensor to have device {result.device}, but got {out.device}"
        )
    if out.shape != result.shape:
        if out.numel():
            warnings.warn(
                "An output with one or more elements was resized since it had shape "
                f"{list(out.shape)}, which does not match the required output shape "
                f"{list(result.shape)}. Resize it first with out.resize_(0).",
                stacklevel=4,
            )
        elif CONTEXT.capture is not None:  # a graph's values keep their sizes: another one is shown
            return out.set_(result.detach().to(out.dtype))
        out.resize_(result.shape)
    return write(out, result.detach().to(out.dtype))


HOOKS.assign_out = assign_out
