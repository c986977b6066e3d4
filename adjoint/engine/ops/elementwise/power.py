"""Powers and roots."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from adjoint.engine.core import dtype as dt
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import DTypeError
from adjoint.engine.core.operations.families import Inverse, elementwise
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.core.promotion import common_dtype
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.ops.common.scalars import (
    as_number,
    converted,
    is_large,
    log,
    require_fit,
    require_tensors,
    require_word,
)
from adjoint.engine.ops.elementwise.arithmetic import MUL

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _pow_base(x: Any, y: Any) -> Any:
    """y x**(y-1), zero where y is zero whatever x is."""
    if not is_tensor(y):
        return False if y == 0 else x * 2 if y == 2 else y * x ** (y - 1)
    # With y = 1 in place of 0 the power is finite, and the factor y makes it zero.
    return y * POW(x, y.masked_fill(y == 0, 1) - 1)


def _pow_exponent(x: Any, y: Any, out: Any) -> Any:
    """x**y log x, zero where x is zero and y is not negative."""
    if not is_tensor(x):
        if x == 0:
            return (out * -math.inf).masked_fill(y.real >= 0, 0)
        return out * log(converted(complex, x) if y.dtype.is_complex else x)
    if y.dtype.is_complex and not x.dtype.is_complex:
        x = x.to(y.dtype)  # a negative base has a complex logarithm
    return out * x.masked_fill((x == 0) & (y.real >= 0), 1).log()


POW = elementwise("pow", _pow_base, _pow_exponent, accepts="ifc", cost="function")
SQRT = elementwise(
    "sqrt",
    lambda out: Inverse(out + out),
    promotion="float",
    cost="slow",
    rounding="arithmetic",
    fragment="plain",
)
RSQRT = elementwise("rsqrt", lambda out: -0.5 * out * out * out, promotion="float", cost="slow")


# x * 2**y for whole y, without overflow on the way.
LDEXP: Record = elementwise(
    "ldexp",
    lambda y, x_spec: LDEXP(y.new_ones((), dtype=x_spec.dtype), y),
    None,
    promotion="float",
    accepts="f",
)


def _check_exponent(input: Any, exponent: float) -> None:
    kind = common_dtype((input, exponent))
    if kind.category == dt.INT or kind in (dt.float16, dt.bfloat16):
        require_fit("pow", exponent, kind)
    if kind.category == dt.INT and exponent < 0:
        raise DTypeError(
            "pow: integers to negative integer powers are not allowed, received exponent "
            f"{exponent} for {input.dtype.name}. Convert to a floating dtype first."
        )


def power(input: Any, exponent: Any) -> Tensor:
    """`input ** exponent`, elementwise."""
    whole = exponent.__class__ is int and not 0 <= exponent < 128
    if (whole or is_large(exponent)) and is_tensor(input):
        _check_exponent(input, exponent)
    if exponent.__class__ is bool and is_tensor(input) and input.dtype is dt.bool_:
        return input.clone() if exponent else input.new_ones(input.shape)
    return POW(input, exponent)


@public(out=True)
def pow(input: Any, exponent: Any) -> Tensor:
    """Raise each element to a power; either side may be a number.

    >>> import adjoint as ad
    >>> ad.pow(ad.tensor([1.0, 2.0, 3.0]), 2)
    tensor([1., 4., 9.])
    """
    return power(input, exponent)


@public(method=True, inplace=True, function=False, name="pow")
def pow_method(self: Tensor, exponent: Any) -> Tensor:
    """Raise each element to a power."""
    return power(self, exponent)


def _double(x: Any, common: DType) -> Any:
    if is_tensor(x):
        return x.to(common)
    return converted(complex if common.is_complex else float, x)


def _float_power_dtype(input: Any, exponent: Any) -> DType:
    for position, x in enumerate((input, exponent), 1):
        if not is_tensor(x) and not isinstance(x, (bool, int, float, complex, HostScalar)):
            raise TypeError(
                f"float_power(): argument {position} must be Tensor or Number, "
                f"not {type(x).__name__}"
            )
    return dt.complex128 if common_dtype((input, exponent)).is_complex else dt.float64


@public(inplace=True, function=False, name="float_power")
def float_power_inplace(input: Tensor, exponent: Any) -> Tensor:
    """Raise to a power in double precision, which the target must have."""
    exponent = as_number(exponent)
    wide = _float_power_dtype(input, exponent)
    if input.dtype is not wide:
        raise DTypeError(
            f"float_power_: the base has dtype {input.dtype.name} but the operation's result "
            f"requires dtype {wide.name}. Use the form without '_'."
        )
    return float_power(input, exponent)


@public(method=True, out=True, numbers="values")
def float_power(input: Any, exponent: Any) -> Tensor:
    """Raise to a power in double precision."""
    input, exponent = as_number(input), as_number(exponent)
    require_word("float_power", input)
    require_word("float_power", exponent)
    wide = _float_power_dtype(input, exponent)
    return POW(_double(input, wide), _double(exponent, wide))


@public(method=True, inplace=True, out=True)
def square(input: Tensor) -> Tensor:
    """Each element times itself."""
    return POW(input, 2)


@public(method=True, inplace=True, out=True)
def sqrt(input: Tensor) -> Tensor:
    """The square root of each element.

    Example:
        >>> import adjoint as ad
        >>> ad.sqrt(ad.tensor([4.0, 2.0]))
        tensor([2.0000, 1.4142])
    """
    return SQRT(input)


@public(method=True, inplace=True, out=True)
def rsqrt(input: Tensor) -> Tensor:
    """One over the square root of each element.

    Example:
        >>> import adjoint as ad
        >>> ad.rsqrt(ad.tensor([4.0, 0.25]))
        tensor([0.5000, 2.0000])
    """
    return RSQRT(input)


@public(method=True, inplace=True, out=True)
def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """input * 2**other."""
    require_tensors("ldexp", input, other)
    if other.dtype is dt.bool_ and input.dtype.is_floating_point:
        raise NotImplementedError("ldexp: not implemented for exponents of bool. Convert them.")
    if not (input.dtype.is_complex or other.dtype.is_inexact):
        return LDEXP(input, other)
    if not other.ndim and input.dtype is dt.float64:
        other = other.to(common_dtype((input, other)))
    return MUL(input, POW(2.0, other))
