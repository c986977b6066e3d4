"""Complex numbers: making them, their angle, their conjugate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import bfloat16
from adjoint.engine.core.errors import DTypeError
from adjoint.engine.core.operations.families import elementwise, linear
from adjoint.engine.core.operations.public import public
from adjoint.engine.ops.common.scalars import require_tensors

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _unchanged(params: dict[str, Any], size: int) -> dict[str, Any]:
    return params


def _angle_partial(x: Tensor) -> Any:
    """d angle is the imaginary part of conj(x) dx / |x|^2; a real number's angle is a step."""
    if not x.dtype.is_complex:
        return 0.0
    size = x.real * x.real + x.imag * x.imag
    return (-1j * x.conj() / size).masked_fill(size == 0, 0)


# Linear over the reals, not holomorphic: its transpose is itself.
CONJ = linear(
    "conj", lambda x: x, lambda g: g.conj(), batched_params=_unchanged, keeps_layout=True,
    fragment="device", native_check=True,
)  # fmt: skip
ANGLE = elementwise("angle", _angle_partial, promotion="real_float")
COMPLEX = elementwise(
    "complex", 1, lambda: 1j, promotion="complex", accepts="f", tensors=2, fragment="device"
)


@public(method=True)
def conj(input: Tensor) -> Tensor:
    """Complex conjugate; a real tensor is returned as it is."""
    require_tensors("conj", input)
    return CONJ(input) if input.dtype.is_complex else input


@public(method=True, inplace=True, out=True)
def conj_physical(input: Tensor) -> Tensor:
    """Complex conjugate; a real tensor is returned as it is."""
    require_tensors("conj", input)
    return CONJ(input) if input.dtype.is_complex else input


@public(method=True, out=True)
def angle(input: Tensor) -> Tensor:
    """The argument of each element, in radians; 0 or pi for real ones.

    >>> import adjoint as ad
    >>> ad.angle(ad.tensor([1.0, -1.0]))
    tensor([0.0000, 3.1416])
    """
    return ANGLE(input)


def _check_parts(name: str, x: Tensor, y: Tensor) -> None:
    """Refuse operands that are not the two halves of one complex dtype."""
    require_tensors(name, x, y)
    if x.dtype is not y.dtype:
        raise DTypeError(
            f"{name}: expected both inputs to have one dtype, received {x.dtype.name} and "
            f"{y.dtype.name}. Convert one of them."
        )
    if not x.dtype.is_floating_point or x.dtype is bfloat16:
        raise DTypeError(
            f"{name}: expected both inputs to be half, float or double tensors, received "
            f"{x.dtype.name}"
        )


@public(out=True)
def complex(real: Tensor, imag: Tensor) -> Tensor:
    """A complex tensor from its parts."""
    _check_parts("complex", real, imag)
    return COMPLEX(real, imag)


@public(out=True)
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """A complex tensor from magnitudes and angles."""
    _check_parts("polar", abs, angle)
    return COMPLEX(abs * angle.cos(), abs * angle.sin())
