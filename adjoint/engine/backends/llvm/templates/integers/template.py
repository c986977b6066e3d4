"""The template of products of int8, which are int32."""

from __future__ import annotations

from functools import partial
from typing import Any

from adjoint.engine.backends.llvm.templates.convolution.windowed import address, parts_of
from adjoint.engine.backends.llvm.templates.integers import kernel
from adjoint.engine.backends.llvm.templates.integers.dots import host_dot
from adjoint.engine.backends.llvm.templates.product.template import (
    batches,
    products_of,
)
from adjoint.engine.compiler.memory.places import Dims, Place
from adjoint.engine.compiler.schedule.steps import Launch, sized, whole
from adjoint.engine.compiler.target import LayoutOf, Setting, Template, knows_all
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.graph.sizes.extents import computed, typical

NEAR = 24 * 1024  # bytes of rows of A that a piece goes through for all of its columns
PIECES = 16  # a large product is dealt out in at least so many pieces
WORTH = 128 * 1024  # multiply-adds that a piece has at least, if there are several


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Whatever lies where kernels can read it."""
    return all(isinstance(x, Value) for x in inputs) and knows_all(setting, node, inputs)


def packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Operands whose batch no two strides describe, or that are not contiguous along the depth."""
    return {i for i, x in enumerate(inputs) if not _lies(layout(x))}


def _lies(place: Place) -> bool:
    along = place.shape[-1] == 1 or place.strides[-1] == 1
    return along and len(batches(place)) <= 2


def rows_of_piece(m: int, k: int, rows: int) -> int:
    """Rows that a piece goes through for each of its columns."""
    near = max(NEAR // max(k, 1), 1)
    return max(rows, min(near, m) // rows * rows)


def columns_of_piece(m: int, n: int, k: int, batch: int, part: int) -> int:
    """Columns of a piece that has `part` rows: a multiple of a tile's."""
    pieces = max(1, min(PIECES, batch * m * n * k // WORTH))
    wanted = max(1, -(-pieces // max(batch * -(-m // part), 1)))
    return max(kernel.ACROSS, -(-n // wanted // kernel.ACROSS) * kernel.ACROSS)


def tile_rows(m: int, most: int) -> int:
    """Rows of a tile: no more than there are."""
    return next((rows for rows in (1, 2, 4) if m <= rows < most), most)


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """The launch of one product, or of several if the batch has more than two ranges."""
    return [product_launch(*part) for part in products_of(*operands, *results)]


def product_launch(a: Place, b: Place, c: Place, dims: Dims) -> Launch:
    """C = A B^T, where rows of both are contiguous."""
    (outer, outers), (inner, inners) = dims
    batch = outer * inner
    (m, n), k = c.shape[-2:], a.shape[-1]
    dot = host_dot()
    rows = tile_rows(typical(m), dot.rows)
    part = computed(rows_of_piece, m, k, rows)
    columns = computed(columns_of_piece, m, n, k, batch, part)
    row_parts, column_parts = parts_of(m, part), parts_of(n, columns)
    pieces = batch * row_parts * column_parts
    words = kernel.IntegerWords(
        a=address(a, a.offset), b=address(b, b.offset), c=address(c, c.offset), m=m, n=n, k=k,
        a_row=a.strides[-2], b_row=b.strides[-2], c_row=c.strides[-2],
        rows=part, row_parts=row_parts, columns=columns, column_parts=column_parts, pieces=pieces,
        inner=inner, outer_a=outers[0], outer_b=outers[1], outer_c=outers[2],
        inner_a=inners[0], inner_b=inners[1], inner_c=inners[2],
    ).listed()  # fmt: skip
    sizes = (m, n, k)
    return Launch(
        function=f"integers_{dot.name}_{rows}",
        text=partial(kernel.integer_text, dot=dot.name, rows=rows),
        words=words,
        reads=(whole(a.buffer), whole(b.buffer)),
        writes=(whole(c.buffer),),
        pieces=pieces,
        cost=batch * m * n * k / 16,
        label=sized("integer_matmul", *((batch, *sizes) if batch > 1 else sizes)),
    )


TEMPLATES = {"integer_matmul": Template(accepts, packed, steps)}
