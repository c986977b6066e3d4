"""Single calls on a GPU that have kernels or plans of their own, beside the CPU's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

pytestmark = pytest.mark.cuda
rng = np.random.default_rng(8)


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    return rng.standard_normal(shape).astype(dtype)


def definite(*shape: int, dtype: Any = np.float32) -> Any:
    x = normal(*shape, dtype=dtype)
    return x @ x.swapaxes(-1, -2) + shape[-1] * np.eye(shape[-1], dtype=dtype)


Call = Callable[..., Any]
# By name: a function, and its operands.
CLOSE: dict[str, tuple[Call, tuple[Any, ...]]] = {
    **{
        f"cholesky of {n}, {np.dtype(dtype).name}": (ad.linalg.cholesky, (definite(5, n, n, dtype=dtype),))
        for n in (1, 16, 33, 64, 128, 150)
        for dtype in (np.float32, np.float64)
    },
    "upper cholesky": (lambda x: ad.linalg.cholesky(x, upper=True), (definite(2, 3, 40, 40),)),
    "cholesky of columns": (lambda x: ad.linalg.cholesky(x.mT), (definite(2, 40, 40),)),
    "cholesky of one": (ad.linalg.cholesky, (definite(100, 100),)),
    "inverse by cholesky": (
        lambda x: ad.cholesky_inverse(ad.linalg.cholesky(x)), (definite(4, 30, 30),)
    ),
    **{
        f"qr of {m} by {n}, {mode}, {np.dtype(dtype).name}": (
            lambda x, mode=mode: tuple(y for y in ad.linalg.qr(x, mode) if y.numel()),
            (normal(3, m, n, dtype=dtype),),
        )
        for m, n in ((64, 64), (100, 17), (9, 30), (128, 70), (140, 20))
        for mode in ("reduced", "complete", "r")
        for dtype in (np.float32, np.float64)
    },
    **{
        f"a triangle of {n} with {k}, {np.dtype(dtype).name}": (
            lambda x, y, upper=upper: ad.linalg.solve_triangular(x, y, upper=upper),
            (normal(3, n, n, dtype=dtype) / 9 + 3 * np.eye(n, dtype=dtype), normal(3, n, k, dtype=dtype)),
        )
        for n, k, upper in ((64, 64, False), (64, 65, True), (1, 3, False), (100, 1, True), (130, 9, False))
        for dtype in (np.float32, np.float64)
    },
    "one triangle of columns": (
        lambda x, y: ad.linalg.solve_triangular(x.mT, y, upper=True),
        (normal(50, 50) / 9 + 3 * np.eye(50, dtype=np.float32), normal(50, 7)),
    ),
    "one triangle for all": (
        lambda x, y: ad.linalg.solve_triangular(x, y, upper=False),
        (normal(20, 20) / 9 + 3 * np.eye(20, dtype=np.float32), normal(6, 20, 7)),
    ),
}  # fmt: skip
GRADIENTS = (
    "cholesky of 33, float64", "upper cholesky", "qr of 100 by 17, reduced, float64",
    "a triangle of 64 with 65, float64", "inverse by cholesky",
)  # fmt: skip


def results(name: str, device: str, *, gradients: bool) -> list[Any]:
    fn, given = CLOSE[name]
    leaves = [ad.tensor(x).to(device).requires_grad_(gradients) for x in given]
    out = fn(*leaves)
    found = list(out) if isinstance(out, tuple) else [out]
    if gradients:
        weighed = [
            (x * (ad.arange(x.numel(), device=device) % 5 + 1).reshape(x.shape)).sum()
            for x in found
        ]
        found += ad.autograd.grad(sum(weighed), leaves)
    return [x.detach().cpu() for x in found]


@pytest.mark.parametrize("name", CLOSE)
def test_as_on_the_cpu(name: str) -> None:
    gradients = name in GRADIENTS
    got, want = (results(name, device, gradients=gradients) for device in ("cuda", "cpu"))
    for one, other in zip(got, want, strict=True):
        rough = 1e-9 if other.dtype is ad.float64 else 2e-4
        ad.testing.assert_close(one, other, rtol=rough, atol=rough * float(other.abs().max()))
        assert one.stride() == other.stride()


def test_what_is_not_positive_definite_is_told_at_once() -> None:
    x = ad.eye(20).repeat(3, 1, 1)
    x[1, 4, 4] = -1
    for device in ("cpu", "cuda"):
        with pytest.raises(ad.linalg.LinAlgError, match=r"Batch element 1.*order 5"):
            ad.linalg.cholesky(x.to(device))
    factor, info = ad.linalg.cholesky_ex(x.cuda())
    assert info.tolist() == [0, 5, 0]
    ad.testing.assert_close(factor.cpu()[::2], x[::2])
