"""How a product is cut into pieces and blocks: by shape alone, never by the number of workers."""

from __future__ import annotations

PIECES = 16  # a large product is dealt out in at least so many pieces
WORTH = 32 * 1024  # multiply-adds that a piece has at least, if there are several
SHARE = 128  # of a depth that is cut into parts, each has so much at least
PARTIAL = 160 * 1024  # elements of all parts of a result, at most: they stay in caches
STRIP = 1 << 11  # bytes of a row that one piece goes along, at least


def wanted(m: int, n: int, k: int, batch: int) -> int:
    """Pieces that a member of the batch is cut into."""
    return max(1, min(-(-PIECES // max(batch, 1)), m * n * k // WORTH))


def rows_of_piece(m: int, n: int, k: int, batch: int, group: int, most: int) -> int:
    """Rows of a piece where a product is cut by rows first: a multiple of a group's."""
    few = -(-m // wanted(m, n, k, batch))
    if few > most:  # as many pieces as PIECES workers have rounds for: none shall wait for a rest
        rounds = -(-batch * -(-m // most) // PIECES)
        few = -(-m // max(rounds * PIECES // batch, 1))
    return max(group, min(-(-few // group) * group, most))


def paired(m: int, part: int, others: int, group: int) -> int:
    """Parts of at most so many rows. Pieces are even in number: of two workers none shall wait."""
    parts = -(-m // part)
    odd = parts > 1 and parts * others % 2 == 1
    return parts + 1 if odd and parts < -(-m // group) else parts


def columns_of_piece(m: int, n: int, k: int, batch: int, part: int, columns: int) -> int:
    """Columns of a piece that has `part` rows: a multiple of a tile's."""
    parts = max(1, wanted(m, n, k, batch) // max(-(-m // part), 1))
    return max(columns, -(-n // parts // columns) * columns)


def cut_both(m: int, n: int, piece: tuple[int, int], group: int, columns: int) -> tuple[int, int]:
    """Rows and columns of a piece of a product cut by columns, into `piece`.

    Such pieces need no rows of others. Rows are cut as well where that leaves the busiest of
    `PIECES` workers a fifth less.
    """
    best, least = piece, 0.8 * busiest(m, n, *piece)
    for parts in (8, 4, 2):
        wide = -(-n // parts // columns) * columns
        rows = -(-m // max(PIECES // -(-n // wide), 1))
        cut = min(-(-rows // group) * group, piece[0]), wide
        if busiest(m, n, *cut) <= least:
            best, least = cut, busiest(m, n, *cut) - 1
    return best


def cut_piece(
    m: int, n: int, k: int, batch: int, part: int, columns: int, group: int, wide: int
) -> tuple[int, int]:
    """Rows and columns of a piece that was to have `part` rows and `columns`."""
    if m < n and wanted(m, n, k, batch) == PIECES:
        return cut_both(m, n, (part, columns), group, wide)
    return part, columns


def rows_cut(*given: int) -> int:
    """The rows of `cut_piece`."""
    return cut_piece(*given)[0]


def columns_cut(*given: int) -> int:
    """The columns of `cut_piece`."""
    return cut_piece(*given)[1]


def busiest(m: int, n: int, rows: int, columns: int) -> int:
    """Elements of a result that the busiest of `PIECES` workers has, cut like this."""
    return -(-(-(-m // rows) * -(-n // columns)) // PIECES) * rows * columns


def depth_parts(m: int, n: int, k: int) -> int:
    """Parts that a depth is cut into, where a small result is summed over a great one.

    Otherwise all workers would read all columns of B for a few rows each.
    """
    if k < 4 * max(m, n) or wanted(m, n, k, 1) < PIECES:
        return 1
    fit = [p for p in (16, 8, 4) if k % p == 0 and k >= p * SHARE and p * m * n <= PARTIAL]
    return fit[0] if fit else 1


def block_depth(k: int, most: int) -> int:
    """The depth of a block: blocks are of one size, so that none is a small rest."""
    return -(-max(k, 1) // max(-(-k // most), 1))


def strip_of(n: int, item: int) -> int:
    """Columns of a piece of one row: as many pieces as can be, but of some lines each."""
    return max(STRIP // item, -(-n // PIECES))
