"""Reductions over runs of positions along a dimension, each as long as one says."""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.errors import DTypeError, ShapeError
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.spec import wrap_dim
from adjoint.engine.ops.elementwise.condition import WHERE

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

# What a run of nothing gives.
EMPTY = {"sum": 0.0, "mean": nan, "max": -inf, "min": inf, "prod": 1.0}
# The reduction by places that computes each.
BY_PLACE = {"sum": "sum", "mean": "sum", "max": "amax", "min": "amin", "prod": "prod"}


def _lengths(data: Tensor, lengths: Tensor | None, offsets: Tensor | None, axis: int) -> Tensor:
    """How long each run is, from what was given."""
    if lengths is None and offsets is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    given = lengths if lengths is not None else offsets
    assert given is not None
    if given.dtype.is_inexact or given.dtype.name not in ("int32", "int64"):
        raise DTypeError(
            f"segment_reduce: lengths and offsets must be int32 or int64, received "
            f"{given.dtype.name}"
        )
    if tuple(given.shape[:-1]) != tuple(data.shape[:axis]) or given.ndim != axis + 1:
        raise ShapeError(
            f"segment_reduce: expected one row of lengths for each of {tuple(data.shape[:axis])}, "
            f"received {tuple(given.shape)}"
        )
    return given if lengths is not None else given.diff(dim=-1)


def _check_lengths(lengths: Tensor, size: int, whole: bool) -> None:
    if lengths.numel() and bool(lengths.lt(0).any()):
        raise RuntimeError("segment_reduce(): lengths contains negative value!")
    sums = lengths.sum(-1)
    if bool(sums.ne(size).any() if whole else sums.gt(size).any()):
        raise RuntimeError(
            "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(axis), "
            f"which is {size}."
        )


def _runs_of(data: Tensor, lengths: Tensor, axis: int) -> Tensor:
    """Of every element, the number of its run along the axis."""
    size = data.shape[axis]
    # Of every position, the number of its run: how many runs have ended there.
    ends = lengths.cumsum(-1).unsqueeze(-2)  # (..., 1, runs)
    at = ends.new_zeros((size,)).add(1).cumsum(0).sub(1).unsqueeze(-1)  # (size, 1)
    run = ends.le(at).sum(-1)  # (..., size); `runs` where a position belongs to none
    behind = data.ndim - axis - 1
    return run.reshape((*run.shape, *(1,) * behind)).expand(data.shape)


def _by_place(data: Tensor, reduce: str, place: Tensor, runs: int, axis: int) -> Tensor:
    """The reduction of each run; of a run of nothing, what `EMPTY` says, and 0 for a mean."""
    start = 0.0 if reduce == "mean" else EMPTY[reduce]
    shape = (*data.shape[:axis], runs + 1, *data.shape[axis + 1 :])
    base = data.new_full(shape, start)
    kind = BY_PLACE[reduce]
    out = base.scatter_reduce(axis, place, data, kind, include_self=kind in ("sum", "prod"))
    return out.narrow(axis, 0, runs)


def _reduced(data: Tensor, reduce: str, lengths: Tensor, axis: int) -> Tensor:
    """`_by_place`, with PyTorch's gradients at NaNs.

    NaNs share the gradient of an extreme as equal elements do, and a single NaN's gradient in a
    product is the product of the others: both are found apart from the numbers.
    """
    place, runs = _runs_of(data, lengths, axis), lengths.shape[-1]
    if BY_PLACE[reduce] == "sum":
        return _by_place(data, reduce, place, runs, axis)
    missing = data.isnan()
    numbers = data.masked_fill(missing, 1.0 if reduce == "prod" else 0.0)
    out = _by_place(numbers, reduce, place, runs, axis)
    count = _by_place(missing.to(data.dtype), "sum", place, runs, axis)
    nans = _by_place(WHERE(missing, data, 0.0), "sum", place, runs, axis)
    if reduce == "prod":
        return out * ((nans + count.eq(0)) * WHERE(count.gt(1), nan, 1.0).to(data.dtype))
    return WHERE(count.gt(0), nans / count.clamp_min(1), out)


def _with_initial(out: Tensor, reduce: str, initial: float) -> Tensor:
    """Each result together with one more element; a tie leaves the derivative as it is."""
    if reduce in ("max", "min"):
        first = out.ge(initial) if reduce == "max" else out.le(initial)
        return WHERE(first.logical_or(out.isnan()), out, initial)
    return out * initial if reduce == "prod" else out + initial


@public(out=True, aliases=("_segment_reduce",))
def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> Tensor:
    """The sum, mean, max, min or product of each run of positions along `axis`.

    Args:
        data: what is reduced.
        reduce: "sum", "mean", "max" (or "amax"), "min" (or "amin") or "prod".
        lengths: how long each run is, a row for each index of the dimensions before `axis`.
        indices: refused, as PyTorch refuses it.
        offsets: where each run begins, and the last ends, instead of lengths.
        axis: the dimension.
        unsafe: do not check that the lengths cover the dimension.
        initial: an element that belongs to every run.

    Example:
        >>> import adjoint as ad
        >>> ad.segment_reduce(ad.arange(5.0), "sum", lengths=ad.tensor([2, 0, 3]))
        tensor([1., 0., 9.])
    """
    reduce = {"amax": "max", "amin": "min"}.get(reduce, reduce)
    if reduce not in EMPTY:
        raise RuntimeError(f"segment_reduce(): unsupported reduce {reduce!r}, use {list(EMPTY)}")
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    if not data.dtype.is_floating_point:
        raise DTypeError(f"segment_reduce: not implemented for {data.dtype.name}")
    d = wrap_dim("segment_reduce", axis, data.ndim)
    counts = _lengths(data, lengths, offsets, d)
    if offsets is not None and lengths is None:
        first = offsets.narrow(-1, 0, 1)
        if first.numel() and bool(first.ne(0).any()):
            raise RuntimeError("segment_reduce(): offsets must begin with 0")
        _check_lengths(counts, data.shape[d], whole=False)
    elif not unsafe:
        _check_lengths(counts, data.shape[d], whole=True)
    out = _reduced(data, reduce, counts, d)
    if initial is not None:
        out = _with_initial(out, reduce, float(initial))
    if reduce != "mean":
        return out
    behind = (1,) * (data.ndim - d - 1)
    count = counts.reshape((*counts.shape, *behind))
    empty = nan if initial is None else float(initial)
    return WHERE(count.eq(0), empty, out / count.clamp_min(1).to(data.dtype))
