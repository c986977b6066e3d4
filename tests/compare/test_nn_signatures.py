"""Constructors and functions of nn: PyTorch's argument names, order, kinds and defaults."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.compare

PATHS = (
    "nn", "nn.init", "nn.parameter", "nn.utils", "nn.utils.parametrize",
    "nn.utils.parametrizations", "nn.utils.prune", "nn.utils.rnn", "nn.modules.module",
)  # fmt: skip
SIMPLE = (int, float, str, bool, tuple, type(None))
# PyTorch's own signature says nothing (*args), or names what is inside.
EXCEPT = {"Container", "GRU", "LSTM", "RNN", "NLLLoss2d", "clip_grad_norm", "is_lazy"}


def cases() -> list[tuple[str, str]]:
    found = []
    for path in PATHS:
        theirs = importlib.import_module(f"torch.{path}")
        ours = importlib.import_module(f"adjoint.{path}")
        names = getattr(theirs, "__all__", None) or dir(theirs)
        found += [(path, n) for n in names if not n.startswith("_") and hasattr(ours, n)]
    return found


def described(fn: Any) -> Any:
    return [
        (p.name, p.kind.name, p.default if isinstance(p.default, SIMPLE) else "other")
        for p in inspect.signature(fn).parameters.values()
    ]


@pytest.mark.parametrize(("path", "name"), cases(), ids=str)
def test_signature(path: str, name: str) -> None:
    theirs = getattr(importlib.import_module(f"torch.{path}"), name)
    ours = getattr(importlib.import_module(f"adjoint.{path}"), name)
    if not callable(theirs) or inspect.ismodule(theirs) or name in EXCEPT:
        return
    try:
        wanted = described(theirs)
    except ValueError:
        return
    found = described(ours)
    for i, (_, _, default) in enumerate(wanted[: len(found)]):
        if default == "other" and found[i][2] is not inspect.Parameter.empty:
            found[i] = (*found[i][:2], default)  # a function of ours, or its name
    assert found == wanted
