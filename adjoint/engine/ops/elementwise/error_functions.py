"""The error functions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from adjoint.engine.core.operations.families import elementwise
from adjoint.engine.core.operations.public import public

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

_ERF = 2 / math.sqrt(math.pi)
_BOTH = ("", "special")

ERF = elementwise(
    "erf",
    lambda x: _ERF * (-x * x).exp(),
    promotion="float",
    accepts="f",
    cost="function",
    fragment="costly",
)
ERFC = elementwise(
    "erfc",
    lambda x: -_ERF * (-x * x).exp(),
    promotion="float",
    accepts="f",
    cost="function",
    never_negative_zero=True,
)
ERFINV = elementwise(
    "erfinv",
    lambda x: x.erfinv().square().exp() / _ERF,
    promotion="float",
    accepts="f",
    fragment="looped",
)


@public(method=True, inplace=True, out=True, namespaces=_BOTH)
def erf(input: Tensor) -> Tensor:
    """The error function.

    Example:
        >>> import adjoint as ad
        >>> ad.erf(ad.tensor([0.0, 1.0]))
        tensor([0.0000, 0.8427])
    """
    return ERF(input)


@public(method=True, inplace=True, out=True, namespaces=_BOTH)
def erfc(input: Tensor) -> Tensor:
    """One minus the error function, accurate where that is small."""
    return ERFC(input)


@public(method=True, inplace=True, out=True, namespaces=_BOTH)
def erfinv(input: Tensor) -> Tensor:
    """The inverse of the error function."""
    return ERFINV(input)
