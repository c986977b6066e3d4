"""The store's interface, and a store within a store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from adjoint.distributed.constants import seconds_of

DEFAULT_TIMEOUT = timedelta(seconds=300)


def as_bytes(value: str | bytes) -> bytes:
    """A value as it is stored."""
    return value.encode() if isinstance(value, str) else bytes(value)


class Store(ABC):
    """Shared keys and values: what is not there yet is waited for.

    Subclasses state six operations; the rest follows.
    """

    def __init__(self, timeout: Any = None) -> None:
        self._timeout = seconds_of(timeout, DEFAULT_TIMEOUT)

    @property
    def timeout(self) -> timedelta:
        """How long `get` and `wait` wait."""
        return timedelta(seconds=self._timeout)

    def set_timeout(self, timeout: Any) -> None:
        """Change how long `get` and `wait` wait."""
        self._timeout = seconds_of(timeout)

    @abstractmethod
    def set(self, key: str, value: str | bytes) -> None:
        """Store a value."""

    @abstractmethod
    def get(self, key: str) -> bytes:
        """The value of a key, waited for."""

    @abstractmethod
    def add(self, key: str, amount: int) -> int:
        """Add to a counter that begins at 0; returns the sum."""

    @abstractmethod
    def compare_set(self, key: str, expected_value: str, desired_value: str) -> bytes:
        """Store a value if the key has an expected one (or none, if "" is expected)."""

    @abstractmethod
    def delete_key(self, key: str) -> bool:
        """Forget a key; whether there was one."""

    @abstractmethod
    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys are there, without waiting."""

    @abstractmethod
    def wait(self, keys: Sequence[str], timeout: Any = None) -> None:
        """Wait until all keys are there."""

    @abstractmethod
    def num_keys(self) -> int:
        """How many keys there are."""

    def append(self, key: str, value: str | bytes) -> None:
        """Store a value behind the one there is."""
        while True:  # another process may append meanwhile
            before = self.get(key).decode() if self.check([key]) else ""
            after = before + as_bytes(value).decode()
            if self.compare_set(key, before, after) == after.encode():
                return

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """The values of several keys."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Store several values."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        """Whether `append`, `multi_get` and `multi_set` are there."""
        return True


class PrefixStore(Store):
    """A part of another store: every key begins with a prefix.

    Example:
        >>> from adjoint.distributed import HashStore
        >>> whole = HashStore()
        >>> PrefixStore("epoch1", whole).set("loss", "0.5")
        >>> whole.get("epoch1/loss")
        b'0.5'
    """

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__(store.timeout)
        self.prefix = prefix
        self.underlying_store = store

    def _key(self, key: str) -> str:
        return f"{self.prefix}/{key}"

    def set(self, key: str, value: str | bytes) -> None:
        self.underlying_store.set(self._key(key), value)

    def get(self, key: str) -> bytes:
        return self.underlying_store.get(self._key(key))

    def add(self, key: str, amount: int) -> int:
        return self.underlying_store.add(self._key(key), amount)

    def compare_set(self, key: str, expected_value: str, desired_value: str) -> bytes:
        return self.underlying_store.compare_set(self._key(key), expected_value, desired_value)

    def delete_key(self, key: str) -> bool:
        return self.underlying_store.delete_key(self._key(key))

    def check(self, keys: Sequence[str]) -> bool:
        return self.underlying_store.check([self._key(k) for k in keys])

    def wait(self, keys: Sequence[str], timeout: Any = None) -> None:
        self.underlying_store.wait([self._key(k) for k in keys], timeout)

    def num_keys(self) -> int:
        return self.underlying_store.num_keys()

    def set_timeout(self, timeout: Any) -> None:
        super().set_timeout(timeout)
        self.underlying_store.set_timeout(timeout)
