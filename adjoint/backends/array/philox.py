"""Philox 4x32-10 in whole-array integer operations.

A block's four words are kept as two 64-bit words, a = c0 << 32 | c1 and b = c2 << 32 | c3: a round
then is one 64-bit product, two shifts and two exclusive-ors on both at once. The stream of 64-bit
words is a0 b0 a1 b1 ...; the stream of 32-bit words is the low, then the high half of each.

(Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3. SC 2011.)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

Array = Any
M0, M1 = 0xD2511F53, 0xCD9E8D57
W0, W1 = 0x9E3779B9, 0xBB67AE85
LOW = 0xFFFFFFFF
ROUNDS = 10
# Blocks at a time: for NumPy what stays in cache, for a GPU what keeps temporaries moderate.
CHUNK = {"numpy": 16384, "cupy": 1 << 24}
FEW = 8  # blocks that Python's own integers make faster than array operations
_U64 = np.uint64


@lru_cache(maxsize=64)
def keys_of(seed: int) -> list[tuple[int, int]]:
    """The round keys."""
    k0, k1 = seed & LOW, seed >> 32
    return [((k0 + r * W0) & LOW, (k1 + r * W1) & LOW) for r in range(ROUNDS)]


@lru_cache(maxsize=64)
def _constants(xp: Any, place: int, seed: int) -> tuple[Array, Array, tuple[Array, ...]]:
    """The shift, the multipliers and the round keys as arrays; `place` numbers the device.

    Arrays, because converting a scalar adds 0.5 us to each ufunc call.
    """
    table = [[M1, M0], *([k0 << 32, k1 << 32] for k0, k1 in keys_of(seed))]
    columns = xp.asarray(np.array(table, _U64).reshape(-1, 2, 1))
    return xp.asarray(np.array(32, _U64)), columns[0], tuple(columns[1:])


def _place(xp: Any) -> int:
    return 0 if xp is np else int(xp.cuda.runtime.getDevice())


def block(seed: int, c0: int, c1: int, c2: int, c3: int) -> tuple[int, int]:
    """One block in Python integers: the reference."""
    for k0, k1 in keys_of(seed):
        p, q = c0 * M0, c2 * M1
        c0, c1, c2, c3 = (q >> 32) ^ c1 ^ k0, q & LOW, (p >> 32) ^ c3 ^ k1, p & LOW
    return c0 << 32 | c1, c2 << 32 | c3


def rounds(xp: Any, seed: int, state: Array, done: int = 0) -> Array:
    """The rounds after the first `done` on a (2, n) state of 64-bit words, in place."""
    shift, multipliers, keys = _constants(xp, _place(xp), seed)
    product = xp.empty_like(state)
    swapped = state[::-1]
    for key in keys[done:]:
        xp.right_shift(swapped, shift, out=product)
        xp.multiply(product, multipliers, out=product)
        xp.left_shift(state, shift, out=state)
        xp.bitwise_xor(state, product, out=state)
        xp.bitwise_xor(state, key, out=state)
    return state


def scattered(xp: Any, seed: int, counters: Array, retry: int) -> Array:
    """Blocks at any counters (uint64) of a retry, as a (2, n) array of 64-bit words."""
    state = xp.empty((2, counters.size), _U64)
    state[0] = (counters << 32) | (counters >> 32)
    state[1] = retry << 32
    return rounds(xp, seed, state)


def consecutive(xp: Any, seed: int, start: int, count: int) -> Array:
    """Blocks start, start + 1, ... whose counters share their upper 32 bits, as (2, n)."""
    low, high = start & LOW, start >> 32
    if count <= FEW and xp is np:
        made = [block(seed, low + i, high, 0, 0) for i in range(count)]
        return np.array(made, _U64).T
    # Two rounds simplified: c1, c2 and c3 are the same for all blocks.
    (j0, j1), (k0, k1) = keys_of(seed)[:2]
    shift = _constants(xp, _place(xp), seed)[0]
    state = xp.empty((2, count), _U64)
    a, b = state
    xp.multiply(xp.arange(low, low + count, dtype=_U64), _U64(M0), out=b)
    xp.bitwise_xor(b, _U64(j1 << 32), out=b)
    xp.right_shift(b, shift, out=a)
    xp.multiply(a, _U64(M1), out=a)
    xp.bitwise_xor(a, _U64(k0 << 32), out=a)
    xp.left_shift(b, shift, out=b)
    xp.bitwise_xor(b, _U64(((high ^ j0) * M0) ^ (k1 << 32)), out=b)
    return rounds(xp, seed, state, done=2)


def words(xp: Any, seed: int, offset: int, count: int, size: int) -> Iterator[tuple[int, Array]]:
    """`count` words of `size` (32 or 64) bits from a block on: (position, words) in chunks."""
    per_block = 128 // size
    chunk = CHUNK[xp.__name__]
    done = 0
    while done < count:
        start = (offset + done // per_block) & ((1 << 64) - 1)
        blocks = min(chunk, -(-(count - done) // per_block), (LOW + 1) - (start & LOW))
        state = consecutive(xp, seed, start, blocks)
        stream = xp.empty(2 * blocks, _U64)
        stream[0::2], stream[1::2] = state  # five times as fast as copying the transpose
        if size == 32:
            stream = stream.view(np.uint32)
        taken = min(stream.size, count - done)
        yield done, stream[:taken]
        done += taken
