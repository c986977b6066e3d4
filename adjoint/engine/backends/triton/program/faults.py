"""Faults of eager operations on a GPU, told when somebody waits for it.

Note [late faults]
    An index out of bounds is found by the kernel, which the host does not wait for. Kernels of all
    fragments on a device report into one word of its memory, the first report stays there, and
    those that write to state (an optimizer's update) do nothing from then on. Where the host waits
    for the device anyway (`item`, `cpu`, `synchronize`) the word is looked at, if a kernel that can
    fail was launched since, and what it says is raised: the operation's own error, and the line of
    the program that launched it. `ADJOINT_LAUNCH_BLOCKING=1` has it looked at after each launch.
    Counts of steps, which the host advances beside updates that did nothing, are taken back.

    The host waits for one stream, and kernels may have been launched on others: those are waited
    for too, or what was found there would not be known, and never be told. A graph that was
    captured by hand launches its kernels again at each replay, without a word to anybody: so
    replays are noted like calls.
"""

from __future__ import annotations

from threading import RLock
from typing import Any

import numpy as np

from adjoint.engine.backends.array.gpu.faults import BLOCKING as BLOCKING
from adjoint.engine.compiler.package.status import CODE_BITS, read_status
from adjoint.engine.core.errors import users_place
from adjoint.engine.core.state.late_faults import KEEPERS, LOOKS, Undo
from adjoint.engine.ops.common.checks import failure

CALL_BITS = CODE_BITS // 2  # of a code: which of the latest calls it was
CALLS = 1 << CALL_BITS
KNOWN = (1 << (CODE_BITS - CALL_BITS)) - 1  # errors that have numbers


class FaultBoard:
    """What kernels on one device have reported."""

    def __init__(self, machine: Any) -> None:
        self.machine = machine
        self.word = machine.empty(1, np.int64)
        self.word[:] = 0
        self.address = machine.address(self.word)
        self.known: list[tuple[str, str]] = []  # exception and message, by number - 1
        self.numbers: dict[tuple[str, str], int] = {}
        self.places: list[Any] = [None] * CALLS  # of the latest calls: file and line
        self.calls = self.seen = 0
        self.pending = False
        self.lock = RLock()
        self.streams: dict[int, Any] = {}  # that such kernels were launched on since
        self.replayed: int | None = None  # the first replay of a graph since
        self.undos: list[tuple[int, Undo]] = []  # by how many calls there were before
        LOOKS.append(self.look)
        KEEPERS.append(self.keep)

    def number(self, fault: tuple[str, str]) -> int:
        """The number of an error; 0 where there are too many."""
        number = self.numbers.get(fault)
        if number is None:
            if len(self.known) >= KNOWN:
                return 0
            self.known.append(fault)
            number = self.numbers[fault] = len(self.known)
        return number

    def launched(self) -> int:
        """Note a call that can fail; the low bits of its codes."""
        slot, self.calls = self.calls & (CALLS - 1), self.calls + 1
        self.places[slot] = users_place()
        self.expect()
        return slot

    def expect(self) -> None:
        """Something may be found by what is launched on the current stream."""
        stream = self.machine.stream()
        with self.lock:  # or it might be put where nobody looks any more
            self.streams[stream.ptr] = stream
            self.pending = True

    def replay(self) -> None:
        """Note that calls of before, which a graph captured, are launched again."""
        if self.replayed is None:
            self.replayed = self.calls
        self.launched()

    def reported_by(self, *faults: tuple[str, str]) -> tuple[int, list[int], int] | None:
        """What a kernel of the eager table reports errors by (`late_faults.Board`)."""
        numbers = [*map(self.number, faults)]
        if not all(numbers):
            return None
        call = self.launched()
        return self.address, [number << CALL_BITS | call for number in numbers], CODE_BITS

    def keep(self, undo: Undo) -> None:
        """Undo something if a call before it has failed: so many calls are told apart."""
        if self.pending:
            self.undos.append((self.calls, undo))
            if self.calls - self.seen > CALLS // 2 or len(self.undos) > CALLS:
                self.look()

    def look(self) -> None:
        """Raise what was reported, once."""
        if not self.pending:
            return
        with self.lock:  # calls from now on are looked at again
            self.pending = False
            streams, self.streams = self.streams, {}
        try:
            status = self.machine.read(self.word, streams)
        except BaseException:  # an interrupt: nothing is known yet
            with self.lock:
                self.streams, self.pending = streams | self.streams, True
            raise
        seen, self.seen = self.seen, self.calls
        replayed, self.replayed = self.replayed, None
        undos, self.undos = self.undos, []
        if not status:
            return
        self.word[:] = 0
        code, value = read_status(status)
        last = self.calls - 1
        failed = last - ((last - code) & (CALLS - 1))  # which call it was
        if failed < seen and replayed is not None:
            failed = replayed  # of such a call, which the graph did again
        for before, undo in reversed(undos):
            if before > failed:
                undo()
        kind, message = self.known[(code >> CALL_BITS) - 1]
        late = self.calls - seen > CALLS
        place = None if late else self.places[failed & (CALLS - 1)]
        error = failure(message, kind, value)
        if place is not None:
            error.add_note(f"This was found by a kernel that was launched at {place[0]}:{place[1]}")
        raise error
