"""Operators that reduce over axes, cumulate, sort and find."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

import adjoint as ad
from adjoint.engine.tensor.tensor import Tensor
from adjoint.onnx.table import NodeCall, operator
from adjoint.onnx.types import Value, integers, number

Reduction = Callable[[Tensor, list[int], bool], Tensor]


def _product(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    for dim in sorted(dims, reverse=True):
        x = ad.prod(x, dim, keepdim=keep)
    return x


def _log_sum(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    return ad.log(ad.sum(x, dims, keepdim=keep))


def _log_sum_exp(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    return ad.logsumexp(x, dims, keepdim=keep)


def _extreme(of: Callable[..., Tensor], empty: Callable[[Tensor], float]) -> Reduction:
    def reduce(x: Tensor, dims: list[int], keep: bool) -> Tensor:
        if any(x.shape[d] == 0 for d in dims):
            shape = [1 if k in dims else d for k, d in enumerate(x.shape) if keep or k not in dims]
            return ad.full(shape, empty(x), dtype=x.dtype)
        if x.dtype is ad.bool:
            return of(x.to(ad.uint8), dims, keepdim=keep).to(ad.bool)
        return of(x, dims, keepdim=keep)

    return reduce


def _least(x: Tensor) -> float:
    return -np.inf if x.is_floating_point() else 0 if x.dtype is ad.bool else ad.iinfo(x.dtype).min


def _largest(x: Tensor) -> float:
    return np.inf if x.is_floating_point() else 1 if x.dtype is ad.bool else ad.iinfo(x.dtype).max


def _mean(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    if x.is_floating_point():
        return ad.mean(x, dims, keepdim=keep)
    count = math.prod(x.shape[d] for d in dims)
    return ad.div(ad.sum(x, dims, keepdim=keep), count, rounding_mode="trunc")


_REDUCTIONS: dict[str, Reduction] = {
    "ReduceSum": lambda x, dims, keep: ad.sum(x, dims, keepdim=keep),
    "ReduceMean": _mean,
    "ReduceProd": _product,
    "ReduceMax": _extreme(ad.amax, _least),
    "ReduceMin": _extreme(ad.amin, _largest),
    "ReduceL1": lambda x, dims, keep: ad.sum(ad.abs(x), dims, keepdim=keep),
    "ReduceL2": lambda x, dims, keep: ad.sqrt(ad.sum(x * x, dims, keepdim=keep)),
    "ReduceSumSquare": lambda x, dims, keep: ad.sum(x * x, dims, keepdim=keep),
    "ReduceLogSum": _log_sum,
    "ReduceLogSumExp": _log_sum_exp,
}


def _enter(name: str, reduction: Reduction) -> None:
    @operator(name)
    def reduce(
        x: Tensor, axes: Value = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Tensor:
        dims = [] if axes is None else [a % x.ndim for a in integers(axes)]
        if not dims and noop_with_empty_axes:
            dims = []
            return reduction(x.unsqueeze(0), [0], False).to(x.dtype)
        dims = dims or list(range(x.ndim))
        if not dims:  # a scalar: over a dimension of one
            return reduction(x.unsqueeze(0), [0], False).to(x.dtype)
        return reduction(x, dims, bool(keepdims)).to(x.dtype)


for _name, _reduction in _REDUCTIONS.items():
    _enter(_name, _reduction)


def _position(of: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def find(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
        if not select_last_index:
            return of(x, axis, keepdim=bool(keepdims))
        return x.shape[axis] - 1 - of(ad.flip(x, [axis]), axis, keepdim=bool(keepdims))

    return find


operator("ArgMax")(_position(ad.argmax))
operator("ArgMin")(_position(ad.argmin))


def _cumulative(of: Callable[..., Tensor], neutral: int) -> Callable[..., Tensor]:
    def cumulate(x: Tensor, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
        dim = int(number(axis))
        x = ad.flip(x, [dim]) if reverse else x
        if exclusive:
            first = ad.full_like(x.narrow(dim, 0, min(1, x.shape[dim])), neutral)
            x = ad.cat([first, x.narrow(dim, 0, max(x.shape[dim] - 1, 0))], dim)
        result = of(x, dim).to(x.dtype)
        return ad.flip(result, [dim]) if reverse else result

    return cumulate


operator("CumSum")(_cumulative(ad.cumsum, 0))
operator("CumProd")(_cumulative(ad.cumprod, 1))


@operator("TopK")
def top_k(
    x: Value, k: Value = None, *, axis: int = -1, largest: int = 1, sorted: int = 1
) -> tuple[Value, Tensor]:
    """The largest, or smallest, so many; the first among equals."""
    count = k if isinstance(k, int) else number(k)
    if isinstance(x, np.ndarray):
        key = np.iinfo(x.dtype).max - x if largest else x  # unsigned: its order is reversed exactly
        order = np.argsort(key, axis=axis, kind="stable").astype(np.int64)
        order = np.take(order, np.arange(count), axis=axis)
        return np.take_along_axis(x, order, axis), ad.tensor(order)
    places = ad.argsort(x, dim=axis, descending=bool(largest), stable=True).narrow(axis, 0, count)
    return ad.take_along_dim(x, places, axis), places


@operator("Unique")
def unique(
    x: Tensor, *, axis: int | None = None, sorted: int = 1, call: NodeCall
) -> tuple[Tensor, ...]:
    """The values that differ, where each is first, which each element is, how often it occurs."""
    array = x.detach().numpy()
    results = np.unique(
        array, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    values, first, inverse, counts = results
    if not sorted:
        order = np.argsort(first)
        back = np.argsort(order)
        values = np.take(values, order, axis or 0)
        first, counts, inverse = first[order], counts[order], back[inverse]
    return tuple(
        ad.tensor(np.ascontiguousarray(v))
        for v in (
            values,
            first.astype(np.int64),
            inverse.ravel().astype(np.int64),
            counts.astype(np.int64),
        )
    )


@operator("NonZero")
def non_zero(x: Tensor) -> Tensor:
    """The places of what is not zero, a row to a dimension."""
    return ad.nonzero(x).transpose(0, 1)


@operator("Hardmax")
def hardmax(x: Tensor, *, axis: int | None = None, call: NodeCall) -> Tensor:
    """One at the first largest element, zero elsewhere."""
    if call.opset < 13:
        return coerced(x, 1 if axis is None else axis, lambda v: _hardmax(v, 1))
    return _hardmax(x, -1 if axis is None else axis)


def _hardmax(x: Tensor, dim: int) -> Tensor:
    places = ad.argmax(x, dim, keepdim=True)
    return ad.zeros_like(x).scatter(dim, places, ad.ones_like(x))


def coerced(x: Tensor, axis: int, function: Callable[[Tensor], Tensor]) -> Tensor:
    """A function of matrices: dimensions before an axis are rows, the others columns."""
    axis = axis % x.ndim
    rows = math.prod(x.shape[:axis])
    return function(x.reshape(rows, -1)).reshape(x.shape)


def _softmax(of: Callable[[Tensor, int], Tensor]) -> Callable[..., Tensor]:
    def apply(x: Tensor, *, axis: int | None = None, call: NodeCall) -> Tensor:
        if call.opset < 13:
            return coerced(x, 1 if axis is None else axis, lambda v: of(v, 1))
        return of(x, -1 if axis is None else axis)

    return apply


operator("Softmax")(_softmax(ad.softmax))
operator("LogSoftmax")(_softmax(ad.log_softmax))


@operator("LpNormalization")
def lp_normalization(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """Each row divided by its norm; zero rows stay zero."""
    size = (
        ad.sum(ad.abs(x), axis, keepdim=True)
        if p == 1
        else ad.sqrt(ad.sum(x * x, axis, keepdim=True))
    )
    return ad.where(size == 0, ad.zeros_like(x), x / ad.where(size == 0, ad.ones_like(size), size))
