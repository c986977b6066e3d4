"""A folder that nobody but this user and root can have written to, and its files.

Note [trusted paths]
    The files hold machine code that is run, so whoever can write one runs code as this user. As
    ssh's StrictModes does, every folder from the root down must belong to root or to this user and
    be writable by nobody else; one above the private folder may be writable if it is sticky, as
    /tmp is, because there nobody can replace what another one owns. A symbolic link must have such
    an owner too, and the folders it leads through are checked alike. Everything is opened relative
    to the descriptor of a folder already checked, without following links, and then asked for its
    owner and mode by its own descriptor: what was checked is what is used, whatever is renamed
    meanwhile. The descriptor of the private folder itself is kept, and asked again at each use.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Callable, Iterator

LINKS = 40  # symbolic links followed on the way, as the kernel's own limit
WRITABLE = stat.S_IWGRP | stat.S_IWOTH
# O_PATH opens folders that may be passed through but not listed.
PASS = os.O_RDONLY | getattr(os, "O_PATH", 0)
FOLDER = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
# O_NONBLOCK: a pipe in the place of a file must not make the reader wait.
READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
SUPPORTED = {
    os.open, os.stat, os.mkdir, os.unlink, os.readlink, os.rename, os.utime,
} <= os.supports_dir_fd  # fmt: skip


class UnsafeFolder(OSError):
    """A place that cannot be used; the message says why and what would help."""


class CachedFile:
    """A file in one of the private folder's parts, as a listing shows it."""

    __slots__ = ("name", "part", "size", "used")

    def __init__(self, part: str, name: str, used: float, size: int) -> None:
        self.part, self.name, self.size = part, name, size
        self.used = used  # when it was last touched


class _OpenFolder:
    """An open folder, closed when nobody holds this; recognised after others closed it for us."""

    __slots__ = ("about", "fd")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.about = os.fstat(fd)

    def current(self) -> os.stat_result | None:
        """The folder's state now; None where the number no longer stands for it."""
        try:
            about = os.fstat(self.fd)
        except OSError:
            return None
        return about if os.path.samestat(about, self.about) else None

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # A program that became a daemon closed all descriptors: the number may be another file's.
        if not ending() and self.current() is not None:
            os.close(self.fd)


class PrivateFolder:
    """Files in parts (folders one level down) of a trusted folder, see Note [trusted paths].

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as place:
    ...     folder = PrivateFolder(os.path.join(place, "new"))
    ...     folder.write("ab", "abcd", b"data")
    ...     folder.read("ab", "abcd")[0], folder.read("ab", "other")
    (b'data', None)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.abspath(path)
        self._handle: _OpenFolder | None = None

    # -- files ------------------------------------------------------------------------------------

    def read(self, part: str, name: str) -> tuple[bytes, float] | None:
        """A file's bytes and when it was last touched; None where no trusted file is there."""
        with contextlib.suppress(OSError), self._part(part) as folder:
            fd = os.open(name, READ, dir_fd=folder)
            with open(fd, "rb", buffering=0) as file:
                about = os.fstat(fd)
                if stat.S_ISREG(about.st_mode) and not _fault(about):
                    return file.readall(), about.st_mtime
        return None

    def write(self, part: str, name: str, data: bytes) -> None:
        """All of a file or nothing, whoever else writes it at the same time."""
        aside = f"{name}.{os.getpid()}.{os.urandom(4).hex()}.part"
        with self._part(part, make=True) as folder:
            fd = os.open(aside, WRITE, 0o600, dir_fd=folder)
            try:
                with open(fd, "wb") as file:
                    file.write(data)
                os.rename(aside, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(aside, dir_fd=folder)
                raise

    def secret(self, name: str, fresh: bytes) -> bytes:
        """What a file in the folder itself holds: `fresh`, or what the first one put there.

        Raises UnsafeFolder where others can read or write it.
        """
        aside = f"{name}.{os.getpid()}.{os.urandom(4).hex()}.part"
        with self._part(".", make=True) as folder:
            with open(os.open(aside, WRITE, 0o600, dir_fd=folder), "wb") as file:
                file.write(fresh)
            try:  # whole or not at all, whoever is first
                with contextlib.suppress(FileExistsError):
                    os.link(aside, name, src_dir_fd=folder, dst_dir_fd=folder)
            finally:
                os.unlink(aside, dir_fd=folder)
            try:
                fd = os.open(name, READ, dir_fd=folder)
            except OSError as error:
                path = os.path.join(self.path, name)
                raise UnsafeFolder(f"{path} is no file of its own: {error}") from error
            with open(fd, "rb", buffering=0) as file:
                _check_secret(os.fstat(fd), os.path.join(self.path, name))
                return file.readall()

    def touch(self, part: str, name: str) -> None:
        """Note that a file was wanted now."""
        with contextlib.suppress(OSError), self._part(part) as folder:
            os.utime(name, dir_fd=folder, follow_symlinks=False)

    def remove(self, part: str, name: str) -> None:
        """Remove a file, if it is there."""
        with contextlib.suppress(OSError), self._part(part) as folder:
            os.unlink(name, dir_fd=folder)

    def entries(self) -> Iterator[CachedFile]:
        """The files of all parts; none where there is no folder yet, or none to be trusted."""
        with contextlib.suppress(OSError), self._opened(".", self._open_handle(False).fd) as here:
            for part in sorted(os.listdir(here)):
                with contextlib.suppress(OSError), self._part(part) as folder:
                    for name in os.listdir(folder):
                        # Another process may have removed it.
                        with contextlib.suppress(OSError):
                            about = os.stat(name, dir_fd=folder, follow_symlinks=False)
                            yield CachedFile(part, name, about.st_mtime, about.st_size)

    # -- folders ----------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Make the folder where it is missing; raises Refused where it cannot be trusted."""
        self._open_handle(make=True)

    @contextlib.contextmanager
    def _part(self, part: str, *, make: bool = False) -> Iterator[int]:
        """The descriptor of a part."""
        parent = self._open_handle(make)
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o700, dir_fd=parent.fd)
        with self._opened(part, parent.fd) as fd:
            yield fd

    @contextlib.contextmanager
    def _opened(self, name: str, parent: int) -> Iterator[int]:
        fd = os.open(name, os.O_RDONLY | FOLDER, dir_fd=parent)
        try:
            _check(os.fstat(fd), os.path.join(self.path, name))
            yield fd
        finally:
            os.close(fd)

    def _open_handle(self, make: bool) -> _OpenFolder:
        """The open folder, walked to anew where it was removed or its descriptor closed."""
        handle = self._handle  # a local name: another thread may replace it
        about = None if handle is None else handle.current()
        if handle is not None and about is not None and about.st_nlink > 0:
            _check(about, self.path)
            return handle
        self._handle = handle = _walk(self.path, make)
        return handle


def _walk(path: str, make: bool) -> _OpenFolder:
    """Go from the root to a folder, checking each step, and make what is missing if asked."""
    if not SUPPORTED:
        raise UnsafeFolder("this system cannot open files relative to a folder that was checked")
    here, shown, links = _OpenFolder(os.open("/", PASS | FOLDER)), "/", 0
    _check(here.about, shown, above=True)
    pending = _steps(path)
    while pending:
        name = pending.pop()
        if name == os.pardir:  # out of a link's target; what is above is checked like the rest
            shown = os.path.dirname(shown)
            here = _step(here, name, shown, above=True)
            continue
        about = _about(here, name)
        if about is not None and stat.S_ISLNK(about.st_mode):
            target = _target(here, name, about, shown)
            links += 1
            if links > LINKS:
                raise UnsafeFolder(f"{path} leads through too many symbolic links")
            if target.startswith("/"):
                here, shown = _OpenFolder(os.open("/", PASS | FOLDER)), "/"
            pending += _steps(target)
            continue
        if about is None and make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=here.fd)
        shown = os.path.join(shown, name)
        here = _step(here, name, shown, above=bool(pending))
    last = _OpenFolder(os.open(".", os.O_RDONLY | FOLDER, dir_fd=here.fd))
    _check(last.about, shown)
    return last


def _steps(path: str) -> list[str]:
    """The names on a path, the last one first."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def _step(here: _OpenFolder, name: str, shown: str, *, above: bool) -> _OpenFolder:
    handle = _OpenFolder(os.open(name, PASS | FOLDER, dir_fd=here.fd))
    _check(handle.about, shown, above=above)
    return handle


def _about(here: _OpenFolder, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=here.fd, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _target(here: _OpenFolder, name: str, about: os.stat_result, shown: str) -> str:
    """Where a symbolic link leads."""
    if not _ours(about):
        owner = f"another user (uid {about.st_uid})"
        raise UnsafeFolder(f"{os.path.join(shown, name)} is a symbolic link of {owner}")
    return os.readlink(name, dir_fd=here.fd)


def _ours(about: os.stat_result) -> bool:
    return about.st_uid in (0, os.geteuid())


def _fault(about: os.stat_result) -> str:
    """What lets others write to a file or folder; "" for nothing."""
    if not _ours(about):
        return f"belongs to another user (uid {about.st_uid})"
    return "can be written by other users" if about.st_mode & WRITABLE else ""


def _check_secret(about: os.stat_result, path: str) -> None:
    """Refuse a file that others can have written, or can read."""
    fault = _fault(about)
    if not stat.S_ISREG(about.st_mode):
        fault = "is no plain file"
    elif not fault and about.st_mode & (stat.S_IRGRP | stat.S_IROTH):
        fault = "can be read by other users"
    if fault:
        mode = stat.S_IMODE(about.st_mode)
        raise UnsafeFolder(f"{path} {fault}, mode {mode:04o}; remove it, and another is made")


def _check(about: os.stat_result, path: str, *, above: bool = False) -> None:
    """Refuse a folder that others can change; `above` the private one, sticky ones will do."""
    fault = _fault(about)
    if not fault or (above and _ours(about) and about.st_mode & stat.S_ISVTX):
        return
    remedy = f"; `chmod go-w {path}` if you trust what is in it" if _ours(about) else ""
    mode = stat.S_IMODE(about.st_mode)
    raise UnsafeFolder(f"{path} {fault}, mode {mode:04o}, and code is run from there{remedy}")
