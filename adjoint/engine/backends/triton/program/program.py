"""Programs on the GPU: one arena, words in the device's memory, launches replayed as graphs.

Note [replays]
    Launches between two calls of the eager table are a segment. Its first run launches one by one
    (code is loaded meanwhile); the second captures the launches into a CUDA graph; from then on the
    graph is replayed. What changes from call to call, addresses of inputs and results and the
    host's numbers, are words that kernels read from memory, so the graph stays as it is. A matrix
    product is told its addresses when it is captured: inputs that products touch are copied to
    memory of the program's own, and results lie where they did before (Note [banks]).

    Kernels that write state do nothing after a fault (`Emitter.guarded`), and all that can fail
    comes before them; so a fault leaves state as it was (Note [faults of programs]). Where they
    look is a word of the device's that stays where it is, so graphs know its address for good.

Note [programs on streams]
    The arena, words and results of a program are its own, and one call after the other uses them.
    So a call on another stream than the one before waits there for what that one was asked for so
    far: the call itself, and whatever has read its results. Memory is told of each stream that uses
    it, and results of which `record_stream` said that a stream reads them are written again only
    when that one is done (Note [other streams]).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any, Protocol

import numpy as np

from adjoint.engine.backends.array.dtypes import NUMPY_OF, put
from adjoint.engine.backends.array.gpu.faults import BLOCKING
from adjoint.engine.backends.triton.launch_words import ALIGN, Written
from adjoint.engine.backends.triton.program import banks
from adjoint.engine.backends.triton.program.banks import DeviceBank, Numbers, Results, Segment
from adjoint.engine.backends.triton.program.calls import DeviceCall
from adjoint.engine.backends.triton.program.codes import CodedDraft
from adjoint.engine.backends.triton.program.reports import ProgramReports
from adjoint.engine.backends.triton.program.tables import tables
from adjoint.engine.backends.triton.program.timing import LaunchClock, sources_of
from adjoint.engine.backends.triton.target import TritonTarget
from adjoint.engine.compiler.memory.limits import too_much
from adjoint.engine.compiler.memory.places import INPUT
from adjoint.engine.compiler.options import Options
from adjoint.engine.compiler.package.accounts import Account, accounts
from adjoint.engine.compiler.package.draft import Draft, concrete
from adjoint.engine.compiler.package.explain import explain
from adjoint.engine.compiler.schedule.build import plan_for
from adjoint.engine.compiler.schedule.steps import EagerCall, Launch
from adjoint.engine.core.dtype import named
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.engine.graph.execution import Task
from adjoint.engine.graph.record.sources import State

PAGE = 256  # bytes that the arena begins at a multiple of


MakeTarget = Callable[[frozenset[int]], TritonTarget]  # given the inputs that are not aligned


class Machine(Protocol):
    """Whoever has the memory and runs the kernels: a GPU, or Triton's interpreter in tests."""

    name: str
    index: int

    @property
    def faults(self) -> Any: ...
    def active(self) -> Any: ...
    def empty(self, shape: Any, dtype: Any) -> Any: ...
    def address(self, array: Any) -> int: ...
    def window(self, address: int, owner: Any, shape: Any, strides: Any, dtype: Any) -> Any: ...
    def pinned(self, count: int) -> Any: ...
    def uploader(self, target: Any, source: Any) -> Callable[[], None]: ...
    def download(self, target: Any, source: Any) -> None: ...
    def on_host(self, array: Any) -> Any: ...
    def begin(self) -> Any: ...
    def order(self, by_library: bool) -> Any: ...
    def reuse(self, arrays: list[Any]) -> None: ...
    def share(self, arrays: list[Any]) -> None: ...
    def mark(self, again: Any) -> Any: ...
    def downloader(self, target: Any, source: Any) -> Callable[[], None]: ...
    def copier(self, target: Any, source: Any) -> Callable[[], None]: ...
    def clear(self, word: Any) -> None: ...
    def expect(self, works: list[Written]) -> None: ...
    def prepare(self, name: str, work: Any) -> Callable[[int], None]: ...
    def graph(self, run: Callable[[], None]) -> Callable[[], None]: ...
    def marked_graph(self, launches: list[Any]) -> Any: ...
    def timer(self) -> Any: ...
    def spans(self, marks: list[Any]) -> list[float]: ...
    def hold(self, microseconds: int) -> None: ...


class GpuProgram:
    """An executable on the GPU."""

    def __init__(
        self,
        task: Task,
        options: Options,
        machine: Machine,
        target: MakeTarget = TritonTarget,
        mirrored: frozenset[int] = frozenset(),  # inputs whose arrays never change either
        waits: bool = BLOCKING,  # for what kernels report, at each call
    ) -> None:
        self.task, self.machine = task, machine
        self.writes = bool(task.writes)
        self.least_times: dict[tuple[int, int], tuple[int, int]] = {}  # of calls that were timed
        self.clocks: dict[int, LaunchClock] = {}  # of the latest calls that were timed, by bank
        written = {id(x) for x in task.targets}
        self.fixed = {i for i, source in enumerate(task.sources) if isinstance(source, State)}
        self.fixed |= mirrored
        unaligned = frozenset(
            i
            for i, (x, v) in enumerate(zip(task.examples, task.graph.inputs, strict=True))
            if not v.host and (machine.address(x) % ALIGN if i in self.fixed else id(x) in written)
        )
        self.plan = plan_for(task, target(unaligned), options)
        self.draft = CodedDraft(self.plan)
        self.draft.place()
        self.image = self.draft.at({})
        with machine.active():
            self.order = machine.order(self.calls_library())
            self.reports = ProgramReports(machine, self.draft, self.image, self.writes)
            self.allocate()
            self.fill_state()
            self.list_changes(unaligned)
            self.segments = self.make_segments()
            self.set_lookout(waits)
        self.outputs = len(self.plan.graph.outputs)
        self.task = replace(task, examples=(), targets=())

    # -- making ---------------------------------------------------------------------------------

    def allocate(self) -> None:
        """The arena, the words, and memory for what products read and write."""
        machine, image = self.machine, self.image
        try:
            self.arena = machine.empty(image.arena + PAGE, np.uint8)
        except MemoryError as error:
            raise too_much(image.memory, "which the GPU has not free", str(error)) from None
        self.origin = -(-machine.address(self.arena) // PAGE) * PAGE
        count = len(image.words)
        self.device_words = machine.empty(count, np.int64)
        self.banks = [DeviceBank(machine, self.device_words) for _ in range(banks.COUNT)]
        self.turn = 0
        start = image.words.copy()
        start[image.inside] += self.origin
        self.reports.fill(start)
        self.tables = tables(machine, image.symbols)
        for at, table in self.tables:
            start[at] = machine.address(table)
        for bank in self.banks:
            bank.words[:] = start
        captured = self.captured_words()
        self.input_memory: dict[int, Any] = {}  # memory for inputs that products read
        for key, places in image.patches.items():
            kind, number = key.split()
            moves = kind == INPUT and int(number) not in self.fixed
            if moves and any(at in captured for at, _ in places):
                self.input_memory[int(number)] = like(machine, self.task.examples[int(number)])
        wanted = [(k, shape, NUMPY_OF[named(dtype)]) for k, shape, dtype in image.results]
        self.results = Results(machine, wanted, image.patches, captured)
        for bank in self.banks:
            self.results.allocate(bank)

    def calls_library(self) -> bool:
        """Whether some launch is no kernel of ours."""
        entries = [entry for part in self.draft.segments for _, _, entry in part or ()]
        return any(isinstance(e, Launch) and not isinstance(e.text, Written) for e in entries)

    def captured_words(self) -> set[int]:
        """Words that the host reads when it captures: those of products.

        Products that are launched anew at each call read them then.
        """
        captured: set[int] = set()
        for segment in self.draft.segments:
            if segment is None or len(segment) < banks.CAPTURED:
                continue
            for _, at, entry in segment:
                if isinstance(entry, Launch) and not isinstance(entry.text, Written):
                    captured.update(range(at, at + len(entry.words)))
        return captured

    def fill_state(self) -> None:
        """Addresses that do not change."""
        known = {i: self.task.examples[i] for i in self.fixed} | self.input_memory
        for i, array in known.items():
            places = self.image.patches.get(f"{INPUT} {i}", ())
            for bank in self.banks:
                bank.point(list(places), self.machine.address(array))

    def list_changes(self, unaligned: frozenset[int]) -> None:
        """What each call must fill in."""
        image, patches, inputs = self.image, self.image.patches, self.plan.graph.inputs
        self.moving = [
            (i, i in unaligned, self.input_memory.get(i), patches[f"{INPUT} {i}"])
            for i in range(len(self.task.examples))
            if i not in self.fixed and f"{INPUT} {i}" in patches
        ]
        self.targeted = [
            (n, patches[f"target {n}"])
            for n in range(len(self.task.targets))
            if f"target {n}" in patches
        ]
        numbers = [
            (i, inputs[i].spec.dtype.is_floating_point, list(places))
            for i, places in image.numbers.items()
        ]
        for bank in self.banks:
            bank.numbers = Numbers(bank.words, numbers)

    def make_segments(self) -> list[Any]:
        """Launches, separated by calls of the eager table."""
        machine = self.machine
        entries = [entry for part in self.draft.segments for _, _, entry in part or ()]
        launched = [e.text for e in entries if isinstance(e, Launch)]
        machine.expect([text for text in launched if isinstance(text, Written)])
        calls = iter([s for s in self.plan.steps if isinstance(s, EagerCall)])
        segments: list[Any] = []
        for part in self.draft.segments:
            if part is None:
                segments.append(
                    DeviceCall(next(calls), self.plan, machine, self.arena, self.origin)
                )
            else:
                works = [
                    (self.reports.guarded(entry, self.prepared(name, entry)), at, entry)
                    for name, at, entry in part
                ]
                segments.append(Segment(machine, [self.launches(works, b) for b in self.banks]))
        return segments

    def set_lookout(self, waits: bool) -> None:
        """Have each call begin with a copy of its words, if kernels read them, in the first graph,
        where there is one; and end with a copy of what was reported, unless it is waited for."""
        first = self.segments[0] if self.segments else None
        entries = [entry for part in self.draft.segments for _, _, entry in part or ()]
        read = any(isinstance(e, Launch) and isinstance(e.text, Written) for e in entries)
        self.sends = read and not isinstance(first, Segment)
        if read and isinstance(first, Segment):
            first.before = [bank.upload for bank in self.banks]
        self.reports.set_lookout(self.segments[-1] if self.segments else None, waits)

    def prepared(self, name: str, entry: Any) -> Callable[[int], None]:
        """What launches an entry: a kernel, or a call of a library."""
        assert isinstance(entry, Launch)
        written = isinstance(entry.text, Written)
        return self.machine.prepare(name, entry.text if written else entry.kernels[0])

    def launches(self, works: list[Any], bank: DeviceBank) -> banks.Launches:
        """Launches with the words of a bank: kernels read them on the GPU, products here."""
        there, here = self.machine.address(self.device_words), bank.words.ctypes.data
        return [
            (run, (there if isinstance(entry.text, Written) else here) + 8 * at)
            for run, at, entry in works
        ]

    def explain(self) -> str:
        """What the program does, step by step."""
        return explain(self.image)

    def drafted(self) -> tuple[Draft, dict[str, int]]:
        """The plan's words, and its sizes: none are open."""
        return self.draft, {}

    def accounts(self) -> list[list[Account]]:
        """By segment, what every launch does."""
        return accounts(self.draft, concrete({}))

    def sources(self) -> dict[str, str]:
        """The Triton text of every kernel, by name."""
        return sources_of(self.draft)

    # -- running --------------------------------------------------------------------------------

    def __call__(self, inputs: list[Any], targets: list[Any]) -> list[Any]:
        """Fill in this call's addresses and numbers, and run.

        The bank's call before this one must be done. Then what earlier calls have reported is
        known of all but the latest.
        """
        reports = self.reports
        turn = (self.turn + 1) % banks.COUNT
        bank = self.banks[turn]
        with self.machine.active(), self.order.lock:
            place = self.machine.begin()
            self.follow()
            if bank.mark is not None:
                bank.mark.synchronize()
            reports.before(turn, self.banks, self.segments)
            self.turn = turn
            reports.number(turn, bank, place)
            results, copied, hold = self.fill(bank, inputs, targets)
            try:
                self.run_segments(inputs, results)
            finally:
                bank.mark = self.machine.mark(bank.mark)
            for k, copy in copied:
                put(copy, results[k])
                results[k] = copy
            if reports.looks:
                reports.board.look()
            del hold
            return results

    def follow(self) -> None:
        """Come after the call before, on whichever stream that was (Note [programs on streams])."""
        if self.order.follow():
            tables = [table for _, table in self.tables]
            results = [array for bank in self.banks for array in bank.results]
            own = [self.arena, self.device_words, *self.reports.memory]
            self.machine.share([*own, *tables, *self.input_memory.values(), *results])
            self.reports.stream = None

    def run_segments(self, inputs: list[Any], results: list[Any]) -> None:
        """Everything that a call launches, with marks where somebody listens."""
        clock = LaunchClock(self, self.turn) if LISTENERS else None
        for number, segment in enumerate(self.segments):
            if segment.__class__ is DeviceCall:
                if segment.writes:  # whatever was reported
                    self.reports.board.look()
                else:
                    self.reports.look()
                segment(inputs, results)
            elif clock is not None:
                clock.run(number, segment, self.turn)
            else:
                segment(self.turn)

    def fill(
        self, bank: DeviceBank, inputs: list[Any], targets: list[Any]
    ) -> tuple[list[Any], banks.Copies, list[Any]]:
        """The words of this call; its results, and arrays that must live until it is done."""
        machine = self.machine
        hold: list[Any] = []
        for i, unaligned, copy_of_input, places in self.moving:
            x = inputs[i]
            if copy_of_input is not None:
                put(copy_of_input, x)
                continue
            address = machine.address(x)
            if address % ALIGN and not unaligned:
                x = like(machine, x)
                put(x, inputs[i])
                hold.append(x)
                address = machine.address(x)
            bank.point(places, address)
        for n, places in self.targeted:
            bank.point(places, machine.address(targets[n]))
        bank.numbers.put(inputs)
        results, copied = self.results.take(bank, self.outputs)
        if bank.moved:
            for segment in self.segments:
                if isinstance(segment, Segment):
                    segment.forget(self.turn)
            bank.moved = False
        if self.sends:
            bank.upload()
        return results, copied, hold


def like(machine: Machine, x: Any) -> Any:
    """Memory for an array of the same shape and strides, at an aligned address."""
    size = 1 + sum((n - 1) * abs(s) for n, s in zip(x.shape, x.strides, strict=True))
    if 0 in x.shape or any(s < 0 for s in x.strides) or size < prod(x.shape):
        return machine.empty(x.shape, x.dtype)
    room = machine.empty(size + x.dtype.itemsize, np.uint8)
    return machine.window(machine.address(room), room, x.shape, x.strides, x.dtype)
