"""A collective under way, as a program holds it."""

from __future__ import annotations

from typing import Any

from adjoint.distributed.communication.progress import PROGRESS, CollectiveCall
from adjoint.distributed.constants import seconds_of
from adjoint.futures import Future


class Work:
    """A collective that was begun with `async_op=True`.

    Its tensors are not to be written, nor its results read, before `wait` returns.
    """

    capture_made_again = True  # a recorded collective has ended; each call has a Work of its own

    def __init__(self, operation: CollectiveCall | None, result: Any = None) -> None:
        self._operation = operation
        self._result = result
        self._future: Future | None = None
        self.source = -1  # of a message: the rank it came from

    def wait(self, timeout: Any = None) -> bool:
        """Wait for its end; raises if it failed."""
        if self._operation is not None:
            PROGRESS.wait(self._operation, None if timeout is None else seconds_of(timeout))
        return True

    def is_completed(self) -> bool:
        """Whether it has ended."""
        if self._operation is None:
            return True
        with PROGRESS.lock:
            PROGRESS.step()
        return self._operation.ended

    def is_success(self) -> bool:
        """Whether it has ended without an error."""
        return self._operation is None or self._operation.state == "done"

    def exception(self) -> BaseException | None:
        """What ended it, if it failed."""
        return None if self._operation is None else self._operation.error

    def synchronize(self) -> None:
        """Wait for its end."""
        self.wait()

    def source_rank(self) -> int:
        """Of a received message: the rank it came from."""
        return self.source

    def result(self) -> Any:
        """The tensors it writes."""
        return self._result

    def get_future(self) -> Future:
        """Its result as a future."""
        if self._future is None:
            future = self._future = Future()

            def drive() -> None:
                if future.done():
                    return
                try:
                    self.wait()
                except Exception as error:
                    future.set_exception(error)
                else:
                    future.set_result(self._result)

            future._drive = drive
            if self._operation is None:
                drive()
        return self._future


def settle(operation: CollectiveCall, async_op: bool, result: Any = None) -> Work | None:
    """Wait for an operation, or hand it out."""
    if async_op:
        PROGRESS.wake()
        return Work(operation, result)
    PROGRESS.wait(operation)
    return None
