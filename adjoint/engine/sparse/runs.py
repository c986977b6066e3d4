"""Runs of elements: finding, for each of many keys, all the elements that have it."""

from __future__ import annotations

from adjoint.engine.core.dtype import int64
from adjoint.engine.ops.index.index import INDEX, INDEX_PUT
from adjoint.engine.sparse.coo import refuse_capture
from adjoint.engine.tensor.tensor import Tensor


def counts_of(keys: Tensor, size: int) -> Tensor:
    """How often each number below `size` occurs: (size,)."""
    none = keys.new_zeros((size,), dtype=int64)
    ones = keys.new_ones(keys.shape, dtype=int64)
    return INDEX_PUT(none, ones, keys, dims=(0,), accumulate=True, wrap=False)


def matches(name: str, wanted: Tensor, keys: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """All pairs (i, k) with wanted[i] == keys[k], i in order; keys are below `size`."""
    refuse_capture(name)
    counts = counts_of(keys, size)
    ends = counts.cumsum(0)
    order = keys.argsort(stable=True)
    often = INDEX(counts, wanted, dims=(0,), wrap=False)
    first = INDEX(ends - counts, wanted, dims=(0,), wrap=False)
    left = wanted.new_arange(wanted.shape[0]).repeat_interleave(often)
    run = often.cumsum(0) - often  # where the pairs of each i begin
    within = left.new_arange(left.shape[0]) - INDEX(run, left, dims=(0,))
    return left, INDEX(order, INDEX(first, left, dims=(0,)) + within, dims=(0,))


def groups(name: str, keys: Tensor) -> tuple[Tensor, int]:
    """Equal keys numbered alike from 0 on, and how many different ones there are."""
    refuse_capture(name)
    different, number = keys.unique(return_inverse=True)
    return number, int(different.shape[0])
