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


COUNT = r"""
extern "C" __global__ void adjoint_count(
    const long long* places, long long n, long long bins, int own, unsigned long long* counts)
{
    extern __shared__ unsigned int part[];
    if (own) {
        for (long long k = threadIdx.x; k < bins; k += blockDim.x) part[k] = 0;
        __syncthreads();
    }
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        long long at = places[i];
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


@lru_cache(maxsize=1)
def _counting(xp: Any) -> Any:
    return xp.RawKernel(COUNT, "adjoint_count")


def count(xp: Any, places: Array, bins: int) -> Array:
    """How often each number from 0 to `bins` occurs; others are not counted."""
    places = xp.ascontiguousarray(places.astype(np.int64, copy=False))
    counts = xp.zeros(bins, np.int64)
    if places.size and bins:
        own = bins <= SHARED
        blocks = min(BLOCKS, -(-places.size // THREADS))
        given = (places, np.int64(places.size), np.int64(bins), np.int32(own), counts)
        _counting(xp)((blocks,), (THREADS,), given, shared_mem=4 * bins if own else 0)
    return counts
