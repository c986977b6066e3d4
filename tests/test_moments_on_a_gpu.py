"""Mean and variance of images on a GPU: values in any layout, and few kernels for all sizes."""

from __future__ import annotations

from math import prod
from types import SimpleNamespace
from typing import Any

import pytest

from adjoint.engine.backends.triton.runtime.arguments import with_arguments
from adjoint.engine.backends.triton.runtime.compile import build
from adjoint.engine.backends.triton.target import EagerTarget, TritonTarget
from adjoint.engine.backends.triton.templates import moments
from adjoint.engine.compiler.memory.buffer_kinds import INPUT, RESULT
from adjoint.engine.compiler.memory.places import Place, PlannedBuffer, row_major
from adjoint.engine.compiler.package.naming import digest
from adjoint.engine.core.dtype import bfloat16, float32
from tests.interpreted_process import needs_interpreter, run_by_interpreter
from tests.moments_on_a_gpu import CASES, check

pytest.importorskip("triton", reason="Triton (`pip install adjoint[cuda]`) compiles the kernels")

# Batches of images as deep networks have them, one after the other.
DEEP = [
    (32, 64, 112, 112),
    (32, 64, 56, 56),
    (32, 256, 56, 56),
    (32, 128, 28, 28),
    (30, 1024, 14, 13),
    (32, 2048, 7, 7),
]


@needs_interpreter
def test_interpreted() -> None:
    run_by_interpreter("tests.moments_on_a_gpu", says="all cases hold")


def launches(shape: tuple[int, ...], target: Any, layout: str = "channels") -> list[Any]:
    """The launches for images whose channels lie innermost, that lie in rows, or within others."""
    image, channels = row_major(PlannedBuffer(INPUT, bfloat16, 2 * prod(shape)), shape), shape[1]
    _, c, h, w = shape
    if layout == "channels":
        image = Place(image.buffer, shape, (c * h * w, 1, w * c, c), 0)
    elif layout == "within":
        image = Place(image.buffer, shape, (c * h * (w + 2), h * (w + 2), w + 2, 1), 0)
    rows = row_major(PlannedBuffer(RESULT, float32, channels), (channels,))
    node: Any = SimpleNamespace(params={"dims": (0, 2, 3)})
    setting: Any = SimpleNamespace(target=target)
    return [*moments.steps(setting, node, [image], [rows, rows])]


def test_two_kernels_and_one_more_for_few_parts_serve_images_of_all_sizes() -> None:
    every = [launches(shape, EagerTarget()) for shape in DEEP]
    assert len({first.text.source for first, _ in every}) == 1
    assert len({last.text.source for _, last in every}) == 2
    known = [launches(shape, TritonTarget()) for shape in DEEP]
    assert len({first.text.source for first, _ in known}) == len(DEEP)


@pytest.mark.parametrize("target", [EagerTarget, TritonTarget])
@pytest.mark.parametrize("layout", ["channels", "rows", "within"])
def test_nothing_is_divided_where_rows_lie_at_one_step(target: Any, layout: str) -> None:
    first, _ = launches(DEEP[0], target(), layout)
    assert ("(r % " in first.text.source) is (layout == "within")


def test_kernels_compile() -> None:
    for launch in launches(DEEP[1], EagerTarget()):
        text: Any = with_arguments(launch.text, len(launch.words))
        assert build(text, digest(text.source), 90).cubin.startswith(b"\x7fELF")


@pytest.mark.cuda
@pytest.mark.parametrize("seed", range(CASES))
def test_on_a_gpu(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LONG", "LONG_GROUP"):
        monkeypatch.setattr(moments, name, 64)
    check(seed)
