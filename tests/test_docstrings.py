"""Docstrings: every layer and loss has one, and how many show an example is counted."""

from __future__ import annotations

import inspect

from adjoint import nn
from adjoint.engine import assembly
from adjoint.engine.core.operations.public import PUBLIC

EXAMPLES_OF_LAYERS = 68  # a number that only grows
EXAMPLES_OF_FUNCTIONS = 121


def layers() -> dict[str, type]:
    found = {name: getattr(nn, name) for name in dir(nn)}
    return {n: c for n, c in found.items() if inspect.isclass(c) and issubclass(c, nn.Module)}


def test_every_layer_is_described() -> None:
    assert [name for name, kind in layers().items() if not inspect.getdoc(kind)] == []
    shown = [name for name, kind in layers().items() if ">>>" in (kind.__doc__ or "")]
    assert len(shown) >= EXAMPLES_OF_LAYERS, "an example was lost"


def test_every_function_is_described() -> None:
    assembly.load_lazy()
    public = {key: p.fn for key, p in PUBLIC.items() if not key[1].startswith("_")}
    assert [".".join(key) for key, fn in public.items() if not inspect.getdoc(fn)] == []
    shown = [key for key, fn in public.items() if ">>>" in (fn.__doc__ or "")]
    assert len(shown) >= EXAMPLES_OF_FUNCTIONS, "an example was lost"
