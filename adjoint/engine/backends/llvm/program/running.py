"""Programs in machine code: loaded from disk, filled in and run by the worker pool.

Note [loaded fragments]
    The first large operation of a process waits for all that is imported on its way, which takes
    longer than to read its program from disk and to run it. So what loads and runs programs is
    apart from what makes them: nothing that is imported here imports the planner, the passes, the
    IR of loops or the recorder of Python code. Those are brought where a program is planned, told
    to people, or recorded from Python code (`get_ready_for_recordings`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from adjoint.engine.backends.disk import store
from adjoint.engine.backends.disk.package_code import package_digest
from adjoint.engine.backends.llvm.program.arena import Arena
from adjoint.engine.backends.llvm.program.filling import make_fill, refuse
from adjoint.engine.backends.llvm.program.lasting import lasting_of
from adjoint.engine.backends.llvm.runtime import library
from adjoint.engine.backends.llvm.runtime.jit import target_key
from adjoint.engine.backends.llvm.runtime.peeking import address_of
from adjoint.engine.backends.llvm.runtime.pool import DriverStep as Entry
from adjoint.engine.backends.llvm.runtime.pool import DriverTable, the_pool
from adjoint.engine.backends.threads import get_num_threads
from adjoint.engine.compiler.memory.buffer_kinds import INPUT
from adjoint.engine.compiler.memory.limits import check, limit, too_much
from adjoint.engine.compiler.package.image import (
    FORMAT,
    TEST,
    ProgramImage,
    Unfitting,
    from_bytes,
)
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.timeline import LISTENERS, Ran, keep_least

if TYPE_CHECKING:
    from adjoint.engine.compiler.schedule.plan import Plan
    from adjoint.engine.graph.execution import Executable, Task
    from adjoint.engine.graph.sizes.extents import Sizes

Functions = dict[str, library.NativeFunction]
SYMBOLS = "adjoint.engine.backends.llvm.runtime.symbols"  # the part that knows others' addresses


class FilledTask:
    """All that a program need know of a task whose inputs are all given at each call.

    That of an operation that was found by its kind (Note [kept kinds]): nothing was recorded.
    """

    __slots__ = ("floats", "outputs", "written")

    def __init__(self, floats: frozenset[int], outputs: int, written: frozenset[int]) -> None:
        self.floats = floats  # which of the host's numbers, that the image knows, are floats
        self.outputs = outputs
        self.written = written  # which inputs are


class Native:
    """An executable whose kernels are machine code.

    One call at a time: the arena and the words are its own. Other threads wait.
    """

    concurrent = True  # it sees to that itself

    def __init__(
        self,
        task: Task | FilledTask,
        image: ProgramImage,
        functions: dict[str, library.NativeFunction],
        plan: Plan | None = None,
        arena: Arena | None = None,  # shared with programs of other sizes
        drafted: Callable[[], tuple[Any, Sizes]] | None = None,  # the draft it was made from
    ) -> None:
        self.task, self.image, self.plan = task, image, plan
        self.functions = functions  # keeps their code
        self.arena = arena = arena or Arena()
        allocate(arena, image)
        self.lock = arena.lock
        self.words = image.words
        if image.symbols:  # few programs have some
            address_named = importlib.import_module(SYMBOLS).address_of
            for at, name in image.symbols:
                self.words[at] = address_named(name)
        self.origin = 0
        self.move(arena.origin)
        arena.users.add(self)
        self.lasting = lasting_of(task, image, arena, self.words)
        self.fill = self.fix_state()
        self.segments = self.tables()
        if not isinstance(task, FilledTask) and task.sizing is not None:
            self.task = replace(task, examples=(), targets=())  # one of many: let go of these
        self.pool = the_pool()
        self.parallel = image.parallel
        self.drafted = drafted
        # Of the runs that were timed the least: nanoseconds and turns by segment and entry.
        self.least_times: dict[tuple[int, int], tuple[int, int]] = {}
        self.calls_eager = None in image.segments  # whether the eager table does a part of it

    def move(self, origin: int) -> None:
        """Have the arena at another address."""
        self.words[self.image.inside] += origin - self.origin
        self.origin = origin

    def fix_state(self) -> Any:
        """Fill in addresses of state, which do not change; returns what fills in the rest."""
        task, image = self.task, self.image
        if isinstance(task, FilledTask):
            patched = [key.split() for key, patches in image.patches.items() if patches]
            inputs = [int(number) for kind, number in patched if kind == INPUT]
            moving = {i: i in task.written for i in inputs}
            return make_fill(image, moving, task.floats, self.words, task.outputs, banks=False)
        words = memoryview(self.words)  # takes a number sooner than the array does
        graph = task.graph if task.sizing is None else task.sizing.graph  # but for sizes the same
        moving = {}
        written = {id(target) for target in task.targets}
        for i, source in enumerate(task.sources):
            patches = image.patches.get(f"{INPUT} {i}")
            if not patches:
                continue
            if not source.is_state:
                moving[i] = id(task.examples[i]) in written
                continue
            array = task.examples[i]
            if id(array) in written and not array.flags.writeable:
                refuse()
            start = address_of(array)
            for at, shift in patches:
                words[at] = start + shift
        numbers = [i for i in image.numbers if graph.inputs[i].spec.dtype.is_floating_point]
        banks = task.shared is None  # of many programs each would hold memory
        outputs = len(graph.outputs)
        return make_fill(image, moving, frozenset(numbers), self.words, outputs, banks)

    def tables(self) -> list[Any]:
        """Native tables, separated by calls of the eager table."""
        segments: list[Any] = []
        base = self.words.ctypes.data
        address = {name: function.address for name, function in self.functions.items()}
        calls = iter(planning().host_calls(self) if None in self.image.segments else ())
        for number, entries in enumerate(self.image.segments):
            if entries is None:
                segments.append(next(calls))
                continue
            table = DriverTable(
                [
                    Entry(0, base + 8 * start, skip=skip, test=True)
                    if name == TEST
                    else Entry(address[name], base + 8 * start, everyone, True, skip)
                    for name, start, everyone, skip in entries
                ]
            )
            segments.append(table)
            for at, where in self.image.status:
                if where == number:
                    self.words[at] = table.status_address
        return segments

    def explain(self) -> str:
        """What the program does, step by step."""
        text: str = planning().explained(self)
        return text

    def accounts(self) -> list[list[Any]]:
        """By segment, what every entry of its table does; none where that is not known."""
        accounts: list[list[Any]] = planning().accounts_of(self)
        return accounts

    # -- running --------------------------------------------------------------------------------

    def __call__(self, inputs: list[Any], targets: list[Any]) -> list[Any]:
        """Fill in this call's addresses and numbers, and run."""
        if LISTENERS:
            return self.timed(inputs, targets)
        with self.lock:
            results, lasting = self.fill(inputs, targets), self.lasting
            if lasting is not None:
                lasting.begin()
            run = self.pool.run
            workers = get_num_threads() if self.parallel else 1
            for segment in self.segments:
                if segment.__class__ is not DriverTable:
                    segment(inputs, results)
                    continue
                code = run(segment.address, segment.count, workers)
                if code:
                    raise self.image.fault(code)
            if lasting is not None:
                lasting.end()
            return results

    def quickest(self) -> Executable:
        """`__call__`, with what it looks up laid ready where the program is one small table."""
        if self.parallel or len(self.segments) != 1 or self.calls_eager:
            return self.__call__
        (table,) = self.segments
        lock, fill, run, timed = self.lock, self.fill, self.pool.run, self.timed
        lasting = self.lasting
        address, count, fault = table.address, table.count, self.image.fault

        def alone(inputs: list[Any], targets: list[Any]) -> list[Any]:
            if LISTENERS:
                return timed(inputs, targets)
            with lock:
                results = fill(inputs, targets)
                if lasting is not None:
                    lasting.begin()
                code = run(address, count)
                if code:
                    raise fault(code)
                if lasting is not None:
                    lasting.end()
                return results

        return alone

    def timed(self, inputs: list[Any], targets: list[Any]) -> list[Any]:
        """`__call__`, with the time of each entry told to those who listen."""
        with self.lock:
            results = self.fill(inputs, targets)
            if self.lasting is not None:
                self.lasting.begin()
            workers = get_num_threads() if self.parallel else 1
            for number, segment in enumerate(self.segments):
                start = perf_counter_ns()
                code, times = 0, memoryview(b"")
                if segment.__class__ is not DriverTable:
                    segment(inputs, results)
                else:
                    code, times = self.pool.run_timed(segment, workers)
                run = Ran(self, number, start, perf_counter_ns(), times)
                self.keep_times(run)
                for listener in LISTENERS:
                    listener.ran(run)
                if code:
                    raise self.image.fault(code)
            if self.lasting is not None:
                self.lasting.end()
            return results

    def keep_times(self, run: Ran) -> None:
        """Note a run's times, for pages."""
        if not len(run.times):
            keep_least(self.least_times, (run.segment, 0), (run.end - run.start, 1))
        for k in range(len(run.times) // 3):
            taken = (run.times[3 * k + 1], run.times[3 * k + 2])
            keep_least(self.least_times, (run.segment, k), taken)

    def sources(self) -> dict[str, str]:
        """The LLVM text of every function, by name."""
        texts: dict[str, str] = planning().sources_of(self)
        return texts


def allocate(arena: Arena, image: ProgramImage) -> None:
    """Memory for a program's own values."""
    if image.arena <= arena.nbytes:
        return  # it is there already
    check(image.arena, lambda: image.memory)
    try:
        arena.reserve(image.arena)
    except MemoryError:
        raise too_much(image.memory, "which the system does not give") from None


def planning() -> Any:
    """The part that plans programs and makes their machine code."""
    return importlib.import_module("adjoint.engine.backends.llvm.program.planning")


@cache
def disk_prefix() -> str:
    """What the names of all images begin with: the machine and the versions."""
    return f"{target_key()};{package_digest()};{FORMAT}"


def loaded(
    key: str, arena: Arena, make: Callable[[ProgramImage, Functions], Native]
) -> Native | None:
    """What is made of the program that is kept under a key, if image and code are all there."""
    data = store.get(key)
    if data is None:
        return None
    try:
        image, modules = from_bytes(data)
    except Unfitting:
        store.default().drop(key)
        return None
    if image.arena > max(arena.nbytes, 0) and image.arena > limit():
        return None  # planned again, it can say which lines need the memory
    allocate(arena, image)
    with arena.touched():
        try:
            functions = library.load(dict.fromkeys(image.functions, gone), modules)
        except KeyError:
            return None
        try:
            return make(image, functions)
        except library.UnknownSymbol:  # kept beside another NumPy or SciPy
            return None


def gone() -> library.Text:
    """In the place of what writes a function whose code should be on disk."""
    raise KeyError("the code of a kept program was removed")


def shared_arena(shared: dict[str, Any]) -> Arena:
    """The memory of programs of which one runs at a time."""
    if "arena" not in shared:
        shared["arena"] = Arena()
    arena: Arena = shared["arena"]
    return arena


@cache
def get_ready() -> None:
    """What every program needs and no program decides: the workers and their driver."""
    disk_prefix()
    the_pool()
    HOOKS.native_loaded = True
