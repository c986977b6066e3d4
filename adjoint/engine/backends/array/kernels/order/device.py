"""Kernels in CUDA C for what CuPy does in many launches: searches and counts."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from adjoint.engine.backends.array.gpu.driver import PackedLaunch, kernels_of
from adjoint.engine.backends.array.gpu.waited import WaitedNumbers
from adjoint.engine.backends.array.kernels.order.choosing import WORDS

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
    extern __shared__ __align__(16) unsigned char room[];
    unsigned int* part = (unsigned int*)room;
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


@lru_cache(maxsize=32)
def _counting(xp: Any, device: int, kind: str, find: str, layout: str) -> PackedLaunch:
    given = f", {kind} low, {kind} high" if find is BETWEEN else ""
    text = COUNT.replace("FIND", find).replace("GIVEN", given).replace("KIND", kind)
    return kernels_of(xp, text, ("adjoint_count", THREADS, f"PqqiP{layout}"))[0]


def _counted(xp: Any, x: Array, bins: int, kind: str, find: str, *given: Any) -> Array:
    counts = xp.zeros(bins, np.int64)
    if x.size and bins:
        own = bins <= SHARED
        layout = x.dtype.char * len(given)
        kernel = _counting(xp, xp.cuda.runtime.getDevice(), kind, find, layout)
        blocks = min(BLOCKS, -(-x.size // THREADS))
        words = x.data.ptr, x.size, bins, own, counts.data.ptr, *map(float, given)
        kernel(blocks, *words, shared=4 * bins if own else 0)
    return counts


def count(xp: Any, places: Array, bins: int) -> Array:
    """How often each number from 0 to `bins` occurs; others are not counted."""
    places = xp.ascontiguousarray(places.astype(np.int64, copy=False))
    return _counted(xp, places, bins, "long long", AS_IT_IS)


def count_between(xp: Any, x: Array, low: Any, high: Any, bins: int) -> Array:
    """How many elements of float32 or float64 are in each of equal bins between two numbers."""
    return _counted(xp, xp.ascontiguousarray(x), bins, KINDS[x.dtype.char], BETWEEN, low, high)


WEIGH = r"""
typedef REAL real;
extern "C" __global__ void adjoint_weigh(
    const long long* x, const real* weights, long long n, long long bins, int own, double* sums)
{
    extern __shared__ __align__(16) unsigned char room[];
    double* part = (double*)room;
    double* into = own ? part : sums;
    if (own) {
        for (long long k = threadIdx.x; k < bins; k += blockDim.x) part[k] = 0;
        __syncthreads();
    }
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        if (x[i] >= 0 && x[i] < bins) atomicAdd(&into[x[i]], (double)weights[i]);
    if (own) {
        __syncthreads();
        for (long long k = threadIdx.x; k < bins; k += blockDim.x)
            if (part[k] != 0) atomicAdd(&sums[k], part[k]);
    }
}
"""


@lru_cache(maxsize=8)
def _weighing(xp: Any, device: int, kind: str) -> PackedLaunch:
    return kernels_of(xp, WEIGH.replace("REAL", kind), ("adjoint_weigh", THREADS, "PPqqiP"))[0]


def weigh(xp: Any, places: Array, weights: Array, bins: int) -> Array:
    """The sums in float64 of each number's weights, which come in no particular order."""
    places = xp.ascontiguousarray(places.astype(np.int64, copy=False))
    weights = xp.ascontiguousarray(weights)
    sums = xp.zeros(bins, np.float64)
    if places.size and bins:
        own = 2 * bins <= SHARED
        kernel = _weighing(xp, xp.cuda.runtime.getDevice(), KINDS[weights.dtype.char])
        blocks = min(BLOCKS, -(-places.size // THREADS))
        words = places.data.ptr, weights.data.ptr, places.size, bins, own, sums.data.ptr
        kernel(blocks, *words, shared=8 * bins if own else 0)
    return sums


# The least and the greatest, or NaN twice where there is one. Blocks' own are given once more to
# one block, whose results the host reads.
EXTREMES = r"""
typedef WORD word;
extern "C" __global__ void __launch_bounds__(THREADS) adjoint_extremes(
    const word* x, long long n, int apart, word* out)
{
    __shared__ word lows[THREADS], highs[THREADS];
    const int t = threadIdx.x;
    const long long step = (long long)gridDim.x * THREADS;
    const long long begin = (long long)blockIdx.x * THREADS + t;
    word low = x[begin < n ? begin : 0], high = low;
    for (long long i = begin + step; i < n; i += step) {
        const word y = x[i];
        if (y < low || y != y) low = y;
        if (y > high || y != y) high = y;
    }
    lows[t] = low;
    highs[t] = high;
    for (int other = THREADS / 2; other; other /= 2) {
        __syncthreads();
        if (t >= other) continue;
        const word y = lows[t + other], z = highs[t + other];
        if (y < lows[t] || y != y) lows[t] = y;
        if (z > highs[t] || z != z) highs[t] = z;
    }
    if (t) return;
    out[2ll * blockIdx.x * apart] = lows[0];
    out[2ll * blockIdx.x * apart + apart] = highs[0];
}
"""
FEW = 1 << 14  # elements that one block goes through


@lru_cache(maxsize=64)
def _extremes(xp: Any, device: int, word: str) -> PackedLaunch:
    text = EXTREMES.replace("WORD", word).replace("THREADS", str(THREADS))
    return kernels_of(xp, text, ("adjoint_extremes", THREADS, "PqiP"))[0]


def extremes(xp: Any, x: Array) -> tuple[Any, Any]:
    """The least and the greatest element of some, NaN where there is one; the host waits for it."""
    x = xp.ascontiguousarray(x)
    size = x.itemsize
    launch = _extremes(xp, xp.cuda.runtime.getDevice(), WORDS[x.dtype.char])
    told = WaitedNumbers(xp)
    place, count = x.data.ptr, x.size
    if count > FEW:
        blocks = min(BLOCKS, -(-count // FEW) * 8)
        parts = xp.ndarray((2 * blocks,), x.dtype)
        launch(blocks, place, count, 1, parts.data.ptr)
        place, count = parts.data.ptr, 2 * blocks
    launch(1, place, count, 8 // size, told.address)
    found = np.frombuffer(told.wait(), x.dtype)
    return found[0], found[8 // size]
