"""Programs around modules, run under both frameworks: same values, names, orders and messages."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint
from tests.compare.nn_programs import PROGRAMS, Program, attributes, hooks, state, tools  # noqa: F401
from tests.compare.test_autograd_programs import same, simple

torch: Any = pytest.importorskip("torch")
pytestmark = [pytest.mark.compare, pytest.mark.filterwarnings("ignore")]


# What ours say beyond PyTorch's message.
REMEDIES = (
    ". It only holds modules: call them yourself, or use Sequential.",
    ". Begin __init__ with super().__init__().",
)


def text(value: Any) -> Any:
    """Strings without the frameworks' names and without remedies."""
    if isinstance(value, str):
        for remedy in REMEDIES:
            value = value.removesuffix(remedy)
        return value.replace("adjoint.", "torch.")
    if isinstance(value, dict):
        return {k: text(v) for k, v in value.items()}
    return [text(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda f: f.__name__)
def test_program(fn: Program) -> None:
    same(text(simple(fn(adjoint))), text(simple(fn(torch))))
