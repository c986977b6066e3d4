"""One long line put in order on a GPU, in one launch, digit by digit.

Note [digits]
    An element's *key* is a number without sign in the order of the elements: NaN above all, both
    zeros the same, all bits turned round where the order falls. From the lowest to the highest,
    keys are put in the order of each digit of eight bits; equal digits stay as they were, so what
    comes out is the stable order. In one round every block counts the digits of its part, then
    each digit's counts are summed over the blocks, then elements go to their places: by way of
    shared memory, so that neighbours are written together, key and place as one (apart, they are a
    sixth slower). Between the three all blocks meet, and so the launch is a cooperative one: all
    blocks run at once, or none. A digit that is the same in all keys costs its counting alone
    (random words for permutations have such digits).

    The elements themselves are written beside their places where they are asked for: a key is
    turned back into the bits it was made of, but for NaN and zeros, which have one key for several
    and are read again.

    Within a tile the elements of a warp have places one after another. A thread's rank is the
    number of those of its digit in the warp's earlier rows, which the warp counts, and of threads
    before it that vote for the same eight bits.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from adjoint.engine.backends.array.gpu.driver import PackedLaunch
from adjoint.engine.backends.array.table import on_device
from adjoint.engine.tensor.tensor import DTYPE_OF

Array = Any
THREADS = 512  # of a block; at least as many as there are digits
HELD = 1 << 15  # bytes of the keys and places of a tile
GATE = 256  # bytes of the number that blocks meet by
KEPT = 256  # lengths of lines whose sizes are known
LONGEST = 1 << 32  # elements whose places are numbers of 32 bits
LONG_OF_WIDE = 1 << 21  # whole numbers of 64 bits, of which CuPy's sort does more sooner
WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}
UNSIGNED, SIGNED, REAL = range(3)
ELEMENTS = {  # by dtype: the kind, and bytes
    "bool": (UNSIGNED, 1), "uint8": (UNSIGNED, 1), "uint16": (UNSIGNED, 2), "uint32": (UNSIGNED, 4),
    "uint64": (UNSIGNED, 8), "int8": (SIGNED, 1), "int16": (SIGNED, 2), "int32": (SIGNED, 4),
    "int64": (SIGNED, 8), "float16": (REAL, 2), "bfloat16": (REAL, 2), "float32": (REAL, 4),
    "float64": (REAL, 8),
}  # fmt: skip
INFINITE = {  # its bits; what is above it without the sign is NaN
    "float16": 0x7C00, "bfloat16": 0x7F80, "float32": 0x7F800000, "float64": 0x7FF0000000000000,
}  # fmt: skip
# The key of a word's bits, and whether they are a number. Bits are compared, since subnormal floats
# are zeros to CuPy's kernels.
KEYS = {
    UNSIGNED: "(key)x",
    SIGNED: "(key)x ^ TOP",
    REAL: "(x & ~TOP & MOST) > INFINITE ? MOST : !(x & ~TOP & MOST) ? TOP : x & TOP ? ~x & MOST "
    ": x | TOP",
}
# The word of a key k, which item `one` has.
TAKEN = {
    UNSIGNED: "(word)k",
    SIGNED: "(word)(k ^ TOP)",
    REAL: "k == MOST || k == TOP ? x[one.y] : (word)(k & TOP ? k ^ TOP : ~k & MOST)",
}
IS_NUMBER = {UNSIGNED: "true", SIGNED: "true", REAL: "(x & ~TOP & MOST) <= INFINITE"}

SOURCE = r"""
typedef unsigned int u32;
typedef WORD word;
typedef KEY key;
#define DIGITS 256
#define WARPS (THREADS / 32)
#define TILE (THREADS * ITEMS)
#define ALL 0xffffffffu
typedef PAIR item;  // a key, and the place of its element

__device__ __forceinline__ key key_of(word x)
{
    key k = MADE;
    return DOWN ? ~k & MOST : k;
}

__device__ __forceinline__ word word_of(item one, const word* x)
{
    const key k = DOWN ? ~one.x & MOST : one.x;
    return TAKEN;
}

__device__ __forceinline__ bool is_number(word x) { return NUMBER; }

// Before the first round there are elements alone.
__device__ __forceinline__ item fetched(const word* x, const item* from, long long i)
{
    if (from) return __ldcg(from + i);
    item made;
    made.x = key_of(x[i]);
    made.y = (key)i;
    return made;
}

__device__ __forceinline__ u32 digit_of(item one, int shift) { return (u32)(one.x >> shift) & 255; }

// All blocks wait for each other, and see what was written before.
__device__ void meet(u32* gate, u32 arrivals)
{
    __syncthreads();
    if (!threadIdx.x) {
        __threadfence();
        atomicAdd(gate, 1u);
        while (*(volatile u32*)gate < arrivals);
        __threadfence();
    }
    __syncthreads();
}

// The sum of a thread's number and of those of threads of its warp before it.
__device__ __forceinline__ u32 summed_in_warp(u32 own)
{
    u32 sum = own;
    for (int step = 1; step < 32; step *= 2) {
        const u32 other = __shfl_up_sync(ALL, sum, step);
        if ((threadIdx.x & 31) >= step) sum += other;
    }
    return sum;
}

// The same of all threads of its block.
__device__ u32 summed(u32 own, u32* sums)
{
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const u32 sum = summed_in_warp(own);
    u32 before = 0;
    __syncthreads();
    if (lane == 31) sums[warp] = sum;
    __syncthreads();
    for (int w = 0; w < warp; w++) before += sums[w];
    return before + sum;
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) adjoint_order(
    const word* x, long long n, item* one, item* other, u32* counts, u32* gate, long long* out,
    word* values)
{
    __shared__ item held[TILE];
    __shared__ unsigned short within[WARPS][DIGITS];  // of a digit, in earlier rows or warps
    __shared__ u32 first[DIGITS], base[DIGITS], sums[WARPS];
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    const u32 blocks = gridDim.x;
    u32* totals = counts + DIGITS * blocks;
    u32 meetings = 0;
    const long long tiles = (n + TILE - 1) / TILE, each = (tiles + blocks - 1) / blocks;
    const long long begin = blockIdx.x * each * TILE;
    const long long end = begin + each * TILE < n ? begin + each * TILE : n;
    const item* from = 0;
    for (int round = 0; round < ROUNDS; round++) {
        const int shift = 8 * round;
        if (t < DIGITS) base[t] = 0;
        __syncthreads();
        for (long long i = begin + t; i < end; i += THREADS)
            atomicAdd(&base[digit_of(fetched(x, from, i), shift)], 1u);
        __syncthreads();
        if (t < DIGITS) counts[t * blocks + blockIdx.x] = base[t];
        meet(gate, blocks * ++meetings);
        for (u32 digit = blockIdx.x + blocks * warp; digit < DIGITS; digit += blocks * WARPS) {
            u32 before = 0;
            for (u32 start = 0; start < blocks; start += 32) {
                const u32 at = start + lane;
                const u32 own = at < blocks ? __ldcg(counts + digit * blocks + at) : 0;
                const u32 sum = summed_in_warp(own);
                if (at < blocks) counts[digit * blocks + at] = before + sum - own;
                before += __shfl_sync(ALL, sum, 31);
            }
            if (!lane) totals[digit] = before;
        }
        meet(gate, blocks * ++meetings);
        const u32 own = t < DIGITS ? __ldcg(totals + t) : 0;
        if (__syncthreads_or(t < DIGITS && own == (u32)n)) continue;
        const u32 sum = summed(own, sums);
        if (t < DIGITS) base[t] = sum - own + __ldcg(counts + t * blocks + blockIdx.x);
        item* to = from == one ? other : one;
        const bool last = round == ROUNDS - 1;
        for (long long tile = begin; tile < end; tile += TILE) {
            item mine[ITEMS];
            u32 rank[ITEMS];
            for (int d = lane; d < DIGITS; d += 32) within[warp][d] = 0;
            __syncwarp();
            const long long row = tile + warp * 32 * ITEMS + lane;
            #pragma unroll
            for (int k = 0; k < ITEMS; k++)
                if (row + k * 32 < end) mine[k] = fetched(x, from, row + k * 32);
            #pragma unroll
            for (int k = 0; k < ITEMS; k++) {
                const bool is = row + k * 32 < end;
                const u32 digit = is ? digit_of(mine[k], shift) : 0;
                u32 same = __ballot_sync(ALL, is);
                #pragma unroll
                for (int bit = 0; bit < 8; bit++) {
                    const bool set = digit >> bit & 1;
                    const u32 votes = __ballot_sync(ALL, set);
                    same &= set ? votes : ~votes;
                }
                const u32 lower = same & ((1u << lane) - 1), before = within[warp][digit];
                rank[k] = before + __popc(lower);
                __syncwarp();
                if (is && !lower) within[warp][digit] = before + __popc(same);
                __syncwarp();
            }
            __syncthreads();
            u32 here = 0;
            if (t < DIGITS)
                for (int w = 0; w < WARPS; w++) {
                    const u32 count = within[w][t];
                    within[w][t] = here;
                    here += count;
                }
            const u32 upto = summed(here, sums);
            if (t < DIGITS) first[t] = upto - here;
            __syncthreads();
            #pragma unroll
            for (int k = 0; k < ITEMS; k++)
                if (row + k * 32 < end) {
                    const u32 digit = digit_of(mine[k], shift);
                    held[first[digit] + within[warp][digit] + rank[k]] = mine[k];
                }
            __syncthreads();
            const int count = end - tile < TILE ? end - tile : TILE;
            for (int j = t; j < count; j += THREADS) {
                const item moved = held[j];
                const u32 digit = digit_of(moved, shift), at = base[digit] + j - first[digit];
                if (!last) { to[at] = moved; continue; }
                out[at] = moved.y;
                if (values) values[at] = word_of(moved, x);
            }
            __syncthreads();
            if (t < DIGITS) base[t] += here;
        }
        if (last) return;
        from = to;
        meet(gate, blocks * ++meetings);
    }
    for (long long i = begin + t; i < end; i += THREADS) {
        const item found = fetched(x, from, i);
        out[i] = found.y;
        if (values) values[i] = word_of(found, x);
    }
}

// Of a line in order, its median and where it is, one block: numbers come before all NaN.
extern "C" __global__ void adjoint_middle(
    const word* x, const long long* order, long long n, bool omit, long long* place, word* found)
{
    long long low = 0, high = n;  // the first NaN, if any, is from here to there
    while (low < high) {
        const long long step = (high - low + THREADS - 1) / THREADS;
        const long long probe = low + threadIdx.x * step;
        bool number = false;
        if (probe < high) {
            number = is_number(x[order[probe]]);
        }
        const int count = __syncthreads_count(number);
        const long long next = low + count * step;
        if (next < high) high = next;
        if (count) low = next - step + 1; else high = low;
    }
    const long long numbers = low;
    long long rank = (n - 1) / 2;
    if (numbers < n) rank = !omit ? numbers : numbers ? (numbers - 1) / 2 : 0;
    if (!threadIdx.x) *found = x[*place = order[rank]];
}
"""


def source(dtype: str, descending: bool) -> str:
    """The text of the kernels for elements of a dtype, which are read as words of as many bits."""
    kind, size = ELEMENTS[dtype]
    wide, bits = size == 8, 8 * size
    text = SOURCE
    for name, meaning in (
        ("MADE", KEYS[kind]), ("TAKEN", TAKEN[kind]), ("NUMBER", IS_NUMBER[kind]),
        ("WORD", WORDS[size]), ("ROUNDS", size),
        ("KEY", WORDS[8 if wide else 4]), ("PAIR", "ulonglong2" if wide else "uint2"),
        ("DOWN", int(descending)),
        ("INFINITE", f"(key){INFINITE.get(dtype, 0):#x}"),
        ("MOST", f"(key){(1 << bits) - 1:#x}"), ("TOP", f"(key){1 << (bits - 1):#x}"),
        ("THREADS", THREADS), ("ITEMS", HELD // (16 if wide else 8) // THREADS),
    ):  # fmt: skip
        text = text.replace(name, str(meaning))
    return text


class LineSort:
    """The kernels for elements of one kind, in one order, on the current GPU."""

    def __init__(self, xp: Any, dtype: str, descending: bool) -> None:
        self.xp, self.rounds = xp, ELEMENTS[dtype][1]
        self.item = 16 if self.rounds == 8 else 8
        self.known: dict[int, tuple[int, int, int, int]] = {}  # sizes, by elements
        module = xp.RawModule(code=source(dtype, descending))
        function, middle = (
            module.get_function(f"adjoint_{name}").kernel for name in ("order", "middle")
        )
        cuda = xp.cuda
        blocks = cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(function.ptr, THREADS, 0)
        self.most = blocks * cuda.Device().attributes["MultiProcessorCount"]
        self.order = PackedLaunch(cuda, function, THREADS, "PqPPPPPP", cooperative=True)
        self.choose = PackedLaunch(cuda, middle, THREADS, "PPq?PP")

    def sizes(self, n: int) -> tuple[int, int, int, int]:
        """Of a line of n: blocks, and bytes of counts, of keys with places, and of all of it."""
        known = self.known.get(n)
        if known is None:
            tiles = -(-n // (HELD // self.item))
            blocks = -(-tiles // -(-tiles // self.most))
            counts, once = GATE + 4 * 256 * (blocks + 1), n * self.item
            once += -once % 16
            known = blocks, counts, once, counts + once * min(self.rounds - 1, 2)
            if len(self.known) >= KEPT:
                self.known.clear()
            self.known[n] = known
        return known

    def launch(self, line: Array, room: int, out: int, values: int) -> None:
        """Write places, and values unless that is 0, to addresses, by way of some memory."""
        n = line.size
        blocks, counts, once, _ = self.sizes(n)
        cuda = self.xp.cuda
        cuda.runtime.memsetAsync(room, 0, GATE, cuda.get_current_stream().ptr)
        keys = room + counts
        self.order(blocks, line.data.ptr, n, keys, keys + once, room + GATE, room, out, values)

    def __call__(self, line: Array, *, with_values: bool = False) -> tuple[Array, Array | None]:
        """Places of a contiguous line's elements in their order, and the elements so."""
        make, n = self.xp.ndarray, line.size
        out = make((n,), np.int64)
        values = make((n,), line.dtype) if with_values else None
        # One piece of memory: where blocks meet, counts, keys and places twice.
        room = make((self.sizes(n)[-1],), np.uint8)
        there = 0 if values is None else values.data.ptr
        self.launch(line, room.data.ptr, out.data.ptr, there)
        return out, values

    def middle(self, line: Array, omit: bool) -> tuple[Array, Array]:
        """The place of a contiguous line's median, and the median; arrays of one."""
        make, n = self.xp.ndarray, line.size
        place, found = make((1,), np.int64), make((1,), line.dtype)
        needed = self.sizes(n)[-1]
        needed += -needed % 8
        room = make((needed + 8 * n,), np.uint8)
        order = room.data.ptr + needed
        self.launch(line, room.data.ptr, order, 0)
        self.choose(1, line.data.ptr, order, n, omit, place.data.ptr, found.data.ptr)
        return place, found


@cache
def _sort_of(xp: Any, device: int, dtype: str, descending: bool) -> LineSort:
    return LineSort(xp, dtype, descending)


def line_sort(xp: Any, line: Array, descending: bool = False) -> LineSort:
    """What sorts lines of the dtype of one that is on the current GPU."""
    return _sort_of(xp, xp.cuda.runtime.getDevice(), DTYPE_OF[line.dtype].name, descending)


def is_line(xp: Any, x: Array, dim: int) -> bool:
    """Whether an array on a GPU is one line of elements that there are kernels for."""
    if not on_device(xp) or not 0 < x.size < LONGEST:
        return False
    if x.dtype.kind in "iu" and x.dtype.itemsize == 8 and x.size > LONG_OF_WIDE:
        return False
    return bool(x.size == x.shape[dim]) and DTYPE_OF[x.dtype].name in ELEMENTS


def order(xp: Any, x: Array, descending: bool = False) -> Array:
    """Places of a line's elements in their order, equal ones as they come."""
    line = xp.ascontiguousarray(x).reshape(-1)
    return line_sort(xp, line, descending)(line)[0].reshape(x.shape)


def ordered(xp: Any, x: Array, descending: bool = False) -> tuple[Array, Array]:
    """A line's elements in their order, and their places."""
    line = xp.ascontiguousarray(x).reshape(-1)
    at, values = line_sort(xp, line, descending)(line, with_values=True)
    assert values is not None
    return (values, at) if x.ndim == 1 else (values.reshape(x.shape), at.reshape(x.shape))


def middle(xp: Any, x: Array, omit: bool) -> tuple[Array, Array]:
    """Where a line's median is, and the median: of its numbers, or the first NaN there is."""
    line = xp.ascontiguousarray(x).reshape(-1)
    return line_sort(xp, line).middle(line, omit)
