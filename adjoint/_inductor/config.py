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
_GROUPS = (
    "aot_inductor", "cpp", "cuda", "cutlass", "eager_numerics", "rocm", "test_configs", "trace",
    "triton", "xpu",
)  # fmt: skip


def _tell(path: str, value: Any) -> None:
    if path not in _TOLD:
        _TOLD.add(path)
        warn_user(
            f"{config.display_name}.{path} = {value!r} has no effect in Adjoint: "
            "see help(adjoint.compile) for what compile does instead."
        )


def _missing(owner: Any, path: str) -> AttributeError:
    return AttributeError(
        f"{config.display_name}.{path}: Adjoint has no such setting, and none was given",
        name=path.rpartition(".")[2],
        obj=owner,
    )


class SettingsGroup:
    """Settings under one name: `_inductor.config.triton`."""

    def __init__(self, path: str) -> None:
        object.__setattr__(self, "_path", path)

    def __setattr__(self, name: str, value: Any) -> None:
        _tell(f"{self._path}.{name}", value)
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        raise _missing(self, f"{self._path}.{name}")


class CompilerSettings(ModuleType):
    """The class of such a module, for the sake of assignments to its attributes."""

    def _within(self, name: str) -> str:
        return f"{self.__name__.removeprefix('adjoint.')}.{name}"

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("__"):
            _tell(self._within(name), value)
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        raise _missing(self, self._within(name))

    @contextlib.contextmanager
    def patch(self, changes: Any = None, value: Any = None, **named: Any) -> Iterator[None]:
        """A `with` block in which settings are others."""
        wanted = {changes: value} if isinstance(changes, str) else dict(changes or {})
        before = []
        for path, given in {**wanted, **named}.items():
            owner, name = _place(self, path)
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


def _place(owner: Any, path: str) -> tuple[Any, str]:
    *groups, name = path.split(".")
    for group in groups:
        owner = getattr(owner, group)
    return owner, name


for _name in _GROUPS:
    globals()[_name] = SettingsGroup(f"_inductor.config.{_name}")
sys.modules[__name__].__class__ = CompilerSettings
