"""The table of keys and values itself, as a server or a single process keeps it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from adjoint.distributed.constants import seconds_of
from adjoint.distributed.errors import DistStoreError
from adjoint.distributed.store.base import Store, as_bytes


def missing_keys(keys: Sequence[str], seconds: float) -> DistStoreError:
    """The error of a wait that was in vain."""
    return DistStoreError(
        f"wait timeout after {seconds:g} s: nobody has set {', '.join(map(repr, keys))}. Check "
        "that every process was started and reached the same point."
    )


class HashStore(Store):
    """A store of one process, shared by its threads.

    Example:
        >>> store = HashStore()
        >>> store.add("count", 2), store.add("count", 3), store.get("count")
        (2, 5, b'5')
    """

    def __init__(self) -> None:
        super().__init__()
        self._values: dict[str, bytes] = {}
        self._changed = threading.Condition()

    def set(self, key: str, value: str | bytes) -> None:
        with self._changed:
            self._values[key] = as_bytes(value)
            self._changed.notify_all()

    def get(self, key: str) -> bytes:
        return self.get_within(key, self._timeout)

    def get_within(self, key: str, seconds: float) -> bytes:
        """The value of a key, waited for so long."""
        with self._changed:
            self.wait([key], seconds)
            return self._values[key]

    def add(self, key: str, amount: int) -> int:
        with self._changed:
            total = int(self._values.get(key, b"0")) + amount
            self.set(key, str(total))
            return total

    def compare_set(self, key: str, expected_value: str, desired_value: str) -> bytes:
        with self._changed:
            current = self._values.get(key)
            if current == expected_value.encode() or (current is None and not expected_value):
                self.set(key, desired_value)
                return desired_value.encode()
            return expected_value.encode() if current is None else current

    def delete_key(self, key: str) -> bool:
        with self._changed:
            return self._values.pop(key, None) is not None

    def check(self, keys: Sequence[str]) -> bool:
        with self._changed:
            return all(key in self._values for key in keys)

    def wait(self, keys: Sequence[str], timeout: Any = None) -> None:
        seconds = self._timeout if timeout is None else seconds_of(timeout)
        with self._changed:
            there = self._changed.wait_for(lambda: self.check(keys), seconds)
            if not there:
                raise missing_keys([k for k in keys if k not in self._values], seconds)

    def num_keys(self) -> int:
        return len(self._values)
