"""A backward on a GPU that asks for its kernels ahead: gradients, bits, and what was asked for.

TRITON_INTERPRET=1 python -m tests.rules_ahead_on_a_gpu
"""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.engine.backends.triton.program import direct
from adjoint.engine.backends.triton.runtime import open_numbers
from adjoint.engine.backends.triton.runtime.compile import KernelError
from adjoint.engine.core.operations.large import EXPECTED
from adjoint.engine.graph.eager.fragments import FRAGMENTS

SIZES = (5, 8, 11, 16)  # of which the later ones are of kinds for many


def gradients(device: str, keep: bool = False) -> list[Any]:
    """Of operations at several sizes, in one backward; or in two."""
    rng = np.random.default_rng(3)
    leaves: list[Any] = []
    total: Any = 0.0
    for n in SIZES:
        x, w = (
            ad.tensor(rng.standard_normal(s).astype(np.float32), device=device).requires_grad_()
            for s in ((n, 6), (6,))
        )
        y = F.gelu(F.layer_norm(x, (6,), w, w)) * x
        y = F.softmax(y.reshape(2, -1) if n % 2 == 0 else y, -1) + 2.0 * F.silu(y).reshape(
            (2, -1) if n % 2 == 0 else y.shape
        )
        total = total + (y * y.exp()).sum() + F.smooth_l1_loss(x, w.expand_as(x))
        leaves += [x, w]
    if keep:
        ad.autograd.grad(total, leaves, retain_graph=True)
    total.backward()
    return [np.asarray(x.grad.cpu()) for x in leaves]


def afresh(patch: pytest.MonkeyPatch) -> None:
    """Have nothing be met yet."""
    FRAGMENTS.forget()
    patch.setattr(direct, "OPEN_NUMBERS", open_numbers.OpenNumbers())


def check(gpu: Any) -> None:
    """Gradients are the CPU's, and what is asked for is what is used."""
    want = gradients("cpu")
    with pytest.MonkeyPatch.context() as patch:
        afresh(patch)
        before = len(gpu.asked)
        got = gradients("cuda")
        assert len(gpu.asked) >= before + 8, gpu.asked[before:]
        made = [f for f in FRAGMENTS.by_kind.values() if f is not None]
        # The cotangent of what is summed is one number in all places, which was not expected.
        assert sum(f.is_ahead for f in made) <= 2 * len(SIZES), sum(f.is_ahead for f in made)
        asked = len(gpu.asked)
        again = gradients("cuda")
        assert len(gpu.asked) == asked  # nothing was new
    for a, b, c in zip(want, got, again, strict=True):
        np.testing.assert_allclose(b, a, 2e-5, 2e-5)
        assert b.tobytes() == c.tobytes()


def check_chosen(gpu: Any) -> None:
    """A backward for chosen tensors asks for nothing, and leaves it to the next."""
    with pytest.MonkeyPatch.context() as patch:
        afresh(patch)
        got = gradients("cuda", keep=True)
    for a, b in zip(gradients("cpu"), got, strict=True):
        np.testing.assert_allclose(b, a, 2e-5, 2e-5)


def check_refused(gpu: Any) -> None:
    """Kernels that turn out not to compile: the table does it, and that is told."""
    plain = direct.DirectProgram.ready

    def refuse(program: Any) -> None:
        if program.is_ahead:
            raise KernelError("compile: Triton does not compile the kernel of a test")
        plain(program)

    with pytest.MonkeyPatch.context() as patch:
        afresh(patch)
        patch.setattr(direct.DirectProgram, "ready", refuse)
        with pytest.warns(UserWarning, match="runs by the eager table"):
            got = gradients("cuda")
    FRAGMENTS.forget()
    for a, b in zip(gradients("cpu"), got, strict=True):
        np.testing.assert_allclose(b, a, 2e-5, 2e-5)


def check_forgotten() -> None:
    """A graph that nobody runs backwards is not held, nor are its nodes made anything of."""
    FRAGMENTS.forget()
    x = ad.ones(7, 5, device="cuda").requires_grad_()
    y = F.softmax(x.exp(), 1).sum()
    assert EXPECTED
    nodes = [known for known, *_ in EXPECTED]
    del y
    assert not any(known() for known in nodes)
    x.sum().backward()
    assert not EXPECTED


def main() -> None:
    """All cases on the stand-in, by Triton's interpreter."""
    gpu = importlib.import_module("tests.cupy_stand_in").connect()
    check(gpu)
    check_chosen(gpu)
    with warnings.catch_warnings():
        check_refused(gpu)
    check_forgotten()
    print("all cases hold")


if __name__ == "__main__":
    main()
