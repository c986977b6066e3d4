"""Launches that put an operand of a product in another order, for all pieces: rows, or panels."""

from __future__ import annotations

from adjoint.engine.backends.llvm.ir.writer import LINE
from adjoint.engine.backends.llvm.templates.convolution.windowed import parts_of
from adjoint.engine.backends.llvm.templates.product import kernel as product
from adjoint.engine.backends.llvm.templates.product.cutting import PIECES
from adjoint.engine.backends.llvm.templates.product.described import TiledProduct, width_of
from adjoint.engine.backends.llvm.templates.product.kernel import GROUP
from adjoint.engine.backends.llvm.templates.product.operands import Matrix
from adjoint.engine.backends.llvm.templates.product.tiles import (
    Tile,
    has_wide_registers,
    outer_tile,
    tiled,
)
from adjoint.engine.compiler.memory.places import ARENA, PlannedBuffer
from adjoint.engine.compiler.schedule.steps import Address, Launch, whole
from adjoint.engine.graph.sizes.extents import computed

PANELS = 4  # of rows, which a piece puts in order
ROW_SKEW = 4  # elements between rows of them: panels shall lie in different sets of a cache


def in_rows(p: TiledProduct, given: Matrix) -> Matrix:
    """A matrix with contiguous rows."""
    m, k = given.shape
    wide = outer_tile(p.kind).columns
    base = order(p, given, (k, wide, 1), (k, GROUP), GROUP * k, m * k, wide)
    return Matrix(base, given.shape, k, 1, p.ranges[1] * m * k, m * k)


def apart_by(p: TiledProduct, size: int) -> int:
    """How far panels of so many elements are apart: on wide registers no power of two."""
    return size + LINE // p.c.base.buffer.dtype.itemsize if has_wide_registers() else size


def in_row_panels(p: TiledProduct, tile: Tile) -> Matrix:
    """A in panels of a tile's rows: those of one depth are neighbours."""
    m, k = p.a.shape
    high = tile.rows
    row = k + ROW_SKEW
    jump = high * row
    member = parts_of(m, high) * jump
    if p.a.turned.rows_lie:  # read along memory
        deep = computed(max, parts_of(k, PIECES), GROUP)
        part, size = (m, deep), high * deep
    else:
        part, size = (high * PANELS, k), jump * PANELS
    base = order(p, p.a.turned, (high, jump, high), part, size, member, high)
    return Matrix(base, p.a.shape, row, high, p.ranges[1] * member, member)


def in_panels(p: TiledProduct, tile: Tile) -> Matrix:
    """B in panels of a tile's columns: from a row of one to the next it is that many elements."""
    k, n = p.b.shape
    columns, wide = tile.columns, width_of(p)
    panel = apart_by(p, columns * k)
    member = parts_of(n, columns) * panel
    if p.b.rows_lie:  # parts of some rows, else of some columns: read along memory
        assert columns == wide  # the launch's own panels are those of its tile
        rows = computed(max, parts_of(k, PIECES), GROUP)
        part, size, jump = (n, rows), rows * columns, panel
    else:  # a part is a panel, of which the launch's are neighbours
        part, size, jump = (columns, k), panel, wide
    base = order(p, p.b, (columns, jump, columns), part, size, member, wide)
    return Matrix(base, p.b.shape, columns, 1, p.ranges[1] * member, member)


def order(
    p: TiledProduct,
    given: Matrix,
    to: tuple[int, int, int],
    part: tuple[int, int],
    size: int,
    member: int,
    wide: int,
) -> Address:
    """The launch that puts a matrix in another order; where it then lies.

    `to` are the words O_STEP, O_JUMP and O_PAD of the kernel, `part` the columns and rows of a
    part, of which one are all; parts and members are `size` and `member` elements apart.
    """
    kind = p.kind
    rows, columns = given.shape
    parts = parts_of(columns, part[0]) * parts_of(rows, part[1])
    buffer = PlannedBuffer(ARENA, given.base.buffer.dtype, p.batch * member, name="ordered")
    step, jump, pad = to
    known = None if has_wide_registers() else wide
    words = product.OrderWords(
        source=given.base, target=Address(buffer), along_p=given.column, along_q=given.row,
        step=step, jump=jump, pad=pad, wide=wide, p=columns, q=rows, part_p=part[0], part_q=part[1],
        parts=parts, size=size, member=member, pieces=p.batch * parts, inner=p.ranges[1],
        outer_source=given.outer, inner_source=given.inner,
    ).listed()  # fmt: skip
    p.launches.append(
        Launch(
            function=f"order_{tiled(kind)}",
            text=lambda name: product.order_text(name, kind, known),
            words=words,
            reads=(whole(given.base.buffer),),
            writes=(whole(buffer),),
            pieces=p.batch * parts,
            cost=p.batch * rows * columns,
            label="order",
        )
    )
    return Address(buffer)
