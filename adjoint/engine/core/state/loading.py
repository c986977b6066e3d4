"""Importing modules when they are first asked for, by any number of threads.

Note [loading in threads]
    Threads that lack a name load one after the other: two that import different parts of a package
    at once can wait for each other, and Python then gives one of them an error. A thread that is
    inside an import already must not wait, because the one it waits for may need what it imports;
    it loads at once, and Python has it wait for modules that others are importing.

Note [loading without the collector]
    What modules make stays: functions, classes, tables. The collector, which comes after every so
    many new objects, goes through all of that again and again and finds nothing, a sixth of the
    time that loading takes. So it waits until the modules are there.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from types import FrameType
from typing import Any

from adjoint.engine.core.errors import did_you_mean
from adjoint.engine.core.state import config, forks

SEARCHED_BY_PYTHON = 750  # names of a module, at most, among which Python looks for a similar one

_turn = forks.reentrant(forks.LockOrder.IMPORTS)
_there: set[str] = set()  # modules that were imported to their end


@contextlib.contextmanager
def collecting_later() -> Iterator[None]:
    """A block in which the collector does not come (Note [loading without the collector])."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def bring(names: Iterable[str]) -> None:
    """Import modules, one thread at a time."""
    names = [name for name in names if name not in _there or name not in sys.modules]
    if not names:
        return
    if _inside_import():
        with collecting_later():
            for name in names:
                importlib.import_module(name)  # perhaps one that is on its way: not there yet
        return
    with _turn, collecting_later():
        for name in names:
            importlib.import_module(name)
            _there.add(name)


def brought(name: str) -> Any:
    """A module that is imported when it is first asked for.

    >>> brought("adjoint.engine.core.state.loading").__name__
    'adjoint.engine.core.state.loading'
    """
    if name not in _there or name not in sys.modules:
        bring([name])
    return sys.modules[name]


def on_first_use(module: str, parts: Collection[str]) -> Callable[[str], Any]:
    """The `__getattr__` of a module whose parts are imported when they are first asked for."""

    def find(name: str) -> Any:
        if name in parts:
            return brought(f"{module}.{name}")
        raise lacking(module, name)

    return find


def lacking(module: str, name: str) -> AttributeError:
    """What to raise for a name that a module named after one of PyTorch's does not have.

    >>> print(lacking("adjoint.optim", "Adan"))
    module 'adjoint.optim' has no attribute 'Adan'. If PyTorch has it, Adjoint does not yet
    >>> print(lacking("adjoint.engine", "ops"))
    module 'adjoint.engine' has no attribute 'ops'. It is a module: import adjoint.engine.ops
    >>> print(lacking("adjoint", "oness"))
    module 'adjoint' has no attribute 'oness'. If PyTorch has it, Adjoint does not yet. \
Did you mean 'ones'?
    """
    shown = config.display_name + module.removeprefix("adjoint")
    remedy = "If PyTorch has it, Adjoint does not yet"
    if any(
        os.path.isfile(os.path.join(folder, file))
        for folder in vars(sys.modules.get(module, sys)).get("__path__", ())
        for file in (f"{name}.py", os.path.join(name, "__init__.py"))
    ):
        remedy = f"It is a module: import {shown}.{name}"
    else:
        remedy += _like(name, dir(sys.modules.get(module, sys)))
    # No full stop: Python may put ". Did you mean: ...?" behind it.
    return AttributeError(
        f"module {shown!r} has no attribute {name!r}. {remedy}",
        name=name,
        obj=sys.modules.get(module),
    )


def _like(name: str, names: Collection[str]) -> str:
    """The end of the message where a module has too many names for Python to suggest one."""
    if len(names) < SEARCHED_BY_PYTHON or name.startswith("_"):
        return ""
    return did_you_mean(name, [x for x in names if x[0] == name[0] and abs(len(x) - len(name)) < 3])


def _inside_import() -> bool:
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
