"""Programs of eager mode on a GPU: a few launches on the current stream, nothing waited for.

Note [direct launches]
    A fragment is called between other operations, so what counts is the host's time per call. Its
    words are arguments of its launches (Note [arguments]), filled in place; results and what lies
    between its kernels come from CuPy's pool, whose memory is used again in the order of the
    stream; faults are told later (Note [late faults]). There is no graph and no copy of operands.
    Where many kernels are launched as one, their table is copied to the device before it, from
    pinned memory that is used again when that copy is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from types import CodeType, FunctionType
from typing import Any, NamedTuple, Protocol

import numpy as np

from adjoint.engine.backends.array.dtypes import NUMPY_OF
from adjoint.engine.backends.triton.launch_words import Written
from adjoint.engine.backends.triton.program.banks import signed
from adjoint.engine.backends.triton.program.codes import CALL_BITS, CodedDraft
from adjoint.engine.backends.triton.program.faults import BLOCKING, FaultBoard
from adjoint.engine.backends.triton.program.program import MakeTarget
from adjoint.engine.backends.triton.runtime.arguments import with_arguments
from adjoint.engine.backends.triton.runtime.cublaslt import uses_tf32
from adjoint.engine.backends.triton.runtime.launching import SPARE, NativeLaunches, Patches, Works
from adjoint.engine.backends.triton.runtime.open_numbers import OPEN_NUMBERS
from adjoint.engine.backends.triton.target import EagerTarget
from adjoint.engine.backends.triton.templates.product import MatrixProduct
from adjoint.engine.compiler.memory.footprint import AtSizes
from adjoint.engine.compiler.memory.places import INPUT, RESULT
from adjoint.engine.compiler.options import Options
from adjoint.engine.compiler.package.image import ProgramImage
from adjoint.engine.compiler.package.naming import digest
from adjoint.engine.compiler.schedule.build import plan_for
from adjoint.engine.compiler.schedule.steps import Launch, double_bits
from adjoint.engine.core.dtype import named
from adjoint.engine.core.generated import function_of_text
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.spec import contiguous_strides
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.execution import Task

PAGE = 256  # bytes that the pool's memory begins at a multiple of
BYTES = np.dtype(np.uint8)

Place = tuple[int, int]  # a word, and what is added there
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LaunchNumber:
    """A number that launches are told at each call."""

    what: str  # "input", "target", "result", "float", "whole", "room", "slot" or "workspace"
    which: int  # of those
    text: str  # an expression for it
    places: list[Place]  # words that it is put into
    wraps: bool = False  # what is added may carry it out of 64 bits


@dataclass(frozen=True, slots=True)
class NativeCall:
    """What native code needs to make a program's launches itself (Note [met launches])."""

    device: int
    function: int  # of a record's address, a stream and addresses
    record: int
    given: tuple[tuple[str, int], ...]  # what each address is of
    results: tuple[Callable[[int], Any], ...]  # what makes them, given the current stream
    layouts: tuple[tuple[Shape, Shape, Any], ...]  # their shapes, steps in bytes and dtypes
    room: Callable[[int], Any] | None  # what makes memory between kernels
    noted: Callable[[], int] | None  # what notes a call that can fail, and numbers it
    hold: Any

    @staticmethod
    def place(array: Any) -> tuple[int, bool]:
        """Which GPU an array is on, and whether its address is no multiple of 64."""
        return DEVICE_LAYOUTS[array.__class__](array)


class DirectMachine(Protocol):
    """Whoever has the memory and launches kernels: a GPU, or Triton's interpreter in tests."""

    index: int
    faults: FaultBoard

    def enter(self) -> tuple[int, Any]: ...
    def leave(self, before: Any) -> None: ...
    def empty(self, shape: Any, dtype: Any) -> Any: ...
    def strided(self, shape: Any, dtype: Any, strides: Any) -> Any: ...
    def maker(self, shape: Any, dtype: Any, strides: Any = None) -> Callable[[int], Any]: ...
    def address(self, array: Any) -> int: ...
    def arguments(self, count: int) -> tuple[Any, int]: ...
    def table(self, words: Any, start: int, count: int) -> Any: ...
    def tables(self, symbols: list[tuple[int, str]]) -> list[tuple[int, Any]]: ...
    def launcher(self, name: str, work: Any, at: int, count: int) -> Callable[[int], None]: ...
    def together(self, works: Works, words: Any, patches: Patches, room: int) -> Any: ...
    def ask(self, works: Works) -> None: ...
    def plain(self, name: str, work: Any, count: int, into: Sequence[Any]) -> Any: ...
    def workspace_on(self, stream: int) -> int: ...


class NumberedDraft(CodedDraft):
    """A draft of launches alone."""

    def shared(self, at_sizes: AtSizes) -> tuple[list[Any], bool]:
        """Nothing: there are no workers."""
        return [], False

    def launches(self) -> list[tuple[str, int, Launch]] | None:
        """All entries; None where some are no launches."""
        entries: list[tuple[str, int, Launch]] = []
        for segment in self.segments:
            for name, at, entry in segment or ():
                if not isinstance(entry, Launch):
                    return None
                entries.append((name, at, entry))
        return None if None in self.segments else entries


def drafted(task: Task, options: Options, target: MakeTarget) -> NumberedDraft:
    """The draft of a fragment's program."""
    examples = enumerate(task.examples)
    gpu_target = target(frozenset(i for i, x in examples if not getattr(x, "aligned", True)))
    plan = plan_for(task, gpu_target, options)
    plan.steps[:] = gpu_target.apart(plan.steps)
    return NumberedDraft(plan)


class LaunchedWork(NamedTuple):
    """A launch, with all that it is told but addresses."""

    name: str
    at: int  # its first word in the image
    work: Written | MatrixProduct
    told: list[int]
    given: int  # how many of them are the image's
    is_table: bool  # whether it has to load them


def launched(entry: tuple[str, int, Launch], words: Any) -> LaunchedWork:
    """What an entry of a draft launches."""
    name, at, launch = entry
    told = [int(words[at + k]) for k in range(len(launch.words))]
    product = launch.kernels[0] if launch.kernels else None
    if isinstance(product, MatrixProduct):
        return LaunchedWork(name, at, product, told, len(told), False)
    if not isinstance(launch.text, Written):
        raise NotImplementedError(f"{launch.label}: no launch of eager mode")
    name, work, more = as_launched(name, launch.text, len(told))
    return LaunchedWork(name, at, work, told + (more or []), len(told), more is None)


def as_launched(name: str, work: Written, count: int) -> tuple[str, Written, list[int] | None]:
    """A kernel with words as arguments, its name, and words it has besides (Note [open numbers]).

    None where it has to load its words from a table.
    """
    opened, more = OPEN_NUMBERS.kernel(work, count)
    given = with_arguments(opened, count + len(more))
    if given is None:
        return name, work, None
    return name if opened is work else f"t{digest(repr(opened.codes()))}", given, more


class DirectProgram:
    """An executable whose kernels are launched at once."""

    concurrent = True  # it sees to that itself
    calls_eager = False
    is_ahead = False  # whether its kernels were asked for and not waited for (Note [rules ahead])
    works: Works
    held: list[Any]  # tables of addresses, where each is
    tf32: bool

    def __init__(
        self,
        task: Task,
        options: Options,
        machine: DirectMachine,
        target: MakeTarget = EagerTarget,
    ) -> None:
        draft = drafted(task, options, target)
        entries = draft.launches()
        if entries is None:
            self.calls_eager = True  # which whoever asked for this does better
            return
        image = draft.at({})
        self.fill(machine, draft, image, [launched(entry, image.words) for entry in entries])

    def fill(
        self,
        machine: DirectMachine,
        draft: NumberedDraft,
        image: ProgramImage,
        works: list[LaunchedWork],
    ) -> None:
        """Launches of an image that a draft made."""
        self.machine = machine
        self.lock = Lock()
        plan = draft.plan
        self.count = len(plan.graph.outputs)
        self.lay(image, works)
        moved = self.moved
        patches = {
            key: [(moved[at], plus) for at, plus in at_places]
            for key, at_places in image.patches.items()
        }
        self.inputs = [
            (i, patches[f"{INPUT} {i}"])
            for i in range(len(plan.graph.inputs))
            if f"{INPUT} {i}" in patches
        ]
        self.targets = [
            (n, patches[f"target {n}"])
            for n in range(len(plan.targets))
            if f"target {n}" in patches
        ]
        self.results = [
            (k, shape, NUMPY_OF[named(dtype)], patches.get(f"{RESULT} {k}", []))
            for k, shape, dtype in image.results
        ]
        inputs = plan.graph.inputs
        self.numbers = [
            (
                i,
                inputs[i].spec.dtype.is_floating_point,
                [(moved[at], plus) for at, plus in at_places],
            )
            for i, at_places in image.numbers.items()
        ]
        self.inside = [(moved[int(at)], int(image.words[at])) for at in image.inside]
        self.arena = image.arena + PAGE if self.inside else 0
        self.codes = self.numbered(draft.codes, image)
        self.only = self.count == len(self.results) == 1 and not self.targets
        self.layouts: dict[int, tuple[Shape, Shape]] = {}  # of results: shape, steps in bytes
        self.told = [number for number in self.given() if number.places]
        self.joined = None
        if CONTEXT.ahead:
            self.is_ahead, self.tf32 = True, uses_tf32()
            machine.ask(self.works)
        else:
            self.joined = self.join()
        self.texts: dict[Any, CodeType] = {}  # of `run`, by what is laid out
        # What fills it anew, where it is a copy at other sizes (Note [filled programs]).
        self.remake: Callable[[DirectProgram], None] | None = None
        self.run: Callable[[list[Any], list[Any]], list[Any]] = self.first_run

    def take(
        self,
        first: DirectProgram,
        shapes: Sequence[Shape],
        arena: int,
        joined: NativeLaunches,
        remake: Callable[[DirectProgram], None],
    ) -> None:
        """Be a program like another of the same plan, at other sizes (Note [filled programs])."""
        self.machine, self.lock, self.count = first.machine, first.lock, first.count
        self.codes, self.only, self.held = first.codes, first.only, first.held
        self.results = [
            (k, shape, dtype, [])
            for (k, _, dtype, _), shape in zip(first.results, shapes, strict=True)
        ]
        self.arena = arena
        self.layouts = {}
        self.told, self.works, self.tf32 = first.told, first.works, first.tf32
        self.joined, self.texts, self.remake = joined, first.texts, remake
        self.run = self.first_run

    def lay(self, image: ProgramImage, works: list[LaunchedWork]) -> None:
        """The words of all launches, and what launches them."""
        size = sum(len(work.told) + SPARE for work in works)
        self.words, self.address = self.machine.arguments(size)
        self.moved: dict[int, int] = {}  # where each word is
        self.launches: list[Callable[[int], None]] = []
        self.works = []
        start = 0
        for name, at, work, told, given, is_table in works:
            count = len(told)
            self.words[start : start + count] = told
            for k in range(given):
                self.moved[at + k] = start + k
            self.works.append((name, work, start, -count if is_table else count))
            start += count + SPARE
        for at, _ in image.status:
            self.words[self.moved[at]] = self.machine.faults.address
        self.held = self.machine.tables(image.symbols)
        for at, table in self.held:
            self.words[self.moved[at]] = self.machine.address(table)

    def join(self) -> NativeLaunches | None:
        """What launches all kernels by native code; None where each is launched by itself."""
        self.tf32 = uses_tf32()
        patches = [(k, *place) for k, number in enumerate(self.told) for place in number.places]
        joined: NativeLaunches | None
        joined = self.machine.together(self.works, self.words, patches, len(self.told))
        if joined is None and not self.launches:
            self.launches = [self.launcher(*work) for work in self.works]
        return joined

    def launcher(self, name: str, work: Any, start: int, count: int) -> Callable[[int], None]:
        """What launches one kernel; fewer words than none: it has to load them."""
        if count < 0:
            launch: Callable[[int], None]
            launch = self.machine.table(self.words, start, -count).launcher(name, work)
            return launch
        return self.machine.launcher(name, work, self.address + 8 * start, count)

    def numbered(self, words: list[int], image: ProgramImage) -> list[Place]:
        """Where the codes of faults are, and their numbers on the device's board."""
        codes = []
        for at, fault in zip(words, image.faults, strict=True):
            number = self.machine.faults.number(fault)
            if not number:
                self.calls_eager = True  # nobody could tell what went wrong
            codes.append((self.moved[at], number << CALL_BITS))
        return codes

    def fits(self, array: Any) -> bool:
        """Whether the only result may be put into an array's memory, given as a target.

        Kernels take results to begin where the pool's memory does: at a multiple of 64 bytes.
        """
        if not self.only or DEVICE_LAYOUTS[array.__class__](array) != (self.machine.index, False):
            return False
        (k, shape, dtype, _), *_ = self.results
        if array.dtype != dtype or (array.dtype.kind == "c" and len(self.works) > 1):
            return False  # a kernel of one part may read the other, which is written by then
        if k in self.layouts:
            return (array.shape, array.strides) == self.layouts[k]
        return array.flags.c_contiguous and array.shape == tuple(shape)

    def __call__(self, inputs: list[Any], targets: list[Any]) -> list[Any]:
        """Fill in addresses and numbers, and launch."""
        return self.run(inputs, targets)

    def lay_out(self, result: int, shape: Shape, order: Shape) -> bool:
        """Have a result be told as of another shape, its dimensions in another order.

        The array is then made so, which takes CuPy less than to make it and view it otherwise.
        """
        dtype = next((dtype for k, _, dtype, _ in self.results if k == result), None)
        if dtype is None:
            return False
        steps = [step * dtype.itemsize for step in contiguous_strides(shape)]
        self.layouts[result] = tuple(shape[d] for d in order), tuple(steps[d] for d in order)
        return True

    def ready(self) -> None:
        """Wait for kernels that were asked for ahead."""
        if self.is_ahead:
            self.joined = self.join()
            self.is_ahead = False

    def first_run(self, inputs: list[Any], targets: list[Any]) -> list[Any]:
        """What the first call does."""
        self.ready()
        self.run = self.written_out()
        return self.run(inputs, targets)

    def run_anew(self, inputs: list[Any], targets: list[Any]) -> list[Any]:
        """The same after products are to be computed otherwise."""
        if self.remake is not None:
            self.remake(self)
        else:
            self.joined = self.join()
        return self.first_run(inputs, targets)

    def written_out(self) -> Callable[[list[Any], list[Any]], list[Any]]:
        """What a call does, as a function of its own: all that is known is in its text."""
        scope: dict[str, Any] = {
            "machine": self.machine, "enter": self.machine.enter, "empty": self.machine.empty,
            "strided": self.machine.strided, "double_bits": double_bits, "signed": signed,
            "launched": self.machine.faults.launched, "room_type": BYTES,
        }  # fmt: skip
        for k, shape, dtype, _ in self.results:
            scope[f"shape{k}"], scope[f"dtype{k}"] = shape, dtype
            if k in self.layouts:
                scope[f"shape{k}"], scope[f"steps{k}"] = self.layouts[k]
        if self.arena:
            scope["room_size"] = self.arena
        joined = self.joined
        if joined is not None:
            scope |= {
                "launch": joined.run, "record": joined.record.address, "refused": joined.refused,
                "uses_tf32": uses_tf32, "anew": self.run_anew, "hold": joined,
                "workspace_on": self.machine.workspace_on,
            }  # fmt: skip
        else:
            scope |= {"words": self.words, "lock": self.lock}
            scope |= {f"launch{n}": launch for n, launch in enumerate(self.launches)}
        which = self.tf32, self.joined is None, *self.layouts
        if which in self.texts:
            return FunctionType(self.texts[which], scope)
        # By its name it is seen to be the package's, when a line of the program is looked for.
        run = function_of_text(self.text(), "fill", f"{__file__}: fill", scope)
        self.texts[which] = run.__code__
        return run

    def text(self) -> str:
        """The text of that function, which is the same for all sizes of a plan."""
        made: list[str] = []
        for k, *_ in self.results:
            new = f"empty(shape{k}, dtype{k})"
            if k in self.layouts:
                new = f"strided(shape{k}, dtype{k}, steps{k})"
            made.append(f"result{k} = {f'targets[0] if targets else {new}' if self.only else new}")
        if self.arena:
            made.append("room = empty(room_size, room_type)")
        if self.codes:
            made.append("slot = launched()")
        handed = {k: f"result{k}" for k, *_ in self.results}
        returned = ", ".join(handed.get(k, "None") for k in range(self.count))
        text = [
            "def fill(inputs, targets):",
            " stream, before = enter()",
            " try:",
            *[f"  {line}" for line in (*made, *self.launched_by()) or ("pass",)],
            " finally:",
            "  if before is not None: machine.leave(before)",
            *([" machine.faults.look()"] if BLOCKING else []),
            f" return [{returned}]",
        ]
        return "\n".join(text)

    def given(self) -> Iterator[LaunchNumber]:
        """What launches are told at each call."""
        for i, places in self.inputs:
            yield LaunchNumber("input", i, f"inputs[{i}].data.ptr", places)
        for n, places in self.targets:
            yield LaunchNumber("target", n, f"targets[{n}].data.ptr", places)
        for k, _, _, places in self.results:
            yield LaunchNumber("result", k, f"result{k}.data.ptr", places)
        for i, is_float, places in self.numbers:
            if is_float:
                into = [(at, 0) for at, _ in places]
                yield LaunchNumber("float", i, f"double_bits(inputs[{i}])", into)
            else:
                yield LaunchNumber("whole", i, f"signed(inputs[{i}])", places, wraps=True)
        if self.arena:
            yield LaunchNumber("room", 0, f"-(-room.data.ptr // {PAGE}) * {PAGE}", self.inside)
        if self.codes:
            yield LaunchNumber("slot", 0, "slot", self.codes)

    def maker(self, k: int, shape: Shape, dtype: Any) -> Callable[[int], Any]:
        """What makes a result, given the current stream."""
        if k in self.layouts:
            shape, strides = self.layouts[k]
            return self.machine.maker(shape, dtype, strides)
        return self.machine.maker(tuple(shape), dtype)

    def layout(self, k: int, shape: Shape, dtype: Any) -> tuple[Shape, Shape, Any]:
        """How a result lies: its shape, steps in bytes and dtype."""
        if k in self.layouts:
            return (*self.layouts[k], dtype)
        steps = contiguous_strides(shape)
        return tuple(shape), tuple([step * dtype.itemsize for step in steps]), dtype

    @property
    def native(self) -> NativeCall | None:
        """What native code needs to launch, if it can; asked for after the first call."""
        joined = self.joined
        if joined is None:
            return None
        return NativeCall(
            device=self.machine.index,
            function=joined.run(),
            record=joined.record.address,
            given=tuple([(number.what, number.which) for number in self.handed()]),
            results=tuple([self.maker(k, shape, dtype) for k, shape, dtype, _ in self.results]),
            layouts=tuple([self.layout(k, shape, dtype) for k, shape, dtype, _ in self.results]),
            room=self.machine.maker((self.arena,), BYTES) if self.arena else None,
            noted=self.machine.faults.launched if self.codes else None,
            hold=(self, joined),
        )

    def handed(self) -> list[LaunchNumber]:
        """What native code is told at each call."""
        if any(isinstance(work, MatrixProduct) for _, work, _, _ in self.works):
            return [*self.told, LaunchNumber("workspace", 0, "workspace_on(stream)", [])]
        return self.told

    def launched_by(self) -> Iterator[str]:
        """The lines that put numbers into words and launch: native code's, or our own."""
        works = [work for _, work, _, _ in self.works]
        if self.joined is not None:
            numbers = [number.text for number in self.handed()]
            call = f"launch({', '.join(['record', 'stream', *numbers])})"
            if any(isinstance(work, MatrixProduct) and work.dtype == "float32" for work in works):
                yield f"if uses_tf32() is not {self.tf32}: return anew(inputs, targets)"
            yield f"code = {call}"
            yield f"if code: refused(code, lambda: {call})"
            return
        if not self.told and not self.launches:  # of no elements
            return
        yield "with lock:"
        for number in self.told:
            yield f" number = {number.text}"
            for at, plus in number.places:
                yield f" words[{at}] = {'signed' if number.wraps else ''}(number + {plus})"
        for n in range(len(self.launches)):
            yield f" launch{n}(stream)"
