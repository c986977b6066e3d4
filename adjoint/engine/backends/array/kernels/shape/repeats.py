"""Which element each place of repetitions shows, by kernels in CUDA C: the host waits once.

Blocks add up the counts of their pieces, one block adds up these and tells the host how many there
are, and whether a count is below zero. Then each block writes the places of its piece, which lie
beside each other, and looks in shared memory whose they are.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from adjoint.engine.backends.array.gpu.driver import PackedLaunch, kernels_of
from adjoint.engine.backends.array.gpu.waited import WaitedNumbers

Array = Any
THREADS = 256  # of a block, and counts of its piece
SCAN = 1024  # threads that add up pieces
WORDS = {"l": "long long", "q": "long long", "i": "int"}

SOURCE = r"""
typedef WORD word;
typedef long long wide;

// The sum of a thread's number and of those of threads before it.
__device__ wide summed(wide own, wide* sums, int threads)
{
    sums[threadIdx.x] = own;
    __syncthreads();
    for (int step = 1; step < threads; step *= 2) {
        const wide other = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
        __syncthreads();
        sums[threadIdx.x] += other;
        __syncthreads();
    }
    return sums[threadIdx.x];
}

extern "C" __global__ void adjoint_count_repeats(const word* counts, wide n, wide* starts)
{
    __shared__ wide sums[THREADS];
    const wide i = (wide)blockIdx.x * THREADS + threadIdx.x;
    const wide own = i < n ? counts[i] : 0;
    const int negative = __syncthreads_or(own < 0);
    const wide all = summed(own, sums, THREADS);
    if (threadIdx.x == THREADS - 1) starts[blockIdx.x] = negative ? -1 : all;
}

// One block: pieces' sums become where they begin.
extern "C" __global__ void adjoint_place_repeats(wide* starts, wide pieces, wide* told)
{
    __shared__ wide sums[SCAN];
    wide before = 0;
    int negative = 0;
    for (wide first = 0; first < pieces; first += SCAN) {
        const wide at = first + threadIdx.x, own = at < pieces ? starts[at] : 0;
        negative |= __syncthreads_or(own < 0);
        const wide upto = summed(own, sums, SCAN);
        if (at < pieces) starts[at] = before + upto - own;
        before += sums[SCAN - 1];
        __syncthreads();
    }
    if (threadIdx.x) return;
    told[0] = before;
    told[1] = negative;
}

extern "C" __global__ void adjoint_write_repeats(
    const word* counts, wide n, const wide* starts, word* out)
{
    __shared__ wide ends[THREADS];
    const wide piece = (wide)blockIdx.x * THREADS, i = piece + threadIdx.x;
    const wide start = starts[blockIdx.x];
    summed(i < n ? counts[i] : 0, ends, THREADS);
    for (wide k = threadIdx.x; k < ends[THREADS - 1]; k += THREADS) {
        int low = 0, high = THREADS - 1;  // the first that ends behind k
        while (low < high) {
            const int middle = (low + high) / 2;
            if (ends[middle] > k) high = middle; else low = middle + 1;
        }
        out[start + k] = (word)(piece + low);
    }
}
"""


@cache
def _kernels(xp: Any, device: int, word: str) -> tuple[PackedLaunch, ...]:
    text = SOURCE
    for name, meaning in (("WORD", word), ("THREADS", THREADS), ("SCAN", SCAN)):
        text = text.replace(name, str(meaning))
    return kernels_of(
        xp, text, ("adjoint_count_repeats", THREADS, "PqP"),
        ("adjoint_place_repeats", SCAN, "PqP"), ("adjoint_write_repeats", THREADS, "PqPP"),
    )  # fmt: skip


def indices(xp: Any, counts: Array) -> Array | None:
    """Each element's place as often as it says; None where one is below zero."""
    counts = xp.ascontiguousarray(counts)
    n = counts.size
    count, place, write = _kernels(xp, xp.cuda.runtime.getDevice(), WORDS[counts.dtype.char])
    pieces = -(-n // THREADS)
    starts = xp.ndarray((pieces,), np.int64)
    told = WaitedNumbers(xp)
    count(pieces, counts.data.ptr, n, starts.data.ptr)
    place(1, starts.data.ptr, pieces, told.address)
    total, negative = told.wait()[:2]
    if negative:
        return None
    out = xp.empty((total,), counts.dtype)
    if total:
        write(pieces, counts.data.ptr, n, starts.data.ptr, out.data.ptr)
    return out
