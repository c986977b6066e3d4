"""What a program has to do with the word that all kernels of its device report into.

Note [faults of programs]
    Kernels of a program report into their device's word (Note [late faults]), with the number of
    the call, which is among the words that each call fills in. Those that write state look at it
    and do nothing once it is set, whoever has set it: another program, or an operation of eager
    mode before it. All that can fail in a program comes before them; so a fault leaves state as it
    was, and an optimizer's update or a program that writes need not wait to know. The host goes on:
    it prepares the next call while the GPU runs this one. What was found is raised where the host
    waits (`item`, `cpu`, `synchronize`), or at the latest by the next call of a program that
    reports: each of its calls ends with a copy of the word to the host. With
    `ADJOINT_LAUNCH_BLOCKING=1` each call waits and raises itself.

    In eager mode what is written in place (by NCCL, too), and what is added to a gradient that is
    there, looks at no word: a program that writes no state is waited for before that. Devices do
    not see each other's words: what others may have reported is waited for before an update.

Note [streams of reports]
    A kernel finds what was reported before it in the order of its stream, or of events between
    streams. On one stream that is all. What a stream reports that nothing orders comes at any time:
    between two kernels of a program that write, which would then be done in part. So from the time
    when a second stream is met, the first kernel of a program that writes is preceded by a copy of
    the word, by which all of them go; words that point there and captured launches are made anew
    once. A stream that is met later comes after what the first one was asked for so far.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.engine.backends.triton.program import banks
from adjoint.engine.backends.triton.program.banks import DeviceBank, Segment
from adjoint.engine.backends.triton.program.codes import CALL_BITS, CodedDraft
from adjoint.engine.compiler.memory.places import OWN
from adjoint.engine.compiler.package.image import ProgramImage
from adjoint.engine.compiler.schedule.steps import Entry, Launch
from adjoint.engine.core.errors import users_instruction
from adjoint.engine.core.state import late_faults

Run = Callable[[int], None]


def writes_state(launch: Launch) -> bool:
    """Whether a launch writes to memory that is not the call's own."""
    buffers = [touch.buffer for touch in launch.writes]
    if launch.form is not None:
        stores = [r for _, r in launch.form.stores]
        buffers += [kernel.refs[r].buffer for kernel in launch.kernels for r in stores]
    return any(buffer.kind not in OWN for buffer in buffers)


class ProgramReports:
    """A program's part in its device's word."""

    def __init__(self, machine: Any, draft: CodedDraft, image: ProgramImage, writes: bool) -> None:
        self.machine, self.writes = machine, writes
        self.board = machine.faults
        numbers = [self.board.errors.some_number(error) for error in image.faults]
        self.codes = [
            (at, number << CALL_BITS) for at, number in zip(draft.codes, numbers, strict=True)
        ]
        self.status = [at for at, _ in image.status]
        self.first: Launch | None = None  # that writes state
        self.guards: list[int] = []  # words of such launches that say where to look
        for segment in draft.segments:
            for _, at, entry in segment or ():
                if isinstance(entry, Launch) and writes_state(entry):
                    self.first = self.first or entry
                    mine = [k for k in self.status if at <= k < at + len(entry.words)]
                    if not mine:
                        raise NotImplementedError(
                            f"compile: {entry.function} writes state whatever was reported"
                        )
                    self.guards += mine
        self.memory = [machine.empty(1, np.int64)] if self.guards else []  # of that copy
        self.is_latched = False
        # The stream of the latest call, if the board has met it, and what it is known by.
        self.stream: tuple[Any, Any] | None = None
        # The word after the latest call of each bank, and how many calls there were then.
        self.seen = machine.pinned(banks.COUNT)
        self.seen[:] = 0
        self.seen_words = memoryview(self.seen)  # the same, quick to look at
        self.asked = [0] * banks.COUNT

    # -- making ---------------------------------------------------------------------------------

    def fill(self, words: Any) -> None:
        """The words of all calls."""
        words[self.status] = self.board.address
        for at, code in self.codes:
            words[at] = code

    def guarded(self, entry: Entry, run: Run) -> Run:
        """What launches an entry: the first that writes state after a copy of the word, where that
        is wanted."""
        if entry is not self.first:
            return run
        copy = self.machine.copier(self.memory[0], self.board.word)

        def launch(words: int) -> None:
            if self.is_latched:
                copy()
            run(words)

        return launch

    def set_lookout(self, last: Any, waits: bool) -> None:
        """Have each call end with a copy of the word, if it may be set and is not waited for."""
        can_fail = bool(self.codes)
        self.looks = waits or (can_fail and not isinstance(last, Segment))
        self.tells = can_fail and not self.looks
        if self.tells:
            download, seen = self.machine.downloader, self.seen
            last.after = [download(seen[k : k + 1], self.board.word) for k in range(banks.COUNT)]

    # -- running --------------------------------------------------------------------------------

    def before(self, turn: int, bank_list: Sequence[DeviceBank], segments: list[Any]) -> None:
        """What a call begins with, when its bank's call before is done."""
        board = self.board
        if self.tells:
            if any(self.seen_words):
                try:
                    board.look()
                finally:  # not before: copies that were under way have seen the same
                    self.seen[:] = 0
            elif board.undos:
                board.passed(self.asked[turn])
        if self.stream is None and (self.codes or self.guards):
            self.stream = board.meet()
        if not self.guards:
            return
        if len(late_faults.BOARDS) > 1:
            late_faults.settle_others(self.machine.index)
        if board.is_shared and not self.is_latched:
            self.is_latched = True
            for bank in bank_list:
                bank.point([(at, 0) for at in self.guards], self.machine.address(self.memory[0]))
            for segment in segments:
                if isinstance(segment, Segment):
                    for k in range(banks.COUNT):
                        segment.forget(k)

    def number(self, turn: int, bank: DeviceBank, place: Any) -> None:
        """Give this call's codes its number."""
        if self.stream is None or not self.codes:
            return
        key, stream = self.stream
        if place is None:
            place = users_instruction()
        slot = self.board.launched_on(key, stream, place, not self.writes)
        quick = bank.quick
        for at, code in self.codes:
            quick[at] = code | slot
        self.asked[turn] = self.board.calls

    def look(self) -> None:
        """Raise what was found, where the program itself may have failed."""
        if self.codes:
            self.board.look()
