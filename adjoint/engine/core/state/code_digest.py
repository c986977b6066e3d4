"""The digest of the package's own code, for the names of what is kept on disk."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable
from functools import cache

# All code that decides a program or the text of a kernel; what is above it only writes the graphs
# that programs are named by.
DECIDING = (
    "core", "ops", "tensor", "autodiff", "sparse", "graph", "capture", "backends", "compiler",
    "assembly.py",
)  # fmt: skip
_STARTED = time.time()


@cache
def package_digest() -> str:
    """Which version of the package this is: what the files say that decide a program."""
    return code_digest(os.path.dirname(os.path.dirname(os.path.dirname(__file__))), DECIDING)


def code_digest(root: str, parts: Iterable[str]) -> str:
    """A digest of what the Python files of these folders (or files) under `root` say.

    By content and place: a file's time and size stay the same under some edits, checkouts and
    installations, and then code made by the old text would be run for the new one. A file that was
    written after this process began may not be the code that is running, so such a process has a
    digest of its own and shares nothing.
    """
    digest = hashlib.sha256()
    for path in sorted(_files([os.path.join(root, part) for part in parts])):
        handle = os.open(path, os.O_RDONLY)  # a third of the time that `open` takes
        try:
            about = os.fstat(handle)
            text = os.read(handle, about.st_size + 1)
        finally:
            os.close(handle)
        digest.update(f"{path[len(root) :]}\0{len(text)}\0".encode() + text)
        if about.st_mtime > _STARTED or len(text) != about.st_size:
            digest.update(f"{os.getpid()} {_STARTED}".encode())
    return digest.hexdigest()[:32]


def _files(pending: list[str]) -> list[str]:
    """The Python files in folders, and those that are named themselves."""
    paths = []
    while pending:
        path = pending.pop()
        if path.endswith(".py"):
            paths.append(path)
            continue
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    paths.append(entry.path)
                elif entry.is_dir():
                    pending.append(entry.path)
    return paths
