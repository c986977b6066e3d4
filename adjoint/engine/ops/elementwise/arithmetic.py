"""Addition, subtraction, multiplication, and their combinations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from adjoint.engine.core import dtype as dt
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import DTypeError
from adjoint.engine.core.operations.families import composite, elementwise
from adjoint.engine.core.operations.large import COMPUTED, is_large
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.promotion import common_dtype
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.common.scalars import (
    as_number,
    computed_in,
    converted,
    dtype_of,
    require_fit,
    require_tensors,
)

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _refuse_bool(*operands: Any) -> None:
    if any(isinstance(x, bool) or (isinstance(x, Spec) and x.dtype is dt.bool_) for x in operands):
        raise DTypeError(
            "sub: subtraction, the `-` operator, with a bool tensor is not supported, received "
            f"{', '.join(str(x) for x in operands)}. If you are trying to invert a mask, use the "
            "`~` or `logical_not()` operator; for a difference of masks, `^` or `logical_xor()`."
        )


def _refuse_bool_negation(x: Any) -> None:
    if isinstance(x, Spec) and x.dtype is dt.bool_:
        raise DTypeError(
            "neg: negation, the `-` operator, on a bool tensor is not supported. If you are "
            "trying to invert a mask, use the `~` or `logical_not()` operator instead."
        )


ADD = elementwise("add", 1, 1, rounding="arithmetic", fragment="plain")
SUB = elementwise("sub", 1, -1, check=_refuse_bool, rounding="arithmetic", fragment="plain")
MUL = elementwise(
    "mul",
    lambda y: y,
    lambda x: x,
    rounding="arithmetic",
    takes_kept="unsigned",
    unrounded=(1,),
    fragment="plain",
)
NEG = elementwise("neg", -1, check=_refuse_bool_negation, rounding="exact")
LERP = elementwise(
    "lerp",
    lambda z: 1 - z,
    lambda z: z,
    lambda x, y: y - x,
    accepts="fc",
    tensors=2,
    unrounded=(2,),
    rounding="arithmetic",
)
# x + w y z and x + w y / z in one pass, with one rounding; w is a number.
ADDCMUL = elementwise(
    "addcmul",
    1,
    lambda z, w: z * w,
    lambda y, w: y * w,
    None,
    tensors=3,
    unrounded=(3,),
    rounding="arithmetic",
)
ADDCDIV = elementwise(
    "addcdiv",
    1,
    lambda z, w: w / z,
    lambda y, z, w: -w * y / (z * z),
    None,
    tensors=3,
    unrounded=(3,),
    rounding="arithmetic",
)


def check_alpha(name: str, alpha: Any, result: DType) -> None:
    """PyTorch's rules for a multiplier: its category must not exceed the result's.

    Masks take whole numbers, of which only whether they are zero counts.
    """
    if isinstance(alpha, str):
        raise TypeError(f"{name}(): argument 'alpha' must be Number, not str")
    have = dtype_of(alpha)
    if have is dt.bool_ and result is not dt.bool_:
        raise DTypeError(
            f"{name}: Boolean alpha only supported for Boolean results, received {result.name}"
        )
    if have.category > max(result.category, dt.INT):
        what = "complex number" if have.is_complex else "floating point number"
        kind = "non-complex" if have.is_complex else "integral"
        raise DTypeError(
            f"{name}: for {kind} input tensors, argument alpha must not be a {what}; "
            f"received {alpha!r} for a result of dtype {result.name}"
        )


# x + a y, rounded twice, as one program where it is written to x on a GPU, or large on the CPU.
ADD_SCALED = composite(
    "add_scaled",
    lambda x, y, a: ADD(x, MUL(y, a)),
    operands=("x", "y", "a"),
    fragment="composed",
    given_floats=True,
)
SCALED_AT_ONCE = frozenset({dt.float16, dt.bfloat16, dt.float32, dt.float64})


def is_scaled_at_once(input: Any, other: Any, alpha: Any) -> bool:
    """Whether a multiplier needs no look: a number that every dtype of floats has room for."""
    return bool(
        type(alpha) in (float, int)
        and -65504 <= alpha <= 65504
        and is_tensor(other)
        and is_tensor(input)
        and other.dtype is input.dtype
        and other.dtype in SCALED_AT_ONCE
    )


def is_scaled_in_one(input: Any, other: Any, alpha: Any) -> bool:
    """Whether a multiple is added to a large tensor on the CPU (x - a y is x + (-a) y to the bit).

    Halves are rounded between the two, and the tape has rules of either.
    """
    return (
        is_scaled_at_once(input, other, alpha)
        and CONTEXT.plain
        and other.dtype in (dt.float32, dt.float64)
        and other.shape == input.shape
        and is_large(input._array, COMPUTED)
        and is_large(other._array, COMPUTED)
        and not (CONTEXT.grad_enabled and (input.requires_grad or other.requires_grad))
    )


def scaled(name: str, input: Any, other: Any, alpha: Any) -> Any:
    """alpha * other in the dtype that input and other have in common."""
    if is_scaled_at_once(input, other, alpha):
        return other * alpha
    input, other, alpha = as_number(input), as_number(other), as_number(alpha)
    common = common_dtype((input, other))
    check_alpha(name, alpha, common)
    if common.category == dt.INT:
        alpha = converted(_whole_in, alpha, name, common)
    elif common is dt.bool_:
        alpha = converted(bool, alpha)
    else:
        require_fit(name, alpha, common)
    if not is_tensor(other) and common is dt.bool_:
        return converted(bool, other * alpha)  # of which Python makes a whole number
    if is_tensor(other) and other.dtype is not common:
        other = other.to(common)
    return other * alpha


@public(method=True, inplace=True, out=True)
def add(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """Add `other`, scaled by `alpha`, to `input`.

    >>> import adjoint as ad
    >>> ad.add(ad.tensor([1.0, 2.0]), 10, alpha=2)
    tensor([21., 22.])
    """
    if alpha.__class__ is not int or alpha != 1:
        if is_scaled_in_one(input, other, alpha):
            return ADD_SCALED(input, other, float(alpha))
        other = scaled("add", input, other, alpha)
    return ADD(input, other)


@public(method=True, inplace=True, out=True, aliases=("subtract",), numbers="values")
def sub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """Subtract `other`, scaled by `alpha`, from `input`.

    Example:
        >>> import adjoint as ad
        >>> ad.sub(ad.tensor([5, 7]), ad.tensor([1, 2]), alpha=2)
        tensor([3, 3])
    """
    if alpha.__class__ is not int or alpha != 1:
        if is_scaled_in_one(input, other, alpha):
            return ADD_SCALED(input, other, float(-alpha))
        other = scaled("sub", input, other, alpha)
    return SUB(input, other)


@public(numbers="values")
def rsub(input: Tensor, other: Any, *scale: Any, alpha: Any = 1) -> Tensor:
    """`other` minus `input` scaled by `alpha`, which may come by place after a number."""
    require_tensors("rsub", input)
    if scale:
        if len(scale) > 1 or is_tensor(other) or alpha.__class__ is not int or alpha != 1:
            raise TypeError(
                "rsub() received an invalid combination of arguments: expected (input, other, *, "
                f"alpha) or (input, number, alpha), received {len(scale) + 2} by place. Pass alpha "
                "by name."
            )
        (alpha,) = scale
    if alpha.__class__ is not int or alpha != 1:
        input = scaled("rsub", other, input, alpha)
    return SUB(other, input)


@public(method=True, inplace=True, out=True, aliases=("multiply",), numbers="values")
def mul(input: Any, other: Any) -> Tensor:
    """Multiply elementwise.

    Example:
        >>> import adjoint as ad
        >>> ad.mul(ad.tensor([1.0, 2.0]), 3)
        tensor([3., 6.])
    """
    return MUL(input, other)


@public(method=True, inplace=True, out=True, aliases=("negative",))
def neg(input: Tensor) -> Tensor:
    """Negative of each element.

    Example:
        >>> import adjoint as ad
        >>> ad.neg(ad.tensor([1, -2]))
        tensor([-1,  2])
    """
    return NEG(input)


@public(method=True)
def positive(input: Tensor) -> Tensor:
    """The tensor itself."""
    require_tensors("positive", input)
    if input.dtype is dt.bool_:
        raise DTypeError("positive: the `+` operator, on a bool tensor is not supported.")
    return input


@public(method=True, inplace=True, out=True)
def lerp(input: Tensor, end: Tensor, weight: Any) -> Tensor:
    """From `input` (weight 0) to `end` (weight 1), linearly.

    >>> import adjoint as ad
    >>> ad.lerp(ad.tensor([0.0, 10.0]), ad.tensor([1.0, 20.0]), 0.5)
    tensor([ 0.5000, 15.0000])
    """
    if is_tensor(weight) and not weight.shape and weight.dtype.category <= input.dtype.category:
        weight = weight.to(input.dtype)  # which PyTorch converts, and rounds, too
    for name, other in (("end", end), ("weight", weight)):
        if is_tensor(other) and other.dtype is not input.dtype:
            raise DTypeError(
                f"lerp: expected dtype {input.dtype.name} for `{name}` but got dtype "
                f"{other.dtype.name}. Convert it with .to({input.dtype})."
            )
    if not input.dtype.is_inexact:
        raise NotImplementedError(
            f"lerp: not implemented for {input.dtype.name}. Convert the operands with .to(...)."
        )
    if weight.__class__ is float:
        require_fit("lerp", weight, computed_in(input.dtype))
    return LERP(input, end, weight)


def _value(name: str, value: Any, *tensors: Any) -> Any:
    """The factor in the dtype of the result: whole, where that is an integer type."""
    require_tensors(name, *tensors)
    if value.__class__ is float and tensors[0].dtype.is_inexact:
        require_fit(name, value, computed_in(tensors[0].dtype))
        return value
    return converted(_whole_in, value, name, computed_in(common_dtype(tensors)))


def _whole_in(value: Any, name: str, common: DType) -> Any:
    require_fit(name, value, common)
    return int(value) if common.category == dt.INT else value


@public(method=True, inplace=True, out=True)
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    """input + value * tensor1 * tensor2."""
    return ADDCMUL(input, tensor1, tensor2, _value("addcmul", value, input, tensor1, tensor2))


@public(method=True, inplace=True, out=True)
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    """input + value * tensor1 / tensor2."""
    require_tensors("addcdiv", input, tensor1, tensor2)
    if not (tensor1.dtype.is_inexact or tensor2.dtype.is_inexact):
        raise DTypeError(
            "addcdiv: integer division with addcdiv is no longer supported, received "
            f"{tensor1.dtype.name} and {tensor2.dtype.name}. Use "
            "input + value * div(tensor1, tensor2, rounding_mode='trunc') for whole quotients."
        )
    return ADDCDIV(input, tensor1, tensor2, _value("addcdiv", value, input, tensor1, tensor2))


def _in_float(name: str, input: Tensor) -> None:
    require_tensors(name, input)
    if input.dtype.is_complex:
        raise DTypeError(f"{name}: not supported for complex tensors, got {input.dtype.name}")


@public(method=True, inplace=True, out=True)
def deg2rad(input: Tensor) -> Tensor:
    """Degrees as radians."""
    _in_float("deg2rad", input)
    return MUL(input, math.pi / 180)


@public(method=True, inplace=True, out=True)
def rad2deg(input: Tensor) -> Tensor:
    """Radians as degrees."""
    _in_float("rad2deg", input)
    return MUL(input, 180 / math.pi)
