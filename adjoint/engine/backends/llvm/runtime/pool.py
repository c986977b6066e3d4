"""The process's workers: threads that stay in native code and walk programs together.

There is one pool in a process. A program that asks for one worker never touches it, and one that
finds it taken by another thread runs alone, so calls never wait for each other. The threads are
the system's, unknown to Python: they start with the first program that wants them, and end before
a fork (both sides start new ones when they need them) and before the interpreter does.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib
import mmap
import os
import sys
import threading
import warnings
from array import array
from collections.abc import Sequence
from typing import Any

from adjoint.engine.backends import threads
from adjoint.engine.backends.llvm.runtime import fastcall, jit, library, shared_words

PATIENCE = 10_000  # times 100 us that the end of the interpreter waits for a running program
FOREVER = 2**62
_AGAIN = (shared_words.NEED_WORKERS, shared_words.PAUSED)
WIPE_ON_FORK = 18  # Linux: the child sees zeros, also after a fork that Python does not know of


class DriverStep:
    """One call of a kernel: where it is, where its argument words are, who calls it.

    After it `skip` steps are left out, or gone back where it is below 0. A test calls nothing; it
    leaves them out where the byte whose address is its first word is 0.
    """

    # No named tuple: to write one takes as long as to load a module (Note [loaded fragments]).
    __slots__ = ("arguments", "flags", "function", "skip", "test")

    def __init__(
        self,
        function: int,
        arguments: int,
        parallel: bool = True,
        barrier: bool = True,
        skip: int = 0,
        test: bool = False,
    ) -> None:
        self.function, self.arguments, self.skip, self.test = function, arguments, skip, test
        self.flags = (
            shared_words.PARALLEL * parallel
            | shared_words.BARRIER * barrier
            | shared_words.TEST * test
        )


class DriverTable:
    """A program in memory, as the driver reads it (see `driver`).

    Kernels and argument words belong to the caller, who keeps them alive.
    """

    __slots__ = ("_words", "address", "count")

    def __init__(self, steps: Sequence[DriverStep]) -> None:
        words = array("q", [0] * shared_words.HEADER_WORDS)
        for k, step in enumerate(steps):
            words.extend((step.function, step.arguments, step.flags, step.skip))
            if step.skip or step.test:
                _check_jump(k, k + 1 + step.skip, step.test, len(steps))
        self._words = words
        self.address = words.buffer_info()[0]
        self.count = len(steps)

    @property
    def status_address(self) -> int:
        """Where a kernel reports an error: goes into its argument words."""
        return self.address


def _check_jump(k: int, onward: int, test: bool, count: int) -> None:
    """Refuse jumps that lead out of a table, and tests after which nobody waits for the others."""
    if not 0 <= onward <= count:
        raise ValueError(f"step {k} of {count} leads to {onward}")
    if test and max(k + 1, onward) == count:
        raise ValueError(f"step {k} is a test that ends the table: a call must come after it")


class WorkerThreads:
    """The workers; `run` is all that programs need.

    >>> pool = the_pool()
    >>> pool.run(DriverTable([]).address, 0)
    0
    """

    def __init__(self, target: shared_words.Platform | None = None) -> None:
        if sys.platform == "win32":
            raise RuntimeError("compiled programs need POSIX threads: Linux or macOS")
        target = target or shared_words.host_platform()
        self._library = _link_driver(target)
        _immortal(self._library)  # workers may be in it when the interpreter goes
        self._memory = mmap.mmap(
            -1, shared_words.POOL_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        )
        if target.linux:
            with contextlib.suppress(OSError):  # an old kernel: forks by way of Python only
                self._memory.madvise(WIPE_ON_FORK)
        self._anchor = ctypes.c_char.from_buffer(self._memory)
        self.address = ctypes.addressof(self._anchor)
        _immortal(self._anchor)
        self.entry = self._library.address("run")  # for native code that has tables of its own
        self._run = fastcall.from_integers(self.entry, 5, name="run")
        self._run_timed: Any = None  # when first asked for
        self._grow = self._function("grow", 3)
        self._stop = self._function("stop", 2)
        self._give = self._function("give", 1)
        self._warned = False
        self._closed = False

    def _function(self, name: str, arity: int) -> Any:
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * arity)
        return kind(self._library.address(name))

    def run(self, table: int, count: int, workers: int = 1) -> int:
        """Walk a table's steps with at most so many workers, of which the caller is the first.

        Returns the program's status: 0, or what a kernel that failed has stored. No more workers
        are used than `set_num_threads` allows. A program that goes round in a loop comes back here
        now and then, and Python can raise KeyboardInterrupt.
        """
        if workers > 1:
            workers = min(workers, threads.present_threads(), shared_words.MAX_WORKERS)
        status: int = self._run(self.address, table, count, workers, 0)
        if status in _AGAIN:
            status = self._go_on(self._run, status, table, count, workers)
        return status

    def run_timed(self, table: DriverTable, workers: int = 1) -> tuple[int, memoryview]:
        """`run`, and the time of each step: when it first began, nanoseconds, how often it ran.

        Three numbers a step, by the monotonic clock, as the caller's thread saw it.
        """
        if self._run_timed is None:
            address = self._library.address("run_timed")
            self._run_timed = fastcall.from_integers(address, 5, name="run_timed")
        if workers > 1:
            workers = min(workers, threads.get_num_threads(), shared_words.MAX_WORKERS)
        times = array("q", [0] * (shared_words.TIME_WORDS * table.count or 1))
        place = ctypes.c_int64.from_address(table.address + shared_words.TIMES)
        place.value = times.buffer_info()[0]
        try:
            status = self._run_timed(self.address, table.address, table.count, workers, 0)
            status = self._go_on(self._run_timed, status, table.address, table.count, workers)
        finally:
            place.value = 0
        return status, memoryview(times)

    def _go_on(self, run: Any, status: int, table: int, count: int, workers: int) -> int:
        """What a run comes to once workers are started and pauses gone on from."""
        start = 0
        while status in _AGAIN:
            if status == shared_words.PAUSED:
                start = ctypes.c_int64.from_address(table + shared_words.RESUME).value
            else:  # again, where a fork has just ended them
                workers = self.start(workers)
            status = run(self.address, table, count, workers, start)
        return status

    def start(self, workers: int) -> int:
        """Have so many workers (the caller counts) at hand; returns how many there are."""
        processors = threads.available_processors()
        resident: int = 1 + self._grow(self.address, workers - 1, processors)
        if resident < workers and not self._warned:
            self._warned = True
            warnings.warn(
                f"the system gives no more threads: programs run on {resident} instead of"
                f" {workers}. Ask for fewer with set_num_threads.",
                stacklevel=3,
            )
        return min(workers, resident)

    @property
    def resident(self) -> int:
        """How many threads are waiting for programs, the caller's not counted."""
        return ctypes.c_int64.from_address(self.address + shared_words.STARTED).value

    def stop(self, tries: int = FOREVER) -> bool:
        """End the threads once no program runs, and keep the pool taken until `resume`."""
        return bool(self._stop(self.address, tries))

    def resume(self) -> None:
        """Let programs use the pool again, unless it was closed."""
        if not self._closed:
            self._give(self.address)

    def close(self) -> None:
        """End the threads for good: what still runs during the interpreter's exit runs alone."""
        self._closed = self._closed or self.stop(PATIENCE)

    def before_fork(self) -> None:
        """End the threads: the child would not have them, and Python warns of forks with any."""
        if not self._closed:
            self.stop()


def _link_driver(target: shared_words.Platform) -> jit.LinkedCode:
    def write() -> str:
        driver = importlib.import_module("adjoint.engine.backends.llvm.runtime.driver")
        text: str = driver.driver_text(target)
        return text

    return library.linked_by_code(f"driver {target!r}", write)


def _immortal(thing: object) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


# -- the one pool ---------------------------------------------------------------------------------

_making = threading.Lock()
_pool: WorkerThreads | None = None


def the_pool() -> WorkerThreads:
    """The process's pool, made when first asked for."""
    return _pool or _make()


def _make() -> WorkerThreads:
    global _pool
    with _making:
        if _pool is None:
            pool = WorkerThreads()
            os.register_at_fork(
                before=pool.before_fork, after_in_parent=pool.resume, after_in_child=pool.resume
            )
            atexit.register(pool.close)
            _pool = pool
        return _pool


def _renew() -> None:
    global _making
    _making = threading.Lock()  # another thread may have held it at the fork


os.register_at_fork(after_in_child=_renew)
