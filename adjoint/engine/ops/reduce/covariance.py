"""Covariance and correlation between the rows of a matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import float64, get_default_dtype
from adjoint.engine.core.errors import DTypeError, ShapeError, warn_user
from adjoint.engine.core.operations.public import public
from adjoint.engine.ops.common.checks import require

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _check_weights(name: str, weights: Tensor, observations: int, integral: bool) -> Tensor:
    """Weights fit for use, one for each observation."""
    if weights.ndim > 1:
        raise ShapeError(f"cov: expected {name} to have one or fewer dimensions")
    if weights.dtype.is_inexact == integral or weights.dtype.is_complex:
        wanted = "integral" if integral else "floating point"
        raise DTypeError(
            f"cov: expected {name} to have {wanted} dtype but got {weights.dtype.name}"
        )
    if weights.numel() != observations:
        raise ShapeError(
            f"cov: expected {name} to have the same numel as there are observations in the input "
            f"but got {weights.numel()} != {observations}"
        )
    return require(weights, weights >= 0, f"cov: {name} cannot be negative")


@public(method=True)
def cov(
    input: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """The covariance matrix of variables in rows, observations in columns."""
    if input.ndim > 2:
        raise ShapeError(
            f"cov: expected input to have two or fewer dimensions but got {input.ndim}"
        )
    if input.dtype.name == "bool":
        raise DTypeError("cov: bool dtype is not supported for input")
    x = input.reshape(1, -1) if input.ndim < 2 else input
    n = x.shape[1]
    if fweights is not None:
        fweights = _check_weights("fweights", fweights, n, integral=True)
    if aweights is not None:
        aweights = _check_weights("aweights", aweights, n, integral=False)
    weights = aweights if fweights is None else fweights
    if fweights is not None and aweights is not None:
        weights = fweights * aweights
    if weights is not None:
        weights = weights.reshape(-1)
    if not x.dtype.is_inexact:
        x = x.to(
            float64 if weights is not None and weights.dtype is float64 else get_default_dtype()
        )
    total = n if weights is None else weights.sum()
    mean = (x if weights is None else x * weights).sum(1, keepdim=True) / total
    factor = _normaliser(total, weights, aweights, correction)
    x = x - mean
    right = (x if weights is None else x * weights).transpose(0, 1).conj()
    out = x @ right if right.dtype is x.dtype else x.to(right.dtype) @ right
    return (out / factor).squeeze()


def _normaliser(
    total: Any, weights: Tensor | None, aweights: Tensor | None, correction: int
) -> Tensor | float:
    """The sum of weights less what `correction` takes off, not below zero."""
    if weights is None:
        factor = float(total) - correction
        if factor <= 0:
            warn_user(
                "cov(): degrees of freedom is <= 0. Correction should be strictly less than the "
                "number of observations."
            )
        return max(factor, 0.0)
    if correction == 0:
        return total
    if aweights is None:
        out = total - correction
    else:
        out = total - correction * (weights * aweights.reshape(-1)).sum() / total
    return out.clamp(min=0)


@public(method=True)
def corrcoef(input: Tensor) -> Tensor:
    """The correlation matrix of variables in rows, observations in columns."""
    if input.ndim > 2:
        raise ShapeError(
            f"corrcoef: expected input to have two or fewer dimensions but got {input.ndim}"
        )
    c = cov(input)
    if c.ndim == 0:
        return c / c
    scale = c.diagonal()
    scale = (scale.real if c.dtype.is_complex else scale).sqrt()
    c = c / scale.unsqueeze(1) / scale.unsqueeze(0)
    if not c.dtype.is_complex:
        return c.clamp(min=-1, max=1)
    return c.real.clamp(min=-1, max=1) + 1j * c.imag.clamp(min=-1, max=1)
