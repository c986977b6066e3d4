"""Which version of the package this is, for the names of what is kept on disk.

Note [known files]
    Reading nine hundred files takes longer than loading a program that was kept. So the digest of
    what they say is kept too, with their places and what the system tells of each: number, size,
    and to the nanosecond when its content and when anything of it was changed. The last of these
    cannot be set, so edits, checkouts and installations that leave a file's time and size as they
    were change it. Folders are asked for the same, whose times change with what is put there or
    taken away: while they are as they were, there are no other files. To ask for a thousand places
    that are known takes half as long as to list them anew.

    Of files that were changed a moment ago nothing is kept: clocks are coarse. Where the system has
    no such time, or files changed since this process began, all are read; and where files cannot be
    written, because an image of a file system (of a container, say) has the times that its maker
    gave it, and two images may have the same.
"""

from __future__ import annotations

import marshal
import os
import sys
import time
from collections.abc import Iterable, Sequence
from functools import cache

from adjoint.engine.backends.disk import store
from adjoint.engine.core.identity.keys import key_of
from adjoint.engine.core.state.code_digest import (
    DECIDING,
    ENGINE,
    changed_since_start,
    code_digest,
    code_places,
    was_exchanged,
)

SETTLED = 2.0  # seconds after which a change would show in a file's times
TELLS_CHANGES = sys.platform != "win32"  # there the time is that of a file's making
TOLD = 5  # numbers of each place, the last of which is when anything of it was changed


@cache
def package_digest() -> str:
    """What the files say that decide a program."""
    return digest_of(ENGINE, DECIDING)


def digest_of(root: str, parts: Iterable[str]) -> str:
    """`code_digest`, from the cache where that knows these very files."""
    parts = tuple(parts)
    if not TELLS_CHANGES or was_exchanged() or _is_image(root):
        return code_digest(root, parts)
    # One entry for each installation: times of changes never come again.
    here = os.stat(root)
    key = key_of("known files", root, f"{here.st_dev} {here.st_ino}", *parts)
    known = _recognised(root, store.get(key))
    return known or _read(root, parts, key)


def _recognised(root: str, entry: bytes | None) -> str | None:
    """The digest in what `_read` kept, if it is of the files that are there now."""
    try:
        name, digest, newest, *places = (entry or b"").decode().split("\0")
        if changed_since_start(float(newest)) or key_of(_told(root, places)) != name:
            return None
    except (ValueError, OSError):  # nothing is kept, or a file is gone
        return None
    return digest


def _read(root: str, parts: tuple[str, ...], key: str) -> str:
    """`code_digest`, kept if what is told of its files is told of no others."""
    try:
        folders, files = code_places(root, parts)
        places = [*folders, *files]
        told = _told(root, places)
    except OSError:
        return code_digest(root, parts)
    digest = code_digest(root, parts)
    changes = [moment / 1e9 for moment in marshal.loads(told)[TOLD - 1 :: TOLD]]
    newest = max(changes[len(folders) :], default=0.0)
    if changed_since_start(newest) or max(changes, default=0.0) >= time.time() - SETTLED:
        return digest
    if _told(root, places) == told:
        store.put(key, "\0".join([key_of(told), digest, repr(newest), *places]).encode())
    return digest


def _is_image(root: str) -> bool:
    """Whether files are as someone made them elsewhere; also where there are none."""
    try:
        return bool(os.statvfs(root).f_flag & os.ST_RDONLY)
    except OSError:  # in an archive
        return True


def _told(root: str, places: Sequence[str]) -> bytes:
    """All that changes with files and folders, as bytes that are the same in every process."""
    told: list[int] = []
    start = os.open(root, os.O_RDONLY)
    try:
        for place in places:
            x = os.stat(place, dir_fd=start)
            told += (x.st_dev, x.st_ino, x.st_size, x.st_mtime_ns, x.st_ctime_ns)
    finally:
        os.close(start)
    return marshal.dumps(told, 2)  # the format in which equal values are written alike
