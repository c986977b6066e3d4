"""The public table: documented, derived forms present, nothing private leaking out."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import pytest

import adjoint as ad
from adjoint.engine import assembly
from adjoint.engine.core.operations.public import INPLACE, METHODS, PROPERTIES, PUBLIC
from adjoint.engine.core.operations.record import REGISTRY

assembly.load_lazy()


def test_every_public_function_has_a_docstring() -> None:
    bare = sorted(".".join(k) for k, p in PUBLIC.items() if not (p.fn.__doc__ or "").strip())
    bare += sorted(f"Tensor.{n}" for n, f in {**METHODS, **PROPERTIES}.items() if not f.__doc__)
    assert not bare, bare


def test_derived_forms_exist() -> None:
    for name in METHODS:
        assert callable(getattr(ad.Tensor, name)), name
    for name in INPLACE:
        assert callable(getattr(ad.Tensor, f"{name}_")), name
    for name in PROPERTIES:
        assert isinstance(inspect.getattr_static(ad.Tensor, name), property), name


def test_top_level_names_resolve() -> None:
    for space, name in PUBLIC:
        target: object = ad
        for part in filter(None, space.split(".")):
            target = getattr(target, part)
        assert getattr(target, name) is not None, (space, name)


@pytest.mark.parametrize("folder", ["ops", "backends/array/kernels"])
def test_every_file_of_operations_is_loaded(folder: str) -> None:
    """A new file that no table of the assembly has would go unnoticed: its records are not there."""
    engine = Path(assembly.__file__).parent
    declaring = re.compile(r"^@(public|method|lowers)\b", re.M)
    missing = [
        name
        for path in sorted((engine / folder).rglob("*.py"))
        if declaring.search(path.read_text())
        and (
            name := ".".join(("adjoint", "engine", *path.relative_to(engine).with_suffix("").parts))
        )
        not in sys.modules
    ]
    assert missing == []


def test_rules_written_by_hand_are_few() -> None:
    """The families carry the registry: at most a quarter state a vjp outside them.

    Leaves (linear algebra, special functions, transforms) are not counted: each is mathematics of
    its own.
    """
    leaves = ("linalg", "special", "fft", "grid")
    core = [r for r in REGISTRY.values() if r.compose is None and not _is_leaf(r.infer, leaves)]
    by_hand = [r.name for r in core if r.family == "primitive" and r.differentiable]
    assert len(by_hand) <= len(core) / 4, f"{len(by_hand)} of {len(core)}: {by_hand}"


def _is_leaf(infer: object, leaves: tuple[str, ...]) -> bool:
    return any(part in getattr(infer, "__module__", "") for part in leaves)


def test_missing_names_say_so() -> None:
    with pytest.raises(AttributeError, match="does not yet"):
        _ = ad.to_mkldnn
    assert not hasattr(ad.ones(1), "to_mkldnn")
