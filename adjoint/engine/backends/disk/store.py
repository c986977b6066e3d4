"""The disk cache of compiled code: bytes under content-addressed keys, shared by processes.

An entry is one file, named by its key, that begins with a checksum of key and content. It is
written aside and renamed into place, so a reader sees all of it or none; what fails its checksum is
removed and counts as missing, and so does what others could have written: see `private`. There is
no index to corrupt: the file's time says when it was last wanted, and when the files together
outgrow the limit the ones longest unwanted go.

The environment: `ADJOINT_CACHE_DIR` is the place, `ADJOINT_CACHE_SIZE` the limit ("256M", "2G",
"0" for no cache).
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import sys
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cache

from adjoint.engine.backends.disk.private import CachedFile, PrivateFolder
from adjoint.engine.core.state.code_digest import is_running_what_it_names

VERSION = "2"  # of the files' layout; another version uses another folder
DEFAULT_LIMIT = 2**30
MAGIC = b"ADJSTORE"
HEAD = len(MAGIC) + hashlib.sha256().digest_size
KEEP = 0.8  # how full the cache is after a clearing, so that the next put does not clear again
SHARE = 64  # of the limit: a process that adds less than this part of it measures at its end
TOUCH = 60.0  # seconds before a use is worth noting again
ABANDONED = 3600.0  # age of a half-written file whose writer must be dead
_DIGITS = frozenset("0123456789abcdef")
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def place() -> str | None:
    """Where the cache is: $ADJOINT_CACHE_DIR, or the platform's folder for caches.

    None for a user without a home, as in some containers: a name in the folder for temporary files
    that can be foreseen is one that another user can have taken.
    """
    named = os.environ.get("ADJOINT_CACHE_DIR")
    home = os.path.expanduser(named or "~")
    if home.startswith("~") and (named or "~").startswith("~"):  # no such user, or no home
        return None
    if named:
        return home
    if sys.platform == "darwin":
        return _absolute(home, "Library", "Caches", "adjoint")
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
        return os.path.join(base, "adjoint", "Cache")
    base = os.environ.get("XDG_CACHE_HOME", "")
    # As the XDG specification has it, a relative path is ignored.
    return _absolute(base if os.path.isabs(base) else os.path.join(home, ".cache"), "adjoint")


def _absolute(*parts: str) -> str | None:
    """The path, unless the home it is made of is empty or relative."""
    path = os.path.join(*parts)
    return path if os.path.isabs(path) else None


def limit() -> int:
    """How many bytes the cache may take: $ADJOINT_CACHE_SIZE, or 1 GiB.

    >>> parse_size("1.5K"), parse_size("2G") == 2 * 2**30
    (1536, True)
    """
    text = os.environ.get("ADJOINT_CACHE_SIZE")
    return DEFAULT_LIMIT if text is None else parse_size(text)


def parse_size(text: str) -> int:
    """Bytes from "4096", "256M", "1.5 GiB"."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([KMGT]?)(?:I?B)?\s*", text.upper())
    if match is None:
        raise ValueError(
            f"ADJOINT_CACHE_SIZE: {text!r} is no size; write a number of bytes, or 256M, or 2G"
        )
    return int(float(match[1]) * UNITS[match[2]])


class Usage:
    """What a cache holds."""

    __slots__ = ("entries", "folder", "limit", "size")

    def __init__(self, folder: str | None, entries: int, size: int, limit: int) -> None:
        self.folder, self.entries, self.size, self.limit = folder, entries, size, limit


class DiskStore:
    """A folder of checksummed entries, bounded in size.

    >>> from tempfile import TemporaryDirectory
    >>> from adjoint.engine.core.identity.keys import key_of
    >>> with TemporaryDirectory() as folder:
    ...     store = DiskStore(folder, 2**20)
    ...     store.put(key_of("a kernel"), b"its code")
    ...     store.get(key_of("a kernel")), store.get(key_of("another"))
    (b'its code', None)
    """

    def __init__(self, folder: str | os.PathLike[str] | None, limit: int) -> None:
        path = None if folder is None else os.path.join(folder, f"v{VERSION}")
        self._files = None if path is None else PrivateFolder(path)
        self.folder = None if self._files is None else self._files.path
        self.limit = limit
        self._size: int | None = None  # as last measured, plus what this process has put since
        self._added = 0  # before that
        self._usable: bool | None = None  # None: the folder has not been looked at
        self._warned = False
        self._gathered = threading.local()  # `entries` that wait, of a thread that gathers them

    def get(self, key: str) -> bytes | None:
        """The entry, or None where it is missing, damaged or not to be trusted."""
        part, name = _place(key)
        files = self._ready()
        entry = None if files is None else files.read(part, name)
        if files is None or entry is None:
            return None
        data, seen = entry
        payload = data[HEAD:]
        if data[:HEAD] != _head(key, payload):
            files.remove(part, name)
            return None
        if abs(time.time() - seen) > TOUCH:
            files.touch(part, name)
        return payload

    def put(self, key: str, payload: bytes) -> None:
        """Keep an entry; where it cannot be written, warn once and go on without.

        Nothing is kept by a process that runs other code than its names say.
        """
        self.put_all({key: payload})

    @contextmanager
    def together(self) -> Iterator[None]:
        """Entries that this thread puts meanwhile are written at the end, all at once.

        What the process runs is then looked at once, which takes longer than to write an entry.
        """
        if hasattr(self._gathered, "entries"):
            yield
            return
        self._gathered.entries = {}
        try:
            yield
        finally:
            self.put_all(self._gathered.__dict__.pop("entries"))

    def put_all(self, entries: Mapping[str, bytes]) -> None:
        """Keep entries that were made together: what the process runs is looked at once."""
        if hasattr(self._gathered, "entries"):
            self._gathered.entries.update(entries)
            return
        placed = [(*_place(key), _head(key, payload) + payload) for key, payload in entries.items()]
        files = self._ready()
        if files is None or not is_running_what_it_names():
            return
        for part, name, data in placed:
            if len(data) > self.limit:
                continue
            try:
                files.write(part, name, data)
            except OSError as error:
                path = os.path.join(files.path, part)
                self._warn(f"cannot write {path}: {error.strerror or error}")
                continue
            self._count(len(data))

    def _count(self, size: int) -> None:
        """Note an entry of this size; measure and clear when there may be too many."""
        if self._size is not None:
            self._size += size
            if self._size > self.limit:
                self._trim()
            return
        # Measuring a large cache takes a while: a process that adds little does it at its end.
        if not self._added:
            atexit.register(self._trim)
        self._added += size
        if self._added * SHARE > self.limit:
            self._trim()

    def drop(self, key: str) -> None:
        """Remove an entry that turned out not to be what its key says."""
        files = self._ready()
        if files is not None:
            files.remove(*_place(key))

    def usage(self) -> Usage:
        """How many entries there are, and their size on disk."""
        entries = self._entries()
        return Usage(self.folder, len(entries), sum(e.size for e in entries), self.limit)

    def clear(self) -> int:
        """Remove every entry; returns how many there were."""
        entries = self._entries()
        self._remove(entries)
        self._size = None
        return len(entries)

    # -- what is on disk --------------------------------------------------------------------------

    def _ready(self) -> PrivateFolder | None:
        """The folder, if it is to be used at all: whether it can be is found out once."""
        if self._usable is None:
            self._usable = self.limit > 0 and self._prepare()
        return self._files if self._usable else None

    def _prepare(self) -> bool:
        if self._files is None:
            self._warn("this user has no home folder")
            return False
        try:
            self._files.prepare()
        except OSError as error:
            self._warn(f"cannot use {self.folder}: {error.strerror or error}")
            return False
        return True

    def _warn(self, reason: str) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"Adjoint compiles without its disk cache: {reason}. Set ADJOINT_CACHE_DIR to a"
                " folder of yours, or ADJOINT_CACHE_SIZE=0 to do without.",
                stacklevel=4,
            )

    def _entries(self) -> list[CachedFile]:
        """The entries, the longest unused first; half-written files of the dead are removed."""
        if self._files is None:
            return []
        entries = []
        for entry in self._files.entries():
            if not entry.name.endswith(".part"):
                entries.append(entry)
            elif time.time() - entry.used > ABANDONED:
                self._files.remove(entry.part, entry.name)
        return sorted(entries, key=lambda entry: (entry.used, entry.size, entry.name))

    def _remove(self, entries: Iterable[CachedFile]) -> None:
        for entry in entries:
            if self._files is not None:
                self._files.remove(entry.part, entry.name)

    def _trim(self) -> None:
        """Measure the cache, and bring it under its limit."""
        entries = self._entries()
        size = sum(entry.size for entry in entries)
        gone = 0
        if size > self.limit:
            while gone < len(entries) and size > KEEP * self.limit:
                size -= entries[gone].size
                gone += 1
        self._remove(entries[:gone])
        self._size = size


def is_key(text: str) -> bool:
    """Whether a text can be a key of the cache."""
    return len(text) >= 16 and _DIGITS.issuperset(text)


def _place(key: str) -> tuple[str, str]:
    """The part of the folder and the name in it."""
    if not is_key(key):
        raise ValueError(f"a key of the cache is a hexadecimal digest, but got {key!r}")
    return key[:2], key


def _head(key: str, payload: bytes) -> bytes:
    """What an entry begins with; the key is in it, so that none is taken for another."""
    digest = hashlib.sha256(key.encode())
    digest.update(payload)
    return MAGIC + digest.digest()


# -- the process's own ----------------------------------------------------------------------------


@cache
def _store(folder: str | None, limit: int) -> DiskStore:
    return DiskStore(folder, limit)


def default() -> DiskStore:
    """The cache that the environment names now."""
    return _store(place(), limit())


def get(key: str) -> bytes | None:
    """The entry of the process's cache, or None."""
    return default().get(key)


def put(key: str, payload: bytes) -> None:
    """Keep an entry in the process's cache."""
    default().put(key, payload)


def together() -> AbstractContextManager[None]:
    """`DiskStore.together` of the process's cache."""
    return default().together()
