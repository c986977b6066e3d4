"""Programs on a GPU that also read and write a few numbers on the CPU.

Note [mirrors]
    Optimizers count their steps on the CPU, as PyTorch's do. Such values are few and small, so the
    whole program runs on the GPU: what lies on the CPU is copied to a piece of the GPU's memory
    before a call, in one transfer, and what the program writes of it is copied back after the call,
    when nothing can fail any more. So is a batch that is given on the CPU, which the program would
    copy itself. A program with large state on the CPU, copied at each call, is not run so.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from adjoint.engine.backends.triton.program.program import GpuProgram, Machine, MakeTarget
from adjoint.engine.backends.triton.program.timing import Showing
from adjoint.engine.backends.triton.target import TritonTarget
from adjoint.engine.compiler.options import Options
from adjoint.engine.compiler.schedule.build import planned
from adjoint.engine.compiler.target import Setting
from adjoint.engine.core.device import CPU, Device
from adjoint.engine.core.spec import Spec
from adjoint.engine.graph.execution import Task
from adjoint.engine.graph.ir import DataflowGraph, Node, Value, subgraphs
from adjoint.engine.graph.passes.pipeline import keeping, run_passes
from adjoint.engine.graph.record.sources import State
from adjoint.engine.ops.shape.convert import CLONE

STATE = 1 << 24  # elements on the CPU of what lasts, all together: copied in some milliseconds
MOST = 1 << 26  # and of all values
ROOM = 64  # bytes that each begins at a multiple of


def refusal(task: Task, graph: DataflowGraph) -> str:
    """Why a program that is partly on the CPU is not run on the GPU; "" if it can be."""
    sources = zip(graph.inputs, task.sources, strict=True)
    lasting = [v for v, source in sources if isinstance(source, State)]
    for values, most, what in ((lasting, STATE, "state"), (values_of(graph), MOST, "it")):
        count = sum(prod(v.spec.shape) for v in values if v.spec.device.type == "cpu")
        if count > most:
            return f"{count} elements of {what} are on the CPU"
    return ""


def values_of(graph: DataflowGraph) -> list[Value]:
    """All tensors of a graph, and of bodies and branches within."""
    values = [v for v in graph.inputs if not v.host]
    for node in graph.nodes:
        values += node.outputs
        for inner in subgraphs(node).values():
            values += values_of(inner)
    return values


def moved(graph: DataflowGraph, device: Device) -> DataflowGraph:
    """The same graph with everything on one device."""
    copied = DataflowGraph()
    became: dict[Any, Any] = {}
    for value in graph.inputs:
        became[value] = value if value.host else Value(value.name, on(value.spec, device))
    copied.inputs = [became[v] for v in graph.inputs]
    copied._count = graph._count
    for old in graph.nodes:
        inputs = tuple(became[x] if isinstance(x, Value) else x for x in old.inputs)
        params = {k: moved_part(v, device) for k, v in old.params.items()}
        record = old.record
        if record.name == "to_device":  # it is there
            record, params = CLONE, {"strides": None}
        node = Node(record, inputs, params, None, old.where)
        node.outputs = tuple(Value(v.name, on(v.spec, device), node) for v in old.outputs)
        became.update(zip(old.outputs, node.outputs, strict=True))
        copied.nodes.append(node)
    copied.outputs = [became[v] for v in graph.outputs]
    return copied


def moved_part(value: Any, device: Device) -> Any:
    """A parameter of a node that is moved: a body or a branch moves with it."""
    if isinstance(value, DataflowGraph):
        return moved(value, device)
    return device if isinstance(value, Device) else value


def on(spec: Spec, device: Device) -> Spec:
    """A spec with another device."""
    return Spec(spec.shape, spec.dtype, device)


class Mirrored(Showing):
    """A program and its mirror (Note [mirrors])."""

    def __init__(
        self,
        task: Task,
        graph: DataflowGraph,
        options: Options,
        machine: Machine,
        device: Device,
        target: MakeTarget = TritonTarget,
    ) -> None:
        self.machine = machine
        self.mark: Any = None
        mine = [i for i, v in enumerate(graph.inputs) if not v.host and v.spec.device.type == "cpu"]
        arrays = {i: task.examples[i] for i in mine}
        known = {id(x): i for i, x in arrays.items()}
        self.inputs = mine
        self.written: list[tuple[int, int]] = []  # (write, piece)
        pieces = [(x.shape, x.dtype) for x in arrays.values()]
        piece_of = {i: k for k, i in enumerate(mine)}
        for n, array in enumerate(task.targets):
            if not isinstance(array, np.ndarray):
                continue
            if id(array) in known:
                self.written.append((n, piece_of[known[id(array)]]))
            else:
                self.written.append((n, len(pieces)))
                pieces.append((array.shape, array.dtype))
        self.returned = [k for k in sorted(task.returned) if graph.outputs[k].spec.device is CPU]
        with machine.active():
            self.lay(pieces)
        examples, targets = list(task.examples), list(task.targets)
        for i in mine:
            examples[i] = self.there[piece_of[i]]
        for n, piece in self.written:
            targets[n] = self.there[piece]
        inner = replace(
            task, graph=moved(graph, device), examples=tuple(examples), targets=tuple(targets),
            sizing=None,
        )  # fmt: skip
        self.program = self.shown = GpuProgram(
            inner, options, machine, target, frozenset(mine), waits=True
        )
        self.piece_of = piece_of

    def lay(self, pieces: list[tuple[Any, Any]]) -> None:
        """Memory for all pieces on both sides, and arrays on it."""
        starts, size = [], 0
        for shape, dtype in pieces:
            starts.append(size)
            size += -(-max(prod(shape) * dtype.itemsize, 1) // ROOM) * ROOM
        words = max(size // 8, 1)
        self.host = self.machine.pinned(words)
        self.device = self.machine.empty(words, np.int64)
        self.upload = self.machine.uploader(self.device, self.host)
        base, room = self.machine.address(self.device), self.host.view(np.uint8)
        self.here, self.there = [], []
        for start, (shape, dtype) in zip(starts, pieces, strict=True):
            length = prod(shape) * dtype.itemsize
            self.here.append(room[start : start + length].view(dtype).reshape(shape))
            strides = np.empty(shape, np.int8).strides
            steps = tuple(s * dtype.itemsize for s in strides)
            self.there.append(self.machine.window(base + start, self.device, shape, steps, dtype))

    def __call__(self, inputs: list[Any], targets: list[Any]) -> list[Any]:
        """Copy what is on the CPU there and, after the program, back."""
        machine = self.machine
        given, into = list(inputs), list(targets)
        with machine.active():
            machine.begin()
            self.program.follow()
            if self.mark is not None:
                self.mark.synchronize()  # the transfer before this one
            for i in self.inputs:
                piece = self.piece_of[i]
                self.here[piece][...] = inputs[i]
                given[i] = self.there[piece]
            self.upload()
            self.mark = machine.mark(self.mark)
            for n, piece in self.written:
                into[n] = self.there[piece]
            results = self.program(given, into)
            if self.written:
                machine.download(self.host, self.device)
                for n, piece in self.written:
                    targets[n][...] = self.here[piece]
            for k in self.returned:
                results[k] = machine.on_host(results[k])
        return results


def small_program(
    task: Task,
    options: Options,
    machine: Machine,
    device: Device,
    target: MakeTarget = TritonTarget,
) -> Mirrored | str:
    """The program of a task that is partly on the CPU; or why there is none."""
    setting = Setting(target(frozenset()), options, planned)
    graph = run_passes(task.graph, keeping(setting.keeps))
    why = refusal(task, graph)
    return why or Mirrored(task, graph, options, machine, device, target)
