"""Which version of the package this is, for the names of what is kept on disk.

Note [known files]
    Reading nine hundred files takes longer than loading a program that was kept. So the digest of
    what they say is kept too, under what the system tells of each: place, number, size, and to the
    nanosecond when its content and when anything of it was changed. The last of these cannot be
    set, so edits, checkouts and installations that leave a file's time and size as they were
    change it. Of files that were changed a moment ago nothing is kept: clocks are coarse. Where
    the system has no such time, or files changed since this process began, all are read; and where
    files cannot be written, because an image of a file system (of a container, say) has the times
    that its maker gave it, and two images may have the same.
"""

from __future__ import annotations

import marshal
import os
import sys
import time
from collections.abc import Iterable
from functools import cache

from adjoint.engine.backends.disk import store
from adjoint.engine.core.identity.keys import key_of
from adjoint.engine.core.state.code_digest import (
    DECIDING,
    ENGINE,
    changed_since_start,
    code_digest,
    code_files,
)

SETTLED = 2.0  # seconds after which a change would show in a file's times
TELLS_CHANGES = sys.platform != "win32"  # there the time is that of a file's making


@cache
def package_digest() -> str:
    """What the files say that decide a program."""
    return digest_of(ENGINE, DECIDING)


def digest_of(root: str, parts: Iterable[str]) -> str:
    """`code_digest`, from the cache where that knows these very files."""
    parts = tuple(parts)
    if not TELLS_CHANGES or _is_image(root):
        return code_digest(root, parts)
    try:
        files = code_files(root, parts)
    except OSError:
        return code_digest(root, parts)
    changes = [about.st_ctime for about in files.values()]
    if changed_since_start(changes):
        return code_digest(root, parts)
    told = _told(files)
    key = key_of("code", root, told)
    known = (store.get(key) or b"").decode("ascii", "replace")
    if len(known) == 32 and store.is_key(known):
        return known
    digest = code_digest(root, parts)
    if max(changes, default=0.0) < time.time() - SETTLED and _told(code_files(root, parts)) == told:
        store.put(key, digest.encode())
    return digest


def _is_image(root: str) -> bool:
    """Whether files are as someone made them elsewhere; also where there are none."""
    try:
        return bool(os.statvfs(root).f_flag & os.ST_RDONLY)
    except OSError:  # in an archive
        return True


def _told(files: dict[str, os.stat_result]) -> bytes:
    """All that changes with a file, by its place, as bytes that are the same in every process."""
    return marshal.dumps(
        [
            (path, x.st_dev, x.st_ino, x.st_size, x.st_mtime_ns, x.st_ctime_ns)
            for path, x in sorted(files.items())
        ],
        2,  # the format in which equal values are written alike
    )
