"""Programs of one plan at many sizes, each a copy of the first with other numbers in it.

Note [filled programs]
    What a plan says at some sizes (Note [open plans]) is a record that native code launches (Note
    [native launches]), shapes of results, and how much memory lies between kernels. Two programs
    of a plan differ in few words of that record: sizes, grids, where in memory something begins.
    So the first program of a plan is made in full. Of its record it is found out once where which
    number stands, and others are copies of it with the numbers of their sizes in these places.
    Products are asked for anew, and kernels of which the fastest of several was taken.

    The second program of a plan is made both ways. Where the two are not the same, and where
    native code does not launch, every program is made in full.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from adjoint.engine.backends.triton.program.codes import CALL_BITS
from adjoint.engine.backends.triton.program.direct import (
    PAGE,
    DirectProgram,
    LaunchedWork,
    NumberedDraft,
)
from adjoint.engine.backends.triton.program.open_launches import (
    OpenLaunch,
    is_plain,
    product_at,
    with_grid,
    word_at,
)
from adjoint.engine.backends.triton.runtime.cublaslt import uses_tf32
from adjoint.engine.backends.triton.runtime.launching import (
    ACROSS,
    COUNT,
    DOWN,
    FUNCTION,
    HEAD,
    SHARED,
    THREADS,
    LaunchRecord,
    NativeLaunches,
    PlainLaunch,
)
from adjoint.engine.backends.triton.templates.product import MatrixProduct
from adjoint.engine.compiler.package.draft import word_of
from adjoint.engine.compiler.package.image import ProgramImage
from adjoint.engine.graph.sizes.extents import Extent, ExtentFloat
from adjoint.engine.graph.sizes.marked import Marked

Values = dict[int, Any]  # what extents are, by their identities
Numbers = tuple[Any, ...]  # what they are, in the order of a plan
Made = Callable[[Numbers], tuple[ProgramImage, list[LaunchedWork]]]  # what is made in full


class ProgramForm:
    """The first program of a plan, and where in it numbers depend on sizes."""

    def __init__(
        self,
        draft: NumberedDraft,
        launches: list[OpenLaunch],
        which: list[int],
        first: DirectProgram,
        made: Made,
    ) -> None:
        assert first.joined is not None
        self.draft, self.launches, self.first, self.made = draft, launches, first, made
        self.record: LaunchRecord = first.joined.record
        self.names = {name: k for k, name in enumerate(which)}
        self.which = which
        self.at: list[int] = []  # words of the record that are numbers of sizes
        self.number: list[int] = []  # which numbers
        self.floats: list[tuple[int, int]] = []  # the same of words that are floats
        self.marks: list[tuple[int, Marked]] = []  # and of those written otherwise
        self.inside: list[tuple[int, int, Any]] = []  # addresses in the arena: word, block, shift
        self.faults: list[tuple[int, Any]] = []  # codes of errors that tell of sizes
        self.anew: list[int] = []  # launches that are asked for anew
        shifts = self.shifts()
        for n, launch in enumerate(launches):
            self.add(n, launch, shifts)
        self.places = np.array(self.at, np.int64)
        self.shapes = [[self.index(x) for x in shape] for _, shape, _ in draft.results]
        self.is_checked = False

    def index(self, x: Any) -> tuple[int, int]:
        """Which number something is, and what it is where it is none of them."""
        if isinstance(x, (Extent, ExtentFloat)):
            return self.names[id(x)], 0
        return -1, x

    def shifts(self) -> dict[int, Any]:
        """What is added to addresses, by the words of an image that they are put into."""
        draft = self.draft
        found: dict[int, Any] = {at: x for each in draft.patches.values() for at, x in each}
        inputs = draft.plan.graph.inputs
        for i, places in draft.numbers.items():
            is_float = inputs[i].spec.dtype.is_floating_point
            found |= {at: 0 if is_float else plus for at, plus in places}
        return found

    # -- where numbers stand --------------------------------------------------------------------

    def add(self, n: int, launch: OpenLaunch, shifts: dict[int, Any]) -> None:
        """Take note of all that depends on sizes in a launch."""
        draft, head = self.draft, self.record.heads[n]
        sized = {
            int(at): draft.extents[k]
            for at, k in zip(draft.positions, draft.which, strict=True)
            if launch.at <= at < launch.at + launch.given
        }
        blocks = dict(draft.inside)
        faults = dict(zip(draft.codes, draft.faults, strict=True))
        for j, (word, _, _) in enumerate(self.record.patches(n)):
            place, at = head + HEAD + 3 * j + 2, launch.at + word
            if word >= launch.given:
                continue  # memory that a product works in
            if at in blocks:
                offset = sized.get(at, int(draft.words[at]))
                self.inside.append((place, blocks[at], offset))
            elif at in faults:
                if not isinstance(faults[at].message, str):
                    self.faults.append((place, faults[at]))
            else:
                self.note(place, shifts[at])
        if isinstance(launch.work, MatrixProduct):
            self.anew.append(n)
            return
        told = self.record.told[n]
        for at, x in sized.items():
            self.note(told + at - launch.at, x)
        for k, x in enumerate(launch.more):
            if isinstance(x, Marked) and is_plain(x):
                self.note(told + launch.given + k, x.number)
            elif isinstance(x, Marked):
                self.marks.append((told + launch.given + k, x))
        if launch.work.others:
            self.anew.append(n)
            return
        for place, x in zip((head + ACROSS, head + DOWN), launch.grids[0], strict=True):
            self.note(place, x)

    def note(self, place: int, x: Any) -> None:
        """Take note of a word."""
        if isinstance(x, Extent):
            self.at.append(place)
            self.number.append(self.names[id(x)])
        elif isinstance(x, ExtentFloat):
            self.floats.append((place, self.names[id(x)]))

    # -- copies ---------------------------------------------------------------------------------

    def program(self, numbers: Numbers) -> DirectProgram | None:
        """The program at sizes at which numbers are these; None: it has to be made in full."""
        first, draft = self.first, self.draft
        # The first may have been made anew since, for other products.
        if first.joined is None or first.tf32 is not uses_tf32():
            return None
        words = self.record.words.copy()
        words[self.places] = [numbers[k] for k in self.number]
        for place, k in self.floats:
            words[place] = word_of(numbers[k])
        values: Values = dict(zip(self.which, numbers, strict=True))
        for place, mark in self.marks:
            words[place] = word_at(mark, values)
        arena = 0
        if self.inside:
            starts, arena = draft.packed(lambda x: values.get(id(x), x))
            for place, block, x in self.inside:
                words[place] = values.get(id(x), x) + starts[block]
            arena += PAGE
        for place, fault in self.faults:
            number = first.machine.faults.number(fault.described(lambda x: values.get(id(x), x)))
            if not number:
                return None
            words[place] = number << CALL_BITS
        launches = [*self.record.launches]
        record = LaunchRecord(words, launches, self.record.heads, self.record.told)
        for n in self.anew:
            if not self.renew(n, record, launches, values):
                return None
        program = object.__new__(DirectProgram)
        shapes = [tuple([x if k < 0 else numbers[k] for k, x in shape]) for shape in self.shapes]
        record.settle()
        joined = NativeLaunches(first.joined.run, record, first.joined.refused)
        program.take(first, shapes, arena, joined, partial(self.refill, numbers))
        return program

    def renew(
        self, n: int, record: LaunchRecord, launches: list[PlainLaunch], values: Values
    ) -> bool:
        """Ask for a launch at other sizes; whether there is one for native code."""
        open_launch, words = self.launches[n], record.words
        name, _, _, count = self.first.works[n]
        work = open_launch.work
        if isinstance(work, MatrixProduct):
            work = product_at(work, lambda x: values.get(id(x), x))
        else:
            ways = zip((work, *work.others), open_launch.grids, strict=True)
            made = [with_grid(way, grid, values, ()) for way, grid in ways]
            work = made[0].beside(made[1:])
        launch = self.first.machine.plain(name, work, count, record.patches(n))
        if launch is None:
            return False
        head, told = record.heads[n], record.told[n]
        words[head + FUNCTION], words[head + THREADS] = launch.function, launch.threads
        words[head + ACROSS], words[head + DOWN] = launch.across, launch.down
        words[head + SHARED] = launch.shared
        if launch.words:
            words[told : told + words[head + COUNT]] = launch.words
        launches[n] = launch
        return True

    def refill(self, numbers: Numbers, program: DirectProgram) -> None:
        """Make a copy anew, in full."""
        layouts = program.layouts
        program.fill(self.first.machine, self.draft, *self.made(numbers))
        program.layouts = layouts

    def check(self, program: DirectProgram, full: DirectProgram) -> bool:
        """Whether a copy is what was made in full."""
        self.is_checked = alike(program, full)
        return self.is_checked


def alike(one: DirectProgram, other: DirectProgram) -> bool:
    """Whether two programs do the same."""
    if one.joined is None or other.joined is None:
        return False
    results = [[(k, tuple(shape), dtype) for k, shape, dtype, _ in p.results] for p in (one, other)]
    records = [described(p.record) for p in (one.joined, other.joined)]
    return results[0] == results[1] and one.arena == other.arena and records[0] == records[1]


def described(record: LaunchRecord) -> list[Any]:
    """What a record launches, but for the addresses of descriptions of products."""
    found: list[Any] = []
    for n, (launch, head, told) in enumerate(
        zip(record.launches, record.heads, record.told, strict=True)
    ):
        words, into = record.words, record.patches(n)
        given = words[told : told + int(words[head + COUNT])].tolist()
        put = {word for word, _, _ in into}
        kept = [x for k, x in enumerate(given) if k not in put]
        what = getattr(launch.hold, "product", None) if launch.is_product else kept
        found.append((words[head : head + COUNT + 2].tolist(), into, what))
    return found
