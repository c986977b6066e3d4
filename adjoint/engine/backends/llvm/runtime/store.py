"""The disk cache of compiled code: bytes under content-addressed keys, shared by processes.

An entry is one file, named by its key, that begins with a checksum of the rest. It is written
aside and renamed into place, so a reader sees all of it or none; what fails its checksum is removed
and counts as missing. There is no index to corrupt: the file's time says when it was last wanted,
and when the files together outgrow the limit the ones longest unwanted go.

The environment: `ADJOINT_CACHE_DIR` is the place, `ADJOINT_CACHE_SIZE` the limit ("256M", "2G",
"0" for no cache).
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

VERSION = "1"  # of the files' layout; another version uses another folder
DEFAULT_LIMIT = 2**30
MAGIC = b"ADJSTORE"
HEAD = len(MAGIC) + hashlib.sha256().digest_size
KEEP = 0.8  # how full the cache is after a clearing, so that the next put does not clear again
SHARE = 64  # of the limit: a process that adds less than this part of it measures at its end
TOUCH = 60.0  # seconds before a use is worth noting again
ABANDONED = 3600.0  # age of a half-written file whose writer must be dead
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def place() -> Path:
    """Where the cache is: $ADJOINT_CACHE_DIR, or the platform's folder for caches."""
    named = os.environ.get("ADJOINT_CACHE_DIR")
    if named:
        return Path(named).expanduser()
    try:
        home = Path.home()
    except RuntimeError:  # a user without a home, as in some containers
        import tempfile

        return Path(tempfile.gettempdir()) / f"adjoint-{getattr(os, 'geteuid', int)()}"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "adjoint"
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return (Path(base) if base else home / "AppData" / "Local") / "adjoint" / "Cache"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else home / ".cache") / "adjoint"


def limit() -> int:
    """How many bytes the cache may take: $ADJOINT_CACHE_SIZE, or 1 GiB.

    >>> parse_size("1.5K"), parse_size("2G") == 2 * 2**30
    (1536, True)
    """
    text = os.environ.get("ADJOINT_CACHE_SIZE")
    return DEFAULT_LIMIT if text is None else parse_size(text)


def parse_size(text: str) -> int:
    """Bytes from "4096", "256M", "1.5 GiB"."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([KMGT]?)(?:I?B)?\s*", text.upper())
    if found is None:
        raise ValueError(
            f"ADJOINT_CACHE_SIZE: {text!r} is no size; write a number of bytes, or 256M, or 2G"
        )
    return int(float(found[1]) * UNITS[found[2]])


@dataclass(frozen=True, slots=True)
class Usage:
    """What a cache holds."""

    folder: Path
    entries: int
    size: int
    limit: int


class Store:
    """A folder of checksummed entries, bounded in size.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     store = Store(Path(folder), 2**20)
    ...     store.put(key_of("a kernel"), b"its code")
    ...     store.get(key_of("a kernel")), store.get(key_of("another"))
    (b'its code', None)
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder / f"v{VERSION}"
        self.limit = limit
        self._size: int | None = None  # as last measured, plus what this process has put since
        self._added = 0  # before that
        self._ready: bool | None = None  # None: the folder has not been looked at
        self._warned = False

    def get(self, key: str) -> bytes | None:
        """The entry, or None where it is missing or damaged."""
        path = self._path(key)
        if not self._usable():
            return None
        try:
            data = path.read_bytes()
            seen = path.stat().st_mtime
        except OSError:
            return None
        payload = data[HEAD:]
        if data[:HEAD] != _head(payload):
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        if abs(time.time() - seen) > TOUCH:
            with contextlib.suppress(OSError):
                os.utime(path)
        return payload

    def put(self, key: str, payload: bytes) -> None:
        """Keep an entry; where it cannot be written, warn once and go on without."""
        path = self._path(key)
        size = HEAD + len(payload)
        if size > self.limit or not self._usable():
            return
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write(path, _head(payload) + payload)
        except OSError as error:
            self._warn(f"cannot write {path.parent}: {error.strerror or error}")
            return
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

    def cached(self, key: str, make: Callable[[], bytes]) -> bytes:
        """The entry, made and kept where it is missing."""
        payload = self.get(key)
        if payload is None:
            payload = make()
            self.put(key, payload)
        return payload

    def usage(self) -> Usage:
        """How many entries there are, and their size on disk."""
        files = self._files()
        return Usage(self.folder, len(files), sum(size for _, size, _ in files), self.limit)

    def clear(self) -> int:
        """Remove every entry; returns how many there were."""
        files = self._files()
        for _, _, path in files:
            with contextlib.suppress(OSError):
                path.unlink()
        self._size = None
        return len(files)

    # -- what is on disk --------------------------------------------------------------------------

    def _path(self, key: str) -> Path:
        if not re.fullmatch(r"[0-9a-f]{16,}", key):
            raise ValueError(f"a key of the cache is a hexadecimal digest, but got {key!r}")
        return self.folder / key[:2] / key

    def _usable(self) -> bool:
        """Whether to use the folder at all; looked at once."""
        if self._ready is None:
            self._ready = self.limit > 0 and self._prepare()
        return self._ready

    def _prepare(self) -> bool:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            about = self.folder.stat()
        except OSError as error:
            self._warn(f"cannot use {self.folder}: {error.strerror or error}")
            return False
        # Entries are executed: a folder that others write would let them run code as this user.
        if hasattr(os, "geteuid") and (
            about.st_uid not in {0, os.geteuid()} or about.st_mode & 0o002
        ):
            self._warn(f"{self.folder} belongs to, or can be written by, other users")
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

    def _files(self) -> list[tuple[float, int, Path]]:
        """(last use, size, path) of each entry, the longest unused first."""
        found = []
        for entry in _entries(self.folder):
            with contextlib.suppress(OSError):  # another process may have removed it
                about = entry.stat()
                if not entry.name.endswith(".part"):
                    found.append((about.st_mtime, about.st_size, Path(entry.path)))
                elif time.time() - about.st_mtime > ABANDONED:
                    os.unlink(entry.path)
        return sorted(found)

    def _trim(self) -> None:
        """Measure the cache, and bring it under its limit."""
        files = self._files()
        size = sum(each for _, each, _ in files)
        if size > self.limit:
            for _, each, path in files:
                if size <= KEEP * self.limit:
                    break
                with contextlib.suppress(OSError):
                    path.unlink()
                size -= each
        self._size = size


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """The files in a cache."""
    with contextlib.suppress(OSError), os.scandir(folder) as parts:
        for part in parts:
            with contextlib.suppress(OSError), os.scandir(part.path) as entries:
                yield from entries


def _head(payload: bytes) -> bytes:
    return MAGIC + hashlib.sha256(payload).digest()


def _write(path: Path, data: bytes) -> None:
    """All of a file or nothing, whoever else writes it at the same time."""
    aside = f"{path}.{os.getpid()}.{os.urandom(4).hex()}.part"
    handle = os.open(
        aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600
    )
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(aside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(aside)
        raise


# -- the process's own ----------------------------------------------------------------------------


@cache
def _store(folder: Path, limit: int) -> Store:
    return Store(folder, limit)


def default() -> Store:
    """The cache that the environment names now."""
    return _store(place(), limit())


def get(key: str) -> bytes | None:
    """The entry of the process's cache, or None."""
    return default().get(key)


def put(key: str, payload: bytes) -> None:
    """Keep an entry in the process's cache."""
    default().put(key, payload)
