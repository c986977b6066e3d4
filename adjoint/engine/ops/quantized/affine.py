"""Whole numbers that stand for real ones: x = (q - zero point) scale.

One scale and zero point serve the whole tensor, or each index along `axis` has its own.
"""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import DType, float32, int32
from adjoint.engine.core.errors import DTypeError, ShapeError, ShapeIndexError
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.ops.create.creation import FULL

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def along(values: Tensor, x: Tensor, axis: int | None) -> Tensor:
    """Scales or zero points in a shape that broadcasts with x."""
    if axis is None:
        return values
    return values.reshape(tuple(-1 if d == axis else 1 for d in range(x.ndim)))


def _wide(x: Tensor) -> Tensor:
    """Halves have too few digits for the quotient."""
    return x.to(float32) if x.dtype.is_half else x


def _steps(x: Tensor, scale: Tensor, zero: Tensor, axis: int | None) -> Tensor:
    """Which whole number each element is nearest to, before the range is looked at."""
    x = _wide(x)
    inverse = 1 / along(scale, x, axis).to(x.dtype)
    return (x * inverse).round() + along(zero, x, axis).to(x.dtype)


def _quantize(
    x: Tensor, scale: Tensor, zero: Tensor, axis: int | None, low: int, high: int, dtype: DType
) -> Tensor:
    return _steps(x, scale, zero, axis).clamp(low, high).to(dtype)


QUANTIZE = composite(
    "quantize_affine", _quantize, None, None, None, keeps_layout=True, fragment="device"
)


def _dequantize(x: Tensor, scale: Tensor, zero: Tensor, axis: int | None, dtype: DType) -> Tensor:
    steps = x.to(int32) - along(zero, x, axis).to(int32)
    return (steps.to(float32) * along(scale, x, axis).to(float32)).to(dtype)


DEQUANTIZE = composite(
    "dequantize_affine", _dequantize, None, None, None, keeps_layout=True, fragment="device"
)


def _fake(x: Tensor, scale: Tensor, zero: Tensor, axis: int | None, low: int, high: int) -> Tensor:
    steps = _steps(x, scale, zero, axis).clamp(low, high)
    moved = steps - along(zero, x, axis).to(steps.dtype)
    return (moved * along(scale, x, axis).to(steps.dtype)).to(x.dtype)


def _inside(
    x: Tensor, scale: Tensor, zero: Tensor, axis: int | None, low: int, high: int
) -> Tensor:
    steps = _steps(x, scale, zero, axis)
    return (steps >= low) & (steps <= high)


# Straight through: as if rounding were the identity, where nothing is cut off.
FAKE_QUANTIZE = composite(
    "fake_quantize",
    _fake,
    lambda g, x, y, z, axis, low, high: g.where(_inside(x, y, z, axis, low, high), 0),
    None,
    None,
    keeps_layout=True,
    fragment="device",
)


def _learnable(
    x: Tensor,
    scale: Tensor,
    zero: Tensor,
    axis: int | None,
    low: int,
    high: int,
    factor: float,
) -> Tensor:
    return _fake(x, scale, zero.round().clamp(low, high), axis, low, high)


def _learnable_joint(
    g: Tensor,
    x: Tensor,
    y: Tensor,
    z: Tensor,
    axis: int | None,
    low: int,
    high: int,
    factor: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of learned step sizes: what is cut off moves with the ends of the range."""
    zero = z.round().clamp(low, high)
    steps = _steps(x, y, zero, axis)
    inside = (steps >= low) & (steps <= high)
    scale, point = along(y, x, axis).to(x.dtype), along(zero, x, axis).to(x.dtype)
    clamped = steps.clamp(low, high)
    by_scale = clamped - point - (x / scale).where(inside, 0)
    by_zero = (-scale).expand(x.shape).where(~inside, 0)
    dims = tuple(d for d in range(x.ndim) if d != axis)

    def total(gradient: Tensor, like: Tensor) -> Tensor:
        summed = gradient.sum(dims) if dims else gradient
        return (summed * factor).reshape(like.shape).to(like.dtype)

    return g.where(inside, 0), total(g * by_scale, y), total(g * by_zero, z)


LEARNABLE_FAKE_QUANTIZE = composite(
    "learnable_fake_quantize",
    _learnable,
    operands=("x", "y", "z"),
    joint=_learnable_joint,
    keeps_layout=True,
)


# -- functions ----------------------------------------------------------------------------------


def parameter(name: str, what: str, value: Any, like: Tensor, dtype: DType) -> Tensor:
    """A scale or zero point as a tensor."""
    if is_tensor(value):
        return value
    if isinstance(value, bool) or not isinstance(value, (Real, HostScalar)):
        raise TypeError(f"{name}: {what} must be a number or a Tensor, received {value!r}")
    return FULL(value, shape=(), dtype=dtype, device=like.device)


def check_range(name: str, low: int, high: int) -> None:
    """Refuse a range of whole numbers that has none."""
    if low > high:
        raise RuntimeError(
            f"{name}: `quant_min` should be less than or equal to `quant_max`, received "
            f"{low} and {high}"
        )


def check_axis(name: str, x: Tensor, axis: int, *values: Tensor) -> None:
    """Refuse an axis that is not there, and values that are not one to each index along it."""
    if not 0 <= axis < x.ndim:
        raise ShapeIndexError(
            f"{name}: axis must be between 0 and the number of dimensions, {x.ndim}, of the "
            f"input, received {axis}"
        )
    for value in values:
        if tuple(value.shape) != (x.shape[axis],):
            raise ShapeError(
                f"{name}: scales and zero points along dimension {axis} of {tuple(x.shape)} must "
                f"be ({x.shape[axis]},), received {tuple(value.shape)}"
            )


def _check_float(name: str, x: Tensor) -> None:
    if not x.dtype.is_floating_point:
        raise DTypeError(f"{name}: expected a floating-point input, received {x.dtype.name}")


@public()
def fake_quantize_per_tensor_affine(
    input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> Tensor:
    """Elements rounded to multiples of `scale` within a range of whole numbers.

    The gradient passes straight through rounding, and is zero where elements are cut off.

    >>> import adjoint as ad
    >>> ad.fake_quantize_per_tensor_affine(ad.tensor([0.12, 0.26, 9.0]), 0.1, 0, -8, 7)
    tensor([0.1000, 0.3000, 0.7000])
    """
    name = "fake_quantize_per_tensor_affine"
    _check_float(name, input)
    check_range(name, quant_min, quant_max)
    if not is_tensor(zero_point) and not quant_min <= zero_point <= quant_max:
        raise RuntimeError(
            f"{name}: `zero_point` must be between `quant_min` and `quant_max`, received "
            f"{zero_point}, not within {quant_min} and {quant_max}"
        )
    scale = parameter(name, "scale", scale, input, float32)
    zero = parameter(name, "zero_point", zero_point, input, int32)
    if scale.numel() != 1 or zero.numel() != 1:
        raise ShapeError(
            f"{name}: scale and zero_point must have one element, received "
            f"{tuple(scale.shape)} and {tuple(zero.shape)}. Use fake_quantize_per_channel_affine."
        )
    scale, zero = scale.reshape(()), zero.reshape(())
    return FAKE_QUANTIZE(input, scale, zero, axis=None, low=quant_min, high=quant_max)


@public()
def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """`fake_quantize_per_tensor_affine` with a scale and a zero point to each index along `axis`.

    >>> import adjoint as ad
    >>> scale, zero = ad.tensor([0.1, 1.0]), ad.zeros(2, dtype=ad.int32)
    >>> ad.fake_quantize_per_channel_affine(ad.tensor([[0.12], [0.6]]), scale, zero, 0, -8, 7)
    tensor([[0.1000],
            [1.0000]])
    """
    name = "fake_quantize_per_channel_affine"
    _check_float(name, input)
    check_range(name, quant_min, quant_max)
    check_axis(name, input, axis, scale, zero_point)
    return FAKE_QUANTIZE(input, scale, zero_point, axis=axis, low=quant_min, high=quant_max)


@public()
def _fake_quantize_learnable_per_tensor_affine(
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    quant_min: int,
    quant_max: int,
    grad_factor: float = 1.0,
) -> Tensor:
    """Fake quantisation whose scale and zero point are learned too."""
    name = "_fake_quantize_learnable_per_tensor_affine"
    check_range(name, quant_min, quant_max)
    return LEARNABLE_FAKE_QUANTIZE(
        input, scale, zero_point, axis=None, low=quant_min, high=quant_max, factor=grad_factor
    )


@public()
def _fake_quantize_learnable_per_channel_affine(
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    axis: int,
    quant_min: int,
    quant_max: int,
    grad_factor: float = 1.0,
) -> Tensor:
    """The same along an axis."""
    name = "_fake_quantize_learnable_per_channel_affine"
    check_range(name, quant_min, quant_max)
    check_axis(name, input, axis, scale, zero_point)
    return LEARNABLE_FAKE_QUANTIZE(
        input, scale, zero_point, axis=axis, low=quant_min, high=quant_max, factor=grad_factor
    )


def quantize_affine(
    input: Tensor,
    scale: Any,
    zero_point: Any,
    quant_min: int,
    quant_max: int,
    dtype: DType,
    axis: int | None = None,
) -> Tensor:
    """The whole numbers nearest to x / scale + zero point, within a range.

    >>> import adjoint as ad
    >>> quantize_affine(ad.tensor([-1.0, 0.26, 30.0]), 0.1, 2, -128, 127, ad.int8)
    tensor([ -8,   5, 127], dtype=adjoint.int8)
    """
    _check_float("quantize_affine", input)
    check_range("quantize_affine", quant_min, quant_max)
    scale = parameter("quantize_affine", "scale", scale, input, float32)
    zero = parameter("quantize_affine", "zero_point", zero_point, input, int32)
    if axis is not None:
        check_axis("quantize_affine", input, axis, scale, zero)
    return QUANTIZE(input, scale, zero, axis=axis, low=quant_min, high=quant_max, dtype=dtype)


def dequantize_affine(
    input: Tensor,
    scale: Any,
    zero_point: Any,
    dtype: DType = float32,
    axis: int | None = None,
) -> Tensor:
    """What whole numbers stand for: (q - zero point) scale.

    >>> import adjoint as ad
    >>> dequantize_affine(ad.tensor([-8, 5], dtype=ad.int8), 0.1, 2)
    tensor([-1.0000,  0.3000])
    """
    if input.dtype.is_inexact:
        raise DTypeError(f"dequantize_affine: expected whole numbers, received {input.dtype.name}")
    scale = parameter("dequantize_affine", "scale", scale, input, float32)
    zero = parameter("dequantize_affine", "zero_point", zero_point, input, int32)
    if axis is not None:
        check_axis("dequantize_affine", input, axis, scale, zero)
    return DEQUANTIZE(input, scale, zero, axis=axis, dtype=dtype)
