"""Operations under way: begun in order, watched, and ended with a result or an error.

Note [checked collectives]
    Before a collective moves data, the members of its communicator exchange a line that says what
    each has called (operation, shape, dtype, root, number). If the lines differ, every member
    raises and says who called what; without that, a mismatch is a hang or silent garbage. The
    exchange costs some microseconds. A member that does not come at all is noticed by the time
    limit or by its death, and the error names it and what it does instead.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from adjoint.distributed.engines.base import Communicator, Request
from adjoint.distributed.errors import DistBackendError
from adjoint.distributed.groups.monitor import Monitor
from adjoint.engine.backends.array.gpu.faults import LOST
from adjoint.engine.core.errors import CaptureError, show_line, users_line, users_place
from adjoint.engine.core.state.context import CONTEXT

LINE = 512  # bytes of a line that says what a process calls
DIGEST = 16
EAGER_LOOKS = 200  # looks at a request before its waiter sleeps between them
NAP = 1e-4  # seconds between looks then
BACKGROUND_NAP = 3e-4  # seconds between looks of the thread that moves asynchronous operations on
GRACE = {"it died": 1.0}  # seconds in which what a process sent before its end may still arrive
LEFT_GRACE = 5.0


def refuse_recorded(what: str) -> None:
    """Refuse to communicate where a function is captured: its calls would not do it again."""
    if CONTEXT.capture is not None:
        raise CaptureError(
            f"{what}: not inside a captured function at {users_line()}, whose calls would not "
            "communicate again. What can be used inside is all_reduce, broadcast, all_gather, "
            "all_gather_into_tensor and reduce_scatter_tensor, of tensors."
        )


@dataclass(slots=True)
class Channel:
    """A communicator for data, one for what is called, and who its members are in the world."""

    data: Communicator
    check: Communicator | None  # None: a group of one has nobody to disagree with
    members: tuple[int, ...]
    name: str
    timeout: float
    calls: int = 0


@dataclass(slots=True, eq=False)
class CollectiveCall:
    """One collective of this process, from its call to its end."""

    channel: Channel
    what: str  # compared between members
    begin: Callable[[], Request]
    finish: Callable[[], None] | None
    deadline: float
    peers: tuple[int, ...]  # ranks in the world that it waits for
    place: tuple[str, int] | None
    state: str = "checking"
    check: Request | None = None
    lines: Any = None
    request: Request | None = None
    error: BaseException | None = None
    started: float = field(default_factory=time.monotonic)

    @property
    def ended(self) -> bool:
        return self.state in ("done", "failed")

    @property
    def where(self) -> str:
        return "an unknown line" if self.place is None else show_line(*self.place)

    def __str__(self) -> str:
        return f"{self.what} of group {self.channel.name}, called at {self.where}"


class Progress:
    """Moves this process's operations on, from whichever thread waits, or from its own."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.active: list[CollectiveCall] = []
        self.last: CollectiveCall | None = None
        self.monitor: Monitor | None = None
        self.broken: str | None = None  # after a process was lost nothing can be relied on
        self._work = threading.Event()
        self._thread: threading.Thread | None = None

    # -- beginning -------------------------------------------------------------------------------

    def submit(
        self,
        channel: Channel,
        what: str,
        begin: Callable[[], Request],
        finish: Callable[[], None] | None = None,
        timeout: float | None = None,
        peers: tuple[int, ...] | None = None,
    ) -> CollectiveCall:
        """Begin an operation. `peers` of a message are those it waits for; it is not checked."""
        if self.broken is not None:
            raise DistBackendError(f"{what}: communication has ended: {self.broken}")
        refuse_recorded(what)
        limit = time.monotonic() + (channel.timeout if timeout is None else timeout)
        with self.lock:
            awaited = channel.members if peers is None else peers
            operation = CollectiveCall(channel, what, begin, finish, limit, awaited, users_place())
            if peers is None:
                channel.calls += 1
                operation.what = f"{what} (call {channel.calls})"
                self._exchange(operation)
            else:
                operation.state = "ready"
            self.last = operation
            self.active.append(operation)
            self.step()
        return operation

    def _exchange(self, operation: CollectiveCall) -> None:
        check = operation.channel.check
        if check is None:
            operation.state = "ready"
            return
        text = operation.what.encode()
        digest = hashlib.blake2b(text, digest_size=DIGEST).digest()
        path, number = operation.place or ("an unknown line", 0)
        shown = f"{operation.what} at {path}:{number}".encode()[: LINE - DIGEST]
        line = np.frombuffer((digest + shown).ljust(LINE, b"\0"), np.uint8).copy()
        operation.lines = np.empty((check.size, LINE), np.uint8)
        operation.check = check.all_gather(operation.lines, line)

    # -- going on --------------------------------------------------------------------------------

    def step(self) -> None:
        """Look at every operation once; those of one channel begin in the order of their calls."""
        waiting: set[int] = set()
        for operation in self.active:
            try:
                self._advance(operation, waiting)
            except Exception as error:
                operation.state, operation.error = "failed", error
        if any(op.ended for op in self.active):
            self.active = [op for op in self.active if not op.ended]

    def _advance(self, operation: CollectiveCall, waiting: set[int]) -> None:
        channel = id(operation.channel)
        if operation.state == "checking":
            if operation.check is None or not operation.check.done():
                waiting.add(channel)
                return
            compare_lines(operation)
            operation.state = "ready"
        if operation.state == "ready":
            if channel in waiting and operation.check is not None:
                return
            operation.request = operation.begin()
            operation.state = "running"
        if operation.state == "running" and operation.request is not None:
            if not operation.request.done():
                return
            if operation.finish is not None:
                operation.finish()
            operation.request, operation.lines, operation.check = None, None, None
            operation.state = "done"

    # -- waiting ---------------------------------------------------------------------------------

    def wait(self, operation: CollectiveCall, timeout: float | None = None) -> None:
        """Return when an operation is done; raise what ended it otherwise."""
        deadline = operation.deadline
        if timeout is not None:
            deadline = min(deadline, time.monotonic() + timeout)
        looks = 0
        while not operation.ended:
            with self.lock:
                self.step()
                join = getattr(operation.request, "join", None)
            if join is not None:  # queued on a GPU: only what is queued after waits for it
                join()
                self.wake()
                return
            if operation.ended:
                break
            looks += 1
            time.sleep(0 if looks < EAGER_LOOKS else NAP)
            if looks % 16 == 0:
                self._watch(operation, deadline)
        if operation.error is not None:
            raise operation.error

    def _watch(self, operation: CollectiveCall, deadline: float) -> None:
        now = time.monotonic()
        lost = self.lost_peer(operation.peers, now)
        if lost is None and now < deadline:
            return
        with self.lock:
            if operation.ended:
                return
            if lost is not None:
                text = f"{operation}: {lost}"
            else:
                text = f"{operation} timed out after {now - operation.started:.1f} s: "
                text += self.who_is_missing(operation)
            operation.state, operation.error = "failed", DistBackendError(text)
            self.active.remove(operation)
            self.broken = text
            self._abort(operation)

    def _abort(self, operation: CollectiveCall) -> None:
        """Have a GPU stop waiting; what it was to compute is nothing to be read any more."""
        request = operation.request
        if getattr(request, "join", None) is None:  # nothing is queued on one
            return
        owner: Any = request if hasattr(request, "abort") else operation.channel.data
        LOST.append(operation.error)
        owner.abort()

    def lost_peer(self, peers: Sequence[int], now: float) -> str | None:
        """Why an operation with these processes will never end, if so."""
        monitor = self.monitor
        if monitor is None:
            return None
        for rank in peers:
            if rank in monitor.gone:
                why, when = monitor.gone[rank]
                if now - when > GRACE.get(why, LEFT_GRACE):
                    return f"rank {rank} is gone: {why}"
        if monitor.lost is not None and now - monitor.lost[1] > LEFT_GRACE:
            return monitor.lost[0]
        return None

    def who_is_missing(self, operation: CollectiveCall) -> str:
        """What the members of an operation say they are doing."""
        if self.monitor is None:
            return "not all processes have called it"
        try:
            said = self.monitor.others()
        except DistBackendError as error:
            return str(error)
        calls = f"(call {operation.channel.calls})"
        here = [r for r in operation.peers if operation.what in said.get(r, "")]
        missing = [r for r in operation.peers if r not in here]
        lines = [f"  rank {r}: {said.get(r, 'was never heard of')}" for r in operation.peers]
        names = ", ".join(map(str, missing)) or "none; all are in it"
        return f"missing rank(s): {names} {calls}\n" + "\n".join(lines)

    def report(self) -> str:
        """What this process is doing, for others."""
        waiting = [op for op in list(self.active) if not op.ended]
        if waiting:
            return "waits in " + "; ".join(map(str, waiting[:4]))
        if self.last is None:
            return "has called no collective yet"
        return f"computes; its last collective was {self.last}"

    # -- in the background -----------------------------------------------------------------------

    def wake(self) -> None:
        """Have asynchronous operations move on while the program computes."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="adjoint progress", daemon=True)
            self._thread.start()
        self._work.set()

    def _run(self) -> None:
        while True:
            self._work.wait()
            with self.lock:
                self.step()
                queued = [op for op in self.active if getattr(op.request, "join", None)]
                if not self.active:
                    self._work.clear()
            for operation in queued:  # nobody may be waiting for them
                self._watch(operation, operation.deadline)
            time.sleep(BACKGROUND_NAP)

    def blocking(self, what: str, call: Callable[[], Any], timeout: float) -> Any:
        """Run something of the engine's that cannot be asked how far it is."""
        refuse_recorded(what)
        outcome: list[Any] = []

        def run() -> None:
            try:
                outcome.append((call(), None))
            except Exception as error:
                outcome.append((None, error))

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(timeout)
        if not outcome:
            self.broken = f"{what} did not end within {timeout:g} s"
            raise DistBackendError(f"{self.broken}: not all of its processes have called it")
        result, error = outcome[0]
        if error is not None:
            raise error
        return result


def compare_lines(operation: CollectiveCall) -> None:
    """Raise on every member where members have called different things."""
    lines = operation.lines
    if (lines[:, :DIGEST] == lines[0, :DIGEST]).all():
        return
    said = [bytes(line[DIGEST:]).rstrip(b"\0").decode(errors="replace") for line in lines]
    shown = "\n".join(
        f"  rank {rank}: {text}" for rank, text in zip(operation.channel.members, said, strict=True)
    )
    raise DistBackendError(
        f"collective mismatch in group {operation.channel.name}: its processes have called "
        f"different things\n{shown}"
    )


PROGRESS = Progress()
