"""Forks wait for locks, so that a child finds them free and nothing half done.

A child has none of its parent's threads but the one that forked. What another one held at that
moment would stay locked for ever, and what it was changing half changed.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from enum import IntEnum
from typing import Any


class LockOrder(IntEnum):
    """Whoever takes several of these locks takes them in this order, and so does a fork."""

    EFFECTS = 0  # a compiled function that changes state
    TRACING = 1
    PROGRAM = 2  # an executable's memory
    LIBRARY = 3  # loaded code
    ASSEMBLER = 4
    GENERATOR = 5
    IMPORTS = 6  # families that load on first use
    METHODS = 7  # the methods of Tensor, while some are added


PATIENCE = 60.0  # seconds a fork waits for each lock: who forks beside a hang shall not hang too
_locks: dict[LockOrder, weakref.WeakSet[Any]] = {order: weakref.WeakSet() for order in LockOrder}
_taken = threading.local()


def lock(order: LockOrder) -> Any:
    """A lock that forks wait for.

    >>> guard = lock(LockOrder.LIBRARY)
    >>> with guard:
    ...     guard.locked()
    True
    """
    return _note(threading.Lock(), order)


def reentrant(order: LockOrder) -> Any:
    """A lock that forks wait for, and that who holds it can take again."""
    return _note(threading.RLock(), order)


def _note(lock: Any, order: LockOrder) -> Any:
    _locks[order].add(lock)
    return lock


def _before() -> None:
    taken: list[Any] = []
    _taken.locks = taken
    for order in LockOrder:
        taken += [lock for lock in list(_locks[order]) if lock.acquire(timeout=PATIENCE)]


def _after() -> None:
    for lock in reversed(_taken.locks):
        with contextlib.suppress(RuntimeError):  # a lock may have been made free meanwhile
            lock.release()
    _taken.locks = []


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
