"""Attention over long sequences, or of wide heads, by cuDNN where it is installed.

Note [long attention]
    Our kernels are about as fast as cuDNN's on short sequences of narrow heads (T 1024, head 64, an
    H200: 95 against 89 us forward, 271 and 271 backward), and slower elsewhere (T 4096, heads of 64
    and 128: 381 and 392 against 400 and 577 TFLOP/s forward, 334 and 320 against 370 and 486
    backward). So they do what it does not: masks, odd sizes, short sequences; and backward, all
    where the same bits are wanted every time, for cuDNN's adds up in any order.

    A backward node has the sums of gradients times results instead of the results, as our kernels
    want them; before it becomes cuDNN's it gets those of the forward node whose logsumexp it reads.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any, Protocol

from adjoint.engine.backends.array.libraries.attention import (
    BACKWARD,
    FORWARD,
    TENSORS,
    CudnnAttention,
)
from adjoint.engine.backends.triton.launch_words import is_aligned
from adjoint.engine.backends.triton.templates import attention
from adjoint.engine.compiler.loops.copying import copy_step
from adjoint.engine.compiler.memory.places import ARENA, Place, PlannedBuffer, row_major, virtual
from adjoint.engine.compiler.schedule.steps import Address, Launch, sized, whole
from adjoint.engine.compiler.target import LayoutOf, Setting, Target, Template
from adjoint.engine.core.dtype import uint8
from adjoint.engine.core.operations.record import REGISTRY
from adjoint.engine.core.state.determinism import are_deterministic_algorithms_enabled
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.dce import dce
from adjoint.engine.graph.passes.rewrite import GraphBuilder

LONG, WIDE, SHORT = 2048, 64, 512  # keys of any head; a head, and keys of one that is wider
LARGEST = 256  # of heads
HALVES = (0, 1, 2, 4, 5)  # operands of such a backward node: all but the logsumexp
WHOLE = "whole"  # a parameter of backward nodes that have the result of the forward one
Shape = tuple[int, ...]


class Attender(Protocol):
    """Who runs attention: cuDNN on a GPU."""

    def attention_room(self, call: CudnnAttention) -> int | None:
        """Bytes of workspace that it wants; None if it cannot."""


def is_long(node: Node, query: Shape, key: Shape, value: Shape) -> bool:
    """Whether an attention is one of those that cuDNN is asked for."""
    params, sizes = node.params, (query[-1], value[-1])
    simple = not (params["masked"] or params["dropout"] or params.get("ranged"))
    same = key[:-2] == value[:-2] and batch_of(query[:-2], key[:-2]) is not None
    even = max(sizes) <= LARGEST and all(n % 8 == 0 for n in sizes)
    square = not params["causal"] or query[-2] == key[-2]
    long = key[-2] >= LONG or (max(sizes) > WIDE and key[-2] >= SHORT)
    return simple and same and even and square and long


def batch_of(query: Shape, key: Shape) -> tuple[int, int, int] | None:
    """Sequences, heads of queries and heads of keys; None where others share than groups of heads.

    Groups are the last of three dimensions, or all heads of a sequence.
    """
    alone = query == key
    shared = len(query) == len(key) and query[:-1] == key[:-1] and key[-1:] == (1,)
    if not 1 <= len(query) <= 3 or not (alone or shared):
        return None
    first, *heads = (1, *query) if len(query) == 1 else query
    many = prod(heads)
    return first, many, many if alone else many // query[-1]


class LongAttention:
    """The templates, for a target."""

    def __init__(self, target: Target, attender: Attender) -> None:
        self.target, self.attender = target, attender

    def lies_well(self, place: Place) -> bool:
        """Whether cuDNN takes a tensor of halves where it lies: rows that 16 bytes divide."""
        strides = four(place)
        if strides is None or not is_aligned(self.target, place):
            return False
        return strides[-1] == 1 and all(s > 0 and s % 8 == 0 for s in strides[:-1])

    def packed(self, layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
        """Of a backward node with the forward result: operands that lie otherwise."""
        if inputs[4].spec.shape != inputs[5].spec.shape:
            return set()
        return {i for i in HALVES if not self.lies_well(layout(inputs[i]))}

    def call(self, kind: str, node: Node, places: list[Place]) -> CudnnAttention | None:
        """A node as a call, given where its tensors lie; None if it is none of the library's."""
        query, key, value = places[:3]
        if query.buffer.dtype.name not in ("float16", "bfloat16"):
            return None
        if not is_long(node, query.shape, key.shape, value.shape):
            return None
        names = zip(TENSORS[kind], places, strict=True)
        if not all(name == "lse" or self.lies_well(place) for name, place in names):
            return None
        batch, strides = batch_of(query.shape[:-2], key.shape[:-2]), [four(p) for p in places]
        if batch is None or None in strides:
            return None
        return CudnnAttention(
            kind, query.buffer.dtype.name, batch, query.shape[-2], key.shape[-2],
            query.shape[-1], value.shape[-1], node.params["scale"], node.params["causal"],
            tuple(s for s in strides if s is not None),
        )  # fmt: skip

    def room(self, call: CudnnAttention | None) -> int | None:
        """Bytes of workspace that the library wants; None if it does not take a call."""
        return None if call is None else self.attender.attention_room(call)

    def steps(
        self, setting: Setting, node: Node, operands: list[Place], results: list[Place]
    ) -> list[Launch]:
        """One call, or our own kernel."""
        out_places, copies = attention.own_places(setting, results)
        places = [*operands, *out_places]
        call = self.call(FORWARD, node, places) if len(operands) == 3 else None
        room = self.room(call)
        if call is None or room is None:
            return attention.steps(setting, node, operands, results)
        return [launch(call, places, room, 3), *copies]

    def backward_steps(
        self, setting: Setting, node: Node, operands: list[Place], results: list[Place]
    ) -> list[Launch]:
        """One call, or our own kernels."""
        if not node.params.get(WHOLE):
            return attention.backward_steps(setting, node, operands, results)
        places, copies = attention.own_places(setting, results)
        places, before = [*operands, *places], []
        call = self.call(BACKWARD, node, places)
        room = self.room(call)
        if call is None or room is None:  # all in rows, as when it was first asked (`result_for`)
            apart = [
                row_major(PlannedBuffer(ARENA, p.buffer.dtype, prod(p.shape)), p.shape)
                for p in places
            ]
            given = len(operands)
            before = self.copied(operands, apart[:given])
            copies = self.copied(apart[given:], results)
            places, call = apart, self.call(BACKWARD, node, apart)
            room = self.room(call)
        assert call is not None
        assert room is not None
        return [*before, launch(call, places, room, 6), *copies]

    def copied(self, sources: list[Place], places: list[Place]) -> list[Launch]:
        """Copies from places to others."""
        pairs = zip(sources, places, strict=True)
        return [copy_step(self.target, x, out, attention.ATTENTION) for x, out in pairs]

    def with_results(self, graph: DataflowGraph) -> DataflowGraph:
        """Backward nodes that the library takes, with the results of forward ones."""
        if are_deterministic_algorithms_enabled():
            return graph
        forward = {node: out for node in graph.nodes if (out := self.result_for(node)) is not None}
        if not forward:
            return graph
        builder = GraphBuilder(graph)
        for node in graph.nodes:
            builder.graph.where = node.where
            inputs = builder.translate(node.inputs)
            if node not in forward:
                builder.keep(node, inputs)
                continue
            out, grad = builder.translate((forward[node],))[0], inputs[4]
            if grad.spec.dtype is not out.spec.dtype:  # as our kernels round it
                grad = builder.emit(REGISTRY["cast"], grad, dtype=out.spec.dtype)
            given = (*inputs[:4], grad, out)
            params = {**node.params, WHOLE: True}
            specs = tuple(v.spec for v in node.outputs)
            builder.replace(node, tuple(builder.graph.add_node(node.record, given, params, specs)))
        return dce(builder.finish(graph))

    def result_for(self, node: Node) -> Value | None:
        """The result of the attention that a node is the derivative of, if the library takes it."""
        if node.record.name != attention.BACKWARD or not all(node.params["needed"][:3]):
            return None
        out = attention.result_of(node)
        if out is None:
            return None
        values = (*node.inputs[:5], out, *node.outputs)
        halves = {v.spec.dtype for v in values if v not in node.inputs[3:5]}
        if len(halves) != 1 or len(node.outputs) != 3:
            return None
        call = self.call(BACKWARD, node, [virtual(v) for v in values])
        return None if self.room(call) is None else out


def four(place: Place) -> tuple[int, ...] | None:
    """The four strides of a tensor, groups of heads as one dimension; None where they are none.

    Of dimensions of one element they are what they would be.
    """
    shape, strides = place.shape, place.strides
    if len(shape) == 5:
        many, few = shape[1:3]
        if many > 1 and few > 1 and strides[1] != few * strides[2]:
            return None
        step = strides[2] if few > 1 else strides[1]
        shape, strides = (shape[0], many * few, *shape[3:]), (strides[0], step, *strides[3:])
    missing = 4 - len(shape)
    shape, strides = (1,) * missing + shape, (0,) * missing + strides
    return tuple(
        s if n > 1 or (d == 3 and s) else max(prod(shape[d + 1 :]), 1)
        for d, (n, s) in enumerate(zip(shape, strides, strict=True))
    )


def launch(call: CudnnAttention, places: list[Place], size: int, read: int) -> Launch:
    """The call, with a workspace."""
    room = PlannedBuffer(ARENA, uint8, max(size, 1), name="room")
    return Launch(
        function=f"{call.kind.replace(' ', '_')}_{call.dtype}",
        words=[
            *(Address(p.buffer, p.offset * p.buffer.dtype.itemsize) for p in places),
            Address(room),
        ],
        reads=tuple(whole(p.buffer) for p in places[:read]),
        writes=(*(whole(p.buffer) for p in places[read:]), whole(room)),
        pieces=1,
        cost=call.work,
        label=sized(f"{call.kind} by cuDNN", call.queries, call.keys, call.size),
        kernels=[call],
    )


def templates(long: LongAttention) -> dict[str, Template]:
    """The templates of a target for which somebody runs attention."""
    ours = attention.TEMPLATES
    return {
        attention.ATTENTION: replace(ours[attention.ATTENTION], steps=long.steps),
        attention.BACKWARD: replace(
            ours[attention.BACKWARD],
            accepts=accepts_backward,
            packed=long.packed,
            steps=long.backward_steps,
        ),
    }


def accepts_backward(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """What was given the forward result is taken; else what our kernels take."""
    return bool(node.params.get(WHOLE)) or attention.accepts_backward(setting, node, inputs)
