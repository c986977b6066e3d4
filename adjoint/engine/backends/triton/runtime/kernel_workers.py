"""Kernels compiled by other processes.

Note [kernel workers]
    Half of a compilation by Triton holds Python's lock, so that threads gain little by it; and
    where LLVM does not expect what it meets, it ends the process. So processes of their own do it:
    Python anew, which is told the folders that modules come from, and then, over its standard
    input, one kernel after the other. If one ends in the middle of a kernel, or does not answer for
    ten minutes, another has it, which leaves LLVM's optimisations out (ptxas has its own), and the
    caller is told why, so that it can warn; if that fails too, the kernel cannot be compiled.
    Where none can be begun, or what begins cannot load what it needs (so that it never says that it
    is ready), the caller compiles.

    One is kept for the next kernel; many kernels are compiled by as many as there are processors,
    of which a few stay for a while: eager mode asks for some kernels at one call after the other.
    They begin before there are kernels for them, since that takes a second: at the first program
    where the disk has no kernel of this version, elsewhere beside the third kernel that is asked
    for within a while.
    They leave out what takes Triton long and changes no instruction: lines of the source in its
    code, texts between its stages on the disk, and a hash of its own 500 MB, in whose place is what
    the file system says of these files.
    What is shared between threads is a list, of which Python itself takes care, and the semaphore,
    which a child has anew: so a fork finds no lock taken.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Semaphore, Timer
from time import monotonic
from typing import Any, BinaryIO

from adjoint.engine.backends.threads import available_processors

MOST = 16  # at a time
SHARE = 2  # kernels that are worth another one: it takes a second to begin
STAYING, STAY = 8, 20.0  # those that stay after many kernels, and for how many seconds
PATIENCE = 600.0  # seconds for one kernel: far longer than any takes
FEW = 3  # kernels asked for within `STAY` seconds, from which on others begin
# What Triton reads in the environment, unless it is there: no lines and no texts between stages.
BRIEF = {"TRITON_DISABLE_LINE_INFO": "1", "TRITON_STORE_BINARY_ONLY": "1"}
PLAIN = {"DISABLE_LLVM_OPT": "1"}
TOLD = 400  # characters of what one said before it ended
READY = b"\0ready for kernels\0"  # what Python says while it begins ends here
HERE = "adjoint.engine.backends.triton.runtime"
ROOT = str(Path(__file__).absolute().parents[HERE.count(".") + 1])
# Isolated, so that nothing in the current folder is taken for a module, until it knows the folders.
BEGIN = (
    "import os, pickle, sys; answers = os.fdopen(os.dup(1), 'wb'); "
    "os.dup2(2, 1); "  # whatever else is printed is no answer
    "sys.path[:] = pickle.load(sys.stdin.buffer); "
    f"from {HERE} import compile, kernel_workers; "
    "compile.know_by_files(); "
    "kernel_workers.serve(compile.packed, answers, pickle.load(sys.stdin.buffer))"
)

Work = tuple[Any, ...]  # what a kernel is compiled from
# Its code, or what is wrong; both where what is wrong made it code without optimisations.
Answer = tuple[bytes | None, str]


class WorkerEnded(RuntimeError):
    """A process ended while it compiled; says what it said."""


class WorkerNeverReady(RuntimeError):
    """A process that ended before it could be told anything."""


class KernelWorker:
    """A process that compiles kernels, perhaps plainly: without LLVM's optimisations."""

    def __init__(self, plain: bool = False) -> None:
        self.plain = plain
        self.is_ready = self.was_late = False
        self.said = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", BEGIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said,
            env={**BRIEF, **os.environ, **(PLAIN if plain else {})},
            start_new_session=True,  # so that an interrupt is for the user's program alone
        )
        folders = [folder for folder in sys.path if isinstance(folder, str)]
        # The package is where it was found, whichever folder is the current one by now.
        self.tell(folders if ROOT in folders else [ROOT, *folders])
        self.tell(ROOT)

    def tell(self, what: Any) -> None:
        """Have it read something."""
        rest = memoryview(pickle.dumps(what))
        handle = self.process.stdin.fileno()  # type: ignore[union-attr]
        with contextlib.suppress(BrokenPipeError):  # what it answers says so
            while rest:  # at once, not by a buffer that a forked child would write again
                rest = rest[os.write(handle, rest) :]

    def compile(self, work: Work) -> Answer:
        """A kernel's code."""
        timer = Timer(PATIENCE, self.give_up)
        timer.daemon = True
        with contextlib.suppress(RuntimeError):  # no threads any more: Python ends
            timer.start()
        try:
            self.wait_until_ready()
            self.tell(work)
            answer: Answer = pickle.load(self.process.stdout)  # type: ignore[arg-type]
        except WorkerNeverReady:
            raise
        except Exception as error:
            if not isinstance(error, EOFError):  # no answer of ours: it may wait for more work
                self.process.kill()
            raise WorkerEnded(self.last_words()) from None
        finally:
            timer.cancel()
        return answer

    def wait_until_ready(self) -> None:
        """Leave out what Python says while it begins."""
        heard = b""
        while not self.is_ready:
            more = self.process.stdout.read(1)  # type: ignore[union-attr]
            if not more:
                raise WorkerNeverReady(self.last_words())
            heard = (heard + more)[-len(READY) :]
            self.is_ready = heard == READY

    def give_up(self) -> None:
        """End it because no answer came."""
        self.was_late = True
        self.process.kill()

    def last_words(self) -> str:
        """How it ended, and what it said."""
        if self.was_late:
            return f"its compiler gave no answer in {PATIENCE:g} seconds"
        code = self.process.wait()
        self.said.seek(max(self.said.seek(0, os.SEEK_END) - TOLD, 0))
        said = self.said.read().decode(errors="replace").strip()
        return f"its compiler ended with code {code}: {said}"

    def is_alive(self) -> bool:
        """Whether it can be told anything."""
        return self.process.poll() is None

    def end(self) -> None:
        """Have it end now."""
        self.process.kill()
        for stream in (self.process.stdin, self.process.stdout, self.said):
            with contextlib.suppress(OSError):
                stream.close()  # type: ignore[union-attr]
        self.process.wait()


class KernelWorkers:
    """The processes of this one: those that have nothing to do."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Have none, as in a child after a fork: those are the parent's."""
        self.kept = 1
        self.idle: list[KernelWorker] = []
        self.later: Timer | None = None  # what has those that stay end
        self.turns = Semaphore(MOST)
        self.asked: list[float] = []  # when kernels were, within `STAY`
        self.others = -STAY  # when others were begun because of that
        self.can_begin = True
        self.owner = os.getpid()

    def take(self) -> KernelWorker | None:
        """One of them, begun now if need be; None where that cannot be."""
        while (worker := self.popped()) is not None:
            if worker.is_alive():
                return worker
            worker.end()
        return begun() if self.can_begin else None

    def popped(self) -> KernelWorker | None:
        """One that has nothing to do, if any."""
        try:
            return self.idle.pop()
        except IndexError:
            return None

    def compile(self, work: Work) -> Answer | None:
        """A kernel's code, or what is wrong with it; None where there are no workers."""
        if self.owner != os.getpid():
            self.forget()
        with self.turns:
            worker = self.take()
            if worker is None:
                return None
            self.note_asked()
            try:
                answer = worker.compile(work)
            except WorkerNeverReady:
                worker.end()
                self.can_begin = False
                return None
            except WorkerEnded as error:
                worker.end()
                return compile_plainly(work, str(error))
            except BaseException:  # an interrupt: its answer would be taken for the next one's
                worker.end()
                raise
            self.idle.append(worker)
            self.rest(self.kept)
            return answer

    def note_asked(self) -> None:
        """Where one kernel is asked for after the other, have others begin."""
        now = monotonic()
        self.asked = [*[at for at in self.asked if now - at < STAY], now]
        if len(self.asked) >= FEW and now - self.others >= STAY:
            self.begin_others(busy=1)

    def begin_others(self, busy: int = 0) -> None:
        """Have as many as are worth it begin, which stay for a while; so many are at work."""
        if self.owner != os.getpid():
            self.forget()
        self.others, count = monotonic(), self.staying()
        while len(self.idle) < count - busy and self.can_begin:
            worker = begun()
            if worker is None:
                break
            self.idle.insert(0, worker)  # those that are ready are taken first
        self.keep_for_a_while(max(count, self.kept))

    @staticmethod
    def staying() -> int:
        """How many stay for a while."""
        return max(min(STAYING, available_processors() // 2), 1)

    def each(self, compile_one: Callable[[Any], Any], ways: Sequence[Any]) -> None:
        """Have something done with each kernel, many at a time, that asks for its code.

        Where there are no more threads, as when Python ends, less is done or nothing.
        """
        worth = max(-(-len(ways) // SHARE), min(len(self.idle), len(ways)))
        count = max(min(MOST, available_processors(), worth), 1)
        pool, self.kept = ThreadPoolExecutor(count), max(count, self.kept)
        futures: list[Future[Any]] = []
        try:
            with contextlib.suppress(RuntimeError):
                futures.extend(pool.submit(compile_one, way) for way in ways)
            for future in futures:
                future.result()
        finally:
            pool.shutdown(cancel_futures=True)
            self.keep_for_a_while(min(self.kept, STAYING))

    def keep_for_a_while(self, count: int) -> None:
        """Have so many stay, all but one of them only until a timer ends them."""
        if self.later is not None:
            self.later.cancel()
        self.kept, self.later = count, Timer(STAY, self.keep_while_asked)
        self.later.daemon = True
        self.rest(count)
        try:
            self.later.start()
        except RuntimeError:  # no threads any more: Python ends
            self.keep_one()

    def keep_while_asked(self) -> None:
        """Have all but one end, if no kernel was asked for of late."""
        if self.asked and monotonic() - self.asked[-1] < STAY:
            self.keep_for_a_while(self.kept)
        else:
            self.keep_one()

    def keep_one(self) -> None:
        """Have all but one end."""
        self.kept = 1
        self.rest(1)

    def rest(self, kept: int) -> None:
        """Keep only so many that have nothing to do."""
        if self.owner != os.getpid():
            return
        while len(self.idle) > kept:
            worker = self.popped()
            if worker is not None:
                worker.end()


def begun(plain: bool = False) -> KernelWorker | None:
    """A worker; None where none can be begun."""
    # Where Python is part of another program, that is what would begin.
    if not Path(sys.executable or "").name.lower().startswith("python"):
        return None
    try:
        return KernelWorker(plain)
    except (OSError, RuntimeError):  # no processes or files left; Python ends
        return None


def compile_plainly(work: Work, why: str) -> Answer | None:
    """What ended one worker, by another without optimisations; says why."""
    worker = begun(plain=True)
    if worker is None:
        return None
    try:
        code, wrong = worker.compile(work)
        return code, wrong if code is None else why
    except (WorkerEnded, WorkerNeverReady) as error:
        return None, str(error)
    finally:
        worker.end()


WORKERS = KernelWorkers()
atexit.register(WORKERS.rest, 0)


def serve(compile_one: Callable[..., bytes], answers: BinaryIO, root: str) -> None:
    """What a worker does until its input ends, if it has the package that is wanted."""
    if root != ROOT:
        sys.exit(f"found the package in {ROOT}, not in {root}")
    answers.write(READY)
    answers.flush()
    while True:
        try:
            work = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer: Answer = compile_one(*work), ""
        except Exception as error:
            answer = None, f"{type(error).__name__}: {error}"
        pickle.dump(answer, answers)
        answers.flush()
