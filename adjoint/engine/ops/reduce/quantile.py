"""Quantiles: sorted, then interpolated between neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import float32, float64, int64
from adjoint.engine.core.errors import DeviceError, DTypeError, ShapeError
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.ops.common.checks import require
from adjoint.engine.ops.create.creation import FULL
from adjoint.engine.ops.reduce.scan import along

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _check(name: str, input: Tensor, q: Any, interpolation: str) -> Tensor:
    """The fractions as a tensor, everything being as it should."""
    if input.numel() == 0:
        raise ShapeError(f"{name}: input tensor must be non-empty")
    if input.dtype not in (float32, float64):
        raise DTypeError(
            f"{name}: input tensor must be either float or double dtype, received "
            f"{input.dtype.name}"
        )
    if interpolation not in INTERPOLATIONS:
        raise RuntimeError(
            f"{name}: interpolation must be one of {INTERPOLATIONS}, received {interpolation!r}"
        )
    if not is_tensor(q):
        if not 0 <= q <= 1:
            raise RuntimeError(f"{name}: q must be in the range [0, 1] but got {q}")
        return FULL(q, shape=(), dtype=input.dtype, device=input.device)
    if q.ndim > 1:
        raise ShapeError(f"{name}: q must be a scalar or 1D tensor, received {q.ndim}D")
    if q.dtype is not input.dtype:
        raise DTypeError(
            f"{name}: q tensor must be same dtype as the input tensor, received {q.dtype.name} "
            f"and {input.dtype.name}"
        )
    if q.device != input.device:
        raise DeviceError(f"{name}: q tensor must be on the same device as the input tensor")
    inside = (q >= 0).logical_and(q <= 1)
    return require(q, inside, f"{name}: q values must be in the range [0, 1]")


def _ranks(x: Tensor, q: Tensor, omit: bool) -> Tensor:
    """Where quantiles stand in each sorted row (..., n): (..., number of q)."""
    missing = x.isnan()
    n = x.shape[-1]
    if omit:
        present = missing.logical_not().sum(-1, keepdim=True).to(x.dtype)
        ranks = q * (present - 1)
        return ranks.masked_fill(ranks < 0, 0)
    # A row with a NaN has NaN quantiles; sorting puts the NaN last.
    ranks = (q * (n - 1)).expand(*x.shape[:-1], q.shape[0])
    return ranks.masked_fill(missing.any(-1, keepdim=True), n - 1)


def _quantile(
    name: str, input: Tensor, q: Any, dim: Any, keepdim: bool, interpolation: str, omit: bool
) -> Tensor:
    q = _check(name, input, q, interpolation)
    scalar = q.ndim == 0
    if dim is None:
        x, d = input.reshape(-1), 0
        reduced_shape = (1,) * input.ndim
    else:
        x, d = along(name, input, dim)
        reduced_shape = tuple(1 if i == d else n for i, n in enumerate(input.shape))
    x = x.movedim(d, -1).sort(-1).values
    ranks = _ranks(x, q.reshape(-1), omit)
    if interpolation in ("lower", "higher", "nearest"):
        ranks = {"lower": ranks.floor, "higher": ranks.ceil, "nearest": ranks.round}[
            interpolation
        ]()
    below = ranks.floor().to(int64)
    out = x.gather(-1, below)  # (..., number of q)
    if interpolation in ("linear", "midpoint"):
        weight = ranks - ranks.floor() if interpolation == "linear" else ranks * 0 + 0.5
        out = out.lerp(x.gather(-1, ranks.ceil().to(int64)), weight)
    out = out.squeeze(-1) if scalar else out.movedim(-1, 0)
    if keepdim:
        out = out.reshape(reduced_shape if scalar else (out.shape[0], *reduced_shape))
    return out


@public(method=True, out=True)
def quantile(
    input: Tensor,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """The q-th quantiles of the rows along `dim` (of all elements by default).

    >>> import adjoint as ad
    >>> ad.quantile(ad.tensor([0.0, 1.0, 2.0, 4.0]), 0.5)
    tensor(1.5000)
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, omit=False)


@public(method=True, out=True)
def nanquantile(
    input: Tensor,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """Quantiles of the elements that are not NaN."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, omit=True)
