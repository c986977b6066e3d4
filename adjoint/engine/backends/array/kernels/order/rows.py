"""Rows in the order of their elements, on a GPU: sorted in pieces, which are merged two by two.

Rows stay where they are, only their places move. Of two rows the first element in which they are
apart decides; NaN comes last, and of two NaN, as of rows that are the same, the one that stands
first. So no two rows are alike, and any sort gives the stable order.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from adjoint.engine.backends.array.gpu.driver import PackedLaunch, kernels_of
from adjoint.engine.backends.array.kernels.order.choosing import WORDS

Array = Any
PIECE = 1024  # rows that a block sorts, by half as many threads
THREADS = 256  # of a block that merges or compares
MOST = 1 << 31  # rows, and elements of one

SOURCE = r"""
typedef unsigned int u32;
typedef WORD word;
#define NONE 0xffffffffu

__device__ bool before(const word* x, int width, u32 a, u32 b)
{
    const word* p = x + (long long)a * width;
    const word* q = x + (long long)b * width;
    for (int k = 0; k < width; k++) {
        const word s = p[k], t = q[k];
        if (s < t) return true;
        if (s > t) return false;
        if (s != t) {  // a NaN, or two
            const bool one = s != s, other = t != t;
            return one == other ? a < b : other;
        }
    }
    return a < b;
}

// A piece by exchanges.
extern "C" __global__ void __launch_bounds__(PIECE / 2) adjoint_sort_rows(
    const word* x, int n, int width, u32* order)
{
    __shared__ u32 held[PIECE];
    const u32 start = blockIdx.x * PIECE, t = threadIdx.x;
    for (u32 k = t; k < PIECE; k += PIECE / 2) held[k] = start + k < n ? start + k : NONE;
    for (u32 size = 2; size <= PIECE; size *= 2)
        for (u32 apart = size / 2; apart; apart /= 2) {
            __syncthreads();
            const u32 i = 2 * t - (t & (apart - 1)), j = i + apart;
            const u32 a = held[i], b = held[j];
            const bool turned = b != NONE && (a == NONE || before(x, width, b, a));
            if (turned == !(i & size)) { held[i] = b; held[j] = a; }
        }
    __syncthreads();
    for (u32 k = t; k < PIECE; k += PIECE / 2) if (start + k < n) order[start + k] = held[k];
}

// Sorted runs become runs of twice the length: of each row, how many of the other run come before.
extern "C" __global__ void __launch_bounds__(THREADS) adjoint_merge_rows(
    const word* x, int n, int width, int run, const u32* from, u32* to)
{
    const long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    const long long pair = i / (2ll * run) * (2ll * run);
    const long long middle = pair + run < n ? pair + run : n;
    const long long end = middle + run < n ? middle + run : n;
    const u32 mine = from[i];
    const bool first = i < middle;
    long long low = first ? middle : pair, high = first ? end : middle;
    const long long begin = low;
    while (low < high) {
        const long long probe = (low + high) >> 1;
        if (before(x, width, from[probe], mine)) low = probe + 1; else high = probe;
    }
    to[pair + (i - (first ? pair : middle)) + (low - begin)] = mine;
}

extern "C" __global__ void __launch_bounds__(THREADS) adjoint_rows_differ(
    const word* x, int n, int width, const u32* order, unsigned char* fresh)
{
    const long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    bool differ = !i;
    if (i) {
        const word* p = x + (order ? order[i] : i) * width;
        const word* q = x + (order ? order[i - 1] : i - 1) * width;
        for (int k = 0; k < width && !differ; k++) differ = p[k] != q[k];
    }
    fresh[i] = differ;
}
"""


@cache
def _kernels(xp: Any, device: int, word: str) -> tuple[PackedLaunch, ...]:
    text = SOURCE
    for name, meaning in (("WORD", word), ("PIECE", PIECE), ("THREADS", THREADS)):
        text = text.replace(name, str(meaning))
    return kernels_of(
        xp, text, ("adjoint_sort_rows", PIECE // 2, "PiiP"),
        ("adjoint_merge_rows", THREADS, "PiiiPP"), ("adjoint_rows_differ", THREADS, "PiiPP"),
    )  # fmt: skip


def are_for_kernels(rows: Array) -> bool:
    """Whether there are kernels for rows, of which there is one."""
    return bool(rows.dtype.char in WORDS and max(rows.shape) < MOST and rows.size)


def ordered(xp: Any, rows: Array) -> Array:
    """Places of contiguous rows in their order, as numbers of 32 bits without sign."""
    sort, merge, _ = _kernels(xp, xp.cuda.runtime.getDevice(), WORDS[rows.dtype.char])
    n, width = rows.shape
    order = xp.ndarray((n,), np.uint32)
    sort(-(-n // PIECE), rows.data.ptr, n, width, order.data.ptr)
    if n > PIECE:
        other, run = xp.ndarray((n,), np.uint32), PIECE
        while run < n:
            merge(-(-n // THREADS), rows.data.ptr, n, width, run, order.data.ptr, other.data.ptr)
            order, other, run = other, order, 2 * run
    return order


def that_differ(xp: Any, rows: Array, order: Array | None = None) -> Array:
    """Which contiguous rows, in an order, are not the same as the one before; the first is not."""
    n, width = rows.shape
    fresh = xp.ndarray((n,), np.uint8)
    differ = _kernels(xp, xp.cuda.runtime.getDevice(), WORDS[rows.dtype.char])[2]
    there = 0 if order is None else order.data.ptr
    differ(-(-n // THREADS), rows.data.ptr, n, width, there, fresh.data.ptr)
    return fresh
