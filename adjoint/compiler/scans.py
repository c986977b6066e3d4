"""The template of loops: the body is compiled once, its launches listed for every turn.

A turn reads its slice of what is scanned over and the carries of the turn before, and writes its
slice of what is stacked; carries go to and fro between two buffers. All turns' launches are of the
same functions and differ in addresses alone.
"""

from __future__ import annotations

import struct
from math import prod
from typing import Any

from adjoint.backends.array.dtypes import NUMPY_OF
from adjoint.backends.llvm.operations import KIND
from adjoint.compiler.indexed import Fault
from adjoint.compiler.places import ARENA, Buffer, Place
from adjoint.compiler.steps import (
    Address,
    Call,
    Launch,
    Number,
    Repeat,
    Touch,
    launches_of,
    whole,
)
from adjoint.compiler.templates import TEMPLATES, LayoutOf, Template
from adjoint.core.spec import contiguous_strides
from adjoint.graph.execution import Task
from adjoint.graph.ir import Graph, Node, Value
from adjoint.graph.sizing import Example

LONGEST = 100_000  # launches of one loop


def body_plan(body: Graph) -> Any:
    """The plan of a body whose inputs lie in row-major order; made once."""
    plan = body.derived.get("native")
    if plan is None:
        from adjoint.compiler.build import Builder

        examples = []
        for v in body.inputs:
            dtype = NUMPY_OF[v.spec.dtype]
            strides = tuple(s * dtype.itemsize for s in contiguous_strides(v.spec.shape))
            examples.append(0 if v.host else Example(tuple(v.spec.shape), strides, dtype))
        task = Task(
            graph=body,
            sources=(),
            writes=(),
            returned=frozenset(range(len(body.outputs))),
            examples=tuple(examples),
            targets=(),
        )
        plan = body.derived["native"] = Builder(task).plan()
    return plan


def accepts(node: Node, inputs: tuple[Any, ...]) -> bool:
    """Loops whose bodies are native through and through, and not too long to list."""
    body, length = node.params["body"], node.params["length"]
    values = [v for v in (*body.inputs, *body.outputs) if not v.host]
    if any(v.spec.device.type != "cpu" or v.spec.dtype.name not in KIND for v in values):
        return False
    if any(0 in v.spec.shape for v in values):
        return False
    plan = body_plan(body)
    if any(isinstance(step, Call) for step in plan.steps):
        return False
    return 0 < length * sum(len(launches_of(s)) for s in plan.steps) <= LONGEST


def packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Everything is read in row-major order."""
    return {
        i
        for i, x in enumerate(inputs)
        if isinstance(x, Value) and not x.host and not layout(x).contiguous
    }


class Turns:
    """Lists the launches of all turns."""

    def __init__(self, node: Node, operands: list[Any], results: list[Place]) -> None:
        self.node, self.operands, self.results = node, operands, results
        self.params = node.params
        self.plan = body_plan(node.params["body"])
        self.carries = node.params["carries"]
        self.rows = self.carries + node.params["xs"]
        self.body: Graph = self.plan.graph
        self.hosts = {v: i for i, v in enumerate(self.body.inputs) if v.host}
        self.spare = [
            [self.like(results[k]) for _ in range(2)] if node.params["length"] > 1 else []
            for k in range(self.carries)
        ]

    @staticmethod
    def like(place: Place) -> Buffer:
        return Buffer(ARENA, place.buffer.dtype, prod(place.shape), name="carry")

    def addresses(self, turn: int, row: int) -> dict[Buffer, tuple[Buffer, int]]:
        """Where the body's inputs and results lie in a turn: buffers and elements into them."""
        length = self.params["length"]
        found: dict[Buffer, tuple[Buffer, int]] = {}
        for i, buffer in enumerate(self.plan.inputs):
            if buffer is None:
                continue
            if i < self.carries and turn > 0:
                found[buffer] = (self.spare[i][(turn - 1) % 2], 0)
                continue
            place = self.operands[i]
            ahead = row * place.strides[0] if self.carries <= i < self.rows else 0
            found[buffer] = (place.buffer, place.offset + ahead)
        for k, buffer in self.plan.results.items():
            place = self.results[k]
            if k >= self.carries:
                found[buffer] = (place.buffer, place.offset + row * place.strides[0])
            elif turn == length - 1:
                found[buffer] = (place.buffer, place.offset)
            else:
                found[buffer] = (self.spare[k][turn % 2], 0)
        return found

    def word(self, word: Any, turn: int, at: dict[Buffer, tuple[Buffer, int]]) -> Any:
        if isinstance(word, Address):
            moved = at.get(word.buffer)
            if moved is None:
                return word
            buffer, start = moved
            return Address(buffer, start * buffer.dtype.itemsize + word.shift)
        if isinstance(word, Number):
            position = self.hosts[word.value]
            given = self.operands[position]
            plus = word.plus + turn * self.params["advance"][position - self.rows]
            if isinstance(given, Value):
                return Number(given, plus)
            if word.value.spec.dtype.is_floating_point:
                return struct.unpack("<q", struct.pack("<d", float(given)))[0]
            return int(given) + plus
        return word

    def launches(self) -> list[Launch]:
        length = self.params["length"]
        result: list[Launch] = []
        once = [launch for step in self.plan.steps for launch in launches_of(step)]
        for turn in range(length):
            at = self.addresses(turn, length - 1 - turn if self.params["reverse"] else turn)
            result += [self.moved(launch, turn, at) for launch in once]
        return result

    def moved(self, launch: Launch, turn: int, at: dict[Buffer, tuple[Buffer, int]]) -> Launch:
        """A launch of the body at the addresses of a turn."""
        return Launch(
            function=launch.function,
            words=[w if w.__class__ is int else self.word(w, turn, at) for w in launch.words],
            reads=(),
            writes=(),
            pieces=launch.pieces,
            cost=launch.cost,
            label=launch.label,
            form=launch.form,
            text=launch.text,
        )

    def touches(self) -> tuple[tuple[Touch, ...], tuple[Touch, ...]]:
        """What the loop reads and writes as a whole."""
        # In a fixed order, in which they are also placed.
        reads = dict.fromkeys([p.buffer for p in self.operands if isinstance(p, Place)])
        inside = dict.fromkeys(
            [
                t.buffer
                for step in self.plan.steps
                for t in (*step.reads, *step.writes)
                if t.buffer.kind == ARENA
            ]
        )
        inside.update(dict.fromkeys([b for pair in self.spare for b in pair]))
        inside.update(dict.fromkeys([p.buffer for p in self.results]))
        return tuple(map(whole, reads)), tuple(map(whole, inside))


def steps(node: Node, operands: list[Any], results: list[Place]) -> list[Repeat]:
    """The whole loop as one step."""
    turns = Turns(node, operands, results)
    reads, writes = turns.touches()
    label: list[Any] = [f"{node.record.name}: "]
    for k, step in enumerate(turns.plan.steps):
        label += [", " if k else "", *([step.label] if isinstance(step.label, str) else step.label)]
    return [Repeat(turns.launches(), reads, writes, node.params["length"], tuple(label))]


def can_fail(node: Node) -> bool:
    """Whether a turn can find an error."""
    return any(
        isinstance(word, Fault)
        for step in body_plan(node.params["body"]).steps
        for launch in launches_of(step)
        for word in launch.words
    )


TEMPLATES["scan"] = Template(accepts, packed, steps)
