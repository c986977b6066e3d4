"""Softmax, its logarithm and the logarithm of its denominator: composites with stable rules."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import DType, as_dtype, get_default_dtype
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.reductions import Dims
from adjoint.engine.core.spec import Spec, wrap_dim
from adjoint.engine.ops.nn.common import widen
from adjoint.engine.ops.reduce.reduction import SUM, all_dims, restore

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _softmax(x: Tensor, dim: int) -> Tensor:
    wide = widen(x)  # halves are rounded once, at the end
    e = (wide - wide.detach().amax(dim, keepdim=True)).exp()
    return (e / e.sum(dim, keepdim=True)).to(x.dtype)


def _softmax_vjp(g: Tensor, out: Tensor, dim: int) -> Tensor:
    wide, y = widen(g), widen(out)
    return (y * (wide - (wide * y).sum(dim, keepdim=True))).to(out.dtype)


def _log_softmax(x: Tensor, dim: int) -> Tensor:
    shifted = x - x.detach().amax(dim, keepdim=True)
    return shifted - shifted.exp().sum(dim, keepdim=True).log()


SOFTMAX = composite(
    "softmax",
    _softmax,
    _softmax_vjp,
    keeps_layout=True,
    infer_specs=lambda x, dim: x if x.dtype.is_floating_point else None,
    fragment="composed",
)
LOG_SOFTMAX = composite(
    "log_softmax",
    _log_softmax,
    lambda g, out, dim: g - out.exp() * g.sum(dim, keepdim=True),
    keeps_layout=True,
    infer_specs=lambda x, dim: x if x.dtype.is_floating_point else None,
    fragment="composed",
)


def _normalised(name: str, record: Any, input: Tensor, dim: Any, dtype: DType | None) -> Tensor:
    shape, kind = input._array.shape, input.dtype
    d = wrap_dim(name, dim, len(shape))
    x = input if input.is_contiguous() else input.contiguous()  # as PyTorch's results lie
    if dtype is not None and dtype is not kind:
        kind = as_dtype(name, dtype)
        x = x.to(kind)
    if not kind.is_floating_point:
        raise NotImplementedError(
            f"{name}: not implemented for {kind.name}. Pass dtype=, or convert the input."
        )
    if 0 in shape:
        return x.clone()
    if kind.is_half and record is not SOFTMAX:  # one rounding, at the end
        return _normalised(name, record, x.float(), dim, None).to(kind)
    return record(x, dim=d) if shape else record(x.reshape(1), dim=0).reshape(())


@public(method=True, out=True)
def softmax(input: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """exp(x) normalised to sum to one along `dim`.

    >>> import adjoint as ad
    >>> ad.softmax(ad.zeros(2), 0)
    tensor([0.5000, 0.5000])
    """
    return _normalised("softmax", SOFTMAX, input, dim, dtype)


@public(method=True, out=True)
def log_softmax(input: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """The logarithm of softmax along `dim`.

    Example:
        >>> import adjoint as ad
        >>> ad.log_softmax(ad.tensor([0.0, 0.0]), dim=0)
        tensor([-0.6931, -0.6931])
    """
    return _normalised("log_softmax", LOG_SOFTMAX, input, dim, dtype)


def _logsumexp(x: Tensor, dims: Dims, keepdim: bool) -> Tensor:
    if 0 in x.shape:
        return SUM(x.exp(), dims=dims, keepdim=keepdim).log()
    size = x.detach().real if x.dtype.is_complex else x.detach()
    top = size.amax(dims or (), keepdim=True) if x.ndim else size
    top = top.masked_fill(top.isinf(), 0)
    total = SUM((x - top).exp(), dims=dims, keepdim=keepdim).log()
    return total + (top if keepdim else top.reshape(total.shape))


def _logsumexp_vjp(
    g: Tensor, x: Tensor, out: Tensor, x_spec: Spec, dims: Dims, keepdim: bool
) -> Tensor:
    total = restore(out, x_spec, dims, keepdim)
    return restore(g, x_spec, dims, keepdim) * (x - total).exp().conj()


LOGSUMEXP = composite(
    "logsumexp",
    _logsumexp,
    _logsumexp_vjp,
    fragment="composed",
    flops=lambda shapes, out: prod(shapes[0]),
    in_any_order=True,
)


@public(method=True, out=True)
def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """The logarithm of the sum of exponentials over `dim`, without overflow.

    >>> import adjoint as ad
    >>> ad.logsumexp(ad.tensor([1000.0, 1000.0]), 0)
    tensor(1000.6932)
    """
    dims = all_dims("logsumexp", dim, input.ndim)
    x = input if input.dtype.is_inexact else input.to(get_default_dtype())
    if x.dtype.is_half:
        return LOGSUMEXP(x.float(), dims=dims, keepdim=keepdim).to(x.dtype)
    return LOGSUMEXP(x, dims=dims, keepdim=keepdim)
