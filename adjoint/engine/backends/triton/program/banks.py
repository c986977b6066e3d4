"""Banks: what one of several calls that may be under way has to itself.

Note [banks]
    The host prepares a call while the GPU runs the one before, so there are two sets of words, used
    in turn. Each bank also has memory for results, made once: when its turn comes, what it handed
    out two calls ago is mostly forgotten (a gradient, replaced by the next one), and is handed out
    again. What is still held by somebody is replaced by fresh memory. Where a captured product
    knows its address, the launches are then captured anew, a few times; a result that goes on to be
    held is a copy from then on, of memory that nobody is given.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.engine.compiler.memory.places import RESULT

COUNT = 2
CAPTURED = 4  # launches that are worth a graph
MOVES = 4  # times that they are captured anew because a result is held, which takes a millisecond
FEW = 8  # words of a number that are written one by one
NEVER_CHANGE = (float, int, bool)
Places = list[tuple[int, int]]  # positions of words, and what is added there
Copies = list[tuple[int, Any]]  # numbers of results, and the memory they are copied to
Launches = list[tuple[Callable[[int], None], int]]  # what launches, and where its words are


def _counted() -> int:
    """References to what a list and a name have, as this version of Python counts them."""
    arrays = [object()]
    for i in range(1):
        array = arrays[i]
        count = sys.getrefcount(array)
    return count


UNSHARED = _counted()  # references to an array that only its bank has


class DeviceBank:
    """Words, and memory for results."""

    def __init__(self, machine: Any, words: Any) -> None:
        """With memory for as many words as there are on the device."""
        self.words = machine.pinned(len(words))
        self.quick = memoryview(self.words)  # the same, one word at a time
        self.upload = machine.uploader(words, self.words)
        self.mark: Any = None  # after the latest call
        self.numbers: Any = None  # its `Numbers`
        self.moved = False  # results that captured launches write lie elsewhere since
        self.results: list[Any] = []

    def point(self, places: Places, address: int) -> None:
        """Write an address wherever it is wanted."""
        for at, shift in places:
            self.quick[at] = address + shift


class Results:
    """The results that a program hands out, by number."""

    def __init__(self, machine: Any, wanted: list[Any], patches: Any, captured: set[int]) -> None:
        self.machine = machine
        self.wanted = [
            (k, shape, dtype, list(patches.get(f"{RESULT} {k}", ()))) for k, shape, dtype in wanted
        ]
        self.fixed = [any(at in captured for at, _ in places) for *_, places in self.wanted]
        self.moves = [0] * len(wanted)  # how often each was moved from under captured launches

    def allocate(self, bank: DeviceBank) -> None:
        """Give a bank its memory."""
        for _, shape, dtype, places in self.wanted:
            array = self.machine.empty(shape, dtype)
            bank.results.append(array)
            bank.point(places, self.machine.address(array))

    def take(self, bank: DeviceBank, count: int) -> tuple[list[Any], Copies]:
        """The arrays of this call's results; and which are handed out as copies, with their memory:
        where there is none left, that is said before anything is written."""
        taken: list[Any] = [None] * count
        copied: Copies = []
        arrays = bank.results
        for i, (k, shape, dtype, places) in enumerate(self.wanted):
            array = arrays[i]
            if sys.getrefcount(array) > UNSHARED:
                arrays[i] = array = self.machine.empty(shape, dtype)
                bank.point(places, self.machine.address(array))
                if self.fixed[i]:
                    bank.moved = True
                    self.moves[i] += 1
            if self.moves[i] > MOVES:
                copied.append((k, self.machine.empty(shape, dtype)))
            taken[k] = array
        self.machine.reuse(taken)
        return taken, copied


class Numbers:
    """The host's numbers that a program reads, and the words of a bank that they go to.

    `given` has, for each, its position among the inputs, whether it is a float, and its words. A
    number that is the same object as at the bank's call before is there already: most are.
    """

    def __init__(self, words: Any, given: list[tuple[int, bool, Places]]) -> None:
        whole, floats = memoryview(words), memoryview(words.view(np.float64))
        self.latest: list[Any] = [None] * len(given)
        self.few: list[tuple[int, int, Any, Any, list[int]]] = []  # words are written one by one
        self.many: list[tuple[int, int, bool, Any, Any]] = []
        self.words = words
        for n, (i, is_float, places) in enumerate(given):
            plain = is_float or not any(plus for _, plus in places)
            at = [word for word, _ in places]
            if plain and len(places) <= FEW:
                convert, view = (float, floats) if is_float else (signed, whole)
                self.few.append((n, i, convert, view, at))
            else:
                plus = np.array([p for _, p in places], np.int64)
                self.many.append((n, i, is_float, np.array(at, np.intp), plus))

    def put(self, inputs: Any) -> None:
        """Write the numbers of a call."""
        latest = self.latest
        for n, i, convert, view, places in self.few:
            x = inputs[i]
            if x is not latest[n]:
                latest[n] = x if x.__class__ in NEVER_CHANGE else None
                word = convert(x)
                for at in places:
                    view[at] = word
        for n, i, is_float, where, plus in self.many:
            x = inputs[i]
            if x is latest[n]:
                continue
            latest[n] = x if x.__class__ in NEVER_CHANGE else None
            if is_float:
                self.words.view(np.float64)[where] = float(x)
            else:
                self.words[where] = np.int64(signed(x)) + plus  # it wraps, as words do


class Segment:
    """Launches with nothing of the host's between them, for each bank (Note [replays])."""

    def __init__(self, machine: Any, launches: list[Launches]) -> None:
        self.machine, self.launches = machine, launches
        # Of each bank, asked for before the first launch, and after the last.
        self.before: list[Callable[[], None]] = []
        self.after: list[Callable[[], None]] = []
        self.runs = [0] * len(launches)
        self.replays: list[Callable[[], None] | None] = [None] * len(launches)
        self.marked: list[Any] = [None] * len(launches)  # replays with marks between launches

    def forget(self, bank: int) -> None:
        """Capture launches anew."""
        self.replays[bank] = self.marked[bank] = None

    def launch(self, bank: int) -> None:
        """All launches, one by one."""
        if self.before:
            self.before[bank]()
        for run, words in self.launches[bank]:
            run(words)
        if self.after:
            self.after[bank]()

    def __call__(self, bank: int) -> None:
        replay = self.replays[bank]
        if replay is None:
            self.runs[bank] += 1
            # The first run of all loads code and chooses between kernels, which no graph can.
            if sum(self.runs) == 1 or len(self.launches[bank]) < CAPTURED:
                self.launch(bank)
                return
            replay = self.replays[bank] = self.machine.graph(lambda: self.launch(bank))
        replay()


def signed(x: int) -> int:
    """An integer as the signed 64-bit word of its low bits."""
    x = int(x) & (2**64 - 1)
    return x - 2**64 if x >> 63 else x
