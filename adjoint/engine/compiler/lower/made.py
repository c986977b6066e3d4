"""What is made of numbers alone: evenly spaced numbers, indices of triangles, as loops have them.

Products and sums are of doubles, which hold them whole: so the bits are those of eager mode.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.engine.backends.array.dtypes import NUMPY_OF
from adjoint.engine.core.dtype import DType, float32, float64, int64
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.rewrite import GraphBuilder, rebuild
from adjoint.engine.graph.sizes.extents import is_extent
from adjoint.engine.ops.create.creation import ARANGE
from adjoint.engine.ops.create.ranges import LINSPACE
from adjoint.engine.ops.elementwise import records
from adjoint.engine.ops.elementwise.condition import WHERE
from adjoint.engine.ops.shape.convert import CAST
from adjoint.engine.ops.shape.triangular import TRIANGLE_INDICES, before_diagonal
from adjoint.engine.ops.shape.views import RESHAPE

Values = tuple[Value, ...]


def made(graph: DataflowGraph) -> DataflowGraph:
    """The graph with these as operations that kernels have."""
    if not any(node.record in MADE for node in graph.nodes):
        return graph

    def visit(builder: GraphBuilder, node: Node, inputs: tuple[Any, ...]) -> Values | None:
        return MADE[node.record](builder, node) if node.record in MADE else None

    return rebuild(graph, visit)


def spaced(builder: GraphBuilder, node: Node) -> Values | None:
    """Evenly spaced singles or halves, counted from the nearer end, to the bits of eager mode.

    Products and sums are of doubles, which hold them whole.
    """
    emit, spec, params = builder.emit, node.outputs[0].spec, node.params
    count = spec.shape[0]
    if is_extent(count) or count < 2 or not (spec.dtype is float32 or spec.dtype.is_half):
        return None
    kind = NUMPY_OF[spec.dtype]
    first, last = (np.asarray(params[end]).astype(kind).astype(np.float32) for end in ENDS)
    step = np.float32((last - first) / np.float32(count - 1))
    if spec.dtype.is_half:
        step = np.float32(step.astype(kind))
    index = emit(ARANGE, start=0, step=1, length=count, dtype=int64, device=spec.device)
    back = emit(records.SUB, count - 1, index)
    up, down = (
        to(builder, emit(records.ADD, emit(records.MUL, to(builder, k, float64), by), end), float32)
        for k, by, end in (
            (index, float(step), float(first)),
            (back, -float(step), float(last)),
        )
    )
    value = emit(WHERE, emit(records.LT, index, count // 2), up, down)
    return (to(builder, value, spec.dtype),)


ENDS = ("start", "end")
COUNTED = 1 << 20  # rows and columns up to which doubles hold all that leads to an index


def triangle_pairs(builder: GraphBuilder, node: Node) -> Values | None:
    """Rows and columns of a triangle's elements, from their numbers.

    Of a lower one, row r of those that grow from `least` elements on begins at
    r (2 least + r - 1) / 2; rows of all columns follow. An upper one is a lower one from the end.
    """
    emit, spec, params = builder.emit, node.outputs[0].spec, node.params
    rows, columns, offset = (params[name] for name in ("row", "col", "offset"))
    count = spec.shape[1]
    if any(is_extent(n) or abs(n) > COUNTED for n in (rows, columns, offset)) or not count:
        return None
    upper = not params["lower"]
    below = (columns - rows - offset if upper else offset) + 1  # elements of the first row
    empty = max(-below, 0)  # rows; one of none does no harm
    least = empty + below
    growing = min(max(columns - below, empty), rows)
    sloped = before_diagonal(rows, columns, below) - (rows - growing) * columns

    def begin(r: Value) -> Value:
        return emit(records.MUL, emit(records.MUL, r, emit(records.ADD, r, 2 * least - 1)), 0.5)

    at_once = spec.device.type == "cuda"  # where to compute both is less than a launch
    length = 2 * count if at_once else count
    number = emit(ARANGE, start=0, step=1, length=length, dtype=int64, device=spec.device)
    first = None
    if at_once:
        first = emit(records.LT, number, count)
        number = emit(WHERE, first, number, emit(records.SUB, number, count))
    at = to(builder, emit(records.SUB, count - 1, number) if upper else number, float64)
    inside = emit(records.ADD, emit(records.MUL, at, 8.0), float((2 * least - 1) ** 2))
    root = emit(records.SUB, emit(records.SQRT, inside), float(2 * least - 1))
    r = emit(records.FLOOR, emit(records.MUL, root, 0.5))
    r = emit(WHERE, emit(records.GT, begin(r), at), emit(records.SUB, r, 1.0), r)
    after = emit(records.ADD, r, 1.0)
    r = emit(WHERE, emit(records.LE, begin(after), at), after, r)
    row, column = emit(records.ADD, r, float(empty)), emit(records.SUB, at, begin(r))
    if rows > growing:
        beyond = emit(records.SUB, at, float(sloped))
        whole = emit(records.FLOOR, emit(records.DIV, beyond, float(columns)))
        rest = emit(records.SUB, beyond, emit(records.MUL, whole, float(columns)))
        full = emit(records.GE, at, float(sloped))
        row = emit(WHERE, full, emit(records.ADD, whole, float(growing)), row)
        column = emit(WHERE, full, rest, column)
    if upper:
        row, column = (
            emit(records.SUB, float(size - 1), x) for size, x in ((rows, row), (columns, column))
        )
    if first is not None:
        pairs = to(builder, emit(WHERE, first, row, column), spec.dtype)
        return (emit(RESHAPE, pairs, shape=(2, count)),)
    which = emit(ARANGE, start=0, step=1, length=2, dtype=int64, device=spec.device)
    first = emit(records.EQ, emit(RESHAPE, which, shape=(2, 1)), 0)
    return (to(builder, emit(WHERE, first, row, column), spec.dtype),)


MADE = {LINSPACE: spaced, TRIANGLE_INDICES: triangle_pairs}  # of no operands


def to(builder: GraphBuilder, x: Value, dtype: DType) -> Value:
    """A value in a dtype."""
    return x if x.spec.dtype is dtype else builder.emit(CAST, x, dtype=dtype)
