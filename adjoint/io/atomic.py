"""Writing files so that a kill or a full disk leaves the old file or the new one, nothing between.

Note [atomic writes]
    The bytes go to a hidden temporary file in the same directory, are flushed to the disk, and the
    file is renamed over the old one; then the directory is flushed. A rename within a directory is
    atomic. What a killed process left is recognised by its lock being free, and removed by the
    next save of the same file.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows: left-over temporary files stay
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str], what: str = "save") -> Iterator[IO[bytes]]:
    """A binary file that takes the place of `path` when the block ends without an exception.

    Example:
        >>> import tempfile, os
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with atomic_write(os.path.join(folder, "a")) as file:
        ...         _ = file.write(b"new")
        ...     os.listdir(folder)
        ['a']
    """
    target = os.path.realpath(path)
    try:
        mode = os.stat(target).st_mode
    except OSError:
        mode = None
    if mode is not None and not stat.S_ISREG(mode):
        with _explained(what, path), open(target, "wb") as file:  # a pipe or a device
            yield file
        return
    with _explained(what, path):
        folder, name = os.path.split(target)
        _remove_abandoned(folder, name)
        temporary = os.path.join(folder, f".{name}.{secrets.token_hex(4)}.tmp")
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        fd = os.open(temporary, flags, 0o666)
        try:
            with open(fd, "wb") as file:
                _lock(fd)
                if mode is not None and hasattr(os, "fchmod"):
                    os.fchmod(fd, stat.S_IMODE(mode))
                yield file
                file.flush()
                os.fsync(fd)
                os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        _sync_directory(folder)


@contextlib.contextmanager
def _explained(what: str, path: Any) -> Iterator[None]:
    """Name the file, and what became of it, in an error of the operating system."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        kept = " The previous file is unchanged." if os.path.exists(path) else ""
        reason = f"{what}: could not write {os.fspath(path)!r}: {os.strerror(error.errno)}.{kept}"
        raise type(error)(error.errno, reason) from error


def _lock(fd: int) -> None:
    if fcntl is not None:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _remove_abandoned(folder: str, name: str) -> None:
    """Remove temporary files of this target whose writer is gone."""
    if fcntl is None:
        return
    with contextlib.suppress(OSError):
        for entry in os.listdir(folder):
            if not (entry.startswith(f".{name}.") and entry.endswith(".tmp")):
                continue
            if len(entry) != len(name) + 14:
                continue
            with contextlib.suppress(OSError):
                fd = os.open(os.path.join(folder, entry), os.O_RDWR)
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # refused while it is written
                    os.unlink(os.path.join(folder, entry))
                finally:
                    os.close(fd)


def _sync_directory(folder: str) -> None:
    with contextlib.suppress(OSError):  # not every system can
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
