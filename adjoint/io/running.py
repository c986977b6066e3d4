"""Pickles that run: what `load(weights_only=False)` and other pickle modules do.

Note [pickles that run]
    `weights_only=False` means what it means in PyTorch: Python's own unpickler reads the file,
    imports the modules it names and calls what it says, so a file can do anything a program can.
    Names of PyTorch's are answered with Adjoint's; PyTorch itself is never imported.
"""

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from adjoint.engine.core.operations.return_types import FIELDS, RETURN_TYPES
from adjoint.io import objects
from adjoint.io.builders import ClassName, names
from adjoint.io.objects import RENAMED
from adjoint.io.rebuilding import REBUILDERS

# Names that PyTorch's packages are pickled by, and the packages that answer.
PACKAGES = {"torch": "adjoint", "torchvision": "adjoint.vision", "adjoint": "adjoint"}
# Addresses in PyTorch whose names Adjoint keeps at another.
MOVED = {"torch.tensor": "torch._tensor"}


@cache
def torch_names() -> dict[str, Any]:
    """What PyTorch's files name that is no attribute of a module of Adjoint's."""
    kept = {n: v for n, v in names().items() if isinstance(v, ClassName) and "Storage" in n}
    # Operations are pickled as attributes of a class that has them all.
    every = dict.fromkeys(("_VariableFunctionsClass", "_VariableFunctions"), sys.modules["adjoint"])
    operations = {f"torch._C.{name}": module for name, module in every.items()}
    renamed = {
        theirs.replace(" ", "."): _member(*ours.rsplit(".", 1)) for ours, theirs in RENAMED.items()
    }
    return kept | REBUILDERS | operations | renamed


def _result(kind: Any, values: Any, others: Any = None) -> Any:
    """A named result, from what PyTorch pickles: the values, and a dict of further ones."""
    return kind(*values)


def find(module: str, name: str) -> Any:
    """A class or function that a pickle names."""
    if module.split(".", maxsplit=1)[0] in PACKAGES:
        return _answered(MOVED.get(module, module), name)
    if module.startswith("numpy.core."):  # as NumPy 1 called it
        module = module.replace("numpy.core.", "numpy._core.", 1)
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _answered(module: str, name: str) -> Any:
    """What Adjoint has for a name of PyTorch's, or of its own."""
    full = f"{module}.{name}"
    if full in torch_names():
        return torch_names()[full]
    if module == "torch.return_types" and name in FIELDS:
        return partial(_result, RETURN_TYPES[name])
    top, _, path = module.partition(".")
    ours = f"{PACKAGES[top]}.{path}".rstrip(".")
    found = objects.known(module, name) or _member(ours, name)
    if found is None and sys.modules.get("torch") is sys.modules["adjoint"]:
        found = _member(module, name)  # `adjoint run` knows more addresses
    if found is None:
        raise AttributeError(
            f"load: the file names {full}, which Adjoint does not have. Save a state_dict instead "
            "of whole objects."
        )
    return found


def _member(module: str, name: str) -> Any:
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        return None
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def unpickler(
    file: Any, persistent_load: Callable[[Any], Any], pickle_module: Any, arguments: dict[str, Any]
) -> Any:
    """An unpickler of a pickle module, Python's unless given, that answers PyTorch's names.

    Args:
        file: has `read` and `readline`.
        persistent_load: gives the storage a persistent id means.
        pickle_module: has `Unpickler`, which can be derived from.
        arguments: for that class: `encoding`, `errors`, ...
    """
    base: Any = (pickle if pickle_module is None else pickle_module).Unpickler

    class Running(base):  # type: ignore[misc]
        def find_class(self, module: str, name: str) -> Any:
            if module.split(".", maxsplit=1)[0] in PACKAGES or module.startswith("numpy.core."):
                return find(module, name)
            return super().find_class(module, name)

        def persistent_load(self, pid: Any) -> Any:
            return persistent_load(pid)

    return Running(file, **arguments)
