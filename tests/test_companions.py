"""What libraries that programs import are told of Adjoint."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import adjoint as ad
from adjoint.cli.companions import CompanionFinder


def test_libraries_of_trees_are_told_of_modules_tables(tmp_path: Path) -> None:
    (tmp_path / "optree").mkdir()
    (tmp_path / "optree" / "registry.py").write_text("__GLOBAL_NAMESPACE = object()\n")
    (tmp_path / "optree" / "__init__.py").write_text(
        "from . import registry\n"
        "KNOWN = {}\n"
        "def register_pytree_node(cls, flatten, unflatten, *, namespace):\n"
        "    assert namespace is vars(registry)['__GLOBAL_NAMESPACE']\n"
        "    KNOWN[cls] = flatten, unflatten\n"
    )
    finder = CompanionFinder()
    assert finder.find_spec("json") is None
    spec = finder.find_spec("optree", [str(tmp_path)])
    assert spec is not None
    assert spec.loader is not None
    library: Any = importlib.util.module_from_spec(spec)
    sys.modules["optree"] = library
    try:
        spec.loader.exec_module(library)
    finally:
        del sys.modules["optree"], sys.modules["optree.registry"]
    layer = ad.nn.Linear(2, 3)
    flatten, unflatten = library.KNOWN[type(layer._parameters)]
    values, keys, entries = flatten(layer._parameters)
    assert keys == entries == ["bias", "weight"]
    assert unflatten(keys, values) == layer._parameters
