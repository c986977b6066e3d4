"""Convolutions whose windows lie side by side (Note [patches]), beside sums over windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.llvm.templates.product.tiles import has_wide_registers
from tests.compiling_anew import compiled_anew

CONVOLUTIONS = (ad.nn.functional.conv1d, ad.nn.functional.conv2d, ad.nn.functional.conv3d)
# Images, output channels, a window: filters that are large, middling and small.
CASES = [
    ((3, 40, 26), 9, (13,)),
    ((2, 8, 16, 24), 33, (8, 8)),
    ((2, 70, 4, 6), 17, (2, 2)),
    ((1, 3, 12, 8), 5, (4, 4)),
    ((2, 5, 4, 6, 9), 7, (2, 3, 3)),
    ((3, 130, 2, 2), 20, (2, 2)),
    ((4, 3, 21), 1, (7,)),
]


def summed(x: Any, w: Any, g: Any) -> list[Any]:
    """The convolution, and the gradients of its sum with g, window by window."""
    window = w.shape[2:]
    out, dx, dw = np.zeros(g.shape), np.zeros(x.shape), np.zeros(w.shape)
    for place in np.ndindex(*g.shape[2:]):
        here: Any = (..., *(slice(p * k, p * k + k) for p, k in zip(place, window, strict=True)))
        out[(..., *place)] = np.tensordot(x[here], w, (range(1, w.ndim), range(1, w.ndim)))
        dx[here] = np.tensordot(g[(..., *place)], w, (1, 0))
        dw += np.tensordot(g[(..., *place)], x[here], (0, 0))
    return [out, dx, dw]


def parts(x: Any, w: Any, g: Any, turned: bool) -> tuple[list[Any], set[str]]:
    """The same by a compiled program, and its functions."""
    convolve = CONVOLUTIONS[x.ndim - 3]

    def run(x: Any, w: Any, g: Any) -> Any:
        out = convolve(x, w, stride=w.shape[2:])
        used = out.movedim(1, -1) * 1.0 if turned else out
        return used, *ad.autograd.grad(used, [x, w], g)

    given = [ad.from_numpy(a) for a in (x, w, np.moveaxis(g, 1, -1) if turned else g)]
    compiled: Any = ad.compile(run, dynamic=False)
    out, *rest = compiled(given[0].requires_grad_(), given[1].requires_grad_(), given[2])
    out = out.movedim(-1, 1) if turned else out
    functions = {name.split("_")[0] for name in compiled.latest.executable.image.functions}
    return [a.detach().numpy() for a in (out, *rest)], functions


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_windows_side_by_side(dtype: Any, turned: bool) -> None:
    rng = np.random.default_rng(6)
    tolerance = {"rtol": 1e-4, "atol": 1e-3} if dtype is np.float32 else {"atol": 1e-10}
    for shape, channels, window in CASES:
        x = rng.standard_normal(shape).astype(dtype)
        w = rng.standard_normal((channels, shape[1], *window)).astype(dtype)
        places = [n // k for n, k in zip(shape[2:], window, strict=True)]
        g = rng.standard_normal((shape[0], channels, *places)).astype(dtype)
        found, _ = parts(x, w, g, turned)
        for mine, wanted in zip(found, summed(x, w, g), strict=True):
            np.testing.assert_allclose(mine, wanted, **tolerance)


def test_only_filters_that_are_worth_it_are_products() -> None:
    rng = np.random.default_rng(7)

    def functions(shape: tuple[int, ...], window: int, turned: bool) -> set[str]:
        x = rng.standard_normal(shape).astype(np.float32)
        w = rng.standard_normal((48, shape[1], window, window)).astype(np.float32)
        sizes = [n // window for n in shape[2:]]
        g = rng.standard_normal((shape[0], 48, *sizes)).astype(np.float32)
        with compiled_anew():
            return parts(x, w, g, turned)[1]

    wide = has_wide_registers()
    assert ("filters" in functions((4, 8, 32, 32), 8, turned=False)) is not wide
    assert ("filters" in functions((4, 3, 32, 32), 4, turned=True)) is not wide
    assert "filters" in functions((4, 3, 32, 32), 4, turned=False)
