"""Orthogonal polynomials of degree n at x.

The degree may be a number or a tensor; a fraction is cut off and below zero the value is 0.
Chebyshev polynomials of all four kinds follow one recurrence and differ in how they start.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from adjoint.engine.core import dtype as dt
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.ops.special.real import real_elementwise

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _degree(n: Any) -> Any:
    return n.trunc() if is_tensor(n) and n.dtype.is_inexact else n if is_tensor(n) else int(n)


def _lower(n: Any) -> Any:
    """The degree below n, also for unsigned integer tensors."""
    return _degree(n) * 1.0 - 1


_polynomial = partial(real_elementwise, fragment="composed")  # NumPy calls for each degree

# GEGENBAUER(x, n, order) and LAGUERRE(x, n, order) hold Legendre's (order 1/2) and Laguerre's
# (order 0); with their orders they are closed under differentiation, and so are the others by them.
GEGENBAUER: Record = _polynomial(
    "gegenbauer_polynomial",
    lambda x, y, order: 2 * order * GEGENBAUER(x, _lower(y), order=order + 1),
    None,
)
LAGUERRE: Record = _polynomial(
    "laguerre_polynomial", lambda x, y, order: -LAGUERRE(x, _lower(y), order=order + 1), None
)
CHEBYSHEV_T: Record = _polynomial(
    "chebyshev_polynomial_t", lambda x, y: _degree(y) * CHEBYSHEV_U(x, _lower(y)), None
)
CHEBYSHEV_U: Record = _polynomial(
    "chebyshev_polynomial_u", lambda x, y: _slope_of_u(x, _degree(y)), None
)
CHEBYSHEV_V: Record = _polynomial(  # U_n - U_(n-1)
    "chebyshev_polynomial_v",
    lambda x, y: _slope_of_u(x, _degree(y)) - _slope_of_u(x, _lower(y)),
    None,
)
CHEBYSHEV_W: Record = _polynomial(  # U_n + U_(n-1)
    "chebyshev_polynomial_w",
    lambda x, y: _slope_of_u(x, _degree(y)) + _slope_of_u(x, _lower(y)),
    None,
)
HERMITE_H: Record = _polynomial(
    "hermite_polynomial_h", lambda x, y: 2 * _degree(y) * HERMITE_H(x, _lower(y)), None
)
HERMITE_HE: Record = _polynomial(
    "hermite_polynomial_he", lambda x, y: _degree(y) * HERMITE_HE(x, _lower(y)), None
)


def _slope_of_u(x: Any, n: Any) -> Any:
    return 2 * GEGENBAUER(x, n * 1.0 - 1, order=2)


def _shifted(x: Any) -> Any:
    """From the interval [0, 1] to [-1, 1]."""
    if is_tensor(x) and not x.dtype.is_inexact:
        x = x.to(dt.get_default_dtype())
    return x + x - 1


@public(out=True, namespaces=("special",))
def chebyshev_polynomial_t(x: Any, n: Any) -> Tensor:
    """The Chebyshev polynomial of the first kind T_n(x).

    >>> import adjoint as ad
    >>> ad.special.chebyshev_polynomial_t(ad.tensor([0.5, 2.0]), 2)
    tensor([-0.5000,  7.0000])
    """
    return CHEBYSHEV_T(x, n)


@public(out=True, namespaces=("special",))
def chebyshev_polynomial_u(x: Any, n: Any) -> Tensor:
    """The Chebyshev polynomial of the second kind U_n(x)."""
    return CHEBYSHEV_U(x, n)


@public(out=True, namespaces=("special",))
def chebyshev_polynomial_v(x: Any, n: Any) -> Tensor:
    """The Chebyshev polynomial of the third kind V_n(x)."""
    return CHEBYSHEV_V(x, n)


@public(out=True, namespaces=("special",))
def chebyshev_polynomial_w(x: Any, n: Any) -> Tensor:
    """The Chebyshev polynomial of the fourth kind W_n(x)."""
    return CHEBYSHEV_W(x, n)


@public(out=True, namespaces=("special",))
def shifted_chebyshev_polynomial_t(x: Any, n: Any) -> Tensor:
    """The Chebyshev polynomial of the first kind at 2x - 1."""
    return CHEBYSHEV_T(_shifted(x), n)


@public(out=True, namespaces=("special",))
def shifted_chebyshev_polynomial_u(x: Any, n: Any) -> Tensor:
    """The Chebyshev polynomial of the second kind at 2x - 1."""
    return CHEBYSHEV_U(_shifted(x), n)


@public(out=True, namespaces=("special",))
def shifted_chebyshev_polynomial_v(x: Any, n: Any) -> Tensor:
    """The Chebyshev polynomial of the third kind at 2x - 1."""
    return CHEBYSHEV_V(_shifted(x), n)


@public(out=True, namespaces=("special",))
def shifted_chebyshev_polynomial_w(x: Any, n: Any) -> Tensor:
    """The Chebyshev polynomial of the fourth kind at 2x - 1."""
    return CHEBYSHEV_W(_shifted(x), n)


@public(out=True, namespaces=("special",))
def hermite_polynomial_h(x: Any, n: Any) -> Tensor:
    """The physicists' Hermite polynomial H_n(x)."""
    return HERMITE_H(x, n)


@public(out=True, namespaces=("special",))
def hermite_polynomial_he(x: Any, n: Any) -> Tensor:
    """The probabilists' Hermite polynomial He_n(x)."""
    return HERMITE_HE(x, n)


@public(out=True, namespaces=("special",))
def laguerre_polynomial_l(x: Any, n: Any) -> Tensor:
    """The Laguerre polynomial L_n(x)."""
    return LAGUERRE(x, n, order=0)


@public(out=True, namespaces=("special",))
def legendre_polynomial_p(x: Any, n: Any) -> Tensor:
    """The Legendre polynomial P_n(x)."""
    return GEGENBAUER(x, n, order=0.5)
