"""Changing dtype, device or memory, not values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.core.device import Device
from adjoint.core.dtype import DType
from adjoint.core.families import fit, linear
from adjoint.core.public import method, public
from adjoint.core.record import Record, is_tensor
from adjoint.core.spec import Spec

if TYPE_CHECKING:
    from adjoint.tensor.tensor import Tensor


def _same_params(params: dict[str, Any], size: int) -> dict[str, Any]:
    return params


CAST = linear(
    "cast",
    lambda x, dtype: Spec(x.shape, dtype, x.device),
    lambda g, x_spec: fit(g, x_spec) if x_spec.dtype.is_inexact else None,
    shift=_same_params,
)
TO_DEVICE: Record = linear(
    "to_device",
    lambda x, device: Spec(x.shape, x.dtype, device),
    lambda g, x_spec: TO_DEVICE(g, device=x_spec.device),
    shift=_same_params,
)
CLONE = linear("clone", lambda x: x, lambda g: g, shift=_same_params)


@public(method=True)
def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy, in the tape's eyes the identity."""
    return CLONE(input)


@method
def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Convert dtype and/or device; the tensor itself where nothing changes."""
    dtype: DType | None = kwargs.get("dtype")
    device = kwargs.get("device")
    for arg in args:
        if isinstance(arg, DType):
            dtype = arg
        elif isinstance(arg, (str, Device)):
            device = arg
        elif is_tensor(arg):
            dtype, device = arg.dtype, arg.device
    out = self
    if device is not None and Device(device) != self.device:
        out = TO_DEVICE(out, device=Device(device))
    if dtype is not None and dtype is not self.dtype:
        out = CAST(out, dtype=dtype)
    return CLONE(self) if out is self and kwargs.get("copy") else out
