"""Places: where a realised value's elements lie in memory."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from adjoint.engine.compiler.memory.buffer_kinds import ALIGN as ALIGN
from adjoint.engine.compiler.memory.buffer_kinds import ARENA as ARENA
from adjoint.engine.compiler.memory.buffer_kinds import INPUT as INPUT
from adjoint.engine.compiler.memory.buffer_kinds import OWN as OWN
from adjoint.engine.compiler.memory.buffer_kinds import RESULT as RESULT
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.spec import Spec, contiguous_strides, same_shape
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.ops.shape.rearrange import FLIP
from adjoint.engine.ops.shape.views import view_strides

Shape = tuple[int, ...]
Dims = list[tuple[int, Shape]]  # ranges: size, and the stride of each place there


@dataclass(eq=False, slots=True)
class PlannedBuffer:
    """A piece of memory; `number` says which input or result, `start` where in the arena."""

    kind: str
    dtype: DType
    size: int  # elements
    number: int = -1
    start: int = -1
    name: str = ""

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __repr__(self) -> str:
        return f"{self.name or self.kind}{'' if self.number < 0 else self.number}[{self.size}]"


@dataclass(frozen=True, slots=True)
class Place:
    """A window on a buffer. It answers what `Record.window` asks of a tensor."""

    buffer: PlannedBuffer
    shape: Shape
    strides: Shape
    offset: int = 0

    def stride(self) -> Shape:
        return self.strides

    def storage_offset(self) -> int:
        return self.offset

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps."""
        wanted = contiguous_strides(self.shape)
        return prod(self.shape) <= 1 or all(
            s == w or n == 1 for s, w, n in zip(self.strides, wanted, self.shape, strict=True)
        )


def row_major(buffer: PlannedBuffer, shape: Shape) -> Place:
    """The whole of a buffer in the given shape."""
    return Place(buffer, shape, contiguous_strides(shape))


def in_order(buffer: PlannedBuffer, shape: Shape, order: Shape) -> Place:
    """The whole of a buffer with its dimensions in another order, outermost first."""
    strides, step = [0] * len(shape), 1
    for d in reversed(order):
        strides[d] = step
        step *= shape[d]
    return Place(buffer, shape, tuple(strides))


def virtual(value: Value) -> Place:
    """Where a value would lie: in row-major order in memory of its own."""
    size = prod(value.spec.shape)
    return row_major(PlannedBuffer(INPUT, value.spec.dtype, size), value.spec.shape)


def is_strided(record: Record) -> bool:
    """Whether it shows elements of the same type through other strides: below zero, those of flip,
    which eager mode copies."""
    return (record.is_view and not record.reinterprets) or record is FLIP


def show(place: Place, node: Node) -> Place | None:
    """What a view node shows of a place; None where no strides will do."""
    return look(place, node.record, node.params)


def look(place: Place, record: Record, params: dict[str, Any]) -> Place | None:
    """What a view shows of a place; None where no strides will do."""
    if record.name == "view_as_real":
        return as_reals(place)
    if not is_strided(record):
        return None
    if record.name == "reshape":
        return reshaped(place, params["shape"])
    if record is FLIP:
        return flipped(place, params["dims"])
    if record.name == "as_strided" and not lies(place, params["x_stride"]):
        return None  # it names elements by where they are in memory, and there they are not
    shape = record.infer(Spec(place.shape, place.buffer.dtype), **params).shape
    window: Any = record.window
    strides, offset = window(place, **params)
    return Place(place.buffer, shape, tuple(strides), offset)


def as_reals(place: Place) -> Place:
    """The memory of complex numbers as pairs; strides and offset count reals (Note [pairs])."""
    strides = (*[2 * s for s in place.strides], 1)
    return Place(place.buffer, (*place.shape, 2), strides, 2 * place.offset)


def lies(place: Place, strides: Shape) -> bool:
    """Whether a place has these strides, where a dimension has more than one element."""
    return all(
        n <= 1 or a == b for n, a, b in zip(place.shape, place.strides, strides, strict=True)
    )


def flipped(place: Place, dims: Shape) -> Place:
    """The same elements from the other end of some dimensions: strides below zero."""
    strides, offset = list(place.strides), place.offset
    for d in dims:
        offset += (place.shape[d] - 1) * strides[d]
        strides[d] = -strides[d]
    return Place(place.buffer, place.shape, tuple(strides), offset)


def reshaped(place: Place, shape: Shape) -> Place | None:
    """The same elements in another shape, where strides can show it."""
    strides = view_strides(place.shape, place.strides, shape)
    return None if strides is None else Place(place.buffer, shape, strides, place.offset)


def expand_to(place: Place, shape: Shape) -> Place:
    """A place broadcast to a larger shape."""
    if same_shape(place.shape, shape):
        return place
    lead = len(shape) - len(place.shape)
    strides = (0,) * lead + tuple(
        0 if n == 1 and m != 1 else s
        for n, m, s in zip(place.shape, shape[lead:], place.strides, strict=True)
    )
    return Place(place.buffer, shape, strides, place.offset)


def common_batches(places: list[Place]) -> Dims:
    """Batch dimensions of a product's places, merged where all agree: (size, strides)."""
    dims: Dims = []
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
