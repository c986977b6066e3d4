"""Banks: what one of several calls that may be under way has to itself.

Note [banks]
    The host prepares a call while the GPU runs the one before, so there are two sets of words, used
    in turn. Each bank also has memory for results, made once: when its turn comes, what it handed
    out two calls ago is mostly forgotten (a gradient, replaced by the next one), and is handed out
    again. What is still held by somebody is replaced by fresh memory; or, where a captured product
    knows its address, by a copy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.engine.compiler.memory.places import RESULT
from adjoint.engine.compiler.schedule.steps import double_bits

COUNT = 2
CAPTURED = 4  # launches that are worth a graph
Places = list[tuple[int, int]]  # positions of words, and what is added there
Launches = list[tuple[Callable[[int], None], int]]  # what launches, and where its words are


def _counted() -> int:
    """References to what a list and a name have, as this version of Python counts them."""
    arrays = [object()]
    for i in range(1):
        array = arrays[i]
        found = sys.getrefcount(array)
    return found


UNSHARED = _counted()  # references to an array that only its bank has


class DeviceBank:
    """Words, and memory for results."""

    def __init__(self, machine: Any, count: int) -> None:
        self.words = machine.pinned(count)
        self.mark: Any = None
        self.results: list[Any] = []

    def point(self, places: Places, address: int) -> None:
        """Write an address wherever it is wanted."""
        for at, shift in places:
            self.words[at] = address + shift


class Results:
    """The results that a program hands out, by number."""

    def __init__(self, machine: Any, wanted: list[Any], patches: Any, captured: set[int]) -> None:
        self.machine = machine
        self.wanted = [
            (k, shape, dtype, list(patches.get(f"{RESULT} {k}", ()))) for k, shape, dtype in wanted
        ]
        self.fixed = [any(at in captured for at, _ in places) for *_, places in self.wanted]

    def allocate(self, bank: DeviceBank) -> None:
        """Give a bank its memory."""
        for _, shape, dtype, places in self.wanted:
            array = self.machine.empty(shape, dtype)
            bank.results.append(array)
            bank.point(places, self.machine.address(array))

    def take(self, bank: DeviceBank, count: int) -> tuple[list[Any], list[int]]:
        """The arrays of this call's results; and those that are handed out as copies."""
        found: list[Any] = [None] * count
        copied: list[int] = []
        arrays = bank.results
        for i, (k, shape, dtype, places) in enumerate(self.wanted):
            array = arrays[i]
            if sys.getrefcount(array) > UNSHARED:
                if self.fixed[i]:
                    copied.append(k)
                else:
                    arrays[i] = array = self.machine.empty(shape, dtype)
                    bank.point(places, self.machine.address(array))
            found[k] = array
        return found, copied


class Numbers:
    """A number of the host's, and the words it goes to."""

    def __init__(self, position: int, is_float: bool, places: Places) -> None:
        self.position, self.is_float = position, is_float
        self.at = np.array([at for at, _ in places], np.int64)
        self.plus = np.array([plus for _, plus in places], np.int64)

    def put(self, words: Any, value: Any) -> None:
        """Write the number of a call."""
        if self.is_float:
            words[self.at] = double_bits(float(value))
        else:
            with np.errstate(over="ignore"):
                words[self.at] = self.plus + np.int64(signed(value))


class Segment:
    """Launches with nothing of the host's between them, for each bank (Note [replays])."""

    def __init__(self, machine: Any, launches: list[Launches]) -> None:
        self.machine, self.launches = machine, launches
        self.runs = [0] * len(launches)
        self.replays: list[Callable[[], None] | None] = [None] * len(launches)

    def launch(self, bank: int) -> None:
        """All launches, one by one."""
        for run, words in self.launches[bank]:
            run(words)

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
