"""Writing files so that a kill or a full disk leaves the old file or the new one, nothing between.

Note [atomic writes]
    The bytes go to a hidden temporary file in the same directory, are flushed to the disk, and the
    file is renamed over the old one; then the directory is flushed. A rename within a directory is
    atomic. A writer holds a lock on its temporary file, which ends with its process: the next save
    into the directory removes the temporary files whose lock is free. Their names are of one
    length, whatever the target's, so that a target's name may be as long as the file system allows.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows: left-over temporary files stay
    fcntl = None  # type: ignore[assignment]

TEMPORARY = re.compile(r"\.adjoint-[0-9a-f]{16}\.tmp")
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
# Whatever lies under a temporary's name in a folder that others write must not be followed.
_LOOK = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


@contextlib.contextmanager
def atomic_write(
    path: str | os.PathLike[str], what: str = "save", *, mode: int = 0o666, durable: bool = True
) -> Iterator[IO[bytes]]:
    """A binary file that takes the place of `path` when the block ends without an exception.

    A link is written through, and a file that is there keeps its mode and owner.

    Args:
        path: the file.
        what: the operation, for messages.
        mode: of a new file, less the process's umask.
        durable: whether to wait for the disk; what can be made again need not.

    Example:
        >>> import tempfile, os
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with atomic_write(os.path.join(folder, "a")) as file:
        ...         _ = file.write(b"new")
        ...     os.listdir(folder)
        ['a']
    """
    target = os.path.realpath(path)
    with _explained(what, path):
        about = _about(target)
        if about is not None and not stat.S_ISREG(about.st_mode):
            with open(target, "wb") as file:  # a pipe or a device
                yield file
            return
        folder = os.path.dirname(target)
        _remove_abandoned(folder)
        fd, temporary = _create(folder, mode)
        try:
            with open(fd, "wb") as file:
                if about is not None:
                    _liken(fd, about)
                yield file
                file.flush()
                if durable:
                    os.fsync(fd)
                os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        if durable:
            _sync_directory(folder)


@contextlib.contextmanager
def _explained(what: str, path: Any) -> Iterator[None]:
    """Name the file, and what became of it, in an error of the operating system."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        outcome = " The previous file is unchanged." if os.path.exists(path) else ""
        reason = (
            f"{what}: could not write {os.fspath(path)!r}: {os.strerror(error.errno)}.{outcome}"
        )
        raise type(error)(error.errno, reason) from error


def _about(target: str) -> os.stat_result | None:
    """What lies at the end of all links; None where nothing does."""
    try:
        return os.stat(target)
    except FileNotFoundError:
        return None


def _create(folder: str, mode: int) -> tuple[int, str]:
    """A new temporary file, locked for as long as it is open."""
    while True:
        temporary = os.path.join(folder, f".adjoint-{secrets.token_hex(8)}.tmp")
        fd = os.open(temporary, _CREATE, mode)
        if fcntl is None:
            return fd, temporary
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another save may have taken it for abandoned before it was locked.
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(temporary), os.fstat(fd)):
                return fd, temporary
        os.close(fd)


def _liken(fd: int, about: os.stat_result) -> None:
    """Give a file the owner and the mode of the one it replaces."""
    if not hasattr(os, "fchmod"):
        return
    mine = os.fstat(fd)
    if (mine.st_uid, mine.st_gid) != (about.st_uid, about.st_gid):
        with contextlib.suppress(OSError):  # only some may give files away
            os.fchown(fd, about.st_uid, about.st_gid)
    os.fchmod(fd, stat.S_IMODE(about.st_mode))


def is_temporary(name: str) -> bool:
    """Whether a file's name is one that only `atomic_write` gives."""
    return TEMPORARY.fullmatch(name) is not None


def _remove_abandoned(folder: str) -> None:
    """Remove temporary files in a folder whose writers are gone."""
    if fcntl is None:
        return
    with contextlib.suppress(OSError):
        for entry in filter(is_temporary, os.listdir(folder)):
            with contextlib.suppress(OSError):
                _remove_if_abandoned(os.path.join(folder, entry))


def _remove_if_abandoned(path: str) -> None:
    fd = os.open(path, _LOOK)
    try:
        about = os.fstat(fd)
        if stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid():
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # refused while it is written
            os.unlink(path)
    finally:
        os.close(fd)


def _sync_directory(folder: str) -> None:
    with contextlib.suppress(OSError):  # not every system can
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
