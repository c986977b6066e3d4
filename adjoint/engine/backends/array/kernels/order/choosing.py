"""Kernels in CUDA C that choose elements in order: where they are not zero, where they differ.

How many there are is known after two launches, that of counting in pieces and that of adding up
the counts. The host waits for that number alone; one more launch puts each element in its place.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

Array = Any
THREADS, ITEMS = 512, 8  # of a block; elements that one of its threads looks at
PIECE = THREADS * ITEMS
SCAN = 1024  # threads that add up counts
WORDS = {
    "?": "bool", "b": "signed char", "B": "unsigned char", "h": "short", "H": "unsigned short",
    "i": "int", "I": "unsigned int", "l": "long long", "L": "unsigned long long",
    "q": "long long", "Q": "unsigned long long", "f": "float", "d": "double",
}  # fmt: skip

SOURCE = r"""
typedef WORD word;
#define MINE ((long long)blockIdx.x * PIECE + k * THREADS + threadIdx.x)

extern "C" __global__ void adjoint_count_chosen(
    const word* x, long long n, unsigned int* counts)
{
    unsigned int all = 0;
    for (int k = 0; k < ITEMS; k++) {
        long long i = MINE;
        all += __syncthreads_count(i < n && (CHOSEN));
    }
    if (!threadIdx.x) counts[blockIdx.x] = all;
}

// One block: where the elements of each piece go, and how many there are.
extern "C" __global__ void adjoint_add_counts(
    const unsigned int* counts, long long pieces, long long* starts)
{
    __shared__ long long sums[SCAN];
    long long before = 0;
    for (long long first = 0; first < pieces; first += SCAN) {
        long long at = first + threadIdx.x, own = at < pieces ? counts[at] : 0;
        sums[threadIdx.x] = own;
        __syncthreads();
        for (int step = 1; step < SCAN; step *= 2) {
            long long other = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
            __syncthreads();
            sums[threadIdx.x] += other;
            __syncthreads();
        }
        if (at < pieces) starts[at] = before + sums[threadIdx.x] - own;
        before += sums[SCAN - 1];
        __syncthreads();
    }
    if (!threadIdx.x) starts[pieces] = before;
}

extern "C" __global__ void adjoint_put_chosen(
    const word* x, long long n, const long long* starts, long long count GIVEN)
{
    __shared__ unsigned int warps[THREADS / 32];
    long long base = starts[blockIdx.x];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (int k = 0; k < ITEMS; k++) {
        long long i = MINE;
        bool chosen = i < n && (CHOSEN);
        unsigned int same = __ballot_sync(0xffffffffu, chosen);
        if (!lane) warps[warp] = __popc(same);
        __syncthreads();
        unsigned int before = __popc(same & ((1u << lane) - 1)), all = 0;
        for (int w = 0; w < THREADS / 32; w++) {
            if (w < warp) before += warps[w];
            all += warps[w];
        }
        long long at = base + before;
        if (chosen) { PUT }
        if (i < n) { ALSO }
        base += all;
        __syncthreads();
    }
}
"""


@lru_cache(maxsize=64)
def _kernels(
    xp: Any, word: str, chosen: str, given: str, put: str, also: str = ""
) -> tuple[Any, Any, Any]:
    text = SOURCE
    for name, meaning in (
        ("WORD", word), ("CHOSEN", chosen), ("GIVEN", given), ("PUT", put), ("ALSO", also),
        ("PIECE", PIECE), ("THREADS", THREADS), ("ITEMS", ITEMS), ("SCAN", SCAN),
    ):  # fmt: skip
        text = text.replace(name, str(meaning))
    module = xp.RawModule(code=text)
    names = "adjoint_count_chosen", "adjoint_add_counts", "adjoint_put_chosen"
    return tuple(module.get_function(name) for name in names)


class Chosen:
    """Elements of a contiguous array that were counted, and are yet to be put in their places."""

    def __init__(self, xp: Any, x: Array, size: int, kernels: tuple[Any, Any, Any]) -> None:
        self.x, self.size, self.put = x, np.int64(size), kernels[2]
        self.pieces = -(-size // PIECE)
        counts = xp.empty(self.pieces, np.uint32)
        self.starts = xp.empty(self.pieces + 1, np.int64)
        kernels[0]((self.pieces,), (THREADS,), (x, self.size, counts))
        kernels[1]((1,), (SCAN,), (counts, np.int64(self.pieces), self.starts))
        self.count = int(self.starts[-1])

    def place(self, *given: Any) -> None:
        """Launch what puts them in their places."""
        words = (self.x, self.size, self.starts, np.int64(self.count), *given)
        self.put((self.pieces,), (THREADS,), words)


def nonzero(xp: Any, x: Array) -> Array:
    """The coordinates of elements that are not zero, a row of these for each dimension."""
    rank = x.ndim
    if not x.size:
        return xp.empty((rank, 0), np.int64)
    parts = 2 if x.dtype.kind == "c" else 1
    size = x.dtype.itemsize // parts
    # All bits but a float's sign.
    shown = "(word)({} << 1)" if x.dtype.kind not in "?biu" else "{}"
    places = ["x[i]"] if parts == 1 else ["x[2 * i]", "x[2 * i + 1]"]
    by_dimension = [f"out[{d} * count + at] = rest % n{d}; rest /= n{d};" for d in range(rank)]
    kernels = _kernels(
        xp,
        MOVED[size],
        " || ".join(shown.format(place) for place in places),
        ", " + ", ".join([*(f"long long n{d}" for d in range(rank)), "long long* out"]),
        " ".join(["long long rest = i;", *reversed(by_dimension)]),
    )
    chosen = Chosen(xp, xp.ascontiguousarray(x), x.size, kernels)
    out = xp.empty((rank, chosen.count), np.int64)
    if chosen.count:
        chosen.place(*map(np.int64, x.shape), out)
    return out


DIFFERS = "i == 0 || x[i] != x[i - 1]"


def distinct(xp: Any, ordered: Array) -> Array:
    """The elements of a sorted vector, each once."""
    if not ordered.size:
        return ordered
    kernels = _kernels(xp, WORDS[ordered.dtype.char], DIFFERS, ", word* out", "out[at] = x[i];")
    chosen = Chosen(xp, ordered, ordered.size, kernels)
    out = xp.empty(chosen.count, ordered.dtype)
    chosen.place(out)
    return out


def runs(xp: Any, ordered: Array, order: Array | None = None) -> tuple[Array, Array, Array]:
    """Of a vector: elements that differ from the one before, which of them each is, how many are.

    `order` is where the elements of a sorted vector were.
    """
    moved = order is not None
    kernels = _kernels(
        xp, WORDS[ordered.dtype.char], DIFFERS,
        f"{ORDER if moved else ''}, word* out, long long* first, long long* inverse",
        "out[at] = x[i]; first[at] = i;",
        f"inverse[{'order[i]' if moved else 'i'}] = at - !chosen;",
    )  # fmt: skip
    chosen = Chosen(xp, ordered, ordered.size, kernels)
    out, first = xp.empty(chosen.count, ordered.dtype), xp.empty(chosen.count + 1, np.int64)
    first[-1] = ordered.size
    inverse = xp.empty(ordered.size, np.int64)
    chosen.place(*([order] if moved else []), out, first, inverse)
    return out, inverse, xp.diff(first)


ORDER = ", const long long* order"
MOVED = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}


def masked(xp: Any, x: Array, mask: Array) -> Array | None:
    """The elements where a mask holds; None where the two do not lie in rows, element by element.

    How many there are is waited for, but no positions are written and read again.
    """
    moved = MOVED.get(x.dtype.itemsize)
    plain = moved is not None and x.dtype.names is None and mask.dtype.char == "?"
    if not plain or x.shape != mask.shape or not x.size:
        return None
    if not (x.flags.c_contiguous and mask.flags.c_contiguous):
        return None
    kernels = _kernels(
        xp, "unsigned char", "x[i]", f", const {moved}* given, {moved}* out", "out[at] = given[i];"
    )
    chosen = Chosen(xp, mask, mask.size, kernels)
    out = xp.empty(chosen.count, x.dtype)
    if chosen.count:
        chosen.place(x, out)
    return out
