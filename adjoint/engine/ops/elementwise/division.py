"""Division, whole and true, and remainders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.operations.families import Inverse, elementwise
from adjoint.engine.core.operations.public import public

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

# Operands, not the result, are saved: the result may then be written to, as PyTorch's may.
DIV = elementwise(
    "div",
    lambda y: Inverse(y),
    lambda x, y: -(x / y) / y,
    promotion="float",
    cost="slow",
    rounding="arithmetic",
    unrounded=(1,),
    fragment="plain",
)
# Quotients rounded down or towards zero are step functions. Integers divided by zero raise.
FLOOR_DIVIDE = elementwise("floor_divide", 0, 0, accepts="if", fails="divisor", unrounded=(1,))
# "exact": a half's quotient is rounded to a half before it is truncated, as PyTorch has it.
TRUNC_DIVIDE = elementwise(
    "trunc_divide", 0, 0, promotion="exact", accepts="if", fails="divisor", unrounded=(1,)
)
# x - y q with the quotient q constant: the derivative in y is -q.
REMAINDER = elementwise(
    "remainder", 1, lambda x, y: -FLOOR_DIVIDE(x, y), accepts="if", fails="divisor"
)
FMOD = elementwise(
    "fmod", 1, lambda x, y: -TRUNC_DIVIDE(x, y), accepts="if", tensors=1, fails="divisor"
)
GCD = elementwise("gcd", None, None, accepts="i", tensors=2, fragment="plain")
LCM = elementwise("lcm", None, None, accepts="i", tensors=2, fragment="plain")

_ROUNDED = {"floor": FLOOR_DIVIDE, "trunc": TRUNC_DIVIDE}


@public(method=True, inplace=True, out=True, aliases=("divide",), numbers="values")
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """Divide; `rounding_mode` None is true division, "trunc" and "floor" round the quotient.

    >>> import adjoint as ad
    >>> ad.div(ad.tensor([-7, 7]), 2, rounding_mode="floor")
    tensor([-4,  3])
    """
    if rounding_mode is None:
        return DIV(input, other)
    if rounding_mode not in _ROUNDED:
        raise RuntimeError(
            "div: expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
            f"{rounding_mode!r}"
        )
    return _ROUNDED[rounding_mode](input, other)


@public(method=True, inplace=True, out=True, numbers="values")
def true_divide(input: Any, other: Any) -> Tensor:
    """Divide; integers give floating-point quotients."""
    return DIV(input, other)


@public(method=True, inplace=True, out=True)
def floor_divide(input: Any, other: Any) -> Tensor:
    """The quotient rounded down."""
    return FLOOR_DIVIDE(input, other)


@public(method=True, inplace=True, out=True)
def remainder(input: Any, other: Any) -> Tensor:
    """What division leaves, with the sign of the divisor.

    >>> import adjoint as ad
    >>> ad.remainder(ad.tensor([-3, 3]), 2)
    tensor([1, 1])
    """
    return REMAINDER(input, other)


@public(method=True, inplace=True, out=True)
def fmod(input: Tensor, other: Any) -> Tensor:
    """What division leaves, with the sign of the dividend.

    Example:
        >>> import adjoint as ad
        >>> ad.fmod(ad.tensor([5, -5]), 3)
        tensor([ 2, -2])
    """
    return FMOD(input, other)


@public(method=True, inplace=True, out=True)
def reciprocal(input: Tensor) -> Tensor:
    """One divided by each element.

    Example:
        >>> import adjoint as ad
        >>> ad.reciprocal(ad.tensor([2.0, 4.0]))
        tensor([0.5000, 0.2500])
    """
    return DIV(1, input)


@public(method=True, inplace=True, out=True)
def gcd(input: Tensor, other: Tensor) -> Tensor:
    """The greatest common divisor of integers."""
    return GCD(input, other)


@public(method=True, inplace=True, out=True)
def lcm(input: Tensor, other: Tensor) -> Tensor:
    """The least common multiple of integers."""
    return LCM(input, other)
