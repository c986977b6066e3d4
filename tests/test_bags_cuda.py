"""Bags of embeddings that offsets divide, pooled by one kernel on a GPU: NumPy's, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F

pytestmark = pytest.mark.cuda
ROWS = 40


def bags(seed: int, features: int, dtype: str) -> tuple[Any, Any, Any]:
    """A table with infinities and NaN, indices, and where bags begin: some of them are empty."""
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((ROWS, features)).astype(dtype)
    table[rng.random(table.shape) < 0.02] = np.inf
    table[rng.random(table.shape) < 0.02] = -np.inf
    table[rng.random(table.shape) < 0.01] = np.nan
    index = rng.integers(0, ROWS, 300)
    begins = np.sort(np.concatenate([[0, 0], rng.integers(0, 301, 60), [300]]))
    return table, index, begins


def pooled(table: Any, index: Any, begins: Any, mode: str, padding: int | None) -> Any:
    """The same in float64, bag by bag; no row is zero."""
    out = np.zeros((len(begins), table.shape[1]))
    for k, (begin, end) in enumerate(zip(begins, [*begins[1:], len(index)], strict=True)):
        picked = [i for i in index[begin:end] if i != padding]
        rows = table[picked].astype(np.float64)
        if picked:
            with np.errstate(invalid="ignore"):
                out[k] = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode](rows, axis=0)
        if mode == "max":
            out[k][out[k] == -np.inf] = 0
    return out


@pytest.mark.parametrize("padding", [None, 3, -1])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize(("dtype", "features"), [("float32", 7), ("float64", 33), ("float32", 600)])
def test_values(dtype: str, features: int, mode: str, padding: int | None) -> None:
    for seed in range(30):  # the later ones are found by native code
        table, index, begins = bags(seed, features, dtype)
        given = (ad.from_numpy(a).to("cuda") for a in (index, table, begins))
        out = F.embedding_bag(*given, mode=mode, padding_idx=padding)
        left_out = None if padding is None else padding % ROWS
        want = pooled(table, index, begins, mode, left_out)
        far = 1e-5 if dtype == "float32" else 1e-12
        np.testing.assert_allclose(out.cpu().numpy(), want, far, far)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize(("dtype", "features"), [("float32", 16), ("float64", 300)])
def test_the_tape_gives_the_same(dtype: str, features: int, mode: str) -> None:
    table, index, begins = bags(1, features, dtype)
    table = np.nan_to_num(table, nan=1.0, posinf=2.0, neginf=-2.0)
    at, starts = ad.from_numpy(index).to("cuda"), ad.from_numpy(begins).to("cuda")
    leaf = ad.from_numpy(table).to("cuda").requires_grad_()
    host = ad.from_numpy(table).requires_grad_()
    out = F.embedding_bag(at, leaf, starts, mode=mode)
    plain = F.embedding_bag(at, leaf.detach(), starts, mode=mode)
    np.testing.assert_allclose(out.detach().cpu().numpy(), plain.cpu().numpy(), 1e-5, 1e-5)
    (g,) = ad.autograd.grad((out * out).sum(), leaf, create_graph=True)
    same = F.embedding_bag(at.cpu(), host, starts.cpu(), mode=mode)
    (want,) = ad.autograd.grad((same * same).sum(), host, create_graph=True)
    np.testing.assert_allclose(g.detach().cpu().numpy(), want.detach().numpy(), 1e-5, 1e-5)
    (g,) = ad.autograd.grad((g * g).sum(), leaf)
    (want,) = ad.autograd.grad((want * want).sum(), host)
    largest = float(want.abs().max())  # a row's terms cancel, and atomics add them in any order
    np.testing.assert_allclose(g.cpu().numpy(), want.numpy(), 1e-5, 1e-6 * largest)


WRONG: dict[str, tuple[list[int], list[int], type[Exception], str]] = {
    "an index too large": ([1, ROWS, 2], [0, 2], IndexError, f"index {ROWS} is out of bounds"),
    "an index below zero": ([1, -1, 2], [0, 2], IndexError, "index -1 is out of bounds"),
    "a late beginning": ([1, 2, 3], [1, 2], RuntimeError, "offsets must begin with 0.*received 1"),
    "beyond the input": ([1, 2, 3], [0, 9], RuntimeError, "offsets must.*received 9"),
    "decreasing": ([1, 2, 3], [0, 2, 1], RuntimeError, "offsets must.*received 1"),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("mode", ["sum", "max"])
def test_what_is_wrong_is_told(name: str, mode: str) -> None:
    index, begins, kind, told = WRONG[name]
    table = ad.ones(ROWS, 5, device="cuda")
    at, starts = ad.tensor(index, device="cuda"), ad.tensor(begins, device="cuda")
    with pytest.raises(kind, match=told):
        F.embedding_bag(at, table, starts, mode=mode).cpu()
    fine = F.embedding_bag(at.clamp(0, 3), table, starts * 0, mode=mode)
    assert fine.cpu().numpy()[-1].tolist() == [3.0 if mode == "sum" else 1.0] * 5
