"""The template of matrix products: one call of cuBLASLt, or one per combination of batches.

Note [batches in one call]
    cuBLASLt goes through batches at one constant step. Batches of several dimensions that do not
    follow one another (the heads of queries that were split off rows) go through the largest of
    these in each call, and the others are calls of their own. Where those are many and small,
    operands are copied first so that they are one: a window's attention over 49 positions took 512
    calls of 3 heads, and 20 times as long.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

from adjoint.engine.backends.triton.launch_words import alignment
from adjoint.engine.compiler.loops.copying import copy_step
from adjoint.engine.compiler.memory.places import (
    ARENA,
    OWN,
    Dims,
    Place,
    PlannedBuffer,
    common_batches,
    row_major,
)
from adjoint.engine.compiler.schedule.steps import Address, Launch, sized, whole
from adjoint.engine.compiler.target import LayoutOf, Setting, Template
from adjoint.engine.core.spec import broadcast_shapes, pinned
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.graph.sizes.extents import common_divisor, typical

FLOATS = {"float16", "bfloat16", "float32", "float64"}
USUAL = 64  # bytes that addresses are multiples of unless they are parts of something
FEW = 4  # calls that are not worth a copy
LARGE = 1 << 31  # operations of a call that fills a GPU by itself


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """C (m, n) = A (m, k) B (k, n), `count` times at constant steps; all in elements, row-major.

    A matrix may be transposed in memory; `lead` is the step from one of its lines to the next.
    """

    dtype: str
    out: str  # the dtype of C: A's and B's, or float32 where those are halves
    m: int
    n: int
    k: int
    transposed: tuple[bool, bool]  # A, B
    lead: tuple[int, int, int]  # A, B, C
    count: int = 1
    steps: tuple[int, int, int] = (0, 0, 0)
    biased: bool = False  # a vector of C's dtype is added to all rows
    aligned: int = 0  # what addresses are multiples of, where that is less than usual; in bytes
    refs: tuple[Any, ...] = ()  # a kernel's references, of which a product has none


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Floats on the device."""
    spec = node.outputs[0].spec
    return (
        all(isinstance(x, Value) for x in inputs)
        and spec.dtype.name in FLOATS
        and spec.device.type == setting.target.device
    )


def packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Operands whose lines have gaps between elements, or whose batches take many calls."""
    a, b = (layout(x) for x in inputs[:2])
    operands = {i for i, p in enumerate((a, b)) if line(p) is None}
    biases = {2 + i for i, x in enumerate(inputs[2:]) if not layout(x).contiguous}
    return copied_for_batches(a, b, operands) | biases


def copied_for_batches(a: Place, b: Place, copied: set[int]) -> set[int]:
    """Those of the two operands that are copied (Note [batches in one call])."""
    if max(len(a.shape), len(b.shape)) < 4:
        return copied
    batches = broadcast_shapes("matmul", a.shape[:-2], b.shape[:-2])
    out = row_major(a.buffer, (*batches, a.shape[-2], b.shape[-1]))

    def calls(which: set[int]) -> int:
        """How many calls there are where these are copied."""
        lying = [row_major(p.buffer, p.shape) if i in which else p for i, p in enumerate((a, b))]
        sizes = [typical(n) for n, _ in common_batches([*lying, out])]
        return prod(sizes) // max(sizes, default=1) if prod(sizes) else 0

    operations = 2 * typical(prod(out.shape)) * typical(a.shape[-1])
    now = calls(copied)
    if now <= FEW or operations >= now * LARGE:
        return copied
    return min(copied, copied | {0}, copied | {1}, {0, 1}, key=lambda s: (calls(s), len(s)))


def largest_apart(dims: Dims) -> tuple[Dims, tuple[int, tuple[int, ...]]]:
    """The batches that are calls of their own, and those that a call goes through."""
    if not dims:
        return [], (1, (0, 0, 0))
    at = max(range(len(dims)), key=lambda d: (typical(dims[d][0]), d))
    return dims[:at] + dims[at + 1 :], dims[at]


def line(place: Place) -> tuple[bool, int] | None:
    """Whether a matrix lies transposed, and the step between lines; None: neither way has lines."""
    (m, n), (down, along) = place.shape[-2:], place.strides[-2:]
    if (along == 1 or n == 1) and (m == 1 or down >= max(n, 1)):
        return False, max(n, 1) if m == 1 else down
    if (down == 1 or m == 1) and (n == 1 or along >= max(m, 1)):
        return True, max(m, 1) if n == 1 else along
    return None


def in_lines(place: Place) -> bool:
    """Whether a product can be written there: rows that are contiguous."""
    lead = line(place)
    return lead is not None and not lead[0]


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """Calls for one product; what is no memory of the program's own is written by a copy."""
    a, b, c = *operands[:2], results[0]
    bias = tuple(operands[2:])
    if c.buffer.kind not in OWN or not in_lines(c):
        own = row_major(
            PlannedBuffer(ARENA, c.buffer.dtype, prod(c.shape), name="product"), c.shape
        )
        return [*steps(setting, node, operands, [own]), copy_step(setting.target, own, c)]
    dims = common_batches([a, b, c])
    lines = [line(p) for p in (a, b, c)]
    assert None not in lines
    rows: list[Any] = lines
    (m, k), n = a.shape[-2:], c.shape[-1]
    plain = MatrixProduct(
        a.buffer.dtype.name, c.buffer.dtype.name, m, n, k,
        (rows[0][0], rows[1][0]), (rows[0][1], rows[1][1], rows[2][1]), biased=bool(bias),
        aligned=least_alignment(setting, (a, b, c, *bias)),
    )  # fmt: skip
    tall = one_tall(plain, dims)
    if tall is not None:
        return [launch(tall, (a, b, c, *bias), (0, 0, 0))]
    outside, last = largest_apart(dims)
    whole_product = replace(plain, count=last[0], steps=(last[1][0], last[1][1], last[1][2]))
    moved = shifts(outside)
    items = [p.buffer.dtype.itemsize for p in (a, b, c)]
    ahead = [
        n * item
        for combination in (*moved, whole_product.steps)
        for n, item in zip(combination, items, strict=True)
    ]
    whole_product = with_steps(whole_product, ahead)
    return [launch(whole_product, (a, b, c, *bias), shift) for shift in moved]


def least_alignment(setting: Setting, places: tuple[Place, ...]) -> int:
    """What all addresses of a product are multiples of; 0: as much as cuBLASLt may count on."""
    least = min(alignment(setting.target, place) for place in places)
    return 0 if least >= USUAL else least


def one_tall(plain: MatrixProduct, dims: Any) -> MatrixProduct | None:
    """A batch that shares the other operand, as rows of one product."""
    if len(dims) != 1:
        return None
    size, (along_a, along_b, along_c) = dims[0]
    lead_a, _, lead_c = plain.lead
    if along_b or plain.transposed[0] or along_a != lead_a * plain.m or along_c != lead_c * plain.m:
        return None
    return replace(plain, m=plain.m * size)


def with_steps(product: MatrixProduct, ahead: list[int]) -> MatrixProduct:
    """A product whose batches, so many bytes ahead, are as aligned as it says."""
    least = common_divisor(product.aligned or USUAL, *ahead)
    return product if least >= USUAL else replace(product, aligned=least)


def shifts(dims: list[tuple[int, tuple[int, ...]]]) -> list[tuple[int, ...]]:
    """Where each combination of batches begins, in elements of the three matrices."""
    starts: list[tuple[int, ...]] = [(0, 0, 0)]
    for size, strides in dims:
        starts = [
            tuple(at + i * s for at, s in zip(start, strides, strict=True))
            for start in starts
            for i in range(pinned(size))
        ]
    return starts


def launch(product: MatrixProduct, places: tuple[Place, ...], shift: tuple[int, ...]) -> Launch:
    """One call; a fourth place is that of the bias."""
    a, b, c, *bias = places
    return Launch(
        function=f"product_{product.dtype}",
        words=[
            Address(p.buffer, (p.offset + s) * p.buffer.dtype.itemsize)
            for p, s in zip(places, (*shift, 0), strict=False)
        ],
        reads=tuple(whole(p.buffer) for p in (a, b, *bias)),
        writes=(whole(c.buffer),),
        pieces=1,
        cost=2 * product.count * product.m * product.n * product.k,
        label=sized("matmul+add" if bias else "matmul", product.m, product.n, product.k),
        kernels=[product],
    )


TEMPLATES = {"matmul": Template(accepts, packed, steps, writes_to=in_lines, by_lines=True)}
