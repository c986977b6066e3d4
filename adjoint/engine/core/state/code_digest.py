"""The digest of the package's own code, for the names of what is kept on disk."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from operator import is_, itemgetter
from typing import Any, NamedTuple

from adjoint.engine.core.state import LOADED_AT as _STARTED
from adjoint.engine.core.state import LOADED_FROM as _HOME

# All code that decides a program or the text of a kernel; what is above it only writes the graphs
# that programs are named by.
DECIDING = (
    "core", "ops", "tensor", "autodiff", "sparse", "graph", "capture", "backends", "compiler",
    "assembly.py",
)  # fmt: skip
ENGINE = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
WITHIN = __name__.removesuffix("core.state.code_digest")  # the names of modules in it
TICK = 0.01  # seconds that the clock of files, which is coarse, may be behind that of processes
_unchanged: dict[str, Any] = {}  # modules' specs, by name, whose files were looked at
_spec_in = itemgetter("__spec__")


class _Loaded(NamedTuple):
    """What was loaded when all of the engine was last found unchanged."""

    names: list[str]  # of all modules
    own: list[str]  # of the engine's
    modules: list[Any]  # theirs
    spaces: list[
        dict[str, Any]
    ]  # and theirs: to ask a module itself for a name takes twice as long
    specs: list[Any]  # as they were: a module that is loaded again has another


_found: _Loaded | None = None


def code_digest(root: str, parts: Iterable[str]) -> str:
    """A digest of what the Python files of these folders (or files) under `root` say.

    By content and place: a file's time and size stay the same under some edits, checkouts and
    installations, and then code made by the old text would be run for the new one. A file that was
    changed after this process began to load the package may not be the code that is running, so
    such a process has a digest of its own and shares nothing; nor does one whose package was moved
    away, another in its place, or whose code is not in such files: in an archive, or without its
    text.
    """
    digest = hashlib.sha256()
    try:
        _, files = code_places(root, parts)
    except OSError:
        files = []
        digest.update(f"{os.getpid()} {_STARTED}".encode())
    if was_exchanged():
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
    """Whether this is after the process began to load the package, or may be."""
    return moment > _STARTED - TICK


def was_exchanged() -> bool:
    """Whether another folder is where the package was loaded from.

    As where a link to the current release leads to the next one: its files may be old.
    """
    try:
        return _HOME is None or not os.path.samestat(os.stat(ENGINE), _HOME)
    except OSError:
        return True


def is_running_what_it_names() -> bool:
    """Whether all of the engine that was loaded is what was there when its loading began.

    The digest is taken once, and parts are loaded when they are first needed, or loaded again by
    somebody who edits them. What such a mixture makes is nothing for those who have either.
    """
    global _found
    if was_exchanged():
        return False
    if _found is not None and _is_loaded(_found):
        return True
    # Names before modules: what another thread brings meanwhile is looked at the next time.
    names = [*sys.modules]
    own = [name for name in names if name.startswith(WITHIN)]
    modules = [*map(sys.modules.get, own)]
    specs = [getattr(module, "__spec__", None) for module in modules]
    for name, spec in zip(own, specs, strict=True):
        if spec is None or _unchanged.get(name) is spec or not spec.has_location:
            continue
        try:
            about = os.stat(spec.origin)
        except OSError:
            return False
        if changed_since_start(max(about.st_mtime, about.st_ctime)):
            return False
        _unchanged[name] = spec
    spaces = [getattr(module, "__dict__", {}) for module in modules]
    _found = _Loaded(names, own, modules, spaces, specs)
    return True


def _is_loaded(found: _Loaded) -> bool:
    """Whether modules are those of then: no loop in Python, as each program's parts ask."""
    if [*sys.modules] != found.names:
        return False
    try:
        return all(map(is_, map(sys.modules.get, found.own), found.modules)) and all(
            map(is_, map(_spec_in, found.spaces), found.specs)
        )
    except KeyError:  # one that has none
        return False
