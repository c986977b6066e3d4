"""A store in a file that several processes have."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

from adjoint.distributed.constants import seconds_of
from adjoint.distributed.store.base import Store, as_bytes
from adjoint.distributed.store.memory import missing_keys

POLL = 0.01  # seconds between looks at a file that somebody else will change


class FileStore(Store):
    """A store in a file, for processes that share a file system.

    Args:
        file_name: the file; made where there is none, and left for others when this is done.
        world_size: how many processes use it; kept for programs that ask.
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self.path = os.fspath(file_name)
        self.world_size = world_size

    @contextlib.contextmanager
    def _locked(self) -> Iterator[dict[str, str]]:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            text = file.read()
            values: dict[str, str] = json.loads(text) if text else {}
            before = dict(values)
            yield values
            if values != before:
                file.seek(0)
                file.write(json.dumps(values))
                file.truncate()

    def set(self, key: str, value: str | bytes) -> None:
        with self._locked() as values:
            values[key] = as_bytes(value).hex()

    def get(self, key: str) -> bytes:
        self.wait([key])
        with self._locked() as values:
            return bytes.fromhex(values[key])

    def add(self, key: str, amount: int) -> int:
        with self._locked() as values:
            total = int(bytes.fromhex(values.get(key, "")) or b"0") + amount
            values[key] = str(total).encode().hex()
            return total

    def compare_set(self, key: str, expected_value: str, desired_value: str) -> bytes:
        with self._locked() as values:
            current = values.get(key)
            if current == expected_value.encode().hex() or (current is None and not expected_value):
                values[key] = desired_value.encode().hex()
                return desired_value.encode()
            return expected_value.encode() if current is None else bytes.fromhex(current)

    def delete_key(self, key: str) -> bool:
        with self._locked() as values:
            return values.pop(key, None) is not None

    def check(self, keys: Sequence[str]) -> bool:
        with self._locked() as values:
            return all(key in values for key in keys)

    def wait(self, keys: Sequence[str], timeout: Any = None) -> None:
        seconds = self._timeout if timeout is None else seconds_of(timeout)
        end = time.monotonic() + seconds
        while not self.check(keys):
            if time.monotonic() > end:
                raise missing_keys([k for k in keys if not self.check([k])], seconds)
            time.sleep(POLL)

    def num_keys(self) -> int:
        with self._locked() as values:
            return len(values)
