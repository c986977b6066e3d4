"""Kernels compiled by other processes.

Note [kernel workers]
    Half of a compilation by Triton holds Python's lock, so that threads gain little by it; and
    where LLVM does not expect what it meets, it ends the process. So processes of their own do it:
    Python anew, which is told the folders that modules come from, and then, over its standard
    input, one kernel after the other. If one ends in the middle of a kernel, another has it, which
    leaves LLVM's optimisations out (ptxas has its own); if that ends too, the kernel cannot be
    compiled. Where none can be begun, the caller compiles.

    One is kept for the next kernel; many kernels are compiled by as many as there are processors.
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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

from adjoint.engine.backends.threads import available_processors

MOST = 16  # at a time
SHARE = 6  # kernels that are worth another one: it takes a second to begin
PLAIN = {"DISABLE_LLVM_OPT": "1"}  # what Triton reads in the environment
TOLD = 400  # characters of what one said before it ended
HERE = "adjoint.engine.backends.triton.runtime"
# Isolated, so that nothing in the current folder is taken for a module, until it knows the folders.
BEGIN = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    f"from {HERE} import compile, kernel_workers; kernel_workers.serve(compile.packed)"
)

Work = tuple[Any, ...]  # what a kernel is compiled from
Answer = tuple[bytes | None, str]  # its code, or what is wrong


class WorkerEnded(RuntimeError):
    """A process ended while it compiled; says what it said."""


class KernelWorker:
    """A process that compiles kernels, perhaps plainly: without LLVM's optimisations."""

    def __init__(self, plain: bool = False) -> None:
        self.plain = plain
        self.said = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", BEGIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said,
            env={**os.environ, **PLAIN} if plain else None,
            start_new_session=True,  # so that an interrupt is for the user's program alone
        )
        self.tell(sys.path)

    def tell(self, what: Any) -> None:
        """Have it read something."""
        with contextlib.suppress(BrokenPipeError):  # what it answers says so
            pickle.dump(what, self.process.stdin)  # type: ignore[arg-type]
            self.process.stdin.flush()  # type: ignore[union-attr]

    def compile(self, work: Work) -> Answer:
        """A kernel's code."""
        self.tell(work)
        try:
            answer: Answer = pickle.load(self.process.stdout)  # type: ignore[arg-type]
        except (EOFError, pickle.UnpicklingError):
            code = self.process.wait()
            self.said.seek(max(self.said.seek(0, os.SEEK_END) - TOLD, 0))
            said = self.said.read().decode(errors="replace").strip()
            raise WorkerEnded(f"its compiler ended with code {code}: {said}") from None
        return answer

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
        self.idle: list[KernelWorker] = []
        self.owner = os.getpid()
        self.lock = Lock()

    def take(self) -> KernelWorker | None:
        """One of them, begun now if need be; None where that cannot be."""
        with self.lock:
            if self.owner != os.getpid():  # after a fork: those are the parent's
                self.idle, self.owner = [], os.getpid()
            while self.idle:
                worker = self.idle.pop()
                if worker.is_alive():
                    return worker
                worker.end()
        return begun()

    def compile(self, work: Work) -> Answer | None:
        """A kernel's code, or what is wrong with it; None where there are no workers."""
        worker = self.take()
        if worker is None:
            return None
        try:
            answer = worker.compile(work)
        except WorkerEnded:
            worker.end()
            return compile_plainly(work)
        except BaseException:  # an interrupt: its answer would be taken for the next one's
            worker.end()
            raise
        with self.lock:
            self.idle.append(worker)
        return answer

    def each(self, compile_one: Callable[[Any], Any], ways: Sequence[Any]) -> None:
        """Have something done with each kernel, many at a time, that asks for its code."""
        count = min(MOST, available_processors(), -(-len(ways) // SHARE))
        with ThreadPoolExecutor(max(count, 1)) as pool:
            list(pool.map(compile_one, ways))
        self.rest(1)

    def rest(self, kept: int) -> None:
        """Keep only so many that have nothing to do."""
        with self.lock:
            ended, self.idle = self.idle[kept:], self.idle[:kept]
        if self.owner == os.getpid():
            for worker in ended:
                worker.end()


def begun(plain: bool = False) -> KernelWorker | None:
    """A worker; None where none can be begun."""
    # Where Python is part of another program, that is what would begin.
    if not Path(sys.executable or "").name.lower().startswith("python"):
        return None
    try:
        return KernelWorker(plain)
    except OSError:
        return None


def compile_plainly(work: Work) -> Answer | None:
    """What ended one worker, by another without optimisations."""
    worker = begun(plain=True)
    if worker is None:
        return None
    try:
        return worker.compile(work)
    except WorkerEnded as error:
        return None, str(error)
    finally:
        worker.end()


WORKERS = KernelWorkers()
atexit.register(WORKERS.rest, 0)


def serve(compile_one: Callable[..., bytes]) -> None:
    """What a worker does until its input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else is printed is no answer
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
