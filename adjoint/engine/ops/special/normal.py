"""The normal distribution's functions, entropy, and x log1p(y)."""

from __future__ import annotations

from math import pi, prod, sqrt
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.ops.elementwise.records import where
from adjoint.engine.ops.special.real import real_elementwise

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

NDTR = real_elementwise("ndtr", lambda x: (x * x * -0.5).exp() * (1 / sqrt(2 * pi)))
NDTRI = real_elementwise("ndtri", lambda out: (out * out * 0.5).exp() * sqrt(2 * pi))
FAR = 12.0  # from where on ten terms are as exact as float64
# erfcx'(x) = 2 / sqrt(pi) (-1 / 2 t + 1 3 / 4 t^2 - 1 3 5 / 8 t^3 + ...), with t = 1 / x^2.
_SERIES = [(-0.5) ** k * prod(range(1, 2 * k, 2)) for k in range(1, 11)]


def _erfcx_partial(x: Any, out: Any) -> Any:
    far = x > FAR  # where two close numbers would be subtracted
    near = 2 * x.masked_fill(far, 0) * out - 2 / sqrt(pi)
    inverse = 1 / x.masked_fill(~far, 1)
    t = inverse * inverse
    series = _SERIES[-1] * t
    for term in _SERIES[-2::-1]:
        series = (series + term) * t
    return near.masked_fill(far, 0) + (series * (2 / sqrt(pi))).masked_fill(~far, 0)


def _log_ndtr_partial(x: Any) -> Any:
    """The density over the area; below 0 without exp(-x^2 / 2), which both carry."""
    above = x > 0
    lower = sqrt(2 / pi) / ERFCX(x.masked_fill(above, 0) * -sqrt(0.5))
    upper = x.masked_fill(~above, 0)
    density = (upper * upper * -0.5).exp() * (1 / sqrt(2 * pi))
    return lower.masked_fill(above, 0) + (density / NDTR(upper)).masked_fill(~above, 0)


ERFCX: Record = real_elementwise("erfcx", _erfcx_partial)
LOG_NDTR = real_elementwise("log_ndtr", _log_ndtr_partial)
ENTR = real_elementwise("entr", lambda x: -1 - x.log())
XLOG1PY = real_elementwise("xlog1py", lambda x, y: _log1p_or_zero(x, y), lambda x, y: x / (y + 1))


def _log1p_or_zero(x: Any, y: Any) -> Any:
    """log1p(y), and 0 where x is 0 and y has no logarithm."""
    if not is_tensor(y):
        y = x.new_zeros(()) + y
    if not is_tensor(x):
        x = y.new_zeros(()) + x
    outside = where(x == 0, y <= -1, False)
    return y.masked_fill(outside, 0).log1p()


@public(out=True, namespaces=("special",))
def ndtr(input: Any) -> Tensor:
    """The area under the standard normal density up to each element.

    >>> import adjoint as ad
    >>> ad.special.ndtr(ad.tensor([0.0, 1.0]))
    tensor([0.5000, 0.8413])
    """
    return NDTR(input)


@public(out=True, namespaces=("special",))
def ndtri(input: Any) -> Tensor:
    """The inverse of `ndtr`: where the area under the standard normal density is each element."""
    return NDTRI(input)


@public(out=True, namespaces=("special",))
def log_ndtr(input: Any) -> Tensor:
    """The logarithm of `ndtr`, accurate far into the lower tail."""
    return LOG_NDTR(input)


@public(out=True, namespaces=("special",))
def erfcx(input: Any) -> Tensor:
    """The scaled complementary error function, exp(x^2) erfc(x)."""
    return ERFCX(input)


@public(out=True, namespaces=("special",))
def entr(input: Any) -> Tensor:
    """-x log(x); 0 at zero and -inf below it."""
    return ENTR(input)


@public(out=True, namespaces=("special",))
def xlog1py(input: Any, other: Any) -> Tensor:
    """input * log1p(other), and 0 where `input` is 0 and `other` is not NaN."""
    return XLOG1PY(input, other)
