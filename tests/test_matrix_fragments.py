"""Matrices whose factors and derivatives run as programs give what the eager table gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.core.state.context import CONTEXT

linalg: Any = ad.linalg
Function = Callable[..., Any]


def hermitian(a: Any) -> Any:
    return a @ a.mH + 3 * a.shape[-1] * ad.eye(a.shape[-1])


def regular(a: Any) -> Any:
    return a + 3 * a.shape[-1] ** 0.5 * ad.eye(a.shape[-1])


def cases(more: Function) -> dict[str, Function]:
    """Of a square matrix and a right side; nothing in them depends on a phase or a sign."""
    return {
        "solve": lambda a, b: linalg.solve(more(regular(a)), b),
        "solve from the right": lambda a, b: linalg.solve(more(regular(a)), b.mT, left=False),
        "inv": lambda a, b: linalg.inv(more(regular(a))),
        "det": lambda a, b: linalg.det(more(regular(a)) / a.shape[-1]),
        "slogdet": lambda a, b: linalg.slogdet(more(regular(a)))[1],
        "cholesky": lambda a, b: linalg.cholesky(more(hermitian(a))),
        "cholesky, upper": lambda a, b: linalg.cholesky(more(hermitian(a)), upper=True),
        "cholesky_solve": lambda a, b: ad.cholesky_solve(b, linalg.cholesky(more(hermitian(a)))),
        "triangular": lambda a, b: linalg.solve_triangular(more(regular(a)), b, upper=True),
        "lu_factor": lambda a, b: linalg.lu_factor(more(regular(a)))[0],
        "lu_solve": lambda a, b: linalg.lu_solve(*linalg.lu_factor(more(regular(a))), b),
        "qr": lambda a, b: linalg.qr(more(regular(a)))[1].abs(),
        "eigh": lambda a, b: linalg.eigh(more(hermitian(a)))[1].abs(),
        "eigvalsh": lambda a, b: linalg.eigvalsh(more(hermitian(a))),
        "svd": lambda a, b: linalg.svd(more(regular(a)))[0].abs(),
        "pinv": lambda a, b: linalg.pinv(more(regular(a))[..., 2:]),
        "lstsq": lambda a, b: linalg.lstsq(more(regular(a))[..., 2:], b)[0],
        "matrix_exp": lambda a, b: linalg.matrix_exp(more(a) / a.shape[-1]),
    }


LAYOUTS: dict[str, Function] = {
    "rows": lambda a: a,
    "columns": lambda a: a.mT.contiguous().mT,
}
KINDS = [(np.float32, 2e-3), (np.float64, 1e-8), (np.complex128, 1e-8), (np.complex64, 4e-3)]
SHAPES = [(13, 13), (3, 7, 7), (70, 70)]


def drawn(rng: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def results(fn: Function, arrays: list[Any], weight: Any) -> list[Any]:
    tensors = [ad.tensor(x).requires_grad_() for x in arrays]
    out = fn(*tensors)
    weight = ad.tensor(weight(tuple(out.shape))).to(out.dtype)
    grads = ad.autograd.grad(out, tensors, weight, allow_unused=True)
    return [x.detach().numpy() for x in (out, *grads) if x is not None]


@pytest.mark.parametrize(("turn", "name"), [*enumerate(cases(LAYOUTS["rows"]))])
def test_programs_of_matrices_give_what_the_table_gives(turn: int, name: str) -> None:
    rng = np.random.default_rng(0)
    # Of reals and of complex numbers, the one in single precision and the other in double.
    for dtype, tolerance in KINDS[turn % 2 :: 2]:
        shape = SHAPES[2] if name == "solve" else SHAPES[turn // 2 % 2]
        fn = cases([*LAYOUTS.values()][turn // 4 % 2])[name]
        arrays = [drawn(rng, shape, dtype), drawn(rng, (*shape[:-1], 3), dtype)]
        weights: dict[Any, Any] = {}

        def weight(shape: Any, weights: Any = weights) -> Any:
            return weights.setdefault(shape, rng.normal(size=shape))

        got = results(fn, arrays, weight)
        with CONTEXT.having(reference=True):
            want = results(fn, arrays, weight)
        for mine, other in zip(got, want, strict=True):
            np.testing.assert_allclose(mine, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (linalg.inv, "diagonal element 14 is zero"),
        (lambda a: linalg.solve(a, a), "input matrix is singular"),
        (linalg.cholesky, "leading minor of order 14 is not positive-definite"),
        (linalg.lu_factor, r"U\[14,14\] is zero"),
    ],
)
def test_one_singular_matrix_of_many_is_named(fn: Any, message: str) -> None:
    batch = ad.eye(14).repeat(100, 1, 1)
    batch[71, -1, -1] = 0
    with pytest.raises(linalg.LinAlgError, match=rf"\(Batch element 71\).*{message}"):
        fn(batch)
    compiled = ad.compile(fn)
    with pytest.raises(linalg.LinAlgError, match=rf"\(Batch element 71\).*{message}"):
        compiled(batch)


@pytest.mark.parametrize("fn", [linalg.inv, linalg.cholesky, lambda a: linalg.solve(a, a * a)])
def test_higher_derivatives_go_through_programs(fn: Any) -> None:
    a = np.random.default_rng(1).normal(size=(12, 12))
    x = ad.tensor(a @ a.T + 12 * np.eye(12)).requires_grad_()

    def twice() -> Any:
        (g,) = ad.autograd.grad((fn(x @ x) ** 2).sum(), x, create_graph=True)
        return ad.autograd.grad((g**2).sum(), x)[0].numpy()

    got = twice()
    with CONTEXT.having(reference=True):
        want = twice()
    np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-8 * np.abs(want).max())


@pytest.mark.parametrize(("dtype", "left"), [(np.float64, True), (np.complex128, False)])
def test_large_systems_that_keep_their_factors(dtype: Any, left: bool) -> None:
    """Solutions, first and second derivatives are those of the inverse times the right side."""
    rng = np.random.default_rng(3)
    a = drawn(rng, (2, 98, 98), dtype) + 30 * np.eye(98)
    b = drawn(rng, (2, 98, 3) if left else (2, 3, 98), dtype)

    def derived(solve: Function) -> Any:
        def run(a: Any, b: Any) -> Any:
            x = solve(a, b)
            first = ad.autograd.grad((x.abs() ** 3).sum(), (a, b), create_graph=True)
            total = sum((g.abs() ** 2).sum() for g in first)
            return x, *first, *ad.autograd.grad(total, (a, b))

        return run

    wanted = derived(lambda a, b: linalg.inv(a) @ b if left else b @ linalg.inv(a))
    solved = derived(lambda a, b: linalg.solve(a, b, left=left))
    given = [ad.tensor(x).requires_grad_() for x in (a, b)]
    want = [x.detach().numpy() for x in wanted(*given)]
    for run in (solved, ad.compile(solved)):
        for mine, other in zip(run(*given), want, strict=True):
            size = np.abs(other).max()
            np.testing.assert_allclose(mine.detach().numpy() / size, other / size, atol=1e-11)


def test_large_systems_in_transforms_and_singular() -> None:
    rng = np.random.default_rng(4)
    a = ad.tensor(rng.normal(size=(98, 98)) + 30 * np.eye(98)).requires_grad_()
    b = ad.tensor(rng.normal(size=(98, 2))).requires_grad_()
    out = linalg.solve(a, b)
    weights = ad.tensor(rng.normal(size=(3, 98, 2)))
    many = ad.autograd.grad(out, (a, b), weights, retain_graph=True, is_grads_batched=True)
    for k, weight in enumerate(weights):
        one = ad.autograd.grad(out, (a, b), weight, retain_graph=True)
        for mine, other in zip(many, one, strict=True):
            np.testing.assert_allclose(mine[k].numpy(), other.numpy(), rtol=1e-9, atol=1e-12)
    tangent = ad.func.jvp(lambda a: linalg.solve(a, b.detach()), (a.detach(),), (a.detach(),))[1]
    np.testing.assert_allclose(tangent.numpy(), -out.detach().numpy(), rtol=1e-9, atol=1e-12)
    with ad.no_grad():
        a[5] = 0
    for solve in (linalg.solve, ad.compile(linalg.solve)):
        with pytest.raises(linalg.LinAlgError, match=r"^linalg\.solve: The solver failed"):
            solve(a, b)
