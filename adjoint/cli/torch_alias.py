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
import re
import sys
from collections.abc import Iterator
from multiprocessing import spawn
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from adjoint.cli.addresses import has_below
from adjoint.cli.addresses import module as elsewhere
from adjoint.cli.class_names import is_named, name_classes
from adjoint.cli.companions import CompanionFinder
from adjoint.engine.core.state import config
from adjoint.torch_version import TorchVersion
from adjoint.unavailable import fill as fill_in
from adjoint.unavailable import module as placeholder

# The releases whose API this is: what a script's version checks see.
PYTORCH_VERSION = "2.13.0"
VERSIONS = {"torch": PYTORCH_VERSION, "torchvision": "0.28.0"}  # of what installers know of
# Tells a fork server that it serves a PyTorch script.
MARK = "ADJOINT_RUNS_TORCH"


# The packages answered for, and what answers.
PACKAGES = {
    "torch": "adjoint",
    "torchvision": "adjoint.vision",
    "functorch": "adjoint._functorch.package",
}

MODULE = re.compile(r"module '(adjoint(?:\.\w+)*)'")  # as errors name one
ENGINE = "adjoint.engine"  # the one folder that no path of PyTorch's leads to
_LOOKED_FOR: set[str] = set()  # what is being imported by PyTorch's names


def adjoint_name(name: str) -> str:
    """`torch.nn` -> `adjoint.nn`, `torchvision.io` -> `adjoint.vision.io`."""
    package = name.split(".", maxsplit=1)[0]
    return PACKAGES[package] + name.removeprefix(package)


def torch_name(name: str) -> str:
    """`adjoint.nn` -> `torch.nn`, `adjoint.vision.io` -> `torchvision.io`."""
    if name.split(".", maxsplit=1)[0] in PACKAGES:
        return name  # the top module goes by it
    if name == "adjoint.vision" or name.startswith("adjoint.vision."):
        return "torchvision" + name.removeprefix("adjoint.vision")
    return "torch" + name.removeprefix("adjoint")


class TorchFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `torch`, `torchvision` and all below them in Adjoint."""

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.split(".", maxsplit=1)[0] not in PACKAGES:
            return None
        name = adjoint_name(fullname)
        if in_engine(name):
            # With None the next finder would load a second engine from the package's folder.
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        _LOOKED_FOR.add(fullname)
        try:
            module = find_module(name)
        finally:
            _LOOKED_FOR.discard(fullname)
        return None if module is None else self._spec(fullname, module)

    def _spec(self, name: str, module: ModuleType) -> importlib.machinery.ModuleSpec:
        spec = importlib.machinery.ModuleSpec(name, self, origin=getattr(module, "__file__", None))
        spec.submodule_search_locations = getattr(module, "__path__", None)
        return spec

    def find_distributions(self, context: Any = None) -> Iterator[Any]:
        """What `importlib.metadata` asks each finder: the installed packages of a name."""
        wanted = None if context is None else context.name
        for name, version in VERSIONS.items():
            if wanted is None or wanted.lower().replace("_", "-") == name:
                from adjoint.cli.answered import Answered  # with `email`: what few programs ask for

                yield Answered(name, version)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = find_module(adjoint_name(spec.name))
        if module is None:
            raise ModuleNotFoundError(f"No module named {spec.name!r}", name=spec.name)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: it was loaded under its own name; `find_spec` reads its new spec there."""

    def get_code(self, fullname: str) -> CodeType | None:
        """What `python -m torch.x` runs: the code of Adjoint's module."""
        name = adjoint_name(fullname)
        package = find_module(name.rpartition(".")[0])
        spec = importlib.machinery.PathFinder.find_spec(name, getattr(package, "__path__", None))
        loader = None if spec is None else spec.loader
        return loader.get_code(name) if isinstance(loader, importlib.abc.InspectLoader) else None


# -- what is read without being imported -----------------------------------------------------------


class ModuleLoader(importlib.machinery.SourceFileLoader):
    """Loads a module of Adjoint's that answers by PyTorch's name for it."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        name_classes(module, torch_name(module.__name__))
        enter(module)
        if not hasattr(module, "__path__") and in_engine(module.__name__):
            return
        answer_reads(module)
        if hasattr(module, "__path__"):
            keep_functions(module)


class ModuleFinder(importlib.abc.MetaPathFinder):
    """Finds modules of Adjoint's, for the sake of their loader."""

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith("adjoint."):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or not isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            return None
        package = spec.submodule_search_locations is not None
        if package or is_named(fullname) or not in_engine(fullname):
            spec.loader = ModuleLoader(spec.loader.name, spec.loader.path)
        return spec


def enter(module: ModuleType) -> None:
    """Have a module be found by PyTorch's name too, where `inspect` and `typing` look.

    What is being imported by that name is entered when it is loaded: entered before, Python would
    take it for a module of its own, and load the file again.
    """
    path = torch_name(module.__name__)
    if is_named(module.__name__) and not in_engine(module.__name__) and path not in _LOOKED_FOR:
        sys.modules.setdefault(path, module)


def in_engine(name: str) -> bool:
    """Whether a module is one that no path of PyTorch's leads to."""
    return name == ENGINE or name.startswith(f"{ENGINE}.")


def answer_reads(module: ModuleType) -> None:
    """Have a package import a submodule when a program reads it, and errors say PyTorch's names.

    PyTorch loads nearly all of itself at once, so libraries read `torch.distributed.device_mesh`
    without having imported it.
    """
    path = adjoint_name(torch_name(module.__name__))
    package = hasattr(module, "__path__")
    before = module.__dict__.get("__getattr__")

    def __getattr__(name: str) -> Any:
        try:
            if before is not None:
                return before(name)
            raise AttributeError(
                f"module {path!r} has no attribute {name!r}", name=name, obj=module
            )
        except AttributeError as error:
            hidden = name.startswith("__") or f"{path}.{name}" == ENGINE or not package
            submodule = None if hidden else find_module(f"{path}.{name}")
            if submodule is None:
                fill_in(module, name)
                if name not in module.__dict__:
                    raise AttributeError(
                        in_torchs_names(str(error)), name=name, obj=module
                    ) from None
            return module.__dict__[name] if submodule is None else submodule

    module.__dict__["__getattr__"] = __getattr__


def keep_functions(package: ModuleType) -> None:
    """Enter modules named as functions of their package: imported, they would take the names.

    After `from torchvision.models.alexnet import AlexNet`, `torchvision.models.alexnet()` builds.
    """
    for name, value in list(vars(package).items()):
        path = f"{adjoint_name(torch_name(package.__name__))}.{name}"
        if callable(value) and not isinstance(value, type) and not in_engine(path):
            module = sys.modules.get(path) or elsewhere(path)
            if module is not None:
                sys.modules[torch_name(path)] = module


def in_torchs_names(text: str) -> str:
    """A message with modules of Adjoint's by the names a program knows them by.

    >>> in_torchs_names("module 'adjoint.optim' has no attribute 'Adan'")
    "module 'torch.optim' has no attribute 'Adan'"
    """
    return MODULE.sub(lambda m: m[0] if in_engine(m[1]) else f"module {torch_name(m[1])!r}", text)


def find_module(name: str) -> ModuleType | None:
    """The module Adjoint has under a name, or one that says why there is none; None if unknown."""
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise  # something Adjoint itself needs
        found = elsewhere(name)
        if found is None and (found := placeholder(name)) is not None:
            answer_reads(found)
        return found
    if not hasattr(module, "__path__") and has_below(name.removeprefix("adjoint.")):
        module.__path__ = []  # a file here, a folder in PyTorch: what lies below it is looked for
    fill_in(module)
    return module


def install() -> None:
    """From here on, in this process, `import torch` is Adjoint."""
    if any(isinstance(finder, TorchFinder) for finder in sys.meta_path):
        return
    for name in [n for n in sys.modules if n.split(".")[0] in PACKAGES]:
        del sys.modules[name]
    facade: Any = importlib.import_module("adjoint")
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "adjoint":
            name_classes(module, torch_name(name))
            enter(module)
        if name.split(".")[0] == "adjoint" and (hasattr(module, "__path__") or not in_engine(name)):
            answer_reads(module)
            if hasattr(module, "__path__") and not in_engine(name):
                keep_functions(module)
    sys.meta_path[:0] = [TorchFinder(), ModuleFinder(), CompanionFinder()]
    config.display_name = "torch"
    config.fullgraph = False
    config.pickles = True
    facade.__version__ = TorchVersion(PYTORCH_VERSION)
    facade.__name__ = "torch"
    facade.__dict__.pop("engine", None)  # `from adjoint.engine.x import y` finds it all the same
    facade.torch = importlib.import_module("torch")
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
    # Programs started otherwise (`subprocess`) read this folder's `sitecustomize` when they begin.
    here = Path(__file__).resolve().parent
    before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    ours = [str(here / "children"), str(here.parent.parent)]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([*ours, *filter(None, before)]))
    multiprocessing.set_forkserver_preload(["adjoint.cli.preload"])
