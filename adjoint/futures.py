"""Results that are not there yet."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import GenericAlias
from typing import Any, ClassVar


class Future:
    """A value that will be there, or an error.

    Example:
        >>> future = Future()
        >>> doubled = future.then(lambda f: f.value() * 2)
        >>> future.set_result(21)
        >>> doubled.wait()
        42
    """

    # `Future[Tensor]` in annotations
    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)

    def __init__(self, *, devices: Any = None) -> None:
        self._ready = threading.Condition()
        self._done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future], None]] = []
        self._drive: Callable[[], None] | None = None  # what a waiter does to bring it about

    def done(self) -> bool:
        """Whether it has a value or an error."""
        return self._done

    def wait(self) -> Any:
        """The value, waited for."""
        if not self._done and self._drive is not None:
            self._drive()
        with self._ready:
            self._ready.wait_for(lambda: self._done)
        return self.value()

    def value(self) -> Any:
        """The value, or raise the error; it must be done."""
        if self._error is not None:
            raise self._error
        if not self._done:
            raise RuntimeError("Future.value: it is not done yet; call wait()")
        return self._value

    def set_result(self, result: Any) -> None:
        """Give it its value."""
        self._end(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Give it an error instead."""
        self._end(None, result)

    def _end(self, value: Any, error: BaseException | None) -> None:
        with self._ready:
            if self._done:
                raise RuntimeError("Future: it has a result already")
            self._value, self._error, self._done = value, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._ready.notify_all()
        for callback in callbacks:
            callback(self)

    def add_done_callback(self, callback: Callable[[Future], None]) -> None:
        """Call a function with this when it is done, or now if it is."""
        with self._ready:
            if not self._done:
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """The future of what a function makes of this one."""
        after = Future()
        after._drive = self.wait

        def run(this: Future) -> None:
            try:
                after.set_result(callback(this))
            except Exception as error:
                after.set_exception(error)

        self.add_done_callback(run)
        return after


def collect_all(futures: Sequence[Future]) -> Future:
    """The future of a list of futures that are all done."""
    whole = Future()
    left = len(futures)
    guard = threading.Lock()

    def count(_: Future) -> None:
        nonlocal left
        with guard:
            left -= 1
            last = left == 0
        if last:
            whole.set_result(list(futures))

    def drive() -> None:
        for one in futures:
            one.wait()

    whole._drive = drive
    for future in futures:
        future.add_done_callback(count)
    if not futures:
        whole.set_result([])
    return whole


def wait_all(futures: Sequence[Future]) -> list[Any]:
    """The values of several futures.

    >>> first = Future()
    >>> first.set_result(1)
    >>> wait_all([first])
    [1]
    """
    return [future.wait() for future in futures]
