"""Objects that are no plain values: the classes of them, by the names files use.

Note [objects in files]
    PyTorch pickles whole modules, argument namespaces and the like. `weights_only=False` reads
    them as PyTorch does (Note [pickles that run]). With `weights_only=True` a file may hold objects
    of classes that the program declared safe, and nothing is imported: such an object is made
    without `__init__` and given its state, and nothing else in a file can be called.
"""

from __future__ import annotations

import collections
import contextlib
import datetime
import pathlib
import sys
import types
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

from adjoint.engine.core.layout import strided
from adjoint.engine.core.operations.public import PUBLIC
from adjoint.engine.core.ownership import module_of
from adjoint.engine.core.state.loading import brought
from adjoint.engine.tensor.tensor import Tensor

# Classes whose constructor does no more than hold what it is given.
VALUES: tuple[type, ...] = (
    collections.defaultdict, datetime.date, datetime.datetime, datetime.time, datetime.timedelta,
    pathlib.PosixPath, pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.WindowsPath,
)  # fmt: skip
# Modules of which nothing is taken from a file, whatever a program declares: as in PyTorch.
NEVER = frozenset({"sys", "os", "posix", "nt"})
SAFE: dict[str, Any] = {}  # what a program declared safe, by the name files use


# -- what a program allows ------------------------------------------------------------------------


def _named(given: Any) -> dict[str, Any]:
    """What was declared, by the names files may use for it."""
    if isinstance(given, tuple):
        return {str(given[1]): given[0]}
    theirs = torch_name(given)
    names = [f"{given.__module__}.{given.__qualname__}"]
    return dict.fromkeys(names if theirs is None else [*names, theirs.replace(" ", ".")], given)


def add_safe_globals(safe_globals: Sequence[Any]) -> None:
    """Let files hold objects of further classes, and call further functions.

    Args:
        safe_globals: the classes and functions, or pairs of one and the name files use for it.
    """
    for given in safe_globals:
        SAFE.update(_named(given))


def clear_safe_globals() -> None:
    """Forget what `add_safe_globals` was told."""
    SAFE.clear()


def get_safe_globals() -> list[Any]:
    """What `add_safe_globals` was told."""
    return list({id(given): given for given in SAFE.values()}.values())


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


def find(module: str, name: str) -> Any:
    """A class or function declared safe that a file may mention; None is a refusal."""
    full = f"{module}.{name}"
    if module in NEVER:
        return None
    if full in SAFE:
        return SAFE[full]
    if not SAFE:
        return None
    ours = known(module, name)  # PyTorch's name for something of ours that was declared
    return ours if is_safe(ours) else None


def is_safe(value: Any) -> bool:
    """Whether the program declared it, so that a file may call it."""
    return any(value is safe for safe in SAFE.values())


def known(module: str, name: str) -> Any:
    """A class, function or operation of Adjoint's by a name of PyTorch's; None if there is none."""
    for package in ("nn", "optim"):
        if module.split(".")[:2] in (["torch", package], ["adjoint", package]):
            return _of_adjoint(package, module.partition(".")[2], name)
    if module in ("torch", "torch._C._nn"):
        space = "" if module == "torch" else "nn.functional"
        return PUBLIC[space, name].fn if (space, name) in PUBLIC else None
    return None


def _of_adjoint(package: str, path: str, name: str) -> Any:
    try:
        member = getattr(brought(f"adjoint.{path}"), name, None)
    except ModuleNotFoundError:
        member = None
    if member is None or isinstance(member, types.ModuleType):
        member = getattr(brought(f"adjoint.{package}"), name, None)
    public = isinstance(member, type) or (
        path == "nn.functional" and isinstance(member, types.FunctionType)
    )
    return member if public else None


def make(cls: Any, args: tuple[Any, ...], new: bool) -> Any:
    """An object of a class, or what a function gives, that the program declared safe."""
    if not new or issubclass(cls, Enum) or cls in VALUES:
        return cls(*args)
    if issubclass(cls, tuple):
        return cls.__new__(cls, *args) if args else tuple.__new__(cls, args)
    return cls.__new__(cls, *args)


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

# Classes that PyTorch has under another name, by ours.
RENAMED = {
    "adjoint.nn.modules.base.state.BoundHook": "torch.nn.modules.module _WrappedHook",
    "adjoint.nn.modules.base.hooks.HookHandle": "torch.utils.hooks RemovableHandle",
    "adjoint.engine.autodiff.tape.hooks.Handle": "torch.utils.hooks RemovableHandle",
}
# Packages that PyTorch has at another path.
MOVED = {"adjoint.data": "torch.utils.data", "adjoint.vision": "torchvision", "adjoint": "torch"}


def torch_name(value: Any) -> str | None:
    """Module and name of a class or function of Adjoint's as PyTorch's files have them, or None."""
    module = module_of(value)
    name = getattr(value, "__qualname__", "")
    if not module.startswith("adjoint.") or not name or "." in name:
        return None
    if f"{module}.{name}" in RENAMED:
        return RENAMED[f"{module}.{name}"]
    for space in ("nn.functional", ""):  # an operation
        if (space, name) in PUBLIC and PUBLIC[space, name].fn is value:
            return f"torch{space and '.'}{space} {name}"
    parts = module.split(".")
    for end in range(1, len(parts) + 1):  # the outermost package that has it
        package = ".".join(parts[:end])
        if package == "adjoint.engine":
            break  # no path of PyTorch's
        if getattr(sys.modules.get(package), name, None) is value:
            return f"{_at_pytorch(package)} {name}"
    return None


def _at_pytorch(package: str) -> str:
    for ours, theirs in MOVED.items():
        if package == ours or package.startswith(f"{ours}."):
            return theirs + package.removeprefix(ours)
    return package


def global_name(value: Any) -> str:
    """Module and name of a class, as files have them; an error if it has none."""
    known_as = torch_name(value)
    if known_as is not None:
        return known_as
    module, name = module_of(value), value.__qualname__
    owner: Any = sys.modules.get(module)
    for part in name.split("."):
        owner = getattr(owner, part, None)
    if owner is not value or "." in name:
        raise TypeError(f"a local or nested {type(value).__name__}, {name}")
    return f"{module} {name}"


def reduces_itself(tensor: Tensor) -> bool:
    """Whether the class of a tensor says itself how it is pickled."""
    kind = type(tensor)
    if kind.__reduce__ is not object.__reduce__:
        return True
    return tensor.layout is strided and kind.__reduce_ex__ is not Tensor.__reduce_ex__
