"""Trigonometric and hyperbolic functions and their inverses."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import float32
from adjoint.engine.core.operations.families import Inverse, elementwise
from adjoint.engine.core.operations.public import public

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _acosh_partial(x: Any) -> Any:
    # For complex x the root of the product would take the wrong branch.
    if x.dtype.is_complex:
        return (x - 1).rsqrt() * (x + 1).rsqrt()
    return (x * x - 1).rsqrt()


def _atan2_partial(numerator: Any, x: Any, y: Any) -> Any:
    norm = x * x + y * y
    return (numerator / norm).masked_fill(norm == 0, 0)


# -sinc'(x) / pi in powers of pi x: (2k) / (2k + 1)! with signs by turns.
_SINC_SERIES = (1 / 3, -1 / 30, 1 / 840, -1 / 45360, 1 / 3991680, -1 / 518918400)


def _sinc_partial(x: Any) -> Any:
    if x.dtype.is_half:  # whose multiples of pi are off by whole turns
        return _sinc_partial(x.to(float32)).to(x.dtype)
    # Near 0 two close numbers would be subtracted, and divided by 0 at it.
    near = x.abs() < 0.05
    u = math.pi * x.masked_fill(~near, 0)
    series = _SINC_SERIES[-1] * (u * u)
    for term in _SINC_SERIES[-2:0:-1]:
        series = (series + term) * (u * u)
    far = x.masked_fill(near, 1)
    off = ((math.pi * far).cos() - far.sinc()) / far
    return off.masked_fill(near, 0) - math.pi * (u * (series + _SINC_SERIES[0]))


SIN = elementwise("sin", lambda x: x.cos(), promotion="float", cost="function")
COS = elementwise("cos", lambda x: -x.sin(), promotion="float", cost="function")
TAN = elementwise(
    "tan", lambda out: 1 + out * out, promotion="float", cost="function", fragment="costly"
)
ASIN = elementwise(
    "asin", lambda x: (1 - x * x).rsqrt(), promotion="float", cost="function", fragment="costly"
)
ACOS = elementwise(
    "acos", lambda x: -(1 - x * x).rsqrt(), promotion="float", cost="function", fragment="costly"
)
ATAN = elementwise("atan", lambda x: Inverse(x * x + 1), promotion="float", cost="function")
SINH = elementwise(
    "sinh", lambda x: x.cosh(), promotion="float", cost="function", fragment="costly"
)
COSH = elementwise(
    "cosh",
    lambda x: x.sinh(),
    promotion="float",
    cost="function",
    never_negative_zero=True,
    fragment="costly",
)
TANH = elementwise("tanh", lambda out: 1 - out * out, promotion="float", cost="function")
ASINH = elementwise("asinh", lambda x: (x * x + 1).rsqrt(), promotion="float", fragment="function")
ACOSH = elementwise("acosh", _acosh_partial, promotion="float", fragment="function")
ATANH = elementwise("atanh", lambda x: Inverse(1 - x * x), promotion="float", fragment="costly")
ATAN2 = elementwise(
    "atan2",
    lambda x, y: _atan2_partial(y, x, y),
    lambda x, y: _atan2_partial(-x, x, y),
    promotion="float",
    accepts="f",
    tensors=2,
    fragment="costly",
)
HYPOT = elementwise(
    "hypot",
    lambda x, out: x / out,
    lambda y, out: y / out,
    accepts="f",
    tensors=2,
    fragment="function",
)
# sin(pi x) / (pi x)
SINC = elementwise("sinc", _sinc_partial, promotion="float", fragment="function")


@public(method=True, inplace=True, out=True)
def sin(input: Tensor) -> Tensor:
    """Sine of each element.

    Example:
        >>> import adjoint as ad
        >>> ad.sin(ad.tensor([0.0, 1.0]))
        tensor([0.0000, 0.8415])
    """
    return SIN(input)


@public(method=True, inplace=True, out=True)
def cos(input: Tensor) -> Tensor:
    """Cosine of each element.

    Example:
        >>> import adjoint as ad
        >>> ad.cos(ad.tensor([0.0, 1.0]))
        tensor([1.0000, 0.5403])
    """
    return COS(input)


@public(method=True, inplace=True, out=True)
def tan(input: Tensor) -> Tensor:
    """Tangent of each element.

    Example:
        >>> import adjoint as ad
        >>> ad.tan(ad.tensor([0.0, 1.0]))
        tensor([0.0000, 1.5574])
    """
    return TAN(input)


@public(method=True, inplace=True, out=True, aliases=("arcsin",))
def asin(input: Tensor) -> Tensor:
    """Inverse sine of each element."""
    return ASIN(input)


@public(method=True, inplace=True, out=True, aliases=("arccos",))
def acos(input: Tensor) -> Tensor:
    """Inverse cosine of each element."""
    return ACOS(input)


@public(method=True, inplace=True, out=True, aliases=("arctan",))
def atan(input: Tensor) -> Tensor:
    """Inverse tangent of each element."""
    return ATAN(input)


@public(method=True, inplace=True, out=True)
def sinh(input: Tensor) -> Tensor:
    """Hyperbolic sine of each element."""
    return SINH(input)


@public(method=True, inplace=True, out=True)
def cosh(input: Tensor) -> Tensor:
    """Hyperbolic cosine of each element."""
    return COSH(input)


@public(method=True, inplace=True, out=True)
def tanh(input: Tensor) -> Tensor:
    """Hyperbolic tangent of each element.

    Example:
        >>> import adjoint as ad
        >>> ad.tanh(ad.tensor([0.0, 1.0]))
        tensor([0.0000, 0.7616])
    """
    return TANH(input)


@public(method=True, inplace=True, out=True, aliases=("arcsinh",))
def asinh(input: Tensor) -> Tensor:
    """Inverse hyperbolic sine of each element."""
    return ASINH(input)


@public(method=True, inplace=True, out=True, aliases=("arccosh",))
def acosh(input: Tensor) -> Tensor:
    """Inverse hyperbolic cosine of each element."""
    return ACOSH(input)


@public(method=True, inplace=True, out=True, aliases=("arctanh",))
def atanh(input: Tensor) -> Tensor:
    """Inverse hyperbolic tangent of each element."""
    return ATANH(input)


@public(method=True, inplace=True, out=True, aliases=("arctan2",))
def atan2(input: Tensor, other: Tensor) -> Tensor:
    """The angle of the point (other, input) from the positive horizontal axis.

    Example:
        >>> import adjoint as ad
        >>> ad.atan2(ad.tensor([1.0, -1.0]), ad.tensor([1.0, -1.0]))
        tensor([ 0.7854, -2.3562])
    """
    return ATAN2(input, other)


@public(method=True, inplace=True, out=True)
def hypot(input: Tensor, other: Tensor) -> Tensor:
    """sqrt(x**2 + y**2), without overflow."""
    return HYPOT(input, other)


@public(method=True, inplace=True, out=True, namespaces=("", "special"))
def sinc(input: Tensor) -> Tensor:
    """sin(pi x) / (pi x), one at zero."""
    return SINC(input)
