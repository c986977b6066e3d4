"""Variance and its relatives: var, std, cov, corrcoef."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import complex128, float32, float64
from adjoint.engine.core.errors import DTypeError, warn_user
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.reductions import Dims
from adjoint.engine.core.spec import Spec
from adjoint.engine.ops.reduce.reduction import SUM, all_dims, count, restore

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def squared(x: Tensor) -> Tensor:
    """|x|^2, real for complex x too."""
    if x.dtype.is_complex:
        return x.real * x.real + x.imag * x.imag
    return x * x


def _centred(x: Tensor, dims: Dims) -> Tensor:
    return x - SUM(x, dims=dims, keepdim=True) / count(x.shape, dims)


def _freedom(shape: Any, dims: Dims, correction: float) -> float:
    return max(0.0, count(shape, dims) - correction)


def _squares(x: Tensor, dims: Dims, keepdim: bool) -> Tensor:
    """The sum of squared distances from the mean; of float32, in float64, as PyTorch has it.

    There the mean is exact enough, and no square is too large or too small.
    """
    if x.dtype.to_real() is float32:
        wide = complex128 if x.dtype.is_complex else float64
        return SUM(squared(_centred(x.to(wide), dims)), dims=dims, keepdim=keepdim)
    centred = _centred(x, dims)
    total = SUM(squared(centred), dims=dims, keepdim=keepdim)
    # The mean was rounded, by much where it is large beside the spread. What is left of it in the
    # distances is taken out of the squares; a constant's rounding must not leave less than 0.
    # Where squares are too large to be summed, there is nothing to take out.
    left = SUM(centred, dims=dims, keepdim=keepdim).masked_fill(total.isinf(), 0)
    return (total - squared(left) / max(count(x.shape, dims), 1)).clamp(min=0)


def _var(x: Tensor, dims: Dims, keepdim: bool, correction: float) -> Tensor:
    spread = _squares(x, dims, keepdim) / _freedom(x.shape, dims, correction)
    return spread.to(x.dtype.to_real())


def _var_vjp(
    g: Tensor, x: Tensor, x_spec: Spec, dims: Dims, keepdim: bool, correction: float
) -> Tensor:
    scaled = restore(g, x_spec, dims, keepdim) * 2 / _freedom(x_spec.shape, dims, correction)
    return scaled * _centred(x, dims)


VAR = composite("var", _var, _var_vjp, fragment="composed", in_any_order=True)


def _std(x: Tensor, dims: Dims, keepdim: bool, correction: float) -> Tensor:
    spread = _squares(x, dims, keepdim) / _freedom(x.shape, dims, correction)
    flat = spread.eq(0)  # there the root has no derivative, and 0 is taken for it
    return spread.masked_fill(flat, 1).sqrt().masked_fill(flat, 0).to(x.dtype.to_real())


def _std_vjp(
    g: Tensor, x: Tensor, out: Tensor, x_spec: Spec, dims: Dims, keepdim: bool, correction: float
) -> Tensor:
    flat = out.eq(0)
    half = (g / (out * 2).masked_fill(flat, 1)).masked_fill(flat, 0)
    return _var_vjp(half, x, x_spec, dims, keepdim, correction)


STD = composite("std", _std, _std_vjp, fragment="composed", in_any_order=True)


def _moments(
    name: str, record: Any, input: Tensor, dim: Any, unbiased: Any, keepdim: bool, correction: Any
) -> tuple[Tensor, Dims]:
    """The shared front of var and std: PyTorch's three overloads, dtypes, warnings."""
    if isinstance(dim, bool):  # var(x, True): the flag comes first
        if unbiased is not None:
            raise TypeError(f"{name}: dim must be int or tuple of ints, received {dim!r}")
        dim, unbiased = None, dim
    if correction is not None and unbiased is not None:
        raise TypeError(f"{name}: received both unbiased and correction; pass one of them")
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    if not input.dtype.is_inexact:
        raise DTypeError(
            f"{name}: only support floating point and complex dtypes, received {input.dtype.name}"
        )
    dims = all_dims(name, dim, input.ndim)
    if count(input.shape, dims) == 0:
        correction = max(correction, 0)  # none have no variance, whatever they are divided by
    if count(input.shape, dims) - correction <= 0:
        warn_user(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the "
            f"reduction factor (input numel divided by output numel): {correction} of "
            f"{count(input.shape, dims)}."
        )
    x = input.to(float32) if input.dtype.is_half else input
    out = record(x, dims=dims, keepdim=keepdim, correction=float(correction))
    return (out.to(input.dtype) if input.dtype.is_half else out), dims


@public(method=True, out=True)
def var(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> Tensor:
    """The variance over `dim`: squared distance from the mean over (N - correction).

    >>> import adjoint as ad
    >>> ad.tensor([1.0, 2.0, 6.0]).var()
    tensor(7.)
    """
    return _moments("var", VAR, input, dim, unbiased, keepdim, correction)[0]


@public(method=True, out=True)
def std(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> Tensor:
    """The standard deviation over `dim`: the root of the variance.

    Example:
        >>> import adjoint as ad
        >>> ad.tensor([1.0, 2.0, 3.0]).std()
        tensor(1.)
    """
    return _moments("std", STD, input, dim, unbiased, keepdim, correction)[0]


@public()
def var_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> tuple[Tensor, Tensor]:
    """The variance and the mean over `dim`."""
    spread, dims = _moments("var_mean", VAR, input, dim, unbiased, keepdim, correction)
    return spread, input.mean(dims, keepdim)


@public()
def std_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> tuple[Tensor, Tensor]:
    """The standard deviation and the mean over `dim`."""
    spread, dims = _moments("std_mean", STD, input, dim, unbiased, keepdim, correction)
    return spread, input.mean(dims, keepdim)
