"""The normal distribution's functions, entropy, and x log1p(y)."""

from __future__ import annotations

from math import pi, sqrt
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.ops.special.real import real_elementwise

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

NDTR = real_elementwise("ndtr", lambda x: (x * x * -0.5).exp() * (1 / sqrt(2 * pi)))
NDTRI = real_elementwise("ndtri", lambda out: (out * out * 0.5).exp() * sqrt(2 * pi))
ERFCX: Record = real_elementwise("erfcx", lambda x, out: 2 * x * out - 2 / sqrt(pi))
# pdf / cdf without underflow: both carry exp(-x^2 / 2), which erfcx leaves out.
LOG_NDTR = real_elementwise("log_ndtr", lambda x: sqrt(2 / pi) / ERFCX(x * -sqrt(0.5)))
ENTR = real_elementwise("entr", lambda x: -1 - x.log())
XLOG1PY = real_elementwise("xlog1py", lambda x, y: _log1p_or_zero(x, y), lambda x, y: x / (y + 1))


def _log1p_or_zero(x: Any, y: Any) -> Any:
    """log1p(y), and 0 where x is 0 and y has no logarithm."""
    from adjoint.engine.ops.elementwise.records import where

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
