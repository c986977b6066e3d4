"""Launches of matrix products by our own kernels, cut into pieces (Note [products])."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

from adjoint.engine.backends.llvm.ir.writer import LINE
from adjoint.engine.backends.llvm.templates.convolution.windowed import (
    parts_of,
    rounded,
)
from adjoint.engine.backends.llvm.templates.product import few_kernel as few_rows
from adjoint.engine.backends.llvm.templates.product import kernel as product
from adjoint.engine.backends.llvm.templates.product import little_kernel as little
from adjoint.engine.backends.llvm.templates.product import panels_kernel as panels
from adjoint.engine.backends.llvm.templates.product import row_kernel as rows
from adjoint.engine.backends.llvm.templates.product import thin_kernel as dots
from adjoint.engine.backends.llvm.templates.product.cutting import (
    PIECES,
    block_depth,
    columns_cut,
    columns_of_piece,
    depth_parts,
    paired,
    rows_cut,
    rows_of_piece,
    strip_of,
)
from adjoint.engine.backends.llvm.templates.product.described import (
    Lasts,
    TiledProduct,
    described,
    never,
    width_of,
)
from adjoint.engine.backends.llvm.templates.product.ending import Ending
from adjoint.engine.backends.llvm.templates.product.kernel import GROUP
from adjoint.engine.backends.llvm.templates.product.operands import Matrix
from adjoint.engine.backends.llvm.templates.product.ordering import (
    apart_by,
    in_panels,
    in_row_panels,
    in_rows,
)
from adjoint.engine.backends.llvm.templates.product.parts import sum_parts
from adjoint.engine.backends.llvm.templates.product.tiles import (
    MOST_FEW,
    MOST_LASTING,
    Tile,
    few_tile,
    flat_tile,
    has_wide_registers,
    outer_tile,
    product_tile,
    tiled,
)
from adjoint.engine.compiler.loops.epilogues import Epilogue, MatrixReference, is_large
from adjoint.engine.compiler.memory.places import ARENA, Dims, Place, PlannedBuffer
from adjoint.engine.compiler.schedule.steps import Address, Launch, Text, sized, whole
from adjoint.engine.core.spec import pinned
from adjoint.engine.graph.sizes.extents import computed, is_extent, is_undecided, typical

TALL = 64  # rows of a piece, at most, where it shares panels with others
ALONE = 128  # the same where it packs its own panels: what is packed should be used often
FEW = 4  # rows, or
SHALLOW = 32  # depth, or
OUTER = 2  # depth up to which long rows of a result count, not what is used again
SMALL = 4096  # elements that are all there is, up to which columns that lie right are not packed
MEETING = 2048  # bytes: rows a multiple of it apart share sets of the nearest cache
USED_MEETING, USED = 96, 384  # columns from which on such rows, and others, are put in panels
SIDE = 64  # depth up to which rows that lie side by side are not copied
SPAN = 1 << 16  # bytes of memory in which they lie, up to which twice that depth is not
THIN = 8  # columns up to which sums go along the depth
MANY = 64  # rows from which on it is worth a launch to have them do so
LARGE = 1 << 20  # bytes of a matrix from which on one row goes along its rows
NEAR = 1 << 19  # bytes of panels that a core's own cache keeps besides what else it needs
QUICK = (
    1 << 16
)  # products of numbers up to which a text that others have too is worth more than time
LITTLES = 8  # members of a batch from which on it is worth a function of their own sizes
DEEP = 1 << 14  # rows that are added up one after another, at most


def product_steps(a: Place, b: Place, c: Place, dims: Dims, lasts: Lasts = never) -> list[Launch]:
    """The launches of a product whose batch has two ranges."""
    product = described(a, b, c, dims, lasts)
    if is_little(product):
        littles(product)
    elif is_ordered_once(product):
        tiles(product)
    elif is_thin(product):
        thin(product)
    elif is_thin(product.turned):
        thin(product.turned)
    else:
        turns = product.c.shape[1] == 1 and product.c.row == 1 and product.a.turned.rows_lie
        ordered = product.turned if turns else product
        if goes_along_rows(ordered):
            along_rows(ordered)
        elif leaves_few(ordered):
            in_tiles, others = apart(ordered, ordered.sizes[1] // width_of(ordered))
            tiles(in_tiles)
            thin(others)
        elif in_turns(ordered):
            by_turns(ordered)
        elif in_depths(ordered):
            by_depths(ordered)
        else:
            tiles(ordered)
    return product.launches


def product_steps_with(
    a: Place, b: Place, c: Place, dims: Dims, epilogue: Epilogue, stored: bool, lasts: Lasts = never
) -> list[Launch] | None:
    """The same with an epilogue; None where another kernel than that of tiles is better."""
    product = described(a, b, c, dims, lasts)
    if is_little(product) or product.c.shape[1] == 1:
        return None
    if not is_ordered_once(product) and (is_thin(product) or is_thin(product.turned)):
        return None
    product.label = (*product.label, "+" + "+".join(epilogue.origin))
    if not stored and begins_with_another(product, epilogue):
        ((_, to),) = epilogue.stores
        product.beginning = epilogue.added
        start = Address(to.buffer, to.offset * to.dtype.itemsize)
        product.c = replace(product.c, base=start, row=to.row)
        (by_turns if in_turns(product) else tiles)(product)
        return product.launches
    if not is_large(c.shape, c.buffer.dtype):
        return None  # such are taken for what sums begin with alone
    product.ending = Ending(epilogue, stored)
    if not stored:  # sums over blocks are then added up where a result will be
        like = [
            r for _, r in epilogue.stores if (r.dtype, r.row) == (c.buffer.dtype, product.c.row)
        ]
        if like:
            start = Address(like[0].buffer, like[0].offset * like[0].dtype.itemsize)
            product.c = replace(product.c, base=start)
    tiles(product)
    return product.launches


def begins_with_another(p: TiledProduct, epilogue: Epilogue) -> bool:
    """Whether the sums of one product in tall tiles can begin with the matrix that is added."""
    if epilogue.added is None or epilogue.added.dtype is not p.c.base.buffer.dtype:
        return False
    return p.batch == 1 and is_tall(p) and not leaves_few(p) and not in_depths(p)


def is_little(p: TiledProduct) -> bool:
    """Whether many products fit into registers (Note [little products])."""
    if any(map(is_extent, p.sizes)) or typical(p.batch) < LITTLES:
        return False
    return min(p.sizes) > 0 and max(p.sizes) <= little.MOST and p.c.rows_lie


def is_ordered_once(p: TiledProduct) -> bool:
    """Whether few rows meet a matrix that is put in panels for all turns of a loop.

    Panels are read along memory and what is read serves a tile's rows, of which a quarter may be
    missing. One row gains by the first alone, while a cache and not memory decides.
    """
    if p.b.rows_lie or not p.lasts(p.b.base.buffer):
        return False
    m, n, k = map(typical, p.sizes)
    tile = outer_tile(p.kind)
    one = m == 1 and n * k * p.c.base.buffer.dtype.itemsize < LARGE
    return n >= tile.columns and (one or 4 * m >= 3 * rounded(m, tile.rows))


def is_thin(p: TiledProduct) -> bool:
    """Whether there are few columns, and rows to go along."""
    m, n, _ = map(typical, p.sizes)
    lies = p.b.turned.rows_lie or m >= MANY
    return n <= min(m, THIN) and p.a.rows_lie and lies


def leaves_few(p: TiledProduct) -> bool:
    """Whether a column or two are left by tiles, which sums along both operands make sooner."""
    m, n, _ = p.sizes
    if any(map(is_undecided, (n, p.b.column))) or not (p.a.rows_lie and p.b.turned.rows_lie):
        return False
    wide = width_of(p)
    return wide < n <= 8 * wide and 0 < n % wide <= wide // 8 and typical(m) >= MANY


def apart(p: TiledProduct, count: int) -> tuple[TiledProduct, TiledProduct]:
    """A product as two: the columns of so many tiles, and the others."""
    (m, n, k), batch, item = p.sizes, p.batch, p.c.base.buffer.dtype.itemsize
    at = count * width_of(p)

    def part(start: int, stop: int) -> TiledProduct:
        sizes = (m, stop - start, k)
        b, c = (
            replace(
                x,
                base=Address(x.base.buffer, x.base.shift + start * x.column * item),
                shape=(x.shape[0], stop - start),
            )
            for x in (p.b, p.c)
        )
        label = sized("matmul", *((batch, *sizes) if batch > 1 else sizes))
        return replace(p, b=b, c=c, label=label)

    return part(0, at), part(at, at + pinned(n - at))


def goes_along_rows(p: TiledProduct) -> bool:
    """Whether one row meets a matrix too large for tiles (Note [rows of a large matrix])."""
    m, n, k = p.sizes
    size = typical(n) * typical(k) * p.c.base.buffer.dtype.itemsize
    return m == 1 and p.b.rows_lie and p.c.rows_lie and typical(k) <= DEEP and size >= LARGE


# -- launches -----------------------------------------------------------------------------------


def along_rows(p: TiledProduct) -> None:
    """One row times a large matrix."""
    _, n, k = p.sizes
    strip = computed(strip_of, n, p.c.base.buffer.dtype.itemsize)
    parts = parts_of(n, strip)
    words = rows.RowWords(
        x=p.a.base, y=p.b.base, c=p.c.base, n=n, k=k, x_step=p.a.column, y_row=p.b.row,
        strip=strip, parts=parts, pieces=p.batch * parts, inner=p.ranges[1],
        outer_x=p.a.outer, outer_y=p.b.outer, outer_c=p.c.outer,
        inner_x=p.a.inner, inner_y=p.b.inner, inner_c=p.c.inner,
    ).listed()  # fmt: skip
    name = f"along_rows_{tiled(p.kind)}"
    launch(p, name, partial(rows.along_rows_text, kind=p.kind), words, p.batch * parts)


def littles(p: TiledProduct) -> None:
    """Many products that fit into registers."""
    m, n, k = p.sizes
    a, b, c = p.a, p.b, p.c
    kernel = little.Little(p.kind, m, n, k, b.rows_lie)
    words = little.LittleWords(
        x=a.base, y=b.base, c=c.base, x_row=a.row, x_column=a.column, y_row=b.row,
        y_column=b.column, c_row=c.row, members=p.batch, inner=p.ranges[1],
        outer_x=a.outer, outer_y=b.outer, outer_c=c.outer,
        inner_x=a.inner, inner_y=b.inner, inner_c=c.inner,
    ).listed()  # fmt: skip
    launch(p, kernel.function, kernel.text, words, p.batch)


def thin(p: TiledProduct) -> None:
    """A product with few columns: sums along the depth (Note [thin products])."""
    m, n, k = p.sizes
    if not p.b.turned.rows_lie:
        p.b = in_rows(p, p.b.turned).turned
    part = computed(rows_of_piece, m, n, k, p.batch, GROUP, 2**40)
    parts = parts_of(m, part)
    words = dots.ThinWords(
        x=p.a.base, y=p.b.base, c=p.c.base, m=m, t=n, k=k,
        x_row=p.a.row, y_row=p.b.column, c_row=p.c.row, c_t=p.c.column,
        rows=part, row_parts=parts, pieces=p.batch * parts, inner=p.ranges[1],
        outer_x=p.a.outer, outer_y=p.b.outer, outer_c=p.c.outer,
        inner_x=p.a.inner, inner_y=p.b.inner, inner_c=p.c.inner,
    ).listed()  # fmt: skip
    alone = typical(n) == 1 and typical(k) > SIDE  # along short rows adding up takes longest
    together = 0 if alone else dots.columns_together(p.kind, typical(n))
    name = f"dots_{tiled(p.kind)}_{together}"
    text = partial(dots.dots_text, kind=p.kind, together=together)
    launch(p, name, text, words, p.batch * parts)


def in_turns(p: TiledProduct) -> bool:
    """Whether blocks of the depth are put in panels and multiplied one after another.

    A large operand in panels goes to a far cache and comes back; of a small result each block may
    begin with what those before it made. A transposed A is put in panels along memory then, where
    pieces would read a few lines of each of its rows.
    """
    if any(map(is_undecided, (*p.sizes, p.batch, p.b.row, p.b.column))) or p.batch != 1:
        return False
    (m, n, k), item = p.sizes, p.c.base.buffer.dtype.itemsize
    if m <= max(MOST_FEW):
        return False  # beside a block of B, which is smaller, they might count as few
    if not is_tall(p) or reads_columns(p) or not p.c.rows_lie or p.lasts(p.b.base.buffer):
        return False
    if m * n * item > NEAR // 2 or k * widest(p) * item < NEAR:
        return False
    part, columns = piece_of(p, tile_for(p))  # parts of a depth are more, for more workers
    return parts_of(m, part) * parts_of(n, columns) >= PIECES // 2


def widest(p: TiledProduct) -> int:
    """Columns of the larger operand of those that launches put in panels."""
    m, n, _ = p.sizes
    return max(m, n) if lies_transposed(p.a) else n


def lies_transposed(a: Matrix) -> bool:
    """Whether columns of a matrix are contiguous, and rows are not."""
    return a.turned.rows_lie and not a.rows_lie


def by_turns(p: TiledProduct) -> None:
    """A product as those of blocks of the depth, each of which begins with the one before."""
    (m, n, k), dtype = p.sizes, p.c.base.buffer.dtype
    large = widest(p)
    parts = pinned(max(parts_of(k, max(NEAR // (large * dtype.itemsize), GROUP)), 2))
    bounds = [k * i // parts for i in range(parts + 1)]
    more = p.label[len(sized("matmul", m, n, k)) :]  # what is done besides
    for start, stop in pairwise(bounds):
        count = stop - start
        each = replace(
            p,
            a=part_of(p.a, (m, count), start * p.a.column),
            b=part_of(p.b, (count, n), start * p.b.row),
            label=(*sized("matmul", m, n, count), *more),
            a_at_once=lies_transposed(p.a),
        )
        if start:
            base = p.c.base
            each.beginning = MatrixReference(
                base.buffer, dtype, base.shift // dtype.itemsize, p.c.row, 1
            )
        tiles(each)


def part_of(whole: Matrix, shape: tuple[int, int], start: int) -> Matrix:
    """A matrix within another, so many elements from its beginning on."""
    base, item = whole.base, whole.base.buffer.dtype.itemsize
    return replace(whole, base=Address(base.buffer, base.shift + start * item), shape=shape)


def in_depths(p: TiledProduct) -> bool:
    """Whether parts of the depth are multiplied by themselves."""
    if any(map(is_undecided, (*p.sizes, p.batch))) or p.batch != 1:
        return False
    lies = p.c.rows_lie and p.c.row == p.c.shape[1]
    return lies and computed(depth_parts, *p.sizes) > 1


def by_depths(p: TiledProduct) -> None:
    """A product as the sum of those of parts of the depth."""
    m, n, k = p.sizes
    parts = computed(depth_parts, m, n, k)
    deep = k // parts
    buffer = PlannedBuffer(ARENA, p.c.base.buffer.dtype, parts * m * n, name="parts")
    each = replace(
        p,
        a=replace(p.a, shape=(m, deep), outer=deep * p.a.column),
        b=replace(p.b, shape=(deep, n), outer=deep * p.b.row),
        c=Matrix(Address(buffer), (m, n), n, 1, m * n, 0),
        ranges=(parts, 1),
    )
    tiles(each)
    p.launches.append(sum_parts(p.kind, Address(buffer), p.c.base, m * n, parts))


def tiles(p: TiledProduct) -> None:
    """A product in tiles; operands in another order first, where that is worth a launch."""
    m, n, k = p.sizes
    tile = tile_for(p)
    tall = is_tall(p)
    if p.beginning is not None and not tall:
        raise ValueError(f"{p.label}: only sums of tall tiles begin with another matrix")
    part, columns = piece_of(p, tile)
    if has_few_rows(p):
        copies, across = False, False
    else:
        copies, across = panels_to_copy(p, tile) if tall else rows_to_copy(p.a, tile)
    ordered = False  # rows of A in panels, by a launch
    a_step, a_panel = p.a.row, tile.rows * p.a.row
    several = typical(parts_of(n, columns)) > 1
    if copies and (several or p.a_at_once or p.lasts(p.a.base.buffer)):
        p.a = in_row_panels(p, tile) if tall else in_rows(p, p.a)
        copies, across, ordered = False, False, tall
        a_step, a_panel = 1, tile.rows * p.a.row
    direct = reads_columns(p)
    ready, panel = (n, tile.columns) if direct else (0, 0)
    shared = typical(parts_of(m, part)) > 1 or p.lasts(p.b.base.buffer)
    if not direct and (shared or is_scattered(p, columns)):
        p.b = in_panels(p, tile)
        ready, panel = rounded(n, tile.columns), apart_by(p, tile.columns * k)
    block = computed(block_depth, k, deepest(p.kind, tile, part, (copies, across, tall)))
    # Where panels are read in B itself, the last may be a part of one, which alone is packed.
    strip = tile.columns
    if not direct:
        strip = computed(product.strip_columns, tile.columns, p.c.base.buffer.dtype.itemsize, block)
    column_parts = parts_of(n, columns)
    row_parts = computed(paired, m, part, p.batch * column_parts, product.group_of(tile))
    pieces = p.batch * row_parts * column_parts
    a, b, c = p.a, p.b, p.c
    words = product.ProductWords(
        a=a.base, b=b.base, c=c.base, m=m, n=n, k=k, a_row=a.row, a_k=a.column, b_k=b.row,
        b_column=b.column, b_panel=panel, c_row=c.row, ready=ready, copies=int(copies),
        across=int(across), rows=part, row_parts=row_parts, columns=columns,
        column_parts=column_parts, strip=strip, block=block, pieces=pieces, inner=p.ranges[1],
        outer_a=a.outer, outer_b=b.outer, outer_c=c.outer,
        inner_a=a.inner, inner_b=b.inner, inner_c=c.inner,
    ).listed()  # fmt: skip
    name = f"product_{tiled(p.kind)}_{tile.rows}x{tile.columns}"
    text: Any = partial(product.product_text, kind=p.kind, tile=tile, ending=p.ending)
    if tall:
        in_panels_now = copies or ordered
        words += [a_step, a_panel, pace_of(p, tile, block, in_panels_now), *p.begins]
        text = partial(panels.panels_text, kind=p.kind, tile=tile, ending=p.ending)
    elif has_few_rows(p):
        name = f"{name}_few"
        text = partial(few_rows.few_text, kind=p.kind, tile=tile, ending=p.ending)
    if p.ending is not None:
        name = f"{name}_{'kept' if p.ending.writes_product else 'only'}_{p.ending.epilogue.key()}"
        words += p.ending.words
    launch(p, name, text, words, pieces)


def pace_of(p: TiledProduct, tile: Tile, block: int, panels: bool) -> int:
    """Bytes between what turns ask for, one after another, of the rows of A that come next.

    Panels and long rows are asked for along memory, gaps between rows included; of rows that are
    two lines or less the first is enough: the processor reads lines in pairs.
    """
    item = p.c.base.buffer.dtype.itemsize
    if panels:
        return tile.rows * item
    if not p.a.rows_lie:
        return p.a.column * item
    return computed(pace_of_rows, p.a.row * item, tile.rows, block, item)


def pace_of_rows(apart: int, rows: int, block: int, item: int) -> int:
    """The same of rows so many bytes apart, of which a block has so many elements."""
    return apart if block * item <= 2 * LINE else apart * rows // block


def tile_for(p: TiledProduct) -> Tile:
    """The tile of a product: flat for one row, wide for few."""
    m, n = typical(p.sizes[0]), typical(p.sizes[1])
    if m == 1:
        return flat_tile(p.kind, n)
    return few_rows_tile(p) if has_few_rows(p) else product_tile(p.kind)


def few_rows_tile(p: TiledProduct) -> Tile:
    """The tile of Note [few rows]; along a depth of next to nothing results are written in rows."""
    m, n, k = map(typical, p.sizes)
    return few_tile(p.kind, m if k > OUTER else 2, quick=m * n * k <= QUICK)


def is_tall(p: TiledProduct) -> bool:
    """Whether a product takes the kernel of Note [tall tiles]."""
    return has_wide_registers() and typical(p.sizes[0]) > 1 and not has_few_rows(p)


def has_few_rows(p: TiledProduct) -> bool:
    """Whether few rows, on wide registers, meet a matrix that wide tiles read where it lies."""
    m, n, k = map(typical, p.sizes)
    small = n * k * p.c.base.buffer.dtype.itemsize <= LARGE
    most = MOST_LASTING if p.lasts(p.b.base.buffer) else MOST_FEW[small]
    few = m <= most or k <= OUTER
    here = has_wide_registers() and m > 1 and p.b.rows_lie
    return here and few and n >= few_rows_tile(p).columns


def piece_of(p: TiledProduct, tile: Tile) -> tuple[int, int]:
    """Rows and columns of a piece."""
    m, n, k = p.sizes
    group = product.group_of(tile)
    if typical(m) >= typical(n):
        enough = PIECES if typical(m) <= ALONE else 4 * PIECES  # members are pieces enough
        most = ALONE if typical(p.batch) >= enough else TALL
        part = computed(rows_of_piece, m, n, k, p.batch, group, rounded(most, group))
    else:
        part = computed(min, rounded(m, tile.rows), rounded(ALONE, group))
    part = computed(max, part, tile.rows)
    columns = computed(columns_of_piece, m, n, k, p.batch, part, tile.columns)
    if any(map(is_undecided, (m, n, k, p.batch))):
        return part, columns
    given = m, n, k, p.batch, part, columns, group, tile.columns
    return computed(rows_cut, *given), computed(columns_cut, *given)


def reads_columns(p: TiledProduct) -> bool:
    """Whether B is read where it lies, unpacked."""
    m, n, k = map(typical, p.sizes)
    compact = width_of(p) <= n <= SMALL // max(k, 1) and typical(p.b.row) == n
    few = m <= FEW or has_few_rows(p)
    return p.b.rows_lie and (few or k <= SHALLOW or compact)


def is_scattered(p: TiledProduct, columns: int) -> bool:
    """Whether pieces that packed their own columns would read a line or two of each of many rows.

    A launch that goes along the rows takes half the time, while what it writes stays in a cache.
    Wide registers wait longer for such lines than they need for all products of them.
    """
    m, n, k = map(typical, p.sizes)
    if not p.b.rows_lie or typical(parts_of(n, columns)) == 1:
        return False
    size = p.batch * n * k * p.c.base.buffer.dtype.itemsize
    return has_wide_registers() or (m >= MANY and LARGE <= typical(size) <= 8 * LARGE)


def rows_to_copy(a: Matrix, tile: Tile) -> tuple[bool, bool]:
    """Whether pieces copy their rows of A, and whether rows lie side by side for them."""
    m, k = a.shape
    if a.rows_lie:
        return False, False
    # Vectors of rows side by side: none may reach beyond the matrix, unless it is a copy.
    across = a.turned.rows_lie and (tile.rows % tile.lanes == 0 or not tile.by_lane)
    if not across or typical(k) > SIDE:
        return True, across
    fits = not tile.by_lane or (not is_undecided(m) and m % tile.rows == 0)
    return not fits, across


def panels_to_copy(p: TiledProduct, tile: Tile) -> tuple[bool, bool]:
    """Whether rows of A are worth to be put in panels (Note [tall tiles])."""
    m, n, k = map(typical, p.sizes)
    if not p.a.rows_lie:
        span = k * typical(p.a.column) * p.c.base.buffer.dtype.itemsize
        near = k <= SIDE or (k <= 2 * SIDE and span <= SPAN)
        return not (p.a.turned.rows_lie and near), False
    meet = typical(p.a.row) * p.c.base.buffer.dtype.itemsize % MEETING == 0
    return m >= 2 * tile.rows and n >= (USED_MEETING if meet else USED), False


def deepest(kind: str, tile: Tile, part: int, how: tuple[bool, bool, bool]) -> int:
    """The depth of a block, at most: what is copied and packed has room."""
    panel, (copies, across, tall) = product.panel_depth(kind, tile), how
    if not copies:
        return panel
    if tall:
        return computed(min, panel, panels.copied(kind) // part)
    room = product.copied(kind, across) // part
    return computed(min, panel, room if across else room - product.SKEW)


def launch(
    p: TiledProduct, name: str, text: Callable[[str], Text], words: list[Any], pieces: int
) -> None:
    """The launch of a product itself."""
    m, n, k = p.sizes
    more_reads, more_writes = [], []
    if p.ending is not None:
        more_reads = [whole(r.buffer) for r in p.ending.epilogue.refs if r is not None]
        more_writes = [whole(r.buffer) for _, r in p.ending.epilogue.stores]
    if p.beginning is not None:
        more_reads = [whole(p.beginning.buffer)]
    p.launches.append(
        Launch(
            function=name,
            text=text,
            words=words,
            reads=(whole(p.a.base.buffer), whole(p.b.base.buffer), *more_reads),
            writes=(whole(p.c.base.buffer), *more_writes),
            pieces=pieces,
            cost=m * n * k * p.batch / 4,
            label=p.label,
        )
    )
