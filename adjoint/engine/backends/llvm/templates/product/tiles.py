"""Tiles: the parts of products that fit in the processor's registers, and how they are made.

Note [tiles]
    All products of matrices, those that convolutions are made of too, end in one microkernel:
    some rows of the first operand, each contiguous along the depth, times a panel of columns of the
    second, in which the columns of one depth lie side by side. A panel may be packed or a part of a
    matrix whose rows are as far apart as they are. On NEON a product by one lane of a vector is one
    instruction, so a vector of each row serves as many turns as it has lanes; elsewhere elements
    are loaded into all lanes at once. Tiles are as wide as sizes are usually multiples of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from adjoint.engine.backends.llvm.ir.machine import machine
from adjoint.engine.backends.llvm.ir.writer import LINE, CodeWriter
from adjoint.engine.backends.registers.vector import V, mad, select, width

FLAT = 256  # bytes of a tile of one row
TALL = 12  # rows of a tile where registers are 32 of 512 bits
_FEW = {2: 8, 4: 4, 9: 3, TALL: 2}  # rows, and vectors of a tile of so few
_HEIGHTS = 6, 8, 9, 11, TALL  # the rows of those that are quick
MOST_FEW = 2 * TALL, 4 * TALL  # rows that count as few: beside any matrix, one that a cache holds
MOST_LASTING = 8  # the same beside one that is packed once for all turns of a loop
AHEAD = 16  # rows of a matrix that is read once are asked for before they are needed


@dataclass(frozen=True, slots=True)
class Tile:
    """What a microkernel holds in registers."""

    lanes: int  # of one vector
    rows: int
    vectors: int  # in a row
    by_lane: bool  # products by one lane of a vector are one instruction (NEON)

    @property
    def columns(self) -> int:
        return self.lanes * self.vectors


def registers() -> tuple[int, int, bool]:
    """(bits of a vector register, how many there are, whether NEON) of the machine written for."""
    made_for = machine()
    return made_for.bits, made_for.registers, made_for.by_lane


# (bits of a register, how many) -> rows and vectors of a tile whose columns lie along the lanes
_OUTER = {(128, 32): (4, 4), (512, 32): (8, 2), (256, 16): (6, 2), (128, 16): (4, 2)}


def outer_tile(kind: str) -> Tile:
    """The tile of products whose columns lie along the lanes."""
    bits, count, by_lane = registers()
    rows, vectors = _OUTER[bits, count]
    return Tile(bits // width(kind), rows, vectors, by_lane)


def has_masks() -> bool:
    """Whether the machine written for loads and stores some lanes of a vector."""
    return machine().masks


def has_wide_registers() -> bool:
    """Whether there are 32 registers of 512 bits, and loads and stores of some of their lanes."""
    return has_masks() and registers()[:2] == (512, 32)


def product_tile(kind: str) -> Tile:
    """The tile of products of matrices: taller where registers are wide (Note [tall tiles])."""
    tile = outer_tile(kind)
    return replace(tile, rows=TALL) if has_wide_registers() else tile


def few_tile(kind: str, rows: int, *, quick: bool = False) -> Tile:
    """The tile of few rows, which meet B where it lies: so wide that its rows are long reads.

    Each height has a text of its own, which takes LLVM as long as forty thousand quick products
    take: so these have few heights, some rows of which may be made again.
    """
    high = -(-rows // -(-rows // TALL))
    if quick and high > 4:
        high = next(height for height in _HEIGHTS if high <= height)
    least = next(height for height in _FEW if high <= height)
    return replace(outer_tile(kind), rows=high if high > 4 else least, vectors=_FEW[least])


def flat_tile(kind: str, columns: int) -> Tile:
    """The tile of products of one row: of a width that divides the columns, where one does."""
    tile = outer_tile(kind)
    most = FLAT * 8 // registers()[0]
    widths = range(most, most // 4 if columns > most * tile.lanes else 0, -1)
    vectors = next((v for v in widths if columns % (v * tile.lanes) == 0), most)
    return replace(tile, rows=1, vectors=vectors)


def inner_tile(kind: str) -> Tile:
    """The tile of products whose depth lies along the lanes: `vectors` columns of one each."""
    bits, count, by_lane = registers()
    rows, columns = (4, 6) if count == 32 else (3, 3)
    return Tile(bits // width(kind), rows, columns, by_lane)


def tiled(kind: str) -> str:
    """A kind and the registers that decide the tile of its kernels, for their names."""
    bits, count, _ = registers()
    return f"{kind}_{count}x{bits}"


def multiply(
    w: CodeWriter,
    kind: str,
    tile: Tile,
    rows: Sequence[str],
    columns: str,
    step: V,
    depth: V,
    apart: V | None = None,
) -> list[V]:
    """The microkernel: sums of a tile, row by row (Note [tiles]).

    `rows` are pointers, `step` is how far the columns of one depth are from those of the next.
    Where `apart` is given, it is how far a row's elements are apart; unless that is 1, the rows of
    one depth lie side by side.
    """
    zero = [w.code.const(0, kind, tile.lanes)] * (tile.rows * tile.vectors)
    turns = _Turns(w, kind, tile, rows, columns, step, w.whole(1) if apart is None else apart)
    if not tile.by_lane:
        return w.loop(0, depth, turns.one, zero)
    whole = depth - depth.modulo(tile.lanes)
    if apart is None:
        sums = w.loop(0, whole, turns.several, zero, step=tile.lanes)
        return w.loop(whole, depth, turns.one, sums)
    if apart.number not in (None, 1) and tile.rows % tile.lanes == 0:
        return w.loop(0, depth, turns.side_by_side, zero)
    near, nothing = apart.eq(1), w.whole(0)
    whole = select(near, whole, nothing)
    sums = w.loop(0, whole, turns.several, zero, step=tile.lanes)
    if tile.rows % tile.lanes:
        return w.loop(whole, depth, turns.one, sums)
    sums = w.loop(0, select(near, nothing, depth), turns.side_by_side, sums)
    return w.loop(whole, select(near, depth, nothing), turns.one, sums)


@dataclass(frozen=True, slots=True)
class _Turns:
    """Turns of the microkernel's loops: sums with the products of some depth added."""

    w: CodeWriter
    kind: str
    tile: Tile
    rows: Sequence[str]
    columns: str
    step: V
    apart: V

    @property
    def once(self) -> bool:
        """Whether B is read by one tile of rows only."""
        return self.tile.rows == 1

    def several(self, k: V, *sums: V) -> list[V]:
        """As much depth as a vector has lanes, of contiguous rows."""
        w, lanes = self.w, self.tile.lanes
        loaded = [w.load(row, self.kind, k, lanes) for row in self.rows]
        after = list(sums)
        for lane in range(lanes):
            after = self.added(after, [w.spread(a, lane) for a in loaded], k + lane)
        return after

    def side_by_side(self, k: V, *sums: V) -> list[V]:
        """One depth, at which the rows are neighbours."""
        w, tile = self.w, self.tile
        here = w.at(self.rows[0], self.kind, k * self.apart)
        spread = []
        for start in range(0, tile.rows, tile.lanes):
            some = w.load(here, self.kind, w.whole(start), tile.lanes)
            spread += [w.spread(some, lane) for lane in range(tile.lanes)]
        return self.added(sums, spread, k)

    def one(self, k: V, *sums: V) -> list[V]:
        """One depth, element by element."""
        w, at = self.w, k * self.apart
        loaded = [w.load(row, self.kind, at) for row in self.rows]
        return self.added(sums, [w.code.splat(a, self.tile.lanes) for a in loaded], k)

    def added(self, sums: Sequence[V], rows: Sequence[V], k: V) -> list[V]:
        """Sums with the products of one depth added; `rows` are in all lanes."""
        w, tile, places = self.w, self.tile, iter(sums)
        here = w.at(self.columns, self.kind, k * self.step)
        if self.once:  # memory decides, and the next rows are far
            later = w.at(here, self.kind, self.step * AHEAD)
            for start in range(0, tile.columns * width(self.kind) // 8, LINE):
                w.prefetch(later, start)
        columns = [
            w.load(here, self.kind, w.whole(v * tile.lanes), tile.lanes)
            for v in range(tile.vectors)
        ]
        return [mad(x, a, next(places)) for a in rows for x in columns]
