"""Philox 4x32-10 in vector code: the words of `array.kernels.random.philox`, bit for bit.

Block k of a stream is the cipher of the counter offset + k under the seed. Its four 32-bit words
c0 c1 c2 c3 make the 64-bit words c0 << 32 | c1 and c2 << 32 | c3; 32-bit words are the low, then
the high half of each: c1 c0 c3 c2.
"""

from __future__ import annotations

from adjoint.engine.backends.array.kernels.random.philox import M0, M1, ROUNDS, W0, W1
from adjoint.engine.backends.registers.vector import V, select, type_text

Block = tuple[V, V, V, V]


def cipher(seed: V, counters: V, retry: V | None = None) -> Block:
    """The four words (u32) of the blocks at given counters (u64); the seed is one u64.

    Each retry (u32) of a counter is a block of its own; none is the first of them.
    """
    code, lanes = counters.code, counters.lanes
    k0, k1 = seed.convert("u32"), (seed >> 32).convert("u32")
    c0, c1 = counters.convert("u32"), (counters >> 32).convert("u32")
    c3 = c0.like(0)
    c2 = c3 if retry is None else retry
    for r in range(ROUNDS):
        x, y = code.splat(k0 + r * W0, lanes), code.splat(k1 + r * W1, lanes)
        p, q = c0.convert("u64") * M0, c2.convert("u64") * M1
        (p_low, p_high), (q_low, q_high) = _halves(p), _halves(q)
        # The key first: it is at hand long before the product, and the chain is what takes time.
        c0, c1 = (c1 ^ x) ^ q_high, q_low
        c2, c3 = (c3 ^ y) ^ p_high, p_low
    return c0, c1, c2, c3


def _halves(x: V) -> tuple[V, V]:
    """The low and the high 32 bits of words of 64.

    Of vectors they are every other element: LLVM would multiply once more for the low ones if
    they were asked for as numbers.
    """
    if x.lanes == 1:
        return x.convert("u32"), (x >> 32).convert("u32")
    code, lanes = x.code, x.lanes
    both = f"<{2 * lanes} x i32>"
    words = code.let(f"bitcast {x.type} {x.ref} to {both}")

    def every_other(first: int) -> V:
        places = ", ".join(f"i32 {k}" for k in range(first, 2 * lanes, 2))
        text = f"shufflevector {both} {words}, {both} poison, <{lanes} x i32> <{places}>"
        return V(code, code.let(text), "u32", lanes)

    return every_other(0), every_other(1)


def scattered(seed: V, counter: V, retry: V) -> tuple[V, V]:
    """The two 64-bit words of the block at any counter, of a retry."""
    first, second = _in_order(64, cipher(seed, counter, retry))
    return first, second


def words_at(bits: int, seed: V, offset: V, index: V) -> V:
    """The words (u32 or u64, by `bits`) at any places of a stream (u64, in lanes).

    Every lane computes a block: `random_words` does so once for the two or four words of each.
    """
    per_block = 128 // bits
    shift = per_block.bit_length() - 1
    start = index.code.splat(offset, index.lanes)
    block = cipher(seed, start + (index >> shift))
    parts = _in_order(bits, block)
    place = index & (per_block - 1)
    out = parts[-1]
    for i in range(per_block - 2, -1, -1):
        out = select(place.eq(i), parts[i], out)
    return out


def random_words(bits: int, seed: V, offset: V, first: V, lanes: int) -> V:
    """The `lanes` words from place `first` on, which must be the first of a block."""
    per_block = 128 // bits
    if lanes < per_block:
        index = first.code.splat(first, lanes) + first.code.iota("u64", lanes)
        return words_at(bits, seed, offset, index)
    count = lanes // per_block
    code = first.code
    start = offset + (first >> (per_block.bit_length() - 1))
    counters = code.splat(start, count)
    if count > 1:
        counters = counters + code.iota("u64", count)
    return _interleaved(_in_order(bits, cipher(seed, counters)))


def _in_order(bits: int, block: Block) -> list[V]:
    c0, c1, c2, c3 = block
    if bits == 32:
        return [c1, c0, c3, c2]
    return [(high.convert("u64") << 32) | low.convert("u64") for high, low in ((c0, c1), (c2, c3))]


def _interleaved(parts: list[V]) -> V:
    """The first lane of each, then the second of each, ..."""
    first = parts[0]
    code, total = first.code, first.lanes * len(parts)
    while len(parts) > 1:  # pairs side by side, then one permutation
        parts = [_joined(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    count = total // first.lanes
    order = [k * first.lanes + i for i in range(first.lanes) for k in range(count)]
    indices = ", ".join(f"i32 {i}" for i in order)
    whole = parts[0]
    text = (
        f"shufflevector {whole.type} {whole.ref}, {whole.type} poison, <{total} x i32> <{indices}>"
    )
    return V(code, code.let(text), whole.kind, total)


def _joined(a: V, b: V) -> V:
    code, lanes = a.code, 2 * a.lanes
    if a.lanes == 1:
        vector = type_text(a.kind, 2)
        one = code.let(f"insertelement {vector} poison, {a.type} {a.ref}, i64 0")
        return V(
            code,
            code.let(f"insertelement {vector} {one}, {b.type} {b.ref}, i64 1"),
            a.kind,
            2,
        )
    indices = ", ".join(f"i32 {i}" for i in range(lanes))
    text = f"shufflevector {a.type} {a.ref}, {b.type} {b.ref}, <{lanes} x i32> <{indices}>"
    return V(code, code.let(text), a.kind, lanes)
