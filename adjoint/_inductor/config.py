"""Settings of PyTorch's own compiler: kept and read back, and said once to have no effect."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from adjoint.engine.core.errors import warn_user
from adjoint.engine.core.state import config

_TOLD: set[str] = set()
_GROUPS = ("aot_inductor", "cpp", "cuda", "eager_numerics", "rocm", "trace", "triton")


def _tell(path: str, value: Any) -> None:
    if path not in _TOLD:
        _TOLD.add(path)
        warn_user(
            f"{config.display_name}._inductor.config.{path} = {value!r} has no effect in Adjoint: "
            "see help(adjoint.compile) for what compile does instead."
        )


class SettingsGroup:
    """Settings under one name: `config.triton`."""

    def __init__(self, path: str) -> None:
        object.__setattr__(self, "_path", path)

    def __setattr__(self, name: str, value: Any) -> None:
        _tell(f"{self._path}.{name}", value)
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"{config.display_name}._inductor.config.{self._path}.{name}: Adjoint has no such "
            "setting, and none was given",
            name=name,
            obj=self,
        )


class CompilerSettings(ModuleType):
    """The module's class, for the sake of assignments to its attributes."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("__"):
            _tell(name, value)
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"{config.display_name}._inductor.config.{name}: Adjoint has no such setting, and none "
            "was given",
            name=name,
            obj=self,
        )


def _place(path: str) -> tuple[Any, str]:
    owner: Any = sys.modules[__name__]
    *groups, name = path.split(".")
    for group in groups:
        owner = getattr(owner, group)
    return owner, name


@contextlib.contextmanager
def patch(changes: Any = None, value: Any = None, **named: Any) -> Iterator[None]:
    """A `with` block in which settings are others."""
    wanted = {changes: value} if isinstance(changes, str) else dict(changes or {})
    before = []
    for path, given in {**wanted, **named}.items():
        owner, name = _place(path)
        before.append((owner, name, vars(owner).get(name, _place)))
        setattr(owner, name, given)
    try:
        yield
    finally:
        for owner, name, old in before:
            if old is _place:  # it was not there
                delattr(owner, name)
            else:
                owner.__dict__[name] = old


for _name in _GROUPS:
    globals()[_name] = SettingsGroup(_name)
sys.modules[__name__].__class__ = CompilerSettings
