"""Elements as keys with their places: what sorting moves around in memory.

A *key* is a number without sign whose order is that of the elements: NaN (of any kind) is the
largest, both zeros are equal. With `descending` all bits are the other way round. An *item* is a
key and where its element was: one word, key above place, or two where keys take 64 bits.
"""

from __future__ import annotations

from dataclasses import dataclass

from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.registers.elementwise import stored_kind
from adjoint.engine.backends.registers.vector import V, is_signed, select, width
from adjoint.engine.core import dtype as dt
from adjoint.engine.core.dtype import DType

Item = tuple[V, ...]
PLACE_BITS = 32  # so a line has fewer elements than 2**32
# The bits of an infinity: what is above them, but for the sign, is NaN.
_INFINITY = {
    dt.float16: 0x7C00, dt.bfloat16: 0x7F80, dt.float32: 0x7F800000, dt.float64: 0x7FF << 52,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Items:
    """How elements of a dtype become items."""

    dtype: DType
    descending: bool

    @property
    def name(self) -> str:
        """For names of kernels."""
        return f"{self.dtype.name}_{'down' if self.descending else 'up'}"

    @property
    def bits(self) -> int:
        """Of a key."""
        return 8 * self.dtype.itemsize

    @property
    def words(self) -> int:
        """Of an item."""
        return 2 if self.bits > PLACE_BITS else 1

    def key(self, x: V) -> V:
        """The key of an element as it lies in memory."""
        bits = width(x.kind)
        u = x.bits(signed=False) if x.is_float else x.bitcast(f"u{bits}")
        top = 1 << (bits - 1)
        if self.dtype.is_inexact:
            size = u & (top - 1)
            spread = (u.bitcast(f"i{bits}") >> (bits - 1)).bitcast(f"u{bits}")
            key = u ^ (spread | top)
            key = select(size.eq(0), u.like(top), key)
            key = select(size > _INFINITY[self.dtype], u.like(-1), key)
        else:
            key = u ^ top if is_signed(x.kind) else u
        return ~key if self.descending else key

    def nan(self, key: V) -> V:
        """Whether a key is a NaN's; never where there are none."""
        if not self.dtype.is_inexact:
            return key.code.const(0, "i1", key.lanes)
        return key.eq(0 if self.descending else -1)

    def load_key(self, w: CodeWriter, base: str, at: V, lanes: int = 1) -> V:
        """The keys of neighbouring elements."""
        return self.key(w.load(base, stored_kind(self.dtype), at, lanes))

    def item(self, key: V, place: V) -> Item:
        """An item."""
        if self.words == 2:
            return key, place.bitcast("u64")
        return ((key.convert("u64") << PLACE_BITS) | place.bitcast("u64"),)

    def load(self, w: CodeWriter, base: str, at: V) -> Item:
        """The item at a place of an array of them."""
        first = at * self.words
        return tuple(w.load(base, "u64", first + k if k else first) for k in range(self.words))

    def store(self, w: CodeWriter, item: Item, base: str, at: V) -> None:
        """Put an item there."""
        first = at * self.words
        for k, x in enumerate(item):
            w.store(x, base, first + k if k else first)

    def place(self, item: Item) -> V:
        """Where an item's element was."""
        last = item[-1].bitcast("i64")
        return last if self.words == 2 else last & ((1 << PLACE_BITS) - 1)

    def shifted(self, item: Item, shift: V) -> V:
        """An item's key without its lowest bits (so many)."""
        low = shift if self.words == 2 else shift + PLACE_BITS
        return item[0] >> low.bitcast("u64")

    def digit(self, item: Item, shift: V) -> V:
        """Eight bits of an item's key, from the bit `shift` on."""
        return (self.shifted(item, shift) & 255).bitcast("i64")
