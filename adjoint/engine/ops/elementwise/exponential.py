"""Exponentials, logarithms and the functions made of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.operations.families import Inverse, elementwise
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.ops.common.scalars import log as log_of
from adjoint.engine.ops.elementwise.bounds import CLAMP

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

LN2, LN10 = math.log(2), math.log(10)


def _xlogy_x(x: Any, y: Any) -> Any:
    """log y, but 0 where x is 0 and y is not positive."""
    value = log_of(y)
    mask = (x == 0) & (y <= 0)
    if is_tensor(value):
        return value.masked_fill(mask, 0)
    return x.new_zeros(x.shape).masked_fill(mask.logical_not(), value)


def _logit_partial(x: Any) -> Any:
    return Inverse((x * (1 - x)).masked_fill((x < 0) | (x > 1), math.nan))


EXP = elementwise(
    "exp", lambda out: out, promotion="float", cost="function", never_negative_zero=True
)
EXP2 = elementwise(
    "exp2", lambda out: out * LN2, promotion="float", cost="function", never_negative_zero=True
)
EXPM1 = elementwise(
    "expm1", lambda out: out + 1, promotion="float", cost="function", fragment="costly"
)
LOG = elementwise("log", lambda x: Inverse(x), promotion="float", cost="function")
LOG2 = elementwise("log2", lambda x: Inverse(x * LN2), promotion="float", cost="function")
LOG10 = elementwise(
    "log10", lambda x: Inverse(x * LN10), promotion="float", cost="function", fragment="costly"
)
LOG1P = elementwise(
    "log1p", lambda x: Inverse(x + 1), promotion="float", cost="function", fragment="costly"
)
SIGMOID = elementwise(
    "sigmoid",
    lambda out: out * (1 - out),
    promotion="float",
    cost="function",
    never_negative_zero=True,
    in_steps=True,
)
LOGIT = elementwise("logit", _logit_partial, promotion="float", accepts="f", fragment="function")
LOGADDEXP = elementwise(
    "logaddexp",
    lambda x, y: (x - y).sigmoid(),
    lambda x, y: (y - x).sigmoid(),
    accepts="fc",
    tensors=2,
    cost="function",
    fragment="costly",
)
LOGADDEXP2 = elementwise(
    "logaddexp2",
    lambda x, y: ((x - y) * LN2).sigmoid(),
    lambda x, y: ((y - x) * LN2).sigmoid(),
    accepts="f",
    tensors=2,
    fragment="function",
)
XLOGY = elementwise(
    "xlogy",
    _xlogy_x,
    lambda x, y: x / y,
    promotion="float",
    accepts="f",
    fragment="function",
)


@public(method=True, inplace=True, out=True)
def exp(input: Tensor) -> Tensor:
    """Exponential of each element.

    Example:
        >>> import adjoint as ad
        >>> ad.exp(ad.tensor([0.0, 1.0]))
        tensor([1.0000, 2.7183])
    """
    return EXP(input)


@public(method=True, inplace=True, out=True, namespaces=("", "special"))
def exp2(input: Tensor) -> Tensor:
    """Two to the power of each element."""
    return EXP2(input)


@public(method=True, inplace=True, out=True, namespaces=("", "special"))
def expm1(input: Tensor) -> Tensor:
    """exp(x) - 1, accurate near zero.

    Example:
        >>> import adjoint as ad
        >>> ad.expm1(ad.tensor([0.0, 1.0]))
        tensor([0.0000, 1.7183])
    """
    return EXPM1(input)


@public(method=True, inplace=True, out=True)
def log(input: Tensor) -> Tensor:
    """Natural logarithm of each element.

    Example:
        >>> import adjoint as ad
        >>> ad.log(ad.tensor([1.0, 10.0]))
        tensor([0.0000, 2.3026])
    """
    return LOG(input)


@public(method=True, inplace=True, out=True)
def log2(input: Tensor) -> Tensor:
    """Logarithm to base 2."""
    return LOG2(input)


@public(method=True, inplace=True, out=True)
def log10(input: Tensor) -> Tensor:
    """Logarithm to base 10."""
    return LOG10(input)


@public(method=True, inplace=True, out=True, namespaces=("", "special"))
def log1p(input: Tensor) -> Tensor:
    """log(1 + x), accurate near zero.

    Example:
        >>> import adjoint as ad
        >>> ad.log1p(ad.tensor([0.0, 1.0]))
        tensor([0.0000, 0.6931])
    """
    return LOG1P(input)


@public(method=True, inplace=True, out=True)
def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x)).

    >>> import adjoint as ad
    >>> ad.sigmoid(ad.tensor([0.0]))
    tensor([0.5000])
    """
    return SIGMOID(input)


public(out=True, namespaces=("special",), name="expit")(sigmoid)


@public(method=True, inplace=True, out=True, namespaces=("", "special"))
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)), with x first clamped to [eps, 1 - eps] where `eps` is given."""
    if eps is not None:
        input = CLAMP(input if input.dtype.is_inexact else input * 1.0, eps, 1.0 - eps)
    return LOGIT(input)


@public(method=True, out=True)
def logaddexp(input: Tensor, other: Tensor) -> Tensor:
    """log(exp(x) + exp(y)), without overflow."""
    return LOGADDEXP(input, other)


@public(method=True, out=True)
def logaddexp2(input: Tensor, other: Tensor) -> Tensor:
    """log2(2**x + 2**y), without overflow."""
    return LOGADDEXP2(input, other)


@public(method=True, inplace=True, out=True, namespaces=("", "special"))
def xlogy(input: Any, other: Any) -> Tensor:
    """x log(y), zero where x is zero (unless y is NaN)."""
    return XLOGY(input, other)
