"""Parts put side by side by one kernel: values, launches, and that the kernels compile."""

from __future__ import annotations

from math import prod
from types import SimpleNamespace
from typing import Any

import pytest

from adjoint.engine.backends.triton.runtime.compile import build
from adjoint.engine.backends.triton.target import EagerTarget
from adjoint.engine.backends.triton.templates import joining
from adjoint.engine.compiler.memory.buffer_kinds import INPUT, RESULT
from adjoint.engine.compiler.memory.places import Place, PlannedBuffer, row_major
from adjoint.engine.compiler.package.naming import digest
from adjoint.engine.core.dtype import named
from tests.interpreted_process import needs_interpreter, run_by_interpreter
from tests.joining_on_a_gpu import CASES, check

pytest.importorskip("triton", reason="Triton (`pip install adjoint[cuda]`) compiles the kernels")


@needs_interpreter
def test_interpreted() -> None:
    run_by_interpreter("tests.joining_on_a_gpu", says="all cases hold")


def place(kind: str, shape: tuple[int, ...], dtype: str) -> Place:
    return row_major(PlannedBuffer(kind, named(dtype), prod(shape), name="part"), shape)


@pytest.mark.parametrize("name", ["cat", "stack"])
@pytest.mark.parametrize("dtype", ["bool", "float16", "float32", "int64"])
def test_kernels_compile(name: str, dtype: str) -> None:
    setting: Any = SimpleNamespace(target=EagerTarget())
    node: Any = SimpleNamespace(params={"dim": 1}, record=SimpleNamespace(name=name))
    parts = [(0, 1, place(INPUT, (6,), dtype)), (1, 2, place(INPUT, (6,), dtype))]
    out = place(RESULT, (6, 3), dtype)
    if name == "cat":
        parts = [(0, 5, place(INPUT, (6, 5), dtype)), (7, 9, place(INPUT, (6, 2), dtype))]
        out = place(RESULT, (6, 9), dtype)
    text = joining.step_of(setting, node, out, parts, whole=False).text
    for capability in (80, 90, 100):
        assert build(text, digest(text.source), capability).cubin.startswith(b"\x7fELF")


@pytest.mark.cuda
@pytest.mark.parametrize("seed", range(CASES))
def test_on_a_gpu(seed: int) -> None:
    check(seed)
