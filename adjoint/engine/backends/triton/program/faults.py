"""Faults of eager operations on a GPU, told when somebody waits for it.

Note [late faults]
    An index out of bounds is found by the kernel, which the host does not wait for. Kernels of all
    fragments on a device report into one word of its memory, the first report stays there, and
    those that write to state (an optimizer's update) do nothing from then on. Where the host waits
    for the device anyway (`item`, `cpu`, `synchronize`) the word is looked at, if a kernel that can
    fail was launched since, and what it says is raised: the operation's own error, and the line of
    the program that launched it. `ADJOINT_LAUNCH_BLOCKING=1` has it looked at after each launch.
    Counts of steps, which the host advances beside updates that did nothing, are taken back.
"""

from __future__ import annotations

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
        self.pending = True
        return slot

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
        self.pending = False
        late, self.seen = self.calls - self.seen > CALLS, self.calls
        undos, self.undos = self.undos, []
        status = self.machine.read(self.word)
        if not status:
            return
        self.word[:] = 0
        code, value = read_status(status)
        last = self.calls - 1
        failed = last - ((last - code) & (CALLS - 1))  # which call it was
        for before, undo in reversed(undos):
            if before > failed:
                undo()
        kind, message = self.known[(code >> CALL_BITS) - 1]
        place = None if late else self.places[code & (CALLS - 1)]
        error = failure(message, kind, value)
        if place is not None:
            error.add_note(f"This was found by a kernel that was launched at {place[0]}:{place[1]}")
        raise error
