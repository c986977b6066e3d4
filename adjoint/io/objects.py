"""Objects that are no plain values: written by the name of their class and their state.

Note [objects in files]
    PyTorch pickles whole modules, argument namespaces and the like. Reading one back means making
    an object of a class the program already has and giving it its state; that runs nothing a file
    says. So a class is looked up (never imported) among the modules of `nn` and `optim`, the
    program's own classes, a few of the standard library, and those a program declared safe. It
    is made without `__init__`, and nothing else in a file can be called.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import datetime
import pathlib
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from adjoint.engine.core.operations.public import PUBLIC
from adjoint.engine.core.state.loading import brought

PACKAGE = str(Path(__file__).resolve().parent.parent)
INSTALLED = tuple({PACKAGE, *(sysconfig.get_path(k) for k in ("stdlib", "purelib", "platlib"))})
# Classes whose constructor does no more than hold what it is given.
VALUES: tuple[type, ...] = (
    collections.defaultdict, datetime.date, datetime.datetime, datetime.time, datetime.timedelta,
    pathlib.PosixPath, pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.WindowsPath,
)  # fmt: skip
KNOWN: dict[str, Any] = {f"{c.__module__}.{c.__qualname__}": c for c in VALUES} | {
    "pathlib._local.PosixPath": pathlib.PosixPath,  # as Python 3.13 calls it
    "pathlib._local.WindowsPath": pathlib.WindowsPath,
    "argparse.Namespace": argparse.Namespace,
    "types.SimpleNamespace": types.SimpleNamespace,
    **{f"builtins.{c.__name__}": c for c in (bool, int, float, str, list, tuple, dict, set)},
}
SAFE: dict[str, Any] = {}  # what a program declared safe, by the name files use


# -- what a program allows ------------------------------------------------------------------------


def _named(given: Any) -> tuple[str, Any]:
    if isinstance(given, tuple):
        return str(given[1]), given[0]
    return f"{given.__module__}.{given.__qualname__}", given


def add_safe_globals(safe_globals: Sequence[Any]) -> None:
    """Let files hold objects of further classes.

    Args:
        safe_globals: the classes, or pairs of a class and the name files use for it.
    """
    SAFE.update(_named(given) for given in safe_globals)


def clear_safe_globals() -> None:
    """Forget what `add_safe_globals` was told."""
    SAFE.clear()


def get_safe_globals() -> list[Any]:
    """What `add_safe_globals` was told."""
    return list(SAFE.values())


@contextlib.contextmanager
def safe_globals(safe_globals: Sequence[Any]) -> Iterator[None]:
    """`add_safe_globals` inside a `with` block."""
    before = dict(SAFE)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        SAFE.clear()
        SAFE.update(before)


# -- reading --------------------------------------------------------------------------------------


def find(module: str, name: str, weights_only: bool) -> Any:
    """A class or function a file may mention; None is a refusal."""
    full = f"{module}.{name}"
    if full in SAFE:
        return SAFE[full]
    if weights_only:  # PyTorch's name for something of ours that was declared
        ours = _known(module, name)
        return ours if any(ours is safe for safe in SAFE.values()) else None
    return _known(module, name) or _own(module, name)


def _known(module: str, name: str) -> Any:
    full = f"{module}.{name}"
    if full in KNOWN:
        return KNOWN[full]
    for package in ("nn", "optim"):
        if module.split(".")[:2] in (["torch", package], ["adjoint", package]):
            return _of_adjoint(package, module.partition(".")[2], name)
    if module in ("torch", "torch._C._nn"):  # an operation, as a value: it cannot be called
        space = "" if module == "torch" else "nn.functional"
        return PUBLIC[space, name].fn if (space, name) in PUBLIC else None
    return None


def _of_adjoint(package: str, path: str, name: str) -> Any:
    member = getattr(brought(f"adjoint.{package}"), name, None)
    if not isinstance(member, type):
        try:
            member = getattr(brought(f"adjoint.{path}"), name, None)
        except ModuleNotFoundError:
            return None
    public = isinstance(member, type) or (
        path == "nn.functional" and isinstance(member, types.FunctionType)
    )
    return member if public else None


def _own(module: str, name: str) -> Any:
    """A class or function of the running program, not of what is installed."""
    loaded = sys.modules.get(module)
    if loaded is None:
        return None
    file = getattr(loaded, "__file__", None)
    if module not in ("__main__", "__mp_main__") and (
        file is None or str(Path(file).resolve()).startswith(INSTALLED)
    ):
        return None
    member = getattr(loaded, name, None)
    kind = isinstance(member, (type, types.FunctionType))
    return member if kind and getattr(member, "__module__", None) == module else None


def make(cls: type, args: tuple[Any, ...], new: bool) -> Any:
    """An object of a class that `find` gave, without calling `__init__`."""
    if issubclass(cls, Enum) or cls in VALUES:
        return cls(*args)
    if not new:
        raise UnpicklingError(f"refused: the file tries to call {cls.__name__}")
    if issubclass(cls, tuple):
        return tuple.__new__(cls, args)
    base: Any = next((b for b in (dict, list, set) if issubclass(cls, b)), object)
    return base.__new__(cls)


def set_state(target: Any, state: Any) -> None:
    """Give an object its pickled state."""
    if hasattr(target, "__setstate__"):
        target.__setstate__(state)
        return
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    for values in (state, slots):
        for key, value in (values or {}).items():
            object.__setattr__(target, key, value)


# -- writing --------------------------------------------------------------------------------------


def global_name(value: Any) -> str:
    """Module and name of a class or function, as files have them; an error if it has none."""
    module, name = value.__module__, value.__qualname__
    for space in ("nn.functional", ""):  # an operation, under the name PyTorch knows it by
        if (space, name) in PUBLIC and PUBLIC[space, name].fn is value:
            return f"torch{space and '.'}{space} {name}"
    owner: Any = sys.modules.get(module)
    for part in name.split("."):
        owner = getattr(owner, part, None)
    if owner is not value or "." in name:
        raise TypeError(f"a local or nested {type(value).__name__}, {name}")
    for package in ("nn", "optim"):  # under the name PyTorch knows it by
        if module.startswith(f"adjoint.{package}."):
            known = brought(f"adjoint.{package}")
            if getattr(known, name, None) is value:
                return f"torch.{package} {name}"
            return f"torch.{module.removeprefix('adjoint.')} {name}"
    return f"{module} {name}"


def reduce(value: Any) -> tuple[Callable[..., Any] | type, tuple[Any, ...], bool, Any, Any, Any]:
    """How an object is written: what makes it, with what, whether by `__new__`; state, items."""
    reduced = value.__reduce_ex__(2)
    if isinstance(reduced, str):
        raise TypeError(f"a global object {reduced}")
    function, args, state, items, pairs = (*reduced, None, None, None)[:5]
    if getattr(function, "__name__", "") == "__newobj__":
        return args[0], args[1:], True, state, items, pairs
    return function, args, False, state, items, pairs
