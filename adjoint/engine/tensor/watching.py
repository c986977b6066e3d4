"""Whether every write to some memory is counted, so that what was made of it may be kept.

Note [watched memory]
    A program may keep what it made of parameters (panels of a product, filters at Winograd's
    points) for as long as they are unchanged. Every write that goes through a storage counts up
    its version; what has to be known besides is whether anything else can write there:

    - Memory counts as a tensor's own where NumPy allocated it for the storage's very array, or
      for one that this array alone holds. Memory of others (files, other libraries, other
      processes, parts of a larger block) is never that.
    - Where the memory was shown outside (an address, an array of NumPy's, DLPack), or came from
      there, anybody may write at any time: `show` says so, for good.
    - A second storage on the same array (`.data`) counts its writes by itself. `join` ties the
      two by one object that nothing else holds, so its reference count says how many storages
      there are. While there is a second one nothing is known; once it is gone, what it may have
      written counts as one write.

    - A write is counted once it is done, so an interrupt in between would go unnoticed: a Ctrl-C
      while native code writes is raised as that returns. Whoever writes calls `doubt` where an
      exception leaves it, after which all memory counts as written once.

    All note that something has happened somewhere; until then only versions have to be compared.
    What is not known counts as changed, and is made again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from operator import attrgetter
from sys import getrefcount
from typing import Any

from numpy import ndarray

from adjoint.engine.core.errors import raised_outside
from adjoint.engine.tensor.storage import Storage

# Where threads run at once reference counts mean less; other interpreters may have none.
COUNTED: bool = (
    sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()
)


class MemoryStorages:
    """What storages on one memory have in common."""

    __slots__ = ("counted", "joins", "shown")

    def __init__(self) -> None:
        self.counted = False  # whether `.data` too counts its writes
        self.joins = 0  # how often there was one storage more
        self.shown = False  # whether somebody else may write there


class _Events:
    """What has happened last to any storage: another object each time."""

    __slots__ = ("doubts", "latest")

    def __init__(self) -> None:
        self.latest = object()
        self.doubts = 0  # how often a write was left before it was counted


EVENTS = _Events()


def _sharing(storage: Storage) -> MemoryStorages:
    sharing: MemoryStorages | None = getattr(storage, "sharing", None)
    if sharing is None:
        storage.sharing = sharing = MemoryStorages()
    return sharing


def join(storage: Storage, other: Storage) -> None:
    """Note that another storage is on the same memory."""
    sharing = _sharing(storage)
    sharing.joins += 1
    other.sharing = sharing
    EVENTS.latest = object()


def show(storage: Storage) -> None:
    """Note that somebody may write to the memory from now on whose writes are not counted."""
    sharing = _sharing(storage)
    if not sharing.shown:
        sharing.shown = True
        EVENTS.latest = object()


def count_data(storage: Storage) -> None:
    """Have writes through `.data` count as others do: somebody has to know of every one."""
    _sharing(storage).counted = True


def counts_data(storage: Storage) -> bool:
    """Whether writes through `.data` are to count."""
    sharing: MemoryStorages | None = getattr(storage, "sharing", None)
    return sharing is not None and sharing.counted


def doubt(*written: Storage) -> None:
    """Note that a write has been left by an exception: it may be done, and is not counted.

    Where the exception is not the operation's own, which would have been before the write, it
    counts in the storages that were being written to.
    """
    EVENTS.doubts += 1
    EVENTS.latest = object()
    error = sys.exc_info()[1]
    if error is not None and isinstance(error, Exception) and not raised_outside(error):
        return
    for storage in written:
        storage.version += storage.version >= 0


def _holders(holder: Any, name: str) -> int:
    """References to what an object holds, as seen from here."""
    return getrefcount(getattr(holder, name))


def _alone() -> int:
    """What `_holders` gives of what one object alone holds."""
    storage = Storage(None)
    storage.sharing = MemoryStorages()
    return _holders(storage, "sharing")


ALONE = _alone()


def is_watched(storage: Storage) -> bool:
    """Whether nothing writes to a storage's memory but what counts up its version."""
    if not COUNTED or storage.version < 0 or storage.level is not None or storage.trace is not None:
        return False
    buffer = storage.buffer
    if buffer.__class__ is not ndarray:
        return False
    base = buffer.base
    if base is None:
        owned = buffer.flags.owndata
    else:
        whole = base.__class__ is ndarray and base.base is None and base.flags.owndata
        del base
        owned = whole and _holders(buffer, "base") == ALONE
    if not owned:
        return False
    try:
        sharing = storage.sharing
    except AttributeError:
        return True
    shown = sharing.shown
    del sharing
    return not shown and _holders(storage, "sharing") == ALONE


_versions: Callable[[Storage], int] = attrgetter("version")


class Watch:
    """Tells whether the memory of some storages has changed."""

    __slots__ = ("buffers", "joins", "latest", "storages")

    def __init__(self, storages: Sequence[Storage]) -> None:
        self.storages = tuple(storages)
        self.buffers = tuple([storage.buffer for storage in self.storages])
        self.latest: Any = None  # what had happened last when all were found to be watched
        self.joins = 0

    def state(self, before: list[int] | None = None) -> list[int] | None:
        """Numbers that are others after a write; None: that cannot be said.

        Where nothing has changed since, it is what it was `before` itself.
        """
        if self.latest is not EVENTS.latest and not self._look():
            return None
        state = [*map(_versions, self.storages), self.joins]
        if state == before:
            return before
        return None if min(state) < 0 else state  # storages that count no writes

    def _look(self) -> bool:
        """Whether all of it is watched, and by now the same memory."""
        latest, self.latest, joins = EVENTS.latest, None, EVENTS.doubts
        for storage, buffer in zip(self.storages, self.buffers, strict=True):
            if storage.buffer is not buffer or not is_watched(storage):
                return False
            joins += storage.sharing.joins if hasattr(storage, "sharing") else 0
        self.latest, self.joins = latest, joins
        return True
