"""Kernels in CUDA C that choose elements in order: where they are not zero, where they differ.

How many there are is known after two launches, that of counting in pieces and that of adding up
the counts. The host waits for that number alone; one more launch puts each element in its place.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from adjoint.engine.backends.array.gpu.driver import PackedLaunch, kernels_of
from adjoint.engine.backends.array.gpu.waited import WaitedNumbers

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

// One block: where the elements of each piece go, and how many there are, which the host is told.
extern "C" __global__ void adjoint_add_counts(
    const unsigned int* counts, long long pieces, long long* starts, long long* told)
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
    if (!threadIdx.x) *told = before;
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
    xp: Any, device: int, word: str, chosen: str, given: str, put: str, also: str = ""
) -> tuple[PackedLaunch, ...]:
    """The three kernels on a device; `given` is what the last one is given besides."""
    text = SOURCE
    for name, meaning in (
        ("WORD", word), ("CHOSEN", chosen), ("GIVEN", given), ("PUT", put), ("ALSO", also),
        ("PIECE", PIECE), ("THREADS", THREADS), ("ITEMS", ITEMS), ("SCAN", SCAN),
    ):  # fmt: skip
        text = text.replace(name, str(meaning))
    more = "".join("P" if "*" in one else "q" for one in given.split(",")[1:])
    return kernels_of(
        xp, text, ("adjoint_count_chosen", THREADS, "PqP"),
        ("adjoint_add_counts", SCAN, "PqPP"), ("adjoint_put_chosen", THREADS, f"PqPq{more}"),
    )  # fmt: skip


class Chosen:
    """Elements of a contiguous array that were counted, and are yet to be put in their places.

    The words are those of `_kernels`.
    """

    def __init__(self, xp: Any, x: Array, size: int, *words: str) -> None:
        count, add, self.put = _kernels(xp, xp.cuda.runtime.getDevice(), *words)
        self.x, self.size, self.pieces = x, size, -(-size // PIECE)
        # Where each piece begins, and how many elements of it are chosen.
        self.room = xp.ndarray((12 * self.pieces,), np.uint8)
        starts = self.room.data.ptr
        counts = starts + 8 * self.pieces
        told = WaitedNumbers(xp)
        count(self.pieces, x.data.ptr, size, counts)
        add(1, counts, self.pieces, starts, told.address)
        self.count = int(told.wait()[0])

    def place(self, *given: Any) -> None:
        """Launch what puts them in their places: given arrays and whole numbers."""
        words = [x if isinstance(x, int) else x.data.ptr for x in given]
        self.put(self.pieces, self.x.data.ptr, self.size, self.room.data.ptr, self.count, *words)


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
    chosen = Chosen(
        xp, xp.ascontiguousarray(x), x.size,
        MOVED[size],
        " || ".join(shown.format(place) for place in places),
        ", " + ", ".join([*(f"long long n{d}" for d in range(rank)), "long long* out"]),
        " ".join(["long long rest = i;", *reversed(by_dimension)]),
    )  # fmt: skip
    out = xp.empty((rank, chosen.count), np.int64)
    if chosen.count:
        chosen.place(*x.shape, out)
    return out


DIFFERS = "i == 0 || x[i] != x[i - 1]"


def distinct(xp: Any, ordered: Array) -> Array:
    """The elements of a contiguous vector that differ from the one before."""
    if not ordered.size:
        return ordered
    words = WORDS[ordered.dtype.char], DIFFERS, ", word* out", "out[at] = x[i];"
    chosen = Chosen(xp, ordered, ordered.size, *words)
    out = xp.empty(chosen.count, ordered.dtype)
    chosen.place(out)
    return out


# How long each run is: where the next one begins less where it begins.
LENGTHS = (
    "atomicAdd(lengths + at, (unsigned long long)-i); "
    "if (at) atomicAdd(lengths + at - 1, (unsigned long long)i);"
)
LAST = "if (i == n - 1) atomicAdd(lengths + at - !chosen, (unsigned long long)n);"


def runs(xp: Any, ordered: Array, order: Array | None = None) -> tuple[Array, Array, Array]:
    """Of a vector: elements that differ from the one before, which of them each is, how many are.

    `order` is where the elements of a sorted vector were.
    """
    moved = order is not None
    chosen = Chosen(
        xp, ordered, ordered.size, WORDS[ordered.dtype.char], DIFFERS,
        f"{ORDER if moved else ''}, word* out, unsigned long long* lengths, long long* inverse",
        f"out[at] = x[i]; {LENGTHS}",
        f"inverse[{'order[i]' if moved else 'i'}] = at - !chosen; {LAST}",
    )  # fmt: skip
    out, lengths = xp.empty(chosen.count, ordered.dtype), xp.zeros(chosen.count, np.int64)
    inverse = xp.empty(ordered.size, np.int64)
    chosen.place(*([order] if moved else []), out, lengths, inverse)
    return out, inverse, lengths


ORDER = ", const long long* order"


def marked_runs(xp: Any, fresh: Array, order: Array | None) -> tuple[Array, Array, Array]:
    """Where runs begin that are marked, which of them each is, how long they are.

    `order`, places of 32 bits, is where the marked elements were. The first one begins a run.
    """
    place = "i" if order is None else "order[i]"
    chosen = Chosen(
        xp, fresh, fresh.size, "unsigned char", "x[i]",
        f"{'' if order is None else ', const unsigned int* order'}, long long* first, "
        "unsigned long long* lengths, long long* inverse",
        f"first[at] = {place}; {LENGTHS}", f"inverse[{place}] = at - !chosen; {LAST}",
    )  # fmt: skip
    first, lengths = xp.empty(chosen.count, np.int64), xp.zeros(chosen.count, np.int64)
    inverse = xp.empty(fresh.size, np.int64)
    chosen.place(*([] if order is None else [order]), first, lengths, inverse)
    return first, inverse, lengths


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
    given = f", const {moved}* given, {moved}* out"
    chosen = Chosen(xp, mask, mask.size, "unsigned char", "x[i]", given, "out[at] = given[i];")
    out = xp.empty(chosen.count, x.dtype)
    if chosen.count:
        chosen.place(x, out)
    return out
