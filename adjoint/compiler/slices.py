"""Matrix products by a BLAS: launches of slices of them."""

from __future__ import annotations

from typing import Any

from adjoint.backends.llvm import blas
from adjoint.backends.llvm.tiles import registers
from adjoint.compiler.places import Place
from adjoint.compiler.steps import Address, Launch, Symbol, sized, whole
from adjoint.graph.extents import computed, typical

SLICES = 8  # a large product is dealt out in about so many slices
LEAST = 64  # rows or columns of a slice, at least
SMALL = 16 * 1024  # multiply-adds below which a product is not worth dividing
LARGE = 128**3  # multiply-adds from which on the BLAS is called, where it is at all


def takes(a: Place, b: Place, c: Place) -> bool:
    """Whether a product is the BLAS's.

    On NEON our own kernels are faster at all shapes (benchmarks/NOTES.md); elsewhere this is yet to
    be measured, and products are the BLAS's if they are large and lie as it wants them.
    """
    neon = registers()[2]
    return (
        not neon
        and blas.find() is not None
        and typical(a.shape[-2]) * typical(a.shape[-1]) * typical(b.shape[-1]) >= LARGE
        and all(n <= blas.largest_size() for x in (a, b) for n in x.shape[-2:])
        and all(map(unit, (a, b)))
        and unit(c) == "n"
    )


def unit(place: Place) -> str:
    """How the last two dimensions lie: "n" rows, "t" columns contiguous, "" neither."""
    (m, n), (sm, sn) = place.shape[-2:], place.strides[-2:]
    limit = blas.largest_size()
    if (sn == 1 or n == 1) and (m == 1 or limit >= sm >= max(n, 1)):
        return "n"
    if (sm == 1 or m == 1) and (n == 1 or limit >= sn >= max(m, 1)):
        return "t"
    return ""


def leading(place: Place) -> tuple[int, int]:
    """A matrix as the BLAS is told of it: its leading dimension, and whether it is transposed."""
    plain = unit(place) == "n"
    rows, columns = place.shape[-2:]
    big, small = (rows, columns) if plain else (columns, rows)
    stride = place.strides[-2] if plain else place.strides[-1]
    lead = max(stride if big > 1 else small, small, 1)
    return lead, blas.NO_TRANSPOSE if plain else blas.TRANSPOSE


def slice_length(length: int, work: int, batch: int) -> int:
    """Rows or columns of a slice.

    Slices are cut by shape, never by the number of workers, so that results do not depend on it.
    """
    if work < SMALL or batch >= SLICES:
        return length
    return max(LEAST, -(-length // SLICES // 8) * 8)


def launch(a: Place, b: Place, c: Place, dims: list[Any]) -> Launch:
    """The launch of one product, cut into slices."""
    (m, k), n = a.shape[-2:], b.shape[-1]
    library = blas.find()
    assert library is not None
    dtype = c.buffer.dtype
    item = dtype.itemsize
    element = "float" if item == 4 else "double"
    batch = dims[0][0] * dims[1][0]
    by_rows = typical(m) >= typical(n)
    length = m if by_rows else n
    block = computed(slice_length, length, m * n * k, batch)
    words: list[Any] = [0] * blas.WORDS
    words[blas.FUNCTION] = Symbol(blas.symbol(item))
    for at, place in ((blas.A, a), (blas.B, b), (blas.C, c)):
        words[at] = Address(place.buffer, place.offset * item)
    words[blas.M], words[blas.N], words[blas.K] = m, n, k
    words[blas.LDA], words[blas.TRANS_A] = leading(a)
    words[blas.LDB], words[blas.TRANS_B] = leading(b)
    words[blas.LDC], _ = leading(c)
    words[blas.BLOCK], words[blas.BLOCKS] = block, -(-length // block)
    words[blas.BY_ROWS] = int(by_rows)
    words[blas.STEP_A] = a.strides[-2] * item if by_rows else 0
    words[blas.STEP_B] = 0 if by_rows else b.strides[-1] * item
    words[blas.STEP_C] = (c.strides[-2] if by_rows else c.strides[-1]) * item
    words[blas.BATCH], words[blas.INNER] = batch, dims[1][0]
    for at, (_, strides) in ((blas.OUTER_A, dims[0]), (blas.INNER_A, dims[1])):
        words[at : at + 3] = [s * item for s in strides]
    return Launch(
        function=f"slices_{dtype.name}_{library.bits}",
        text=lambda name: (blas.product_text(name, element, library.bits), set()),
        words=words,
        reads=(whole(a.buffer), whole(b.buffer)),
        writes=(whole(c.buffer),),
        pieces=batch * words[blas.BLOCKS],
        cost=m * n * k * batch / 4,
        label=sized("matmul", *((batch, m, n, k) if batch > 1 else (m, n, k))),
    )
