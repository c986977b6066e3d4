"""Philox 4x32-10 in whole-array integer operations, and as one kernel on a GPU.

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


# Constants are arrays, because converting a scalar adds 0.5 us to each ufunc call.
_SHIFT = np.array(32, _U64)
_MULTIPLIERS = np.array([[M1], [M0]], _U64)


@lru_cache(maxsize=64)
def _key_columns(seed: int) -> tuple[Array, ...]:
    return tuple(np.array([[k0 << 32], [k1 << 32]], _U64) for k0, k1 in keys_of(seed))


def block(seed: int, c0: int, c1: int, c2: int, c3: int) -> tuple[int, int]:
    """One block in Python integers: the reference."""
    for k0, k1 in keys_of(seed):
        p, q = c0 * M0, c2 * M1
        c0, c1, c2, c3 = (q >> 32) ^ c1 ^ k0, q & LOW, (p >> 32) ^ c3 ^ k1, p & LOW
    return c0 << 32 | c1, c2 << 32 | c3


def rounds(seed: int, state: Array, done: int = 0) -> Array:
    """The rounds after the first `done` on a (2, n) NumPy state of 64-bit words, in place."""
    product = np.empty_like(state)
    swapped = state[::-1]
    for key in _key_columns(seed)[done:]:
        np.right_shift(swapped, _SHIFT, out=product)
        np.multiply(product, _MULTIPLIERS, out=product)
        np.left_shift(state, _SHIFT, out=state)
        np.bitwise_xor(state, product, out=state)
        np.bitwise_xor(state, key, out=state)
    return state


def rounds_text(key_low: str, key_high: str, first: str, second: str) -> str:
    """All rounds of a `counter` and a `retry` in CUDA, the words into `first` and `second`."""
    return f"""
    unsigned int c0 = (unsigned int)counter, c1 = (unsigned int)(counter >> 32);
    unsigned int c2 = retry, c3 = 0, x = {key_low}, y = {key_high};
    for (int r = 0; r < {ROUNDS}; r++) {{
        unsigned long long p = {M0}ull * c0, q = {M1}ull * c2;
        c0 = (unsigned int)(q >> 32) ^ c1 ^ x;
        c1 = (unsigned int)q;
        c2 = (unsigned int)(p >> 32) ^ c3 ^ y;
        c3 = (unsigned int)p;
        x += {W0}u;
        y += {W1}u;
    }}
    {first} = (unsigned long long)c0 << 32 | c1;
    {second} = (unsigned long long)c2 << 32 | c3;
"""


@lru_cache(maxsize=1)
def _device_kernel(xp: Any) -> Any:
    """All rounds in one launch where launches are dear: the same integers as `rounds`."""
    return xp.ElementwiseKernel(
        "uint64 counter, uint32 retry, uint32 k0, uint32 k1",
        "uint64 a, uint64 b",
        rounds_text("k0", "k1", "a", "b"),
        "adjoint_philox",
    )


def _on_device(xp: Any, seed: int, counters: Array, retry: int) -> Array:
    if not hasattr(xp, "ElementwiseKernel"):  # a device from outside: by the host
        return xp.asarray(scattered(np, seed, xp.asnumpy(counters), retry))
    state = xp.empty((2, counters.size), _U64)
    key = np.uint32(seed & LOW), np.uint32(seed >> 32)
    _device_kernel(xp)(counters, np.uint32(retry), *key, state[0], state[1])
    return state


def scattered(xp: Any, seed: int, counters: Array, retry: int) -> Array:
    """Blocks at any counters (uint64) of a retry, as a (2, n) array of 64-bit words."""
    if xp is not np:
        return _on_device(xp, seed, counters, retry)
    state = np.empty((2, counters.size), _U64)
    state[0] = (counters << 32) | (counters >> 32)
    state[1] = retry << 32
    return rounds(seed, state)


def consecutive(xp: Any, seed: int, start: int, count: int) -> Array:
    """Blocks start, start + 1, ... whose counters share their upper 32 bits, as (2, n)."""
    if xp is not np:
        return _on_device(xp, seed, xp.arange(count, dtype=_U64) + _U64(start), 0)
    low, high = start & LOW, start >> 32
    if count <= FEW:
        drawn = [block(seed, low + i, high, 0, 0) for i in range(count)]
        return np.array(drawn, _U64).T
    # Two rounds simplified: c1, c2 and c3 are the same for all blocks.
    (j0, j1), (k0, k1) = keys_of(seed)[:2]
    state = np.empty((2, count), _U64)
    a, b = state
    np.multiply(np.arange(low, low + count, dtype=_U64), _U64(M0), out=b)
    np.bitwise_xor(b, _U64(j1 << 32), out=b)
    np.right_shift(b, _SHIFT, out=a)
    np.multiply(a, _U64(M1), out=a)
    np.bitwise_xor(a, _U64(k0 << 32), out=a)
    np.left_shift(b, _SHIFT, out=b)
    np.bitwise_xor(b, _U64(((high ^ j0) * M0) ^ (k1 << 32)), out=b)
    return rounds(seed, state, done=2)


def random_words(
    xp: Any, seed: int, offset: int, count: int, size: int
) -> Iterator[tuple[int, Array]]:
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
