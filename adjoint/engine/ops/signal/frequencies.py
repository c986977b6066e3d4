"""Which frequencies a Fourier transform gives, and in what order."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from adjoint.engine.core import dtype as dt
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import DTypeError
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.spec import wrap_dim
from adjoint.engine.core.state.placement import chosen
from adjoint.engine.ops.common.arguments import whole
from adjoint.engine.ops.create.creation import ARANGE

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _shifted(name: str, x: Tensor, dim: Any, sign: int) -> Tensor:
    dims = tuple(range(x.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    dims = tuple(wrap_dim(name, d, x.ndim) for d in dims)
    shifts = [(x.shape[d] + (sign < 0)) // 2 for d in dims]
    return x.roll(shifts, dims)


@public(namespaces=("fft",))
def fftshift(input: Tensor, dim: Any = None) -> Tensor:
    """Reordered so that frequency zero is in the middle."""
    return _shifted("fftshift", input, dim, 1)


@public(namespaces=("fft",))
def ifftshift(input: Tensor, dim: Any = None) -> Tensor:
    """The inverse of `fftshift`."""
    return _shifted("ifftshift", input, dim, -1)


def _frequencies(name: str, n: int, count: int, d: float, dtype: Any, device: Any) -> Tensor:
    """0, 1, ... from the middle on negative, over n * d."""
    dtype = dtype or dt.get_default_dtype()
    if not dtype.is_inexact:
        raise DTypeError(
            f"{name}: requires a floating point or complex dtype, received {dtype.name}"
        )
    if dtype.is_complex:
        raise NotImplementedError(f"{name}: not implemented for {dtype.name!r}")
    n = whole(name, "n", n)
    if n < 0:
        raise RuntimeError(f"{name}: wanted a number of points >= 0, received {n}")
    k = ARANGE(
        start=0,
        step=1,
        length=count,
        dtype=dt.float64,
        device=chosen(device),
    )
    if name == "fftfreq":  # two of `rfftfreq` are as many, and both of one sign
        k = k - (k + k >= n).to(dt.float64) * n
    return (k * (1.0 / (n * d) if n * d else inf)).to(dtype)


@public(out=True, namespaces=("fft",))
def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The frequencies `fft` of n samples spaced by d computes, in cycles per unit.

    >>> import adjoint as ad
    >>> ad.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    return _frequencies("fftfreq", n, n, d, dtype, device).requires_grad_(requires_grad)


@public(out=True, namespaces=("fft",))
def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The frequencies `rfft` of n samples spaced by d computes."""
    return _frequencies("rfftfreq", n, n // 2 + 1, d, dtype, device).requires_grad_(requires_grad)
