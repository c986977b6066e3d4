"""Kernels in CUDA C for what CuPy does in many launches: searches and counts."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

Array = Any
SHARED = 8192  # counts that a block keeps to itself, in 32 bits
THREADS, BLOCKS = 512, 512


@lru_cache(maxsize=1)
def _bisecting(xp: Any) -> Any:
    return xp.ElementwiseKernel(
        "raw T sequence, T value, int64 length, int64 columns, bool right",
        "int64 place",
        """
        long long row = columns ? i / columns * length : 0, low = 0, high = length;
        while (low < high) {
            long long middle = (low + high) >> 1;
            T probe = sequence[row + middle];
            bool later = right ? !(probe > value) : !(probe >= value);
            if (later) low = middle + 1; else high = middle;
        }
        place = low;
        """,
        "adjoint_bisect",
    )


def bisect(xp: Any, sequence: Array, values: Array, right: bool) -> Array:
    """Where values go in sorted rows, which are those of `sequence`, or in its only one.

    A NaN of the sequence is passed by, a NaN among the values goes to the end.
    """
    common = np.result_type(sequence.dtype, values.dtype)
    rows, wanted = (xp.ascontiguousarray(x.astype(common, copy=False)) for x in (sequence, values))
    columns = wanted.shape[-1] if rows.ndim > 1 else 0
    places = xp.empty(wanted.shape, np.int64)
    if wanted.size:
        _bisecting(xp)(rows, wanted, rows.shape[-1], columns, right, places)
    return places.reshape(values.shape)  # the contiguous copy of a number has a dimension


# `FIND` says which bin an element belongs to; what has none is not counted.
COUNT = r"""
extern "C" __global__ void adjoint_count(
    const KIND* x, long long n, long long bins, int own, unsigned long long* counts GIVEN)
{
    extern __shared__ unsigned int part[];
    if (own) {
        for (long long k = threadIdx.x; k < bins; k += blockDim.x) part[k] = 0;
        __syncthreads();
    }
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        FIND
        if (at < 0 || at >= bins) continue;
        if (own) atomicAdd(&part[at], 1u); else atomicAdd(&counts[at], 1ull);
    }
    if (own) {
        __syncthreads();
        for (long long k = threadIdx.x; k < bins; k += blockDim.x)
            if (part[k]) atomicAdd(&counts[k], (unsigned long long)part[k]);
    }
}
"""


AS_IT_IS = "long long at = x[i];"
# Each step in the dtype of x: this is what decides between two bins.
BETWEEN = """
        if (!(x[i] >= low && x[i] <= high)) continue;
        KIND share = x[i] - low;
        share *= (KIND)bins;
        share /= high - low;
        long long at = (long long)share;
        if (at > bins - 1) at = bins - 1;
"""
KINDS = {"f": "float", "d": "double"}


@lru_cache(maxsize=8)
def _counting(xp: Any, kind: str, find: str, given: str) -> Any:
    text = COUNT.replace("FIND", find).replace("GIVEN", given).replace("KIND", kind)
    return xp.RawKernel(text, "adjoint_count")


def _counted(xp: Any, x: Array, bins: int, kernel: Any, *given: Any) -> Array:
    counts = xp.zeros(bins, np.int64)
    if x.size and bins:
        own = bins <= SHARED
        blocks = min(BLOCKS, -(-x.size // THREADS))
        words = (x, np.int64(x.size), np.int64(bins), np.int32(own), counts, *given)
        kernel((blocks,), (THREADS,), words, shared_mem=4 * bins if own else 0)
    return counts


def count(xp: Any, places: Array, bins: int) -> Array:
    """How often each number from 0 to `bins` occurs; others are not counted."""
    places = xp.ascontiguousarray(places.astype(np.int64, copy=False))
    return _counted(xp, places, bins, _counting(xp, "long long", AS_IT_IS, ""))


def count_between(xp: Any, x: Array, low: Any, high: Any, bins: int) -> Array:
    """How many elements of float32 or float64 are in each of equal bins between two numbers."""
    kind = KINDS[x.dtype.char]
    kernel = _counting(xp, kind, BETWEEN, f", {kind} low, {kind} high")
    return _counted(xp, xp.ascontiguousarray(x), bins, kernel, low, high)
