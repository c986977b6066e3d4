"""The larger and the smaller of two, and clamping between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import bool_
from adjoint.engine.core.errors import DTypeError, ShapeError
from adjoint.engine.core.operations.families import Unless, composite, elementwise
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.promotion import common_dtype
from adjoint.engine.ops.common.scalars import is_large, require_fit, require_tensors
from adjoint.engine.ops.elementwise.condition import WHERE, filled

if TYPE_CHECKING:
    from adjoint.engine.core.spec import Spec
    from adjoint.engine.tensor.tensor import Tensor


def _share(one: Any, other: Any, loses: Any) -> Any:
    """1, but 1/2 where the operands are equal and nothing where this one loses."""
    return Unless((one == other).to(one.dtype) * -0.5 + 1, loses)


def _first(x: Any, y: Any, wins: Any) -> Any:
    """Where fmax or fmin takes x: it wins or ties, or y is NaN."""
    return wins | y.isnan()


def _refuse_bool(x: Any) -> None:
    if x.dtype is bool_:
        raise DTypeError("relu: boolean inputs are not supported. Convert the input first.")


MAXIMUM = elementwise(
    "maximum",
    lambda x, y: _share(x, y, x < y),
    lambda x, y: _share(y, x, x > y),
    accepts="bif",
    tensors=2,
    rounding="exact",
    fragment="computed",
)
MINIMUM = elementwise(
    "minimum",
    lambda x, y: _share(x, y, x > y),
    lambda x, y: _share(y, x, x < y),
    accepts="bif",
    tensors=2,
    rounding="exact",
    fragment="computed",
)
FMAX = elementwise(
    "fmax",
    lambda x, y: _first(x, y, x >= y),
    lambda x, y: _first(x, y, x >= y).logical_not(),
    accepts="bif",
    tensors=2,
    rounding="exact",
    fragment="computed",
)
FMIN = elementwise(
    "fmin",
    lambda x, y: _first(x, y, x <= y),
    lambda x, y: _first(x, y, x <= y).logical_not(),
    accepts="bif",
    tensors=2,
    rounding="exact",
    fragment="computed",
)
# The bounds themselves pass the gradient to x, as in PyTorch.
CLAMP = elementwise(
    "clamp",
    lambda x, y, z: (x >= y) & (x <= z),
    lambda x, y, z: (y < z) & (x < y),
    lambda x, y, z: (x > z) | (z < y),
    accepts="if",
    tensors=1,
    rounding="exact",
    in_steps=True,
    fragment="computed",
)
CLAMP_MIN = elementwise(
    "clamp_min",
    lambda x, y: x >= y,
    lambda x, y: x < y,
    accepts="bif",
    tensors=1,
    rounding="exact",
    fragment="computed",
)
CLAMP_MAX = elementwise(
    "clamp_max",
    lambda x, y: x <= y,
    lambda x, y: x > y,
    accepts="bif",
    tensors=1,
    rounding="exact",
    fragment="computed",
)
RELU = elementwise(
    "relu",
    lambda out: out != 0,
    accepts="if",
    kinked=True,
    check=_refuse_bool,
    rounding="exact",
    fragment="computed",
)


def _prelu_slopes(g: Tensor, x: Tensor, y_spec: Spec) -> Tensor:
    positive = x > 0
    # Both factors: transposed, an infinite x multiplies what was selected.
    return filled(g * filled(x, positive, 0), positive, 0).sum_to_size(y_spec.shape)


PRELU = composite(
    "prelu",
    lambda x, y: WHERE(x > 0, x, x * y),
    lambda g, x, y: WHERE(x > 0, g, g * y),
    _prelu_slopes,
    kinked=True,
    keeps_layout=True,
    fragment="computed",
)


@public(method=True, out=True)
def maximum(input: Tensor, other: Tensor) -> Tensor:
    """The larger of two elements; NaN if either is.

    Example:
        >>> import adjoint as ad
        >>> ad.maximum(ad.tensor([1, 5]), ad.tensor([3, 2]))
        tensor([3, 5])
    """
    return MAXIMUM(input, other)


@public(method=True, out=True)
def minimum(input: Tensor, other: Tensor) -> Tensor:
    """The smaller of two elements; NaN if either is.

    Example:
        >>> import adjoint as ad
        >>> ad.minimum(ad.tensor([1, 5]), ad.tensor([3, 2]))
        tensor([1, 2])
    """
    return MINIMUM(input, other)


@public(method=True, out=True)
def fmax(input: Tensor, other: Tensor) -> Tensor:
    """The larger of two elements; a number rather than a NaN."""
    return FMAX(input, other)


@public(method=True, out=True)
def fmin(input: Tensor, other: Tensor) -> Tensor:
    """The smaller of two elements; a number rather than a NaN."""
    return FMIN(input, other)


def _check_bounds(name: str, input: Tensor, *bounds: Any) -> None:
    """Refuse numbers that do not fit, and the bounds of booleans."""
    require_tensors(name, input)
    for bound in bounds:
        if type(bound) is int and -128 <= bound <= 127:  # no number of the host
            continue  # which fits every dtype
        if bound.__class__ is int or is_large(bound):
            require_fit(name, bound, common_dtype((input, bound)))
        elif bound.__class__ is bool and input.dtype is bool_:
            raise NotImplementedError(f"{name}: not implemented for bool. Convert to an integer.")


@public(method=True, inplace=True, out=True, aliases=("clip",), numbers="values")
def clamp(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """Elements below `min` raised to it, those above `max` lowered to it.

    >>> import adjoint as ad
    >>> ad.clamp(ad.tensor([-1.0, 0.5, 2.0]), 0, 1)
    tensor([0.0000, 0.5000, 1.0000])
    """
    _check_bounds("clamp", input, min, max)
    if min is None:
        if max is None:
            raise RuntimeError("clamp: at least one of 'min' or 'max' must not be None")
        return CLAMP_MAX(input, max)
    return CLAMP_MIN(input, min) if max is None else CLAMP(input, min, max)


@public(method=True, inplace=True, out=True)
def clamp_min(input: Tensor, min: Any) -> Tensor:
    """Elements below `min` raised to it."""
    _check_bounds("clamp_min", input, min)
    return CLAMP_MIN(input, min)


@public(method=True, inplace=True, out=True)
def clamp_max(input: Tensor, max: Any) -> Tensor:
    """Elements above `max` lowered to it."""
    _check_bounds("clamp_max", input, max)
    return CLAMP_MAX(input, max)


@public(method=True, inplace=True)
def relu(input: Tensor) -> Tensor:
    """Negative elements replaced by zero.

    Example:
        >>> import adjoint as ad
        >>> ad.relu(ad.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """
    return RELU(input)


HARDSHRINK = composite(
    "hardshrink",
    lambda x, lambd: filled(x, (x >= -lambd) & (x <= lambd), 0),
    lambda g, x, lambd: WHERE((x < -lambd) | (x > lambd), g, 0),  # none at NaN
    operands=("x",),
    kinked=True,
    keeps_layout=True,
    fragment="computed",
)


@public(method=True)
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Elements within `lambd` of zero replaced by zero."""
    require_tensors("hardshrink", input)
    if not input.dtype.is_floating_point:
        raise NotImplementedError(
            f"hardshrink: not implemented for {input.dtype.name}. Convert to a floating dtype."
        )
    return HARDSHRINK(input, lambd=lambd)


@public(method=True)
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Negative elements scaled by `weight`: one number, or one per channel (dimension 1)."""
    if not is_tensor(weight):
        raise TypeError(f"prelu: argument 'weight' must be a Tensor, not {type(weight).__name__}")
    if weight.dtype is not input.dtype:
        raise DTypeError(
            f"prelu: type promotion is not supported, received {input.dtype.name} and "
            f"{weight.dtype.name}. Convert one of them."
        )
    if weight.numel() != 1:
        channels = input.shape[1] if input.ndim > 1 else 1
        if weight.ndim != 1 or input.ndim == 0 or weight.numel() != channels:
            raise ShapeError(
                f"prelu: expected one weight or one per channel ({channels}), received "
                f"{list(weight.shape)}"
            )
        weight = weight.reshape((-1, *(1,) * (input.ndim - 2)))
    elif weight.ndim > 1:
        raise ShapeError(f"prelu: weight must be a scalar or 1-d, received {weight.ndim} dims")
    elif weight.ndim:
        weight = weight.reshape(())
    return PRELU(input, weight)
