"""`typing.get_type_hints` resolves the annotations of every public class and function."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
import types
import typing
from collections.abc import Iterator
from typing import Any

import adjoint as ad
from adjoint.engine import assembly

# Layers below the public surface: what they define counts where a public module shows it.
INTERNAL = (
    "adjoint.engine.assembly",
    "adjoint.engine.autodiff",
    "adjoint.backends",
    "adjoint.cli",
    "adjoint.compiler",
    "adjoint.engine.core",
    "adjoint.graph",
    "adjoint.engine.ops",
    "adjoint.tensor",
)


def public_modules() -> Iterator[types.ModuleType]:
    yield ad
    for name in assembly.SUBMODULES:
        module = importlib.import_module(f"adjoint.{name}")
        yield module
        if f"adjoint.{name}" not in INTERNAL:
            for found in pkgutil.walk_packages(getattr(module, "__path__", ()), f"adjoint.{name}."):
                yield importlib.import_module(found.name)


def functions_of(value: Any) -> Iterator[Any]:
    """A function, or a class with its methods and properties."""
    yield value
    if inspect.isclass(value):
        for member in vars(value).values():
            if isinstance(member, staticmethod | classmethod):
                member = member.__func__
            if isinstance(member, property):
                member = member.fget
            if inspect.isfunction(member):
                yield member


def public_objects() -> dict[int, Any]:
    found: dict[int, Any] = {}
    for module in public_modules():
        for name in dir(module):
            value = None if name.startswith("_") else getattr(module, name, None)
            ours = str(getattr(value, "__module__", "")).startswith("adjoint")
            if ours and (inspect.isclass(value) or inspect.isfunction(value)):
                for each in functions_of(value):
                    found[id(each)] = each
    return found


def test_every_public_annotation_resolves() -> None:
    objects = public_objects()
    assert len(objects) > 4000
    failed = []
    for value in objects.values():
        try:
            typing.get_type_hints(value)
        except Exception as error:
            failed.append(f"{value.__module__}.{value.__qualname__}: {error}")
    assert not failed, "\n".join(failed[:20]) + f"\n{len(failed)} in all"


def test_tensor_is_the_class_itself() -> None:
    assert typing.get_type_hints(ad.add)["return"] is ad.Tensor
    assert typing.get_type_hints(ad.nn.Module.children)["return"] == Iterator[ad.nn.Module]
    assert typing.get_type_hints(ad.linalg.det)["return"] is ad.Tensor


def test_an_operation_loaded_by_itself_resolves() -> None:
    program = (
        "import typing, adjoint.engine.ops.signal.fft as fft, adjoint as ad\n"
        "assert typing.get_type_hints(fft.fft)['return'] is ad.Tensor\n"
        "assert 'llvmlite' not in __import__('sys').modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
