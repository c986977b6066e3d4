"""Kernels in CUDA C for what CuPy does in many launches: searches, counts, keys of order."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy as np

Array = Any
SHARED = 8192  # counts that a block keeps to itself, in 32 bits
THREADS, BLOCKS = 512, 512


@lru_cache(maxsize=1)
def _bisecting(xp: Any) -> Any:
    return xp.ElementwiseKernel(
        "raw T sequence, T value, int64 length, int64 columns, bool right, bool nan_last",
        "int64 place",
        """
        long long row = columns ? i / columns * length : 0, low = 0, high = length;
        while (low < high) {
            long long middle = (low + high) >> 1;
            T probe = sequence[row + middle];
            bool later;
            if (!nan_last) later = right ? !(probe > value) : !(probe >= value);
            else if (right) later = !(value < probe || (probe != probe && value == value));
            else later = probe < value || (value != value && probe == probe);
            if (later) low = middle + 1; else high = middle;
        }
        place = low;
        """,
        "adjoint_bisect",
    )


def bisect(xp: Any, sequence: Array, values: Array, right: bool, *, nan_last: bool) -> Array:
    """Where values go in sorted rows, which are those of `sequence`, or in its only one.

    With `nan_last` a NaN of the sequence comes after all numbers; else it is before them.
    """
    common = np.result_type(sequence.dtype, values.dtype)
    rows, wanted = (xp.ascontiguousarray(x.astype(common, copy=False)) for x in (sequence, values))
    columns = wanted.shape[-1] if rows.ndim > 1 else 0
    places = xp.empty(wanted.shape, np.int64)
    if wanted.size:
        _bisecting(xp)(rows, wanted, rows.shape[-1], columns, right, nan_last, places)
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


@cache
def _keys(xp: Any, kind: str) -> Any:
    """Whole numbers in the order of elements: NaN above all, both zeros the same."""
    text = {
        "f": "int k = __float_as_int(x); k ^= (k >> 31) & 0x7fffffff;",
        "d": "long long k = __double_as_longlong(x); k ^= (k >> 63) & 0x7fffffffffffffffLL;",
    }.get(kind, "T k = x;")
    if kind in "fd":
        most = "0x7fffffff" if kind == "f" else "0x7fffffffffffffffLL"
        text += f"if (x == 0) k = 0; if (x != x) k = {most};"
    of = {"f": "int32", "d": "int64"}.get(kind, "T")
    return xp.ElementwiseKernel(
        "T x, bool down", f"{of} key", f"{text} key = down ? ~k : k;", f"adjoint_keys_{kind}"
    )


def order(xp: Any, line: Array, descending: bool) -> Array:
    """Places of all elements, which are one line, in their order; equal ones as they come.

    CuPy's sort of whole numbers goes by their digits, and is stable.
    """
    flat = xp.ascontiguousarray(line).reshape(-1)
    flat = flat.view(np.uint8) if flat.dtype == bool else flat
    if flat.dtype.kind == "f" or descending:
        flat = _keys(xp, flat.dtype.char)(flat, descending)
    return xp.argsort(flat).astype(np.int64, copy=False).reshape(line.shape)
