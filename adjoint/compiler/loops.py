"""Scans without Python between iterations: the body's launches, once for each.

The body is planned like a program of its own, on inputs and results that stand for one iteration's.
A scan then is that plan's launches over and over, with the addresses of each iteration's rows in
their words: kernels are compiled once, and a launch costs some fifty words. Carries alternate
between two buffers, so that an iteration never overwrites what it still reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

from adjoint.backends.array.dtypes import NUMPY_OF
from adjoint.backends.llvm.kernels import emit
from adjoint.backends.llvm.operations import KIND
from adjoint.compiler.naming import name_of
from adjoint.compiler.places import ARENA, Buffer, Place
from adjoint.compiler.steps import Address, Call, Launch, Number, Text, whole
from adjoint.compiler.templates import TEMPLATES, LayoutOf, Template
from adjoint.graph.execution import Task
from adjoint.graph.ir import Graph, Node, Value

LIMIT = 50_000  # launches; a longer scan is run by the eager table, iteration by iteration

Spot = tuple[Buffer, int]  # a buffer and so many bytes into it


def install(plan_of: Callable[[Task], Any]) -> None:
    """Make scans templates; `plan_of` plans a task."""

    def body_plan(body: Graph) -> Any:
        if "native" not in body.derived:
            body.derived["native"] = make_plan(body, plan_of)
        return body.derived["native"]

    def accepts(node: Node, inputs: tuple[Any, ...]) -> bool:
        if any(node.params["advance"]) or not all(isinstance(x, Value) for x in inputs):
            return False
        plan = body_plan(node.params["body"])
        return plan is not None and 0 < len(plan.steps) * node.params["length"] <= LIMIT

    def steps(node: Node, operands: list[Any], results: list[Place]) -> list[Any]:
        return list(launches(node, body_plan(node.params["body"]), operands, results))

    TEMPLATES["scan"] = Template(accepts, packed, steps)


def make_plan(body: Graph, plan_of: Callable[[Task], Any]) -> Any:
    """The plan of one iteration; None where some node of it needs the eager table."""
    values = [v for v in (*body.inputs, *body.outputs) if not v.host]
    if any(v.spec.dtype.name not in KIND or v.spec.device.type != "cpu" for v in values):
        return None
    if any(0 in v.spec.shape for v in values):
        return None
    examples = tuple(
        1 if v.host else np.empty(v.spec.shape, NUMPY_OF[v.spec.dtype]) for v in body.inputs
    )
    every = frozenset(range(len(body.outputs)))
    plan = plan_of(Task(body, (), (), every, examples, ()))
    return None if any(isinstance(s, Call) for s in plan.steps) else plan


def packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Operands must lie in row-major order."""
    return {i for i, x in enumerate(inputs) if not x.host and not layout(x).contiguous}


def launches(node: Node, plan: Any, operands: list[Any], results: list[Place]) -> Iterator[Launch]:
    """The launches of every iteration, in order."""
    params, body = node.params, node.params["body"]
    carries, length = params["carries"], params["length"]
    turns = [_pair(v) for v in body.inputs[:carries]]
    order = range(length)
    numbers = {v: x for v, x in zip(body.inputs, node.inputs, strict=True) if v.host}
    state = [_spot(place) for place in operands[:carries]]
    for k, row in enumerate(reversed(order) if params["reverse"] else order):
        last = k == length - 1
        new = [_spot(results[i]) if last else (turns[i][k % 2], 0) for i in range(carries)]
        where: dict[Buffer, Spot] = {}
        for i, buffer in enumerate(plan.inputs):
            if buffer is not None:
                is_row = carries <= i < carries + params["xs"]
                where[buffer] = state[i] if i < carries else _row(operands[i], row, is_row)
        for i, buffer in plan.results.items():
            where[buffer] = new[i] if i < carries else _row(results[i], row, True)
        state = new
        for step in plan.steps:
            launch = moved(step, where, numbers)
            launch.times = 0 if k else length
            yield launch


def _pair(value: Value) -> tuple[Buffer, Buffer]:
    spec = value.spec
    size = prod(spec.shape)
    return Buffer(ARENA, spec.dtype, size, name="carry"), Buffer(
        ARENA, spec.dtype, size, name="carry"
    )


def _spot(place: Place) -> Spot:
    return place.buffer, place.offset * place.buffer.dtype.itemsize


def _row(place: Place, row: int, is_row: bool) -> Spot:
    """Where one row of a place begins, or the place."""
    buffer, start = _spot(place)
    size = prod(place.shape[1:]) * buffer.dtype.itemsize if is_row else 0
    return buffer, start + row * size


def moved(step: Launch, where: dict[Buffer, Spot], numbers: dict[Value, Any]) -> Launch:
    """A launch with other memory, and the numbers of the graph around."""

    def word(x: Any) -> Any:
        if x.__class__ is Address and x.buffer in where:
            buffer, start = where[x.buffer]
            return Address(buffer, start + x.shift)
        return Number(numbers[x.value]) if x.__class__ is Number else x

    def touched(touches: Any) -> Any:
        return tuple(whole(where[t.buffer][0]) if t.buffer in where else t for t in touches)

    form = step.form

    def text(name: str) -> Text:
        return emit(form, name)

    return Launch(
        function=name_of(step),
        words=[x if x.__class__ is int else word(x) for x in step.words],
        reads=touched(step.reads),
        writes=touched(step.writes),
        pieces=step.pieces,
        cost=step.cost,
        label=f"scan: {step.label}",
        text=step.text if form is None else text,
    )
