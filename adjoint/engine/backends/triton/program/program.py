"""Programs on the GPU: one arena, words in the device's memory, launches replayed as graphs.

Note [replays]
    Launches between two calls of the eager table are a segment. Its first run launches one by one
    (code is loaded meanwhile); the second captures the launches into a CUDA graph; from then on the
    graph is replayed. What changes from call to call, addresses of inputs and results and the
    host's numbers, are words that kernels read from memory, so the graph stays as it is. A matrix
    product is told its addresses when it is captured: inputs and results that products touch are
    copied from and to memory of the program's own.

    Kernels that write state do nothing after a fault (`Emitter.guarded`), and all that can fail
    comes before them; so a fault leaves state as it was. The status is read after the last segment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any, Protocol

import numpy as np

from adjoint.engine.backends.array.dtypes import NUMPY_OF
from adjoint.engine.backends.triton.launch_words import ALIGN, Written
from adjoint.engine.backends.triton.program.calls import DeviceCall
from adjoint.engine.backends.triton.target import TritonTarget
from adjoint.engine.backends.triton.templates.product import MatrixProduct
from adjoint.engine.compiler.memory.footprint import too_much
from adjoint.engine.compiler.memory.places import INPUT, RESULT
from adjoint.engine.compiler.options import Options
from adjoint.engine.compiler.package.draft import Draft
from adjoint.engine.compiler.package.explain import explain
from adjoint.engine.compiler.schedule.build import plan_for
from adjoint.engine.compiler.schedule.steps import EagerCall, Launch, double_bits
from adjoint.engine.core.dtype import named
from adjoint.engine.graph.execution import Task
from adjoint.engine.graph.record.sources import State

BANKS = 2  # calls that may be under way while the host prepares the next
CAPTURED = 4  # launches that are worth a graph
PAGE = 256  # bytes that the arena begins at a multiple of


MakeTarget = Callable[[frozenset[int]], TritonTarget]  # given the inputs that are not aligned


class Machine(Protocol):
    """Whoever has the memory and runs the kernels: a GPU, or Triton's interpreter in tests."""

    def active(self) -> Any: ...
    def empty(self, shape: Any, dtype: Any) -> Any: ...
    def address(self, array: Any) -> int: ...
    def window(self, address: int, owner: Any, shape: Any, strides: Any, dtype: Any) -> Any: ...
    def pinned(self, count: int) -> Any: ...
    def upload(self, target: Any, source: Any) -> None: ...
    def download(self, target: Any, source: Any) -> None: ...
    def on_host(self, array: Any) -> Any: ...
    def mark(self, again: Any) -> Any: ...
    def read(self, word: Any) -> int: ...
    def prepare(self, name: str, work: Any) -> Callable[[int], None]: ...
    def graph(self, run: Callable[[], None]) -> Callable[[], None]: ...


class LaunchSegment:
    """Launches with nothing of the host's between them (Note [replays])."""

    def __init__(self, machine: Machine, launches: list[tuple[Callable[[int], None], int]]) -> None:
        self.machine, self.launches = machine, launches
        self.runs = 0
        self.replay: Callable[[], None] | None = None

    def launch(self) -> None:
        """All launches, one by one."""
        for run, words in self.launches:
            run(words)

    def __call__(self) -> None:
        if self.replay is not None:
            self.replay()
            return
        self.runs += 1
        if self.runs == 1 or len(self.launches) < CAPTURED:
            self.launch()
            return
        self.replay = self.machine.graph(self.launch)
        self.replay()


class GpuProgram:
    """An executable on the GPU."""

    def __init__(
        self,
        task: Task,
        options: Options,
        machine: Machine,
        target: MakeTarget = TritonTarget,
        mirrored: frozenset[int] = frozenset(),  # inputs whose arrays never change either
    ) -> None:
        self.task, self.machine = task, machine
        written = {id(x) for x in task.targets}
        self.fixed = {i for i, source in enumerate(task.sources) if isinstance(source, State)}
        self.fixed |= mirrored
        unaligned = frozenset(
            i
            for i, (x, v) in enumerate(zip(task.examples, task.graph.inputs, strict=True))
            if not v.host and (machine.address(x) % ALIGN if i in self.fixed else id(x) in written)
        )
        self.plan = plan_for(task, target(unaligned), options)
        self.draft = Draft(self.plan)
        self.draft.place()
        self.image = self.draft.at({})
        with machine.active():
            self.allocate()
            self.fill_state()
            self.list_changes(unaligned)
            self.segments = self.make_segments()
        self.task = replace(task, examples=(), targets=())

    # -- making ---------------------------------------------------------------------------------

    def allocate(self) -> None:
        """The arena, the words, and memory for what products read and write."""
        machine, image = self.machine, self.image
        try:
            self.arena = machine.empty(image.arena + PAGE, np.uint8)
        except MemoryError:
            raise too_much(image.memory, "which the GPU has not free") from None
        self.origin = -(-machine.address(self.arena) // PAGE) * PAGE
        count = len(image.words)
        self.words = [machine.pinned(count) for _ in range(BANKS)]
        self.marks: list[Any] = [None] * BANKS
        self.bank = 0
        self.device_words = machine.empty(count, np.int64)
        self.status = machine.empty(1, np.int64)
        self.status[:] = 0
        start = image.words.copy()
        start[image.inside] += self.origin
        for at, _ in image.status:
            start[at] = machine.address(self.status)
        self.start = start
        captured = self.captured_words()
        self.held: dict[str, Any] = {}
        for key, places in image.patches.items():
            if any(at in captured for at, _ in places):
                kind, number = key.split()
                if kind == INPUT and int(number) not in self.fixed:
                    self.held[key] = like(machine, self.task.examples[int(number)])
                elif kind == RESULT:
                    _, shape, dtype = next(r for r in image.results if r[0] == int(number))
                    self.held[key] = machine.empty(shape, NUMPY_OF[named(dtype)])

    def captured_words(self) -> set[int]:
        """Words that the host reads when it captures: those of products.

        Products that are launched anew at each call read them then (`self.told`).
        """
        captured: set[int] = set()
        told: list[int] = []
        for segment in self.draft.segments:
            few = segment is not None and len(segment) < CAPTURED
            for _, at, entry in segment or ():
                if isinstance(entry, Launch) and not isinstance(entry.text, Written):
                    words = range(at, at + len(entry.words))
                    told.extend(words) if few else captured.update(words)
        self.told = np.array(told, np.int64)
        return captured

    def fill_state(self) -> None:
        """Addresses that do not change."""
        for i in self.fixed:
            self.point(self.start, f"{INPUT} {i}", self.machine.address(self.task.examples[i]))
        for key, array in self.held.items():
            self.point(self.start, key, self.machine.address(array))
        for words in self.words:
            words[:] = self.start

    def list_changes(self, unaligned: frozenset[int]) -> None:
        """What each call must fill in."""
        image, patches, inputs = self.image, self.image.patches, self.plan.graph.inputs
        self.moving = [
            (i, i in unaligned, self.held.get(f"{INPUT} {i}"), patches[f"{INPUT} {i}"])
            for i in range(len(self.task.examples))
            if i not in self.fixed and f"{INPUT} {i}" in patches
        ]
        self.targeted = [
            (n, patches[f"target {n}"])
            for n in range(len(self.task.targets))
            if f"target {n}" in patches
        ]
        self.numbers = [
            (i, inputs[i].spec.dtype.is_floating_point, places)
            for i, places in image.numbers.items()
        ]
        self.results: list[Any] = [None] * len(self.plan.graph.outputs)
        self.fresh = []
        for k, shape, dtype in image.results:
            key = f"{RESULT} {k}"
            if key in self.held:
                self.results[k] = self.held[key]
            else:
                self.fresh.append((k, shape, NUMPY_OF[named(dtype)], patches.get(key, [])))

    def point(self, words: Any, key: str, address: int) -> None:
        """Write an address wherever it is wanted."""
        for at, shift in self.image.patches.get(key, ()):
            words[at] = address + shift

    def make_segments(self) -> list[Any]:
        """Launches, separated by calls of the eager table."""
        machine = self.machine
        base = machine.address(self.device_words)
        host = self.start.ctypes.data
        calls = iter([s for s in self.plan.steps if isinstance(s, EagerCall)])
        segments: list[Any] = []
        for entries in self.draft.segments:
            if entries is None:
                segments.append(
                    DeviceCall(next(calls), self.plan, machine, self.arena, self.origin)
                )
                continue
            launches = []
            for name, at, entry in entries:
                assert isinstance(entry, Launch)
                if isinstance(entry.text, Written):
                    launches.append((machine.prepare(name, entry.text), base + 8 * at))
                else:
                    product = entry.kernels[0]
                    assert isinstance(product, MatrixProduct)
                    launches.append((machine.prepare(name, product), host + 8 * at))
            segments.append(LaunchSegment(machine, launches))
        return segments

    def explain(self) -> str:
        """What the program does, step by step."""
        return explain(self.image)

    # -- running --------------------------------------------------------------------------------

    def __call__(self, inputs: list[Any], targets: list[Any]) -> list[Any]:
        """Fill in this call's addresses and numbers, and run."""
        with self.machine.active():
            results, hold = self.fill(inputs, targets)
            for segment in self.segments:
                if segment.__class__ is DeviceCall:
                    self.raise_faults()
                    segment(inputs, results)
                else:
                    segment()
            for key, array in self.held.items():
                kind, number = key.split()
                if kind == RESULT:
                    results[int(number)] = array.copy()
            self.raise_faults()
            del hold
            return results

    def raise_faults(self) -> None:
        """Raise what kernels reported."""
        if not self.image.faults:
            return
        code = self.machine.read(self.status)
        if code:
            self.status[:] = 0
            raise self.image.fault(code)

    def fill(self, inputs: list[Any], targets: list[Any]) -> tuple[list[Any], list[Any]]:
        """The words of this call; its results, and arrays that must live until it is done."""
        machine = self.machine
        self.bank = (self.bank + 1) % BANKS
        words, mark = self.words[self.bank], self.marks[self.bank]
        if mark is not None:
            mark.synchronize()
        hold: list[Any] = []
        for i, unaligned, held, places in self.moving:
            x = inputs[i]
            if held is not None:
                held[...] = x
                continue
            address = machine.address(x)
            if address % ALIGN and not unaligned:
                x = like(machine, x)
                x[...] = inputs[i]
                hold.append(x)
                address = machine.address(x)
            for at, shift in places:
                words[at] = address + shift
        for n, places in self.targeted:
            address = machine.address(targets[n])
            for at, shift in places:
                words[at] = address + shift
        for i, floats, places in self.numbers:
            value = inputs[i]
            for at, plus in places:
                words[at] = double_bits(float(value)) if floats else signed(value + plus)
        results = self.results.copy()
        for k, shape, dtype, places in self.fresh:
            results[k] = array = machine.empty(shape, dtype)
            address = machine.address(array)
            for at, shift in places:
                words[at] = address + shift
        if len(self.told):
            self.start[self.told] = words[self.told]
        machine.upload(self.device_words, words)
        self.marks[self.bank] = machine.mark(mark)
        return results, hold


def like(machine: Machine, x: Any) -> Any:
    """Memory for an array of the same shape and strides, at an aligned address."""
    size = 1 + sum((n - 1) * abs(s) for n, s in zip(x.shape, x.strides, strict=True))
    if 0 in x.shape or any(s < 0 for s in x.strides) or size < prod(x.shape):
        return machine.empty(x.shape, x.dtype)
    room = machine.empty(size + x.dtype.itemsize, np.uint8)
    return machine.window(machine.address(room), room, x.shape, x.strides, x.dtype)


def signed(x: int) -> int:
    """An integer as the signed 64-bit word of its low bits."""
    x = int(x) & (2**64 - 1)
    return x - 2**64 if x >> 63 else x
