"""Compiled factors of complex, large and indefinite matrices, and gradients, beside PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.compare

# Of a framework and matrices: quantities that signs and phases of factors do not change.
QUANTITIES: dict[str, Callable[[Any, Any], Any]] = {
    "cholesky": lambda fw, x: fw.linalg.cholesky(definite(fw, x)),
    "upper cholesky": lambda fw, x: fw.linalg.cholesky(definite(fw, x), upper=True),
    "cholesky solve": lambda fw, x: fw.cholesky_solve(x, fw.linalg.cholesky(definite(fw, x))),
    "solve": lambda fw, x: fw.linalg.solve(definite(fw, x), x.mH + 1),
    "triangular": lambda fw, x: fw.linalg.solve_triangular(definite(fw, x), x, upper=True),
    "inv": lambda fw, x: fw.linalg.inv(definite(fw, x)),
    "det": lambda fw, x: fw.linalg.det(x / x.shape[-1] ** 0.5),
    "logarithm of the size": lambda fw, x: fw.linalg.slogdet(x)[1],
    "sign": lambda fw, x: fw.linalg.slogdet(x)[0],
    "lu": lambda fw, x: fw.linalg.lu(x)[2],
    "qr": lambda fw, x: fw.linalg.qr(x)[1].abs(),
    "eigvalsh": lambda fw, x: fw.linalg.eigvalsh(definite(fw, x)),
    "svdvals": lambda fw, x: fw.linalg.svdvals(x),
    "pinv": lambda fw, x: fw.linalg.pinv(definite(fw, x)),
}
UNDIFFERENTIATED: dict[str, Callable[[Any, Any], Any]] = {
    "ldl": lambda fw, x: fw.linalg.ldl_factor(x + x.mH, hermitian=True)[0],
    "pivots": lambda fw, x: fw.linalg.ldl_factor(x + x.mT)[1] * 1.0,
    "ldl solve": lambda fw, x: fw.linalg.ldl_solve(*fw.linalg.ldl_factor(x + x.mT), x),
}


def definite(fw: Any, x: Any) -> Any:
    n = x.shape[-1]
    return x @ x.mH / n + fw.eye(n, dtype=x.dtype)


def given(dtype: str, shape: tuple[int, ...]) -> Any:
    rng = np.random.default_rng([len(dtype), *shape])
    values = rng.standard_normal(shape)
    return values + 1j * rng.standard_normal(shape) if dtype == "complex128" else values


def near(ours: Any, theirs: Any, digits: float) -> None:
    one, other = ours.detach().numpy(), theirs.detach().numpy()
    size = np.abs(other).max(initial=1)
    np.testing.assert_allclose(one, other, rtol=0, atol=digits * size)


CASES = [("complex128", (4, 4)), ("complex128", (3, 5, 5)), ("float64", (120, 120))]


@pytest.mark.parametrize(("dtype", "shape"), CASES)
@pytest.mark.parametrize("name", QUANTITIES)
def test_values_and_gradients(name: str, dtype: str, shape: tuple[int, ...]) -> None:
    quantity = QUANTITIES[name]

    def gradient(fw: Any, x: Any) -> Any:
        x = x.detach().requires_grad_()
        value = quantity(fw, x)
        (value.abs() ** 2).sum().backward()
        return (value,) if x.grad is None else (value, x.grad)  # of a real sign there is none

    x = given(dtype, shape)
    ours = ad.compile(lambda x: gradient(ad, x))(ad.from_numpy(x))
    for one, other in zip(ours, gradient(torch, torch.from_numpy(x)), strict=True):
        near(one, other, 1e-8)


@pytest.mark.parametrize(("dtype", "shape"), CASES)
@pytest.mark.parametrize("name", UNDIFFERENTIATED)
def test_indefinite_matrices(name: str, dtype: str, shape: tuple[int, ...]) -> None:
    quantity, x = UNDIFFERENTIATED[name], given(dtype, shape)
    near(
        ad.compile(lambda x: quantity(ad, x))(ad.from_numpy(x)),
        quantity(torch, torch.from_numpy(x)),
        1e-8,
    )
