"""Philox 4x32-10 in whole-array integer operations.

A block's four words are kept as two 64-bit words, a = c0 << 32 | c1 and b = c2 << 32 | c3: a round
then is one 64-bit product, two shifts and two exclusive-ors on both at once. The stream of 64-bit
words is a0 b0 a1 b1 ...; the stream of 32-bit words is the low, then the high half of each.

(Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3. SC 2011.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

Array = Any
M0, M1 = 0xD2511F53, 0xCD9E8D57
W0, W1 = 0x9E3779B9, 0xBB67AE85
LOW = 0xFFFFFFFF
ROUNDS = 10
# Blocks at a time: for NumPy what stays in cache, for a GPU what keeps temporaries moderate.
CHUNK = {"numpy": 8192, "cupy": 1 << 24}
_U64 = np.uint64
_SHIFT = np.array(32, _U64)  # 0-d arrays: converting a scalar costs a ufunc call 0.5 us


def keys_of(seed: int) -> list[tuple[int, int]]:
    """The round keys."""
    k0, k1 = seed & LOW, seed >> 32
    return [((k0 + r * W0) & LOW, (k1 + r * W1) & LOW) for r in range(ROUNDS)]


def _column(xp: Any, a: int, b: int) -> Array:
    return xp.asarray(np.array([[a], [b]], _U64))


def _finish(xp: Any, state: Array, keys: list[tuple[int, int]]) -> Array:
    """The rounds of `keys` on a (2, n) state of 64-bit words, in place."""
    product = xp.empty_like(state)
    multipliers = _column(xp, M1, M0)
    shift = xp.asarray(_SHIFT)
    swapped = state[::-1]
    for k0, k1 in keys:
        xp.right_shift(swapped, shift, out=product)
        xp.multiply(product, multipliers, out=product)
        xp.left_shift(state, shift, out=state)
        xp.bitwise_xor(state, product, out=state)
        xp.bitwise_xor(state, _column(xp, k0 << 32, k1 << 32), out=state)
    return state


def scattered(xp: Any, seed: int, counters: Array, retry: int) -> Array:
    """Blocks at any counters (uint64) of a retry, as a (2, n) array of 64-bit words."""
    state = xp.empty((2, counters.size), _U64)
    state[0] = (counters << 32) | (counters >> 32)
    state[1] = retry << 32
    return _finish(xp, state, keys_of(seed))


def consecutive(xp: Any, seed: int, start: int, count: int) -> Array:
    """Blocks start, start + 1, ... whose counters share their upper 32 bits, as (2, n).

    The first two rounds are simplified: c1, c2 and c3 are the same for all blocks.
    """
    keys = keys_of(seed)
    (j0, j1), (k0, k1) = keys[:2]
    state = xp.empty((2, count), _U64)
    a, b = state
    shift = xp.asarray(_SHIFT)
    counters = xp.arange(start & LOW, (start & LOW) + count, dtype=_U64)
    xp.multiply(counters, xp.asarray(np.array(M0, _U64)), out=b)
    xp.bitwise_xor(b, xp.asarray(np.array(j1 << 32, _U64)), out=b)
    first = (start >> 32) ^ j0
    xp.right_shift(b, shift, out=a)
    xp.multiply(a, xp.asarray(np.array(M1, _U64)), out=a)
    xp.bitwise_xor(a, xp.asarray(np.array(k0 << 32, _U64)), out=a)
    xp.left_shift(b, shift, out=b)
    xp.bitwise_xor(b, xp.asarray(np.array((first * M0) ^ (k1 << 32), _U64)), out=b)
    return _finish(xp, state, keys[2:])


def words(xp: Any, seed: int, offset: int, count: int, size: int) -> Iterator[tuple[int, Array]]:
    """`count` words of `size` (32 or 64) bits from a block on: (position, words) in chunks."""
    per_block = 128 // size
    chunk = CHUNK[xp.__name__]
    done = 0
    while done < count:
        start = (offset + done // per_block) & ((1 << 64) - 1)
        blocks = min(chunk, -(-(count - done) // per_block), (LOW + 1) - (start & LOW))
        state = consecutive(xp, seed, start, blocks)
        stream = xp.ascontiguousarray(state.T).reshape(-1)
        if size == 32:
            stream = stream.view(np.uint32)
        taken = min(stream.size, count - done)
        yield done, stream[:taken]
        done += taken
