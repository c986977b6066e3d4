"""What libraries that programs import are told of Adjoint."""

from __future__ import annotations

import importlib
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


def test_torchaudio_does_without_its_compiled_operations(tmp_path: Path) -> None:
    """As where it was built without them: their file is not taken for something that loads."""
    folder = tmp_path / "torchaudio" / "_extension"
    folder.mkdir(parents=True)
    (tmp_path / "torchaudio" / "__init__.py").write_text("from . import _extension\n")
    (folder / "__init__.py").write_text(
        "from .utils import _load_lib\nIS_AVAILABLE = _load_lib('_torchaudio')\n"
    )
    (folder / "utils.py").write_text(
        "import adjoint\ndef _load_lib(lib):\n    adjoint.ops.load_library(lib)\n    return True\n"
    )
    finder = CompanionFinder()
    sys.meta_path.insert(0, finder)
    sys.path.insert(0, str(tmp_path))
    try:
        assert importlib.import_module("torchaudio")._extension.IS_AVAILABLE is False
    finally:
        sys.meta_path.remove(finder)
        sys.path.remove(str(tmp_path))
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchaudio"]:
            del sys.modules[name]
