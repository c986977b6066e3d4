"""What kernels on a GPU find wrong, told when somebody waits for it.

Note [late faults]
    An index out of bounds is found by the kernel, which the host does not wait for. All kernels on
    a device report into one word of its memory, which stays where it is; the first report stays
    there, and those that write to state (an optimizer's update) do nothing from then on. Where the
    host waits for the device anyway (`item`, `cpu`, `synchronize`) the word is looked at, if a
    kernel that can fail was launched since, and what it says is raised: the operation's own error,
    and the line of the program that launched it. `ADJOINT_LAUNCH_BLOCKING=1` has it looked at after
    each launch. Counts of steps, which the host advances beside updates that did nothing, are taken
    back.

    The host waits for one stream, and kernels may have been launched on others: those are waited
    for too, or what was found there would not be known, and never be told. The word is then made
    zero, and that is waited for: kernels on any stream that are launched afterwards write again. A
    graph that was captured by hand launches its kernels again at each replay, without a word to
    anybody: so replays are noted like calls.

    Of what two threads launch some may be under way when one of them is told. Whoever looks
    meanwhile waits until that is over, and work of the other thread did nothing until then.
"""

from __future__ import annotations

from threading import Lock, RLock, get_ident
from typing import Any

import numpy as np

from adjoint.engine.backends.array.gpu.device_memory import PER_THREAD
from adjoint.engine.backends.array.gpu.faults import BLOCKING as BLOCKING
from adjoint.engine.backends.array.gpu.faults import VARIABLES
from adjoint.engine.backends.triton.program.codes import CALL_BITS, CALLS, Error, ErrorNumbers
from adjoint.engine.compiler.package.status import CODE_BITS, read_status
from adjoint.engine.core.errors import place_of, users_instruction
from adjoint.engine.core.state.late_faults import BOARDS, KEEPERS, LOOKS, UNSEEN, Undo
from adjoint.engine.core.state.stream_capture import STREAM_CAPTURE
from adjoint.engine.ops.common.checks import failure

UNDOS = 256  # that are kept, before the host waits to know whether they are wanted


class FaultBoard:
    """What kernels on one device have reported."""

    def __init__(self, machine: Any) -> None:
        self.machine = machine
        self.word = machine.empty(1, np.int64)
        self.address = machine.address(self.word)
        machine.clear(self.word)
        self.errors = ErrorNumbers()
        self.number = self.errors.number
        self.places: list[Any] = [None] * CALLS  # of the latest calls (`users_instruction`)
        self.calls = self.seen = 0
        self.lock = RLock()  # for what calls and looks change
        self.looking = RLock()  # for a look: another thread waits until it is over
        self.streams: dict[Any, Any] = {}  # that such kernels were launched on since
        self.met: set[Any] = set()  # streams of all such kernels, and of programs that write
        self.first: Any = None  # of them
        self.is_shared = False  # by several streams
        self.is_unseen = False  # there are calls that others must wait for before they write
        self.replayed: int | None = None  # the first replay of a graph since
        self.undos: list[tuple[int, Undo]] = []  # by how many calls there were before
        LOOKS.append(self.look)
        KEEPERS[machine.index] = self.keep

    def launched(self) -> int:
        """Note a call of eager mode that can fail; the low bits of its codes."""
        return self.launched_on(*self.current(), users_instruction(), False)

    def launched_on(self, key: Any, stream: Any, place: Any, unseen: bool) -> int:
        """Note a call that can fail, on a stream and its key.

        `place` is where it was asked for; `unseen`, whether writes in place wait for it.
        """
        with self.lock:
            if key not in self.met:
                self.meet_as(key)
            slot = self.calls & (CALLS - 1)
            self.calls += 1
            self.places[slot] = place
            self.streams[key] = stream
            if unseen and not self.is_unseen:
                self.is_unseen = True
                UNSEEN.append(self.look)
        return slot

    def current(self) -> tuple[Any, Any]:
        """What the current stream is known by, and the stream."""
        stream = self.machine.stream()
        key: Any = stream.ptr
        if key == PER_THREAD:  # which is another one in each thread
            key = key, get_ident()
        return key, stream

    def meet(self) -> tuple[Any, Any]:
        """Note that the current stream has kernels that look at the word; `current`."""
        key, stream = self.current()
        with self.lock:
            if key not in self.met:
                self.meet_as(key)
        return key, stream

    def meet_as(self, key: Any) -> None:
        """Have a new stream come after the first one (Note [streams of reports])."""
        if STREAM_CAPTURE.graph is not None:  # nothing is done yet: the replay will be
            return
        if self.first is None:
            self.first = self.machine.stream()
        else:
            self.is_shared = True
            self.machine.join(self.first)
        self.met.add(key)

    def settle_apart(self) -> None:
        """Raise what kernels of other streams have found."""
        if self.is_shared and self.streams:
            here, _ = self.current()
            if any(key != here for key in self.streams):
                self.look()

    def passed(self, calls: int) -> None:
        """On the only stream, so many calls have found nothing: nothing before is undone."""
        with self.lock:
            if not self.is_shared:
                self.undos = [kept for kept in self.undos if kept[0] > calls]

    def replay(self) -> None:
        """Note that calls of before, which a graph captured, are launched again."""
        if self.replayed is None:
            self.replayed = self.calls
        self.launched()

    def reported_by(self, *faults: Error) -> tuple[int, list[int], int] | None:
        """What a kernel of the eager table reports errors by (`late_faults.Board`)."""
        numbers = [*map(self.number, faults)]
        if not all(numbers):
            return None
        call = self.launched()
        return self.address, [number << CALL_BITS | call for number in numbers], CODE_BITS

    def keep(self, undo: Undo) -> None:
        """Undo something if a call before it has failed: so many calls are told apart."""
        if not self.streams:
            return
        self.undos.append((self.calls, undo))
        many = self.calls - self.seen > CALLS // 2 or len(self.undos) > UNDOS
        if many and STREAM_CAPTURE.graph is None:
            self.look()

    def look(self) -> None:
        """Raise what was reported, once. What is launched meanwhile is looked at again."""
        if not self.streams:
            return
        with self.looking:
            with self.lock:
                streams, asked = dict(self.streams), self.calls
            if not streams:  # another thread has looked
                return
            status = self.machine.read(self.word, streams)  # an interrupt changes nothing
            if status:
                self.machine.clear(self.word)
            with self.lock:
                seen, self.seen = self.seen, asked
                replayed, self.replayed = self.replayed, None
                undos = self.undos
                self.undos = [] if status else [kept for kept in undos if kept[0] > asked]
                if self.calls == asked:
                    self.streams.clear()
                    if self.is_unseen:
                        self.is_unseen = False
                        UNSEEN.remove(self.look)
            if status:
                raise self.told(status, seen, replayed, undos)

    def told(
        self, status: int, seen: int, replayed: int | None, undos: list[tuple[int, Undo]]
    ) -> Exception:
        """The error that was reported; what updates would have counted is taken back."""
        code, value = read_status(status)
        last = self.calls - 1
        failed = last - ((last - code) & (CALLS - 1))  # which call it was
        if failed < seen and replayed is not None:
            failed = replayed  # of such a call, which the graph did again
        for before, undo in reversed(undos):
            if before > failed:
                undo()
        kind, message = self.errors.error(code >> CALL_BITS)
        error = failure(message, kind, value)
        place = None if last + 1 - seen > CALLS else self.places[failed & (CALLS - 1)]
        line = None if place is None else place_of(*place)
        where = f"launched at {line[0]}:{line[1]}" if line else "launched long before"
        error.add_note(f"This was found by a kernel that was {where}")
        if line is None:
            error.add_note(f"Run with {VARIABLES[0]}=1 to have the call itself raise it.")
        return error


_MAKING = Lock()


def board_of(machine: Any) -> FaultBoard:
    """A device's board, of which there is one in a process."""
    with _MAKING:
        board = BOARDS.get(machine.index)
        if board is None:
            with machine.active():
                board = BOARDS[machine.index] = FaultBoard(machine)
        assert isinstance(board, FaultBoard)
        return board
