"""The template of convolutions and their gradients: one call of cuDNN, or a kernel of our own.

Note [channels last]
    Tensor cores multiply along channels, so where halves (or float32 in 10 bits) are convolved,
    images, weights and maps lie with their channels innermost. A graph has one order for all its
    convolutions: `orders` finds the shapes that lie so, and what loops make of such a shape lies so
    too (`Target.order`), which makes no difference but that of where elements are. Operands that
    come from outside in another order are copied.
"""

from __future__ import annotations

from math import prod
from typing import Any, Protocol

from adjoint.engine.backends.array.libraries.convolutions import (
    DATA,
    FORWARD,
    PARTS,
    WEIGHT,
    Convolution,
    allows_tf32,
    convolution_of,
)
from adjoint.engine.backends.triton.templates import convolution_kernels as kernels
from adjoint.engine.compiler.loops.copying import copy_step
from adjoint.engine.compiler.memory.places import ARENA, OWN, Place, PlannedBuffer, in_order
from adjoint.engine.compiler.package.naming import digest
from adjoint.engine.compiler.schedule.steps import Address, Launch, sized, whole
from adjoint.engine.compiler.target import LayoutOf, Setting, Target, Template
from adjoint.engine.core.dtype import uint8
from adjoint.engine.graph.ir import DataflowGraph, Node, Value

KINDS = {FORWARD, DATA, WEIGHT}
Shape = tuple[int, ...]


class Convolver(Protocol):
    """Who runs convolutions: cuDNN on a GPU."""

    def room(self, call: Convolution) -> int | None:
        """Bytes of workspace that it wants; None if it cannot."""


def channels_last(rank: int) -> Shape:
    """The order of dimensions with channels innermost."""
    return (0, *range(2, rank), 1)


def shapes_in_order(graph: DataflowGraph) -> frozenset[Shape]:
    """Shapes that lie with channels last (Note [channels last])."""
    nodes = [node for node in graph.nodes if node.record.name in KINDS]
    tf32 = allows_tf32()
    wanted = any(
        dtype.is_half or (tf32 and dtype.name == "float32")
        for dtype in (node.outputs[0].spec.dtype for node in nodes)
    )
    if not wanted:
        return frozenset()
    values = [v for node in nodes for v in (*node.inputs, *node.outputs) if isinstance(v, Value)]
    return frozenset(v.spec.shape for v in values)


class Convolutions:
    """The template, for a target."""

    def __init__(self, target: Target, convolver: Convolver | None) -> None:
        self.target, self.convolver = target, convolver

    def call(self, node: Node, inputs: tuple[Any, ...]) -> Convolution | None:
        """A node as a call; None if it is none of the library's."""
        if not all(isinstance(x, Value) and not x.host for x in inputs):
            return None
        values, params = (*inputs, node.outputs[0]), node.params
        orders = {self.target.order(v) is not None for v in values}
        if len(orders) > 1 or any(v.spec.device.type != self.target.device for v in values):
            return None
        first, second, out = (v.spec.shape for v in values)
        return convolution_of(
            node.record.name, values[2].spec.dtype.name, (first, second, out),
            params["stride"], params["padding"], params["dilation"], orders.pop(),
        )  # fmt: skip

    def room(self, call: Convolution | None) -> int | None:
        """Bytes of workspace that the library wants; None if it does not take a call."""
        return None if call is None or self.convolver is None else self.convolver.room(call)

    def accepts(self, setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
        """What the library has a plan for, or a kernel can be written for."""
        if not all(isinstance(x, Value) and not x.host for x in inputs):
            return False
        spec = node.outputs[0].spec
        ours = spec.dtype.name in kernels.DTYPES and spec.device.type == self.target.device
        return ours or self.room(self.call(node, inputs)) is not None

    def order(self, x: Value) -> Shape:
        """The order in which a value must lie."""
        return self.target.order(x) or tuple(range(len(x.spec.shape)))

    def packed(self, layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
        """Operands that lie in another order, or with gaps."""
        return {i for i, x in enumerate(inputs) if not lies_dense(layout(x), self.order(x))}

    def steps(
        self, setting: Setting, node: Node, operands: list[Place], results: list[Place]
    ) -> list[Launch]:
        """One launch; what is no memory of the program's own is written by a copy."""
        out, order = results[0], self.order(node.outputs[0])
        if out.buffer.kind not in OWN or not lies_dense(out, order):
            own = PlannedBuffer(ARENA, out.buffer.dtype, prod(out.shape), name="convolution")
            place = in_order(own, out.shape, order)
            launches = self.steps(setting, node, operands, [place])
            return [*launches, copy_step(self.target, place, out, node.record.name)]
        call = self.call(node, node.inputs)
        room = self.room(call)
        if call is None or room is None:
            return [own_launch(node, [*operands, out])]
        return [
            launch(call, [*operands, out], PlannedBuffer(ARENA, uint8, max(room, 1), name="room"))
        ]


def launch(call: Convolution, places: list[Place], room: PlannedBuffer) -> Launch:
    """The call, with a workspace."""
    *operands, out = places
    addresses = [Address(p.buffer, p.offset * p.buffer.dtype.itemsize) for p in places]
    return Launch(
        function=f"{call.kind}_{call.dtype}",
        words=[*addresses, Address(room)],
        reads=tuple(whole(p.buffer) for p in operands),
        writes=(whole(out.buffer), whole(room)),
        pieces=1,
        cost=call.work,
        label=sized(call.kind, *call.maps, *call.weights[1:]),
        kernels=[call],
    )


def own_launch(node: Node, places: list[Place]) -> Launch:
    """A kernel of our own."""
    name, params = node.record.name, node.params
    image, weights, maps = (places[i] for i in PARTS[name])
    windows = kernels.ConvolutionForm(
        image, weights, maps, params["stride"], params["padding"], params["dilation"],
        params["groups"], allows_tf32(),
    )  # fmt: skip
    text = kernels.written(windows, name)
    *operands, out = places
    return Launch(
        function=f"convolution{digest(text.source)}",
        text=text,
        words=[Address(p.buffer, p.offset * p.buffer.dtype.itemsize) for p in places],
        reads=tuple(whole(p.buffer) for p in operands),
        writes=(whole(out.buffer),),
        pieces=prod(text.grid),
        cost=2 * prod(maps.shape) * prod(weights.shape[1:]),
        label=sized(f"{name} by a kernel", *maps.shape, *weights.shape[1:]),
    )


def lies_dense(place: Place, order: Shape) -> bool:
    """Whether elements lie without gaps in an order of dimensions."""
    step = 1
    for d in reversed(order):
        if place.shape[d] > 1 and place.strides[d] != step:
            return False
        step *= place.shape[d]
    return True


def templates(target: Target, convolver: Convolver | None) -> dict[str, Template]:
    """The templates of a target, for which somebody may run convolutions."""
    convolutions = Convolutions(target, convolver)
    template = Template(convolutions.accepts, convolutions.packed, convolutions.steps, ordered=True)
    return dict.fromkeys(KINDS, template)
