"""Loops that LLVM leaves as they are written (Note [loops as written]): the same bits, for less."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.disk import store
from adjoint.engine.backends.llvm.ir.machine import CodeMachine, this_machine, writing_for
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime import jit, library
from adjoint.engine.backends.llvm.templates.product.kernel import order_text
from adjoint.export.output.machines import destination
from tests.compiling_anew import compiled_anew

Function = Callable[[Any, Any], Any]
NEON = CodeMachine(replace(this_machine().features, overwrites=True), 128, 32, by_lane=True)
PRODUCTS = [
    (1, 1, 1), (1, 70, 33), (70, 1, 33), (5, 3, 0), (13, 17, 29), (16, 16, 16), (33, 40, 7),
    (40, 65, 130), (67, 4, 37), (130, 34, 600),
]  # fmt: skip


def on(machine: CodeMachine, fn: Function, x: Any, y: Any) -> tuple[list[Any], int]:
    """A result and its gradients by kernels written for a machine; how many turns are hidden."""
    texts: list[str] = []
    assemble = jit.assemble_all

    def assemble_all(given: Sequence[str]) -> list[bytes]:
        texts.extend(given)
        return assemble(given)

    with writing_for(machine), compiled_anew(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "default", lambda: store.DiskStore(None, 0))
        patch.setattr(library.jit, "assemble_all", assemble_all)
        library._loaded.clear()
        library._latest.clear()
        xs = [ad.tensor(a).requires_grad_() for a in (x, y)]

        def run(x: Any, y: Any) -> Any:
            out = fn(x, y)
            return out, *ad.autograd.grad((out * out).sum(), [x, y])

        parts = [part.detach().numpy() for part in ad.compile(run, dynamic=False)(*xs)]
        assert texts
        return parts, sum(text.count("asm") for text in texts)


def agree(fn: Function, x: Any, y: Any) -> bool:
    """The same bits either way, near those of float64; whether the texts are others."""
    (as_written, hidden), (turned, before) = (
        on(replace(this_machine(), indexes=indexes), fn, x, y) for indexes in (True, False)
    )
    for one, other in zip(as_written, turned, strict=True):
        assert one.tobytes() == other.tobytes()
    wide = [ad.tensor(a.astype(np.float64)) for a in (x, y)]
    np.testing.assert_allclose(as_written[0], fn(*wide).numpy(), rtol=2e-4, atol=2e-4)
    return hidden > before


@pytest.mark.parametrize(
    ("layout", "dtype"),
    [("nn", np.float32), ("nt", np.float32), ("tn", np.float32), ("nn", np.float64)],
)
def test_products_keep_their_bits(layout: str, dtype: Any) -> None:
    rng = np.random.default_rng(3)
    others = []
    for rows, columns, depth in PRODUCTS:
        shapes = [(rows, depth), (depth, columns)]
        turned = [way == "t" for way in layout]
        given = [
            rng.standard_normal(shape[::-1] if turns else shape).astype(dtype)
            for shape, turns in zip(shapes, turned, strict=True)
        ]

        def multiply(x: Any, y: Any, turned: list[bool] = turned) -> Any:
            return (x.T if turned[0] else x) @ (y.T if turned[1] else y)

        others.append(agree(multiply, *given))
    assert sum(others) >= len(PRODUCTS) - 3


def test_products_beside_convolutions_share_their_routines() -> None:
    """Kernels of both call what copies panels: a module has it once, and in one way."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((4, 16, 12, 12)).astype(np.float32)
    w = rng.standard_normal((24, 16, 3, 3)).astype(np.float32)

    def run(x: Any, w: Any) -> Any:
        out = ad.nn.functional.conv2d(x, w, padding=1)
        points = ad.nn.functional.conv2d(out, w[:, :, :1, :1].repeat(1, 2, 1, 1)[:, :24])
        return points.flatten(1) @ points.flatten(1).T

    assert agree(run, x, w)


F = ad.nn.functional
LOOPS: dict[str, Function] = {
    "elements": lambda x, y: (x * y + y[0]).tanh() - x[:, :1].exp(),
    "rows": lambda x, y: F.softmax(x, -1) * y + x.sum(1, keepdim=True) + y.amax(1, keepdim=True),
    "columns": lambda x, y: (x * y).sum(0) + F.log_softmax(y, 0).mean(0) + x.var(0),
    "moved": lambda x, y: ad.cat([x.flip(1), y.roll(2, 0)], 1).T.reshape(-1, 2) * 2.0,
    "norm": lambda x, y: F.layer_norm(x, x.shape[-1:], y[0], y[1]).double().float(),
    "masked": lambda x, y: ad.where(x > y, x.tril(), y.triu()).logsumexp(1) + F.gelu(x).sum(1),
}


@pytest.mark.parametrize("name", LOOPS)
def test_kernels_of_loops_keep_their_bits(name: str) -> None:
    rng = np.random.default_rng(5)
    for shape in ((2, 1), (3, 17), (70, 16), (33, 131)):
        x, y = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
        assert agree(LOOPS[name], x, y)


def hidden(machine: CodeMachine) -> bool:
    """Whether turns' numbers are hidden in a text for a machine."""
    with writing_for(machine):
        text, declarations = order_text("order", "f32", 16)
    return "asm" in text or any("asm" in declaration for declaration in declarations)


def test_turns_are_hidden_only_where_addresses_have_an_index() -> None:
    machine = this_machine()
    assert hidden(replace(machine, indexes=True))
    for other in (replace(machine, indexes=False), NEON, destination("native").machine):
        assert not hidden(other)
    with writing_for(replace(machine, indexes=True)):
        assert not CodeWriter().blocks.as_written
