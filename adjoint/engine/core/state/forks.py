"""Forks wait for locks, so that a child finds them free and nothing half done.

A child has none of its parent's threads but the one that forked. What another one held at that
moment would stay locked for ever, and what it was changing half changed.

Note [forks beside imports]
    Python has a lock for each module that is being imported, which a child inherits: what another
    thread was importing, it could never import. So a fork waits until no other thread imports a
    module of ours, and takes the lock under which imports begin. Whoever imports may need one of
    our locks: these are given back before a fork waits again. So they are where a module that was
    imported meanwhile made a lock that is in use.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
import time
import weakref
from enum import IntEnum
from typing import Any

try:
    import _imp
except ImportError:  # another Python than CPython
    _imp = None  # type: ignore[assignment]


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
    UNBOUND = 8  # a method of Tensor's that is being set


PATIENCE = 60.0  # seconds a fork waits for each lock: who forks beside a hang shall not hang too
_locks: dict[LockOrder, weakref.WeakSet[Any]] = {order: weakref.WeakSet() for order in LockOrder}
_taken = threading.local()
_PACKAGE = __name__.partition(".")[0]


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
    deadline = time.monotonic() + PATIENCE
    while True:
        while _others_import() and time.monotonic() < deadline:
            time.sleep(0.001)
        _take_all()
        if (not _others_import() and _take_new()) or time.monotonic() >= deadline:
            return
        _after()


def _take_all() -> None:
    taken: list[Any] = []
    _taken.locks = taken
    for order in LockOrder:
        taken += [lock for lock in list(_locks[order]) if lock.acquire(timeout=PATIENCE)]
    _taken.imports = _imp is not None
    if _imp is not None:
        _imp.acquire_lock()


def _take_new() -> bool:
    """Take locks that were made while others were waited for; False where one is in use."""
    known = {id(lock) for lock in _taken.locks}
    for lock in [lock for order in LockOrder for lock in list(_locks[order])]:
        if id(lock) not in known:
            if not lock.acquire(blocking=False):
                return False
            _taken.locks.append(lock)
    return True


def _others_import() -> bool:
    """Whether another thread is importing a module of ours (Note [forks beside imports]).

    A thread that forks within an import does not wait: others may be waiting for that.
    """
    locks = getattr(getattr(importlib, "_bootstrap", None), "_module_locks", {})
    me, importing = threading.get_ident(), False
    for name, found in list(locks.items()):
        owner = getattr(found(), "owner", None)
        if owner == me:
            return False
        importing = importing or (owner is not None and name.partition(".")[0] == _PACKAGE)
    return importing


def _after() -> None:
    if _taken.imports:
        _taken.imports = False
        with contextlib.suppress(RuntimeError):  # where a child's Python has made it free
            _imp.release_lock()
    for lock in reversed(_taken.locks):
        with contextlib.suppress(RuntimeError):  # a lock may have been made free meanwhile
            lock.release()
    _taken.locks = []


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
