"""The digest of the package's own code, for the names of what is kept on disk."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable

from adjoint.engine.core.state import LOADED_AT as _STARTED

# All code that decides a program or the text of a kernel; what is above it only writes the graphs
# that programs are named by.
DECIDING = (
    "core", "ops", "tensor", "autodiff", "sparse", "graph", "capture", "backends", "compiler",
    "assembly.py",
)  # fmt: skip
ENGINE = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))


def code_digest(root: str, parts: Iterable[str]) -> str:
    """A digest of what the Python files of these folders (or files) under `root` say.

    By content and place: a file's time and size stay the same under some edits, checkouts and
    installations, and then code made by the old text would be run for the new one. A file that was
    changed after this process began to load the package may not be the code that is running, so
    such a process has a digest of its own and shares nothing; nor does one whose code is not in
    such files: in an archive, or without its text.
    """
    digest = hashlib.sha256()
    try:
        _, files = code_places(root, parts)
    except OSError:
        files = []
        digest.update(f"{os.getpid()} {_STARTED}".encode())
    for place in files:
        handle = os.open(os.path.join(root, place), os.O_RDONLY)  # a third of what `open` takes
        try:
            about = os.fstat(handle)
            text = os.read(handle, about.st_size + 1)
        finally:
            os.close(handle)
        digest.update(f"{os.sep}{place}\0{len(text)}\0".encode() + text)
        # An older time may have been given to a newer file; when it was, is the other time.
        changed = max(about.st_mtime, about.st_ctime)
        if changed_since_start(changed) or len(text) != about.st_size:
            digest.update(f"{os.getpid()} {_STARTED}".encode())
    return digest.hexdigest()[:32]


def code_places(root: str, parts: Iterable[str]) -> tuple[list[str], list[str]]:
    """The folders under `root` that are these parts or lie in them, and the Python files there.

    By their paths from `root`, in order; a part may be a file itself.
    """
    folders: list[str] = []
    files: list[str] = []
    pending = [*parts]
    while pending:
        place = pending.pop()
        path = os.path.join(root, place)
        if place.endswith(".py"):
            os.stat(path)  # raises where there is none
            files.append(place)
            continue
        folders.append(place)
        with os.scandir(path) as entries:
            for entry in entries:
                name = entry.name
                if name[-3:] == ".py":
                    files.append(os.path.join(place, name))
                elif name != "__pycache__" and entry.is_dir():
                    pending.append(os.path.join(place, name))
    return sorted(folders), sorted(files)


def changed_since_start(moment: float) -> bool:
    """Whether this is after the process began to load the package."""
    return moment > _STARTED
