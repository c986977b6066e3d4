"""Answering `import torch` with Adjoint: every submodule is the very module Adjoint has.

A finder stands first on `sys.meta_path`. For `torch.a.b` it imports `adjoint.a.b` and enters that
same object under the other name, so `torch.nn.functional is adjoint.nn.functional`.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import multiprocessing
import os
import sys
from multiprocessing import spawn
from types import ModuleType
from typing import Any

from adjoint.engine.core.state import config
from adjoint.io import objects

# The release of PyTorch whose API this is: what a script's version checks see.
PYTORCH_VERSION = "2.13.0"
# Tells a fork server that it serves a PyTorch script.
MARK = "ADJOINT_RUNS_TORCH"


# The packages answered for, and what answers.
PACKAGES = {"torch": "adjoint", "torchvision": "adjoint.vision"}


def adjoint_name(name: str) -> str:
    """`torch.nn` -> `adjoint.nn`, `torchvision.io` -> `adjoint.vision.io`."""
    package = name.split(".", maxsplit=1)[0]
    return PACKAGES[package] + name.removeprefix(package)


def torch_name(name: str) -> str:
    """`adjoint.nn` -> `torch.nn`, `adjoint.vision.io` -> `torchvision.io`."""
    if name == "adjoint.vision" or name.startswith("adjoint.vision."):
        return "torchvision" + name.removeprefix("adjoint.vision")
    return "torch" + name.removeprefix("adjoint")


class TorchVersion(str):
    """A version string that also compares with tuples and by number, as PyTorch's does.

    >>> TorchVersion("2.13.0") >= "2.9", TorchVersion("2.13.0") >= (2, 0)
    (True, True)
    """

    __slots__ = ()

    def _numbers(self, other: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return release(self), release(other)

    def __lt__(self, other: Any) -> bool:
        mine, theirs = self._numbers(other)
        return mine < theirs

    def __le__(self, other: Any) -> bool:
        mine, theirs = self._numbers(other)
        return mine <= theirs

    def __gt__(self, other: Any) -> bool:
        mine, theirs = self._numbers(other)
        return mine > theirs

    def __ge__(self, other: Any) -> bool:
        mine, theirs = self._numbers(other)
        return mine >= theirs


def release(version: Any) -> tuple[int, ...]:
    """The leading numbers of a version, with trailing zeros off: "2.13.0+cpu" -> (2, 13)."""
    parts = version if isinstance(version, tuple) else str(version).split("+")[0].split(".")
    numbers: list[int] = []
    for part in parts:
        if not str(part).isdigit():
            break
        numbers.append(int(part))
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


class TorchFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `torch`, `torchvision` and all below them in Adjoint."""

    def __init__(self) -> None:
        self._specs: dict[int, Any] = {}

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.split(".", maxsplit=1)[0] not in PACKAGES:
            return None
        try:
            module = importlib.import_module(adjoint_name(fullname))
        except ModuleNotFoundError as error:
            if error.name is None or not error.name.startswith("adjoint"):
                raise  # something Adjoint itself needs
            raise ModuleNotFoundError(
                f"No module named {torch_name(error.name)!r} in Adjoint. "
                "If PyTorch has it, Adjoint does not yet.",
                name=fullname,
            ) from None
        return importlib.machinery.ModuleSpec(
            fullname, self, is_package=hasattr(module, "__path__")
        )

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(adjoint_name(spec.name))
        self._specs[id(module)] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has put its new spec on the module, which was loaded long ago.
        module.__spec__ = self._specs.pop(id(module))


def install() -> None:
    """From here on, in this process, `import torch` is Adjoint."""
    if any(isinstance(finder, TorchFinder) for finder in sys.meta_path):
        return
    for name in [n for n in sys.modules if n.split(".")[0] in PACKAGES]:
        del sys.modules[name]
    facade: Any = importlib.import_module("adjoint")
    sys.meta_path.insert(0, TorchFinder())
    config.display_name = "torch"
    config.fullgraph = False
    objects.Defaults.pickles = True
    facade.__version__ = TorchVersion(PYTORCH_VERSION)
    importlib.import_module("torch")
    _reach_children()


# -- processes ------------------------------------------------------------------------------------


def _reach_children() -> None:
    """Have processes that `multiprocessing` starts anew answer `import torch` likewise.

    A spawned child imports the main module before anything of ours runs, so the command line that
    starts it has to name us; a fork server imports the module it is told to preload.
    """
    plain = spawn.get_command_line

    def command_line(**kwargs: Any) -> list[str]:
        line = plain(**kwargs)
        at = line.index("-c") + 1 if "-c" in line else 0  # a frozen program has its own
        if at:
            line[at] = f"from {__name__} import install; install(); {line[at]}"
        return line

    spawn.get_command_line = command_line
    os.environ[MARK] = "1"
    multiprocessing.set_forkserver_preload(["adjoint.cli.preload"])
