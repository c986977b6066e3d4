"""Bessel and Airy functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import bool_
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.ops.special.gamma_family import I0, I1
from adjoint.engine.ops.special.real import over, real_elementwise

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

# Each derivative is a neighbour in the same pair of functions, so that every order exists.
BESSEL_J0: Record = real_elementwise("bessel_j0", lambda x: -BESSEL_J1(x))
BESSEL_J1: Record = real_elementwise("bessel_j1", lambda x, out: BESSEL_J0(x) - over(out, x, 0.5))
BESSEL_Y0: Record = real_elementwise("bessel_y0", lambda x: -BESSEL_Y1(x))
BESSEL_Y1: Record = real_elementwise("bessel_y1", lambda x, out: BESSEL_Y0(x) - out / x)
I0E: Record = real_elementwise("i0e", lambda x, out: I1E(x) - x.sign() * out)
I1E: Record = real_elementwise("i1e", lambda x, out: I0E(x) - x.sign() * out - over(out, x, 0.5))
BESSEL_K0: Record = real_elementwise("modified_bessel_k0", lambda x: -BESSEL_K1(x))
BESSEL_K1: Record = real_elementwise("modified_bessel_k1", lambda x, out: -BESSEL_K0(x) - out / x)
BESSEL_K0E: Record = real_elementwise(
    "scaled_modified_bessel_k0", lambda x, out: out - BESSEL_K1E(x)
)
BESSEL_K1E: Record = real_elementwise(
    "scaled_modified_bessel_k1", lambda x, out: out - BESSEL_K0E(x) - out / x
)
SPHERICAL_BESSEL_J0: Record = real_elementwise(
    "spherical_bessel_j0", lambda x, out: over(x.cos() - out, x, 0)
)
AIRY_AI: Record = real_elementwise("airy_ai", lambda x: AIRY_AI_PRIME(x))
AIRY_AI_PRIME: Record = real_elementwise("airy_ai_prime", lambda x: x * AIRY_AI(x))
# From here on Ai and its derivatives are 0 in every dtype. SciPy's are NaN from 2 ** 20 on.
AIRY_ZERO = 1e4


@public(out=True, namespaces=("special",))
def airy_ai(x: Any) -> Tensor:
    """The Airy function Ai(x); NaN below -1,048,576 (SciPy's bound).

    Example:
        >>> import adjoint as ad
        >>> ad.special.airy_ai(ad.tensor([0.0, 1.0, 1e12]))
        tensor([0.3550, 0.1353, 0.0000])
    """
    numbers = is_tensor(x) and x.dtype is not bool_ and not x.dtype.is_complex
    return AIRY_AI(x.clamp(max=AIRY_ZERO) if numbers else x)


@public(out=True, namespaces=("special",))
def bessel_j0(input: Any) -> Tensor:
    """The Bessel function of the first kind of order 0.

    >>> import adjoint as ad
    >>> ad.special.bessel_j0(ad.tensor([0.0, 1.0]))
    tensor([1.0000, 0.7652])
    """
    return BESSEL_J0(input)


@public(out=True, namespaces=("special",))
def bessel_j1(input: Any) -> Tensor:
    """The Bessel function of the first kind of order 1."""
    return BESSEL_J1(input)


@public(out=True, namespaces=("special",))
def bessel_y0(input: Any) -> Tensor:
    """The Bessel function of the second kind of order 0."""
    return BESSEL_Y0(input)


@public(out=True, namespaces=("special",))
def bessel_y1(input: Any) -> Tensor:
    """The Bessel function of the second kind of order 1."""
    return BESSEL_Y1(input)


@public(out=True, namespaces=("special",))
def i0e(input: Any) -> Tensor:
    """The modified Bessel function of the first kind of order 0, times exp(-|x|)."""
    return I0E(input)


@public(out=True, namespaces=("special",))
def i1(input: Any) -> Tensor:
    """The modified Bessel function of the first kind of order 1."""
    return I1(input)


@public(out=True, namespaces=("special",))
def i1e(input: Any) -> Tensor:
    """The modified Bessel function of the first kind of order 1, times exp(-|x|)."""
    return I1E(input)


@public(out=True, namespaces=("special",))
def modified_bessel_i0(input: Any) -> Tensor:
    """The modified Bessel function of the first kind of order 0."""
    return I0(input)


@public(out=True, namespaces=("special",))
def modified_bessel_i1(input: Any) -> Tensor:
    """The modified Bessel function of the first kind of order 1."""
    return I1(input)


@public(out=True, namespaces=("special",))
def modified_bessel_k0(input: Any) -> Tensor:
    """The modified Bessel function of the second kind of order 0."""
    return BESSEL_K0(input)


@public(out=True, namespaces=("special",))
def modified_bessel_k1(input: Any) -> Tensor:
    """The modified Bessel function of the second kind of order 1."""
    return BESSEL_K1(input)


@public(out=True, namespaces=("special",))
def scaled_modified_bessel_k0(x: Any) -> Tensor:
    """The modified Bessel function of the second kind of order 0, times exp(x)."""
    return BESSEL_K0E(x)


@public(out=True, namespaces=("special",))
def scaled_modified_bessel_k1(x: Any) -> Tensor:
    """The modified Bessel function of the second kind of order 1, times exp(x)."""
    return BESSEL_K1E(x)


@public(out=True, namespaces=("special",))
def spherical_bessel_j0(x: Any) -> Tensor:
    """The spherical Bessel function of the first kind of order 0, sin(x) / x."""
    return SPHERICAL_BESSEL_J0(x)
