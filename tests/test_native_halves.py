"""Half precision in native code: templates compute in float32 and round once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.compiler import compile

CASES: dict[str, tuple[Any, tuple[tuple[int, ...], ...]]] = {
    "convolution": (lambda x, w: F.conv2d(x, w, padding=1), ((2, 6, 9, 8), (5, 6, 3, 3))),
    "transposed": (lambda x, w: F.conv_transpose2d(x, w, stride=2), ((2, 6, 5, 4), (6, 5, 3, 3))),
    "depthwise": (lambda x, w: F.conv1d(x, w, groups=6), ((2, 6, 19), (6, 1, 3))),
    "product": (lambda x, w: x @ w, ((3, 7, 9), (9, 5))),
    "max_pool": (lambda x, w: F.max_pool2d(x, 2) + w, ((2, 3, 8, 10), (3, 4, 5))),
    "mean": (lambda x, w: F.avg_pool1d(x, 3) * w, ((2, 3, 12), (4,))),
    "columns": (lambda x, w: F.unfold(x, 2) * w, ((2, 3, 5, 4), (12, 1))),
}


def step(fn: Any) -> Any:
    def run(x: Any, w: Any) -> Any:
        y = fn(x, w)
        return y, *ad.autograd.grad(y, (x, w), y * 0.5)

    return run


@pytest.mark.parametrize("dtype", [ad.bfloat16, ad.float16])
@pytest.mark.parametrize("name", CASES)
def test_equals_eager_without_python(name: str, dtype: Any) -> None:
    fn, shapes = CASES[name]
    rng = np.random.default_rng(0)
    operands = [
        ad.tensor(rng.standard_normal(shape), dtype=dtype, requires_grad=True) for shape in shapes
    ]
    run = compile(step(fn), backend="native")
    got, want = run(*operands), step(fn)(*operands)
    limit = 2**-7 if dtype is ad.bfloat16 else 2**-10  # one rounding either way
    for a, b in zip(got, want, strict=True):
        assert a.dtype is dtype
        a, b = a.detach().double().numpy(), b.detach().double().numpy()
        np.testing.assert_allclose(a, b, rtol=0, atol=limit * np.abs(b).max())
    assert ", 0 calls of the eager table" in run.explain()


def test_autocast() -> None:
    """A step under autocast converts on its way in and out of products and convolutions."""
    ad.manual_seed(0)
    x, w = ad.randn(2, 3, 8, 8), ad.randn(4, 3, 3, 3, requires_grad=True)

    def run(x: Any, w: Any) -> Any:
        with ad.autocast("cpu"):
            y = F.conv2d(x, w).flatten(1) @ x.reshape(-1, 4)[:72].repeat(2, 1)
        return y, *ad.autograd.grad(y.float().sum(), (w,))

    compiled = compile(run, backend="native")
    for a, b in zip(compiled(x, w), run(x, w), strict=True):
        assert a.dtype is b.dtype
        a, b = a.detach().double().numpy(), b.detach().double().numpy()
        np.testing.assert_allclose(a, b, rtol=0, atol=2**-6 * np.abs(b).max())
    assert ", 0 calls of the eager table" in compiled.explain()
