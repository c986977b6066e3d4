"""Starting a function in several processes and reporting the first that fails."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import Any


class ProcessException(Exception):
    """A process ended with an error."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.pid = error_pid

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """A process raised; the message has its traceback."""


class ProcessExitedException(ProcessException):
    """A process was killed, or left with a code other than 0."""

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int,
        signal_name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> tuple[Any, ...]:
        given = (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)
        return type(self), given


def _call(fn: Callable[..., Any], index: int, args: tuple[Any, ...], errors: Any) -> None:
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass
    except BaseException as error:
        if isinstance(error, SystemExit):
            raise
        sys.last_value = error  # as Python does for those at exit who ask how it went
        errors.send(traceback.format_exc())
        raise SystemExit(1) from None


class ProcessContext:
    """Processes that were started together."""

    def __init__(self, processes: list[Any], errors: list[Any]) -> None:
        self.processes = processes
        self._errors = errors
        self._left = {p.sentinel: i for i, p in enumerate(processes)}

    def pids(self) -> list[int]:
        """Their process ids."""
        return [int(p.pid) for p in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for the next to end; True when all have. An error ends the others and is raised."""
        if not self._left:
            return True
        failed = None
        for sentinel in wait(list(self._left), timeout):
            index = self._left.pop(sentinel)
            self.processes[index].join()
            if self.processes[index].exitcode != 0 and failed is None:
                failed = index
        if failed is None:
            return not self._left
        for process in self.processes:
            if process.is_alive():
                process.terminate()
            process.join()
        self._raise(failed)
        return False

    def _raise(self, index: int) -> None:
        process = self.processes[index]
        code, pid = process.exitcode, process.pid
        try:
            text = self._errors[index].recv()
        except EOFError:  # it said nothing before it ended
            text = None
        if text is not None:
            raise ProcessRaisedException(
                f"\n\n-- Process {index} terminated with the following error:\n{text}", index, pid
            )
        if code < 0:
            name = signal.Signals(-code).name
            raise ProcessExitedException(
                f"process {index} terminated with signal {name}", index, pid, code, name
            )
        raise ProcessExitedException(
            f"process {index} terminated with exit code {code}", index, pid, code
        )


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Call `fn(i, *args)` in `nprocs` processes.

    Args:
        fn: the function; it must be importable.
        args: its further arguments.
        nprocs: how many processes.
        join: wait for all, and raise what one of them raised.
        daemon: end them with this process.
        start_method: "spawn", "fork" or "forkserver".
    """
    context: Any = multiprocessing.get_context(start_method)
    processes, errors = [], []
    for index in range(nprocs):
        receive, send = context.Pipe(duplex=False)
        process = context.Process(target=_call, args=(fn, index, args, send), daemon=daemon)
        process.start()
        send.close()
        processes.append(process)
        errors.append(receive)
    running = ProcessContext(processes, errors)
    if not join:
        return running
    while not running.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Call `fn(i, *args)` in `nprocs` new processes; see `start_processes`."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)
