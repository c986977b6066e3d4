"""Programs on a GPU beside which something simple happens on the CPU, apart from it.

Optimizers count their steps in tensors on the CPU, and nothing on the GPU reads them: the numbers
that follow from them are the host's. Such a program is two, one for each device, and neither waits
for the other (where they meet: Note [mirrors]).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from adjoint.engine.backends.triton.program.timing import Showing
from adjoint.engine.graph.execution import Executable, Task
from adjoint.engine.graph.ir import DataflowGraph, Node, Value

Make = Callable[[Task], Executable]


class Part:
    """What a task does on one type of device."""

    def __init__(self, task: Task, nodes: list[Node], device: str) -> None:
        graph = task.graph
        read = {x for node in nodes for x in node.inputs if isinstance(x, Value)}
        self.inputs = [
            i
            for i, v in enumerate(graph.inputs)
            if (v in read if v.host else v.spec.device.type == device)
        ]
        self.outputs = [k for k, v in enumerate(graph.outputs) if v.spec.device.type == device]
        place = {k: n for n, k in enumerate(self.outputs)}
        self.writes = [n for n, (_, k) in enumerate(task.writes) if k in place]
        part = DataflowGraph()
        part.inputs = [graph.inputs[i] for i in self.inputs]
        part.nodes = nodes
        part.outputs = [graph.outputs[k] for k in self.outputs]
        part._count = graph._count
        self.task = replace(
            task,
            graph=part,
            sources=tuple(task.sources[i] for i in self.inputs),
            writes=tuple((task.writes[n][0], place[task.writes[n][1]]) for n in self.writes),
            returned=frozenset(place[k] for k in task.returned if k in place),
            examples=tuple(task.examples[i] for i in self.inputs),
            targets=tuple(task.targets[n] for n in self.writes),
            sizing=None,
        )


class Apart(Showing):
    """A program on each of two devices."""

    def __init__(self, device: Part, host: Part, make: Make, make_host: Make) -> None:
        self.parts = device, host
        self.shown, self.beside = make(device.task), make_host(host.task)
        for part in self.parts:
            part.task = replace(part.task, examples=(), targets=())
        self.count = len(device.outputs) + len(host.outputs)

    def __call__(self, inputs: list[Any], targets: list[Any]) -> list[Any]:
        """First the one that can fail; what it has failed at may be known later."""
        device, host = self.parts
        results: list[Any] = [None] * self.count
        part_results = self.shown(
            [inputs[i] for i in device.inputs], [targets[n] for n in device.writes]
        )
        for k, result in zip(device.outputs, part_results, strict=True):
            results[k] = result
        into = [targets[n] for n in host.writes]
        board = self.shown.reports.board
        if into and board.streams:  # something may have been reported
            board.keep(partial(put_back, into, [x.copy() for x in into]))
        part_results = self.beside([inputs[i] for i in host.inputs], into)
        for k, result in zip(host.outputs, part_results, strict=True):
            results[k] = result
        return results


def put_back(targets: list[Any], before: list[Any]) -> None:
    """Arrays on the CPU as they were before a call that did nothing on the GPU."""
    for target, x in zip(targets, before, strict=True):
        target[...] = x


def parts_of(task: Task) -> tuple[Part, Part] | None:
    """What a task does on the GPU, and the little it does on the CPU, if the two do not meet."""
    sides: dict[str, list[Node]] = {"cuda": [], "cpu": []}
    for node in task.graph.nodes:
        values = [x for x in node.inputs if isinstance(x, Value) and not x.host]
        types = {v.spec.device.type for v in (*values, *node.outputs)}
        if len(types) != 1 or not types <= sides.keys():
            return None
        sides[types.pop()].append(node)
    if any(not cannot_fail(node) for node in sides["cpu"]):
        return None
    return Part(task, sides["cuda"], "cuda"), Part(task, sides["cpu"], "cpu")


def cannot_fail(node: Node) -> bool:
    """Whether nothing can go wrong in a node, so that it may come after all that can."""
    record = node.record
    return not record.fails and (record.family == "elementwise" or record.pointwise)
