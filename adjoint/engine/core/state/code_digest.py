"""The digest of the package's own code, for the names of what is kept on disk."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable

# All code that decides a program or the text of a kernel; what is above it only writes the graphs
# that programs are named by.
DECIDING = (
    "core", "ops", "tensor", "autodiff", "sparse", "graph", "capture", "backends", "compiler",
    "assembly.py",
)  # fmt: skip
_STARTED = time.time()
ENGINE = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))


def code_digest(root: str, parts: Iterable[str]) -> str:
    """A digest of what the Python files of these folders (or files) under `root` say.

    By content and place: a file's time and size stay the same under some edits, checkouts and
    installations, and then code made by the old text would be run for the new one. A file that was
    written after this process began may not be the code that is running, so such a process has a
    digest of its own and shares nothing; nor does one whose code is not in such files: in an
    archive, or without its text.
    """
    digest = hashlib.sha256()
    try:
        files = sorted(code_files(root, parts))
    except OSError:
        files = []
        digest.update(f"{os.getpid()} {_STARTED}".encode())
    for path in files:
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


def code_files(root: str, parts: Iterable[str]) -> dict[str, os.stat_result]:
    """What the system tells of the Python files in folders, and of those named themselves."""
    found: dict[str, os.stat_result] = {}
    pending = [os.path.join(root, part) for part in parts]
    while pending:
        path = pending.pop()
        if path.endswith(".py"):
            found[path] = os.stat(path)
            continue
        with os.scandir(path) as entries:
            for entry in entries:
                name = entry.name
                if name[-3:] == ".py":
                    found[entry.path] = entry.stat()
                elif name != "__pycache__" and entry.is_dir():
                    pending.append(entry.path)
    return found


def changed_since_start(moments: Iterable[float]) -> bool:
    """Whether any of these is after this process began."""
    return max(moments, default=0.0) > _STARTED
