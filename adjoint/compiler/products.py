"""The template of matrix products: slices of them by a BLAS."""

from __future__ import annotations

from typing import Any

from adjoint.backends.llvm import blas
from adjoint.compiler.places import Place
from adjoint.compiler.steps import Address, Launch, Symbol, sized, whole
from adjoint.compiler.templates import TEMPLATES, LayoutOf, Template
from adjoint.graph.extents import computed, typical
from adjoint.graph.ir import Node, Value

SLICES = 8  # a large product is dealt out in about so many slices
LEAST = 64  # rows or columns of a slice, at least
SMALL = 16 * 1024  # multiply-adds below which a product is not worth dividing


def accepts(node: Node, inputs: tuple[Any, ...]) -> bool:
    """Whether the BLAS has such products."""
    return (
        all(isinstance(x, Value) for x in inputs)
        and node.outputs[0].spec.dtype.name in ("float32", "float64")
        and node.outputs[0].spec.device.type == "cpu"
        and blas.find() is not None
        and all(n <= blas.largest_size() for x in inputs for n in x.spec.shape[-2:])
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


def packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Operands whose rows and columns are both scattered."""
    return {i for i, x in enumerate(inputs) if not unit(layout(x)) or len(batches(layout(x))) > 2}


def batches(place: Place) -> list[tuple[int, int]]:
    """Batch dimensions, merged where they are stepped through as one: (size, stride)."""
    merged: list[tuple[int, int]] = []
    for n, s in zip(place.shape[:-2], place.strides[:-2], strict=True):
        if n == 1:
            continue
        if merged and merged[-1][1] == s * n:
            merged[-1] = (merged[-1][0] * n, s)
        else:
            merged.append((n, s))
    return merged


def common_batches(places: list[Place]) -> list[tuple[int, tuple[int, ...]]] | None:
    """Batch dimensions of all three, merged where all agree: (size, strides)."""
    dims: list[tuple[int, tuple[int, ...]]] = []
    shape = places[-1].shape[:-2]
    rank = len(shape)
    for d, n in enumerate(shape):
        if n == 1:
            continue
        strides = []
        for place in places:
            at = d - rank + len(place.shape) - 2
            strides.append(place.strides[at] if at >= 0 and place.shape[at] != 1 else 0)
        if dims and all(a == b * n for a, b in zip(dims[-1][1], strides, strict=True)):
            dims[-1] = (dims[-1][0] * n, tuple(strides))
        else:
            dims.append((n, tuple(strides)))
    return dims


def steps(node: Node, operands: list[Place], results: list[Place]) -> list[Launch]:
    """Launches of one product: one, unless the batch has more than two ranges."""
    a, b = operands
    c = results[0]
    return list(split(node, a, b, c))


def split(node: Node, a: Place, b: Place, c: Place) -> list[Launch]:
    """A product with at most two ranges of batch dimensions, or several such."""
    (m, k), n = a.shape[-2:], b.shape[-1]
    dims = common_batches([a, b, c])
    assert dims is not None
    # A matrix shared by the whole batch: the batch's rows are rows of one product.
    if dims and dims[-1][1][1] == 0 and unit(a) == "n" and len(dims) == 1:
        size, (sa, _, sc) = dims[0]
        joined = sa == a.strides[-2] * m and sc == c.strides[-2] * m and m > 1
        if joined and size * m <= blas.largest_size():
            a, c = rows_of(a, size * m), rows_of(c, size * m)
            m, dims = size * m, []
    if len(dims) > 2:
        size, strides = dims[0]
        out = []
        for i in range(size):
            moved = [
                Place(p.buffer, p.shape, p.strides, p.offset + i * s)
                for p, s in zip((a, b, c), strides, strict=True)
            ]
            inner = [slice_batch(p, dims[1:], j) for j, p in enumerate(moved)]
            out += split(node, *inner)
        return out
    while len(dims) < 2:
        dims = [(1, (0, 0, 0)), *dims]
    return [launch(node, a, b, c, (m, n, k), dims)]


def slice_batch(place: Place, dims: list[tuple[int, tuple[int, ...]]], which: int) -> Place:
    """A place with these batch dimensions only."""
    shape = tuple(n for n, _ in dims) + place.shape[-2:]
    strides = tuple(s[which] for _, s in dims) + place.strides[-2:]
    return Place(place.buffer, shape, strides, place.offset)


def rows_of(place: Place, rows: int) -> Place:
    """A batch of matrices as one tall one."""
    return Place(place.buffer, (rows, place.shape[-1]), place.strides[-2:], place.offset)


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


def launch(
    node: Node, a: Place, b: Place, c: Place, sizes: tuple[int, int, int], dims: list[Any]
) -> Launch:
    """The launch of one product, cut into slices."""
    m, n, k = sizes
    library = blas.find()
    assert library is not None
    dtype = node.outputs[0].spec.dtype
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
        function=f"product_{dtype.name}_{library.bits}",
        text=lambda name: (blas.product_text(name, element, library.bits), set()),
        words=words,
        reads=(whole(a.buffer), whole(b.buffer)),
        writes=(whole(c.buffer),),
        pieces=batch * words[blas.BLOCKS],
        cost=m * n * k * batch / 4,
        label=sized("matmul", *((batch, m, n, k) if batch > 1 else (m, n, k))),
    )


TEMPLATES["matmul"] = Template(accepts, packed, steps)
