"""The gamma function's family, and the Bessel functions i0 and i1."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import bool_
from adjoint.engine.core.errors import DTypeError
from adjoint.engine.core.operations.families import elementwise
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record
from adjoint.engine.ops.common.scalars import require_tensors
from adjoint.engine.ops.random.gamma_samples import STANDARD_GAMMA_GRAD
from adjoint.engine.ops.special.real import over

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _igamma_partial(x: Any, y: Any) -> Any:
    """d/dy of the regularised lower incomplete gamma function of order x."""
    return ((x - 1) * y.log() - y - x.lgamma()).exp()


def _igamma_order_partial(x: Any, y: Any) -> Any:
    """d/dx of it, from the implicit derivative of a gamma sample; 0 at y = 0 for every order."""
    return (-STANDARD_GAMMA_GRAD(x, y) * _igamma_partial(x, y)).masked_fill(y == 0, 0.0)


LGAMMA = elementwise("lgamma", lambda x: x.digamma(), promotion="float", accepts="f")
# polygamma of order n is the (n + 1)-th derivative of lgamma; order 0 is digamma.
POLYGAMMA: Record = elementwise(
    "polygamma",
    lambda x, n: POLYGAMMA(x, n=n + 1),
    promotion="float",
    accepts="f",
    fragment="looped",
)
I0: Record = elementwise("i0", lambda x: I1(x), promotion="float", accepts="f", fragment="costly")
I1: Record = elementwise(
    "i1",
    lambda x, out: I0(x) - over(out, x, 0.5),
    promotion="float",
    accepts="f",
    fragment="costly",
)
IGAMMA = elementwise("igamma", _igamma_order_partial, _igamma_partial, accepts="f", tensors=2)
IGAMMAC = elementwise(
    "igammac",
    lambda x, y: -_igamma_order_partial(x, y),
    lambda x, y: -_igamma_partial(x, y),
    accepts="f",
    tensors=2,
)

_BOTH = ("", "special")


@public(method=True, inplace=True, out=True)
def lgamma(input: Tensor) -> Tensor:
    """The logarithm of the absolute value of the gamma function."""
    return LGAMMA(input)


public(out=True, namespaces=("special",), name="gammaln")(lgamma)


@public(method=True, inplace=True, out=True, namespaces=_BOTH)
def digamma(input: Tensor) -> Tensor:
    """The derivative of `lgamma`."""
    return POLYGAMMA(input, n=0)


public(out=True, namespaces=("special",), name="psi")(digamma)


def _polygamma(n: int, input: Tensor) -> Tensor:
    if not isinstance(n, int):
        raise TypeError(f"polygamma(): argument 'n' must be int, not {type(n).__name__}")
    if n < 0:
        raise RuntimeError(f"polygamma: does not support negative n, received {n}")
    return POLYGAMMA(input, n=n)


@public(out=True, namespaces=_BOTH)
def polygamma(n: int, input: Tensor) -> Tensor:
    """The n-th derivative of `digamma`."""
    return _polygamma(n, input)


@public(method=True, inplace=True, function=False, name="polygamma")
def polygamma_method(self: Tensor, n: int) -> Tensor:
    """The n-th derivative of `digamma`."""
    return _polygamma(n, self)


@public(method=True, inplace=True, out=True)
def mvlgamma(input: Tensor, p: int) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension p."""
    require_tensors("mvlgamma", input)
    if not isinstance(p, int):
        raise TypeError(f"mvlgamma(): argument 'p' must be int, not {type(p).__name__}")
    if input.dtype is bool_:
        raise DTypeError("mvlgamma: the input tensor may not be a boolean tensor")
    if p < 1:
        raise RuntimeError(f"mvlgamma: p has to be greater than or equal to 1, received {p}")
    steps = (input.new_arange(p) * -0.5).to(input.dtype if input.dtype.is_inexact else None)
    terms = LGAMMA(input.unsqueeze(-1) + steps)
    return terms.sum(-1) + p * (p - 1) / 4 * math.log(math.pi)


public(out=True, namespaces=("special",), name="multigammaln")(mvlgamma)


@public(method=True, inplace=True, out=True, namespaces=_BOTH)
def i0(input: Tensor) -> Tensor:
    """The modified Bessel function of the first kind of order 0."""
    return I0(input)


@public(method=True, inplace=True, out=True)
def igamma(input: Tensor, other: Tensor) -> Tensor:
    """The regularised lower incomplete gamma function of order `input` at `other`."""
    return IGAMMA(input, other)


@public(method=True, inplace=True, out=True)
def igammac(input: Tensor, other: Tensor) -> Tensor:
    """The regularised upper incomplete gamma function of order `input` at `other`."""
    return IGAMMAC(input, other)


public(out=True, namespaces=("special",), name="gammainc")(igamma)
public(out=True, namespaces=("special",), name="gammaincc")(igammac)
