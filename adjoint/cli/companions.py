"""Libraries that must be told where a program runs, when it imports them.

PyTorch's modules keep their members in plain dicts, which every library of trees takes apart by
itself; Adjoint's are dicts that notice changes, a class of their own. And torchaudio takes its
compiled operations for loadable where their file is, though it has the same in Python.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from adjoint.engine.core.state.structure_version import TrackedDict


def _flatten(table: TrackedDict) -> tuple[list[Any], list[Any], list[Any]]:
    """Values, what puts them together again, and the entries of a path: in the order of keys."""
    keys = sorted(table)
    return [table[key] for key in keys], keys, keys


def _unflatten(keys: Iterable[Any], values: Iterable[Any]) -> TrackedDict:
    return TrackedDict(zip(keys, values, strict=True))


def tell_optree(optree: Any) -> None:
    """Have optree (torchopt, torchrl) take modules' tables apart as it does dicts."""
    everywhere = vars(optree.registry)["__GLOBAL_NAMESPACE"]
    optree.register_pytree_node(TrackedDict, _flatten, _unflatten, namespace=everywhere)


def tell_torchaudio(extension: Any) -> None:
    """Have torchaudio do without its compiled operations, as where it was built without them.

    Filters are then loops in Python; what exists only compiled (`forced_align`) says so when used.
    """
    extension._load_lib = _has_no_compiled_operations


def _has_no_compiled_operations(name: str) -> bool:
    """Whether a library of operations compiled against PyTorch was loaded: they do not run here."""
    return False


TOLD: dict[str, Callable[[Any], None]] = {
    "optree": tell_optree,
    "torchaudio._extension.utils": tell_torchaudio,
}


class CompanionLoader(importlib.machinery.SourceFileLoader):
    """Loads a library, and tells it."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        TOLD[module.__name__](module)


class CompanionFinder(importlib.abc.MetaPathFinder):
    """Finds the libraries of the table, for the sake of their loader."""

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in TOLD:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or not isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            return None
        spec.loader = CompanionLoader(spec.loader.name, spec.loader.path)
        return spec
