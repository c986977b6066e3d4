"""Tensors from nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.core import dtype as dt
from adjoint.core.device import CPU, Device
from adjoint.core.dtype import DType
from adjoint.core.families import primitive
from adjoint.core.public import method, public
from adjoint.core.spec import Spec

if TYPE_CHECKING:
    from adjoint.tensor.tensor import Tensor

FULL = primitive("full", lambda *v, shape, dtype, device: Spec(shape, dtype, device), None)
ARANGE = primitive(
    "arange", lambda *, start, step, length, dtype, device: Spec((length,), dtype, device)
)


def size_of(size: tuple[Any, ...]) -> tuple[int, ...]:
    """A shape from `f(2, 3)` or `f((2, 3))`."""
    if len(size) == 1 and not isinstance(size[0], int):
        return tuple(size[0])
    return size


def _filled(
    size: tuple[Any, ...], value: Any, dtype: DType | None, device: Any, requires_grad: bool
) -> Tensor:
    out = FULL(
        value,
        shape=size_of(size),
        dtype=dtype or dt.get_default_dtype(),
        device=CPU if device is None else Device(device),
    )
    return out.requires_grad_() if requires_grad else out


@public()
def zeros(
    *size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of zeros."""
    return _filled(size, 0, dtype, device, requires_grad)


@public()
def ones(
    *size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of ones."""
    return _filled(size, 1, dtype, device, requires_grad)


@method
def new_zeros(self: Tensor, *size: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Zeros of this tensor's dtype and device."""
    return _filled(size, 0, dtype or self.dtype, device or self.device, requires_grad=False)


@method
def new_arange(self: Tensor, length: int) -> Tensor:
    """0, 1, ... length - 1 on this tensor's device (used by derivative and batching rules)."""
    return ARANGE(start=0, step=1, length=length, dtype=dt.int64, device=self.device)


@method
def new_ones(self: Tensor, *size: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Ones of this tensor's dtype and device."""
    return _filled(size, 1, dtype or self.dtype, device or self.device, requires_grad=False)


@method
def new_eye(self: Tensor, n: int) -> Tensor:
    """The identity matrix of this tensor's dtype and device (used by jacobians)."""
    i = self.new_arange(n)
    return (i.unsqueeze(0) == i.unsqueeze(1)).to(self.dtype)
