"""Long reductions block by block, whatever their length.

Note [blocks]
    A reduction that is long and has few results goes in two steps (`Target.long`), so that many
    workers have something to do. Of a program for one size the first step takes parts that are as
    long as one another, so their length divides the whole, and another length has other parts. A
    fragment meets many sizes (Note [open kinds]), and one plan is to do all of them: there blocks
    have a fixed length, and what is left over is one more block, a step of its own beside the
    first. It is never empty and never much shorter than the others, for a kernel of few elements
    would be another one.

    Blocks are slices, and a slice of what a loop computes would have the whole of it in memory
    first. So it is computed from slices instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.compiler.fuse.fuse import POINT, REDUCE, TEMPLATE
from adjoint.engine.core.operations.record import REGISTRY, Record
from adjoint.engine.graph.ir import Value

if TYPE_CHECKING:
    from adjoint.engine.compiler.lower.legalise import Legal

ROW_BLOCK = 1024  # elements that lie side by side
# Rows of columns that are at most so long, and of longer ones: pieces enough for many workers, and
# not so many that to add them up takes long.
COLUMN_BLOCKS = ((1 << 11, 64), (1 << 14, 256))
TALL_BLOCK = 1024
# Elements that depend on where they are, or on others than those in the same place.
PLACED = frozenset({"triu", "tril", "random", "arange", "scatter", "gather", "index", "require"})
MOST = 16  # operations that are done block by block rather than all at once


def block_length(length: int, columns: bool) -> int:
    """How many elements a block of a long reduction has."""
    if not columns:
        return ROW_BLOCK
    return next((block for most, block in COLUMN_BLOCKS if length <= most), TALL_BLOCK)


def reduced_blocks(legal: Legal, record: Record, x: Value, dim: int, block: int) -> Value:
    """What each block of x along a dimension reduces to, one after another."""
    shape = x.spec.shape
    length = shape[dim]
    count = (length - block // 4) // block
    whole = Slices(legal, dim, 0, count * block)(x)
    split = legal.reshape(whole, (*shape[:dim], count, block, *shape[dim + 1 :]))
    left = Slices(legal, dim, count * block, length)(x)
    parts = [
        legal.emit(REDUCE, record, split, dims=(dim + 1,), keepdim=False),
        legal.emit(REDUCE, record, left, dims=(dim,), keepdim=True),
    ]
    return legal.emit(TEMPLATE, REGISTRY["cat"], *parts, dim=dim)


class Slices:
    """Values from one index to another along a dimension, computed from slices of others."""

    def __init__(self, legal: Legal, dim: int, start: int, stop: int) -> None:
        self.legal, self.dim, self.start, self.stop = legal, dim, start, stop
        self.sliced: dict[Value, Value] = {}

    def __call__(self, x: Value) -> Value:
        if x not in self.sliced:
            self.sliced[x] = self.computed(x) if self.is_computed(x) else self.shown(x)
        return self.sliced[x]

    def is_computed(self, x: Value) -> bool:
        """Whether a loop makes each element of x from those in its place."""
        node = x.node
        return (
            node is not None
            and self.legal.kinds[node] == POINT
            and node.record.name not in PLACED
            and len(self.sliced) < MOST
        )

    def computed(self, x: Value) -> Value:
        node = x.node
        assert node is not None
        operands = [self.operand(y, len(x.spec.shape), x.spec.shape) for y in node.inputs]
        return self.legal.emit(POINT, node.record, *operands, **node.params)

    def operand(self, y: Any, rank: int, shape: tuple[int, ...]) -> Any:
        """What an operand of a value of some shape is for the slice of that."""
        if not isinstance(y, Value) or y.host:
            return y
        dim = self.dim - rank + len(y.spec.shape)
        if dim < 0 or y.spec.shape[dim] == 1:
            return y
        if len(y.spec.shape) == rank and y.spec.shape == shape:
            return self(y)
        return self.shown(y, dim)

    def shown(self, x: Value, dim: int | None = None) -> Value:
        """The slice as a view."""
        at = self.dim if dim is None else dim
        index = tuple(
            [
                (self.start, self.stop, 1) if d == at else (0, n, 1)
                for d, n in enumerate(x.spec.shape)
            ]
        )
        return self.legal.show("slice", x, index=index)
