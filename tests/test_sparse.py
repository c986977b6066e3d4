"""Sparse tensors beside dense ones: what they hold, what operations give, derivatives, files."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
from adjoint.graph import capture
from tests.samples.optimizers import first_rows

SETTINGS = settings(max_examples=40, deadline=None)


def random_coo(
    seed: int, size: tuple[int, ...], count: int, dense: tuple[int, ...] = (), **options: Any
) -> Any:
    """Random coordinates, often repeated."""
    rng = np.random.default_rng(seed)
    at = np.stack([rng.integers(0, n, count) for n in size])
    values = rng.standard_normal((count, *dense))
    return ad.sparse_coo_tensor(ad.tensor(at), ad.tensor(values), (*size, *dense), **options)


def to_numpy(x: Any) -> Any:
    """The dense array a sparse tensor stands for, added up by NumPy."""
    if x.layout is ad.strided:
        return x.detach().numpy()
    if x.is_sparse_csr:
        starts, columns = x.crow_indices().numpy(), x.col_indices().numpy()
        at = np.stack([np.repeat(np.arange(x.shape[0]), np.diff(starts)), columns])
        values = x.values().detach().numpy()
    else:
        at, values = x._indices().numpy(), x._values().numpy()
    out = np.zeros(tuple(x.shape), values.dtype)
    np.add.at(out, tuple(at), values)
    return out


matrices = st.tuples(
    st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 5), st.integers(0, 12)
)


# -- what a sparse tensor is ----------------------------------------------------------------------


def test_parts_and_queries() -> None:
    x = ad.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3))
    assert isinstance(x, ad.Tensor)
    assert ad.is_tensor(x)
    assert (x.layout, x.is_sparse, x.is_sparse_csr) == (ad.sparse_coo, True, False)
    assert (x.shape, x.dtype, x.device.type, x.ndim, x.numel()) == ((2, 3), ad.float32, "cpu", 2, 6)
    assert (x._nnz(), x.sparse_dim(), x.dense_dim(), x.is_coalesced()) == (3, 2, 0, False)
    assert len(x) == 2
    with pytest.raises(RuntimeError, match=r"uncoalesced tensor.*coalesce\(\) first"):
        x.indices()
    y = x.coalesce()
    assert y.coalesce() is y
    assert y.indices().tolist() == [[0, 1, 1], [2, 0, 2]]
    assert y.values().tolist() == [3, 4, 5]
    rows = ad.sparse_coo_tensor([[1, 1]], ad.ones(2, 3))
    assert (rows.shape, rows.sparse_dim(), rows.dense_dim()) == ((2, 3), 1, 1)
    z = y.to_sparse_csr()
    assert (z.layout, z.is_sparse, z.is_sparse_csr) == (ad.sparse_csr, False, True)
    assert (z.crow_indices().tolist(), z.col_indices().tolist()) == ([0, 1, 3], [2, 0, 2])
    dense = ad.ones(2, 3)
    assert (dense.layout, dense.is_sparse, dense.dense_dim(), dense.sparse_dim()) == (
        ad.strided, False, 2, 0,
    )  # fmt: skip
    with pytest.raises(RuntimeError, match="indices expected sparse coordinate tensor layout"):
        dense.indices()


def test_printing() -> None:
    x = ad.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.5], (2, 3), requires_grad=True)
    assert repr(x) == (
        "tensor(indices=tensor([[0, 1],\n"
        "                       [2, 0]]),\n"
        "       values=tensor([3.0000, 4.5000]),\n"
        "       size=(2, 3), nnz=2, layout=adjoint.sparse_coo, requires_grad=True)"
    )
    assert repr(ad.sparse_coo_tensor(size=(2, 3), dtype=ad.float64)) == (
        "tensor(indices=tensor([], size=(2, 0)),\n"
        "       values=tensor([], size=(0,)),\n"
        "       size=(2, 3), nnz=0, dtype=adjoint.float64, layout=adjoint.sparse_coo)"
    )
    assert repr(ad.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0, 2.0])) == (
        "tensor(crow_indices=tensor([0, 1, 2]),\n"
        "       col_indices=tensor([0, 1]),\n"
        "       values=tensor([1., 2.]), size=(2, 2), nnz=2, layout=adjoint.sparse_csr)"
    )


@SETTINGS
@given(matrices, st.sampled_from([(), (2,)]))
def test_coalescing(case: Any, dense: tuple[int, ...]) -> None:
    seed, n, m, count = case
    x = random_coo(seed, (n, m), count, dense)
    y = x.coalesce()
    keys = (y.indices()[0] * m + y.indices()[1]).tolist()
    assert keys == sorted(set(keys))
    assert y.is_coalesced()
    np.testing.assert_allclose(to_numpy(y), to_numpy(x), atol=1e-12)
    np.testing.assert_allclose(x.to_dense().numpy(), to_numpy(x), atol=1e-12)


def test_old_constructors_and_types() -> None:
    at = ad.tensor([[0, 1], [1, 0]])
    x = ad.sparse.FloatTensor(at, ad.tensor([1.0, 2.0]), ad.Size([2, 3]))
    assert x.type() == "torch.sparse.FloatTensor"
    assert isinstance(x, ad.sparse.FloatTensor)
    assert not isinstance(x, ad.sparse.DoubleTensor)
    assert ad.sparse.LongTensor(2, 3)._nnz() == 0
    assert x.double().dtype is ad.float64
    assert x.to(ad.float16)._values().dtype is ad.float16
    assert x.cpu() is x
    assert x.long()._values().tolist() == [1, 2]


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "counts": (lambda: ad.sparse_coo_tensor([[0, 1]], [1.0]), "must have same nnz"),
    "flat": (lambda: ad.sparse_coo_tensor([0, 1], [1.0, 2.0]), "sparse_dim x nnz"),
    "rank": (lambda: ad.sparse_coo_tensor([[0]], [1.0], (2, 3)), "sparse_dim = 1"),
    "large": (lambda: ad.sparse_coo_tensor([[5]], [1.0], (3,)), "from 5 to 5"),
    "negative": (lambda: ad.sparse_coo_tensor([[-1]], [1.0], (3,)), "from -1"),
    "dense part": (lambda: ad.sparse_coo_tensor([[0]], ad.ones(1, 2), (3, 4)), "dense part"),
    "rows": (lambda: ad.sparse_csr_tensor([0, 2, 1], [0, 1], [1.0, 2.0], (2, 2)), "must rise"),
    "columns": (lambda: ad.sparse_csr_tensor([0, 1], [4], [1.0], (1, 2)), "from 0 to 1"),
    "starts": (lambda: ad.sparse_csr_tensor([0, 1], [0], [1.0], (3, 2)), "do not make a matrix"),
    "layout": (lambda: ad.zeros(2, layout=ad.sparse_coo), "sparse_coo_tensor"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_parts(case: str) -> None:
    make, message = WRONG[case]
    with pytest.raises(RuntimeError, match=message):
        make()


# -- operations beside dense ones -----------------------------------------------------------------

UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": lambda x: -x,
    "times": lambda x: x * 2.5,
    "times, reflected": lambda x: 2.5 * x,
    "over": lambda x: x / 4,
    "by a 0-d tensor": lambda x: x * ad.tensor(3.0, dtype=ad.float64),
    "square": lambda x: x**2,
    "abs": abs,
    "sin": lambda x: x.sin(),
    "relu": lambda x: ad.nn.functional.relu(x),
    "t": lambda x: x.t(),
    "T": lambda x: x.T,
    "transpose": lambda x: x.transpose(0, 1),
    "sum": lambda x: x.sum(),
    "sum 0": lambda x: ad.sparse.sum(x, 0),
    "sum 1": lambda x: x.sum(1, keepdim=True),
    "norm": lambda x: x.norm(),
    "norm 1": lambda x: x.norm(1.0),
    "row": lambda x: x[0],
    "element": lambda x: x[0, 0],
    "slice": lambda x: x[:1, ::2],
    "index_select": lambda x: x.index_select(0, ad.tensor([0, 0])),
    "double": lambda x: x.double(),
    "clone": lambda x: x.clone(),
    "cat": lambda x: ad.cat([x, x], 1),
    "stack": lambda x: ad.stack([x, x]),
    "product with itself": lambda x: x @ x.t(),
    "sub": lambda x: x - x * 3,
}


@SETTINGS
@given(matrices, st.sampled_from(sorted(UNARY)))
def test_functions_of_one(case: Any, name: str) -> None:
    x = random_coo(case[0], case[1:3], case[3])
    dense = ad.tensor(to_numpy(x))
    np.testing.assert_allclose(to_numpy(UNARY[name](x)), UNARY[name](dense).numpy(), atol=1e-10)


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "add scaled": lambda x, y: x.add(y, alpha=-0.5),
    "matmul": lambda x, y: ad.sparse.mm(x, y.t()),
}


@SETTINGS
@given(matrices, st.integers(0, 12), st.sampled_from(sorted(BINARY)), st.booleans())
def test_functions_of_two(case: Any, count: int, name: str, coalesced: bool) -> None:
    seed, n, m, first = case
    x, y = random_coo(seed, (n, m), first), random_coo(seed + 1, (n, m), count)
    x, y = (x.coalesce(), y.coalesce()) if coalesced else (x, y)
    out = BINARY[name](x, y)
    wanted = BINARY[name](ad.tensor(to_numpy(x)), ad.tensor(to_numpy(y)))
    assert out.is_sparse
    np.testing.assert_allclose(to_numpy(out), wanted.numpy(), atol=1e-10)


MIXED: dict[str, Callable[[Any, Any], Any]] = {
    "dense + sparse": lambda x, d: d + x,
    "dense - sparse": lambda x, d: d - x,
    "sparse * dense": lambda x, d: x * d,
    "dense * sparse": lambda x, d: d * x,
    "@": lambda x, d: x @ d.t(),
    "dense @ sparse": lambda x, d: d.t() @ x,
    "mm": lambda x, d: ad.mm(x, d.t()),
    "spmm": lambda x, d: ad.spmm(x, d.t()),
    "mv": lambda x, d: x.mv(d[0]),
    "matmul with a vector": lambda x, d: ad.matmul(x, d[0]),
    "vector by": lambda x, d: d[:, 0] @ x,
    "addmm": lambda x, d: ad.sparse.addmm(ad.ones_like(d[:, :1]), x, d[:1].t(), beta=2, alpha=3),
    "linear": lambda x, d: ad.nn.functional.linear(x, d),
}


@SETTINGS
@given(matrices, st.sampled_from(sorted(MIXED)), st.booleans())
def test_sparse_and_dense(case: Any, name: str, rows: bool) -> None:
    seed, n, m, count = case
    x = random_coo(seed, (n, m), count)
    x = x.to_sparse_csr() if rows else x
    d = ad.tensor(np.random.default_rng(seed).standard_normal((n, m)))
    wanted = MIXED[name](ad.tensor(to_numpy(x)), d)
    np.testing.assert_allclose(to_numpy(MIXED[name](x, d)), wanted.numpy(), atol=1e-10)


@SETTINGS
@given(matrices, st.integers(0, 1), st.booleans())
def test_softmax(case: Any, dim: int, logarithm: bool) -> None:
    """Over the elements kept: the others are minus infinity."""
    x = random_coo(case[0], case[1:3], case[3]).coalesce()
    full = np.full(tuple(x.shape), -np.inf)
    full[tuple(x.indices().numpy())] = x.values().numpy()
    kept = np.isfinite(full)
    with np.errstate(invalid="ignore"):
        powers = np.exp(full - full.max(dim, keepdims=True))
        wanted = powers / powers.sum(dim, keepdims=True)
    out = ad.sparse.log_softmax(x, dim) if logarithm else ad.sparse.softmax(x, dim)
    got = np.exp(to_numpy(out)) if logarithm else to_numpy(out)
    np.testing.assert_allclose(got[kept], wanted[kept], atol=1e-10)


def test_dense_to_sparse_and_masks() -> None:
    d = ad.tensor([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 3.0]])
    x = d.to_sparse()
    assert x.indices().tolist() == [[0, 2, 2], [1, 0, 2]]
    assert d.to_sparse(1).indices().tolist() == [[0, 2]]
    assert d.to_sparse_csr().crow_indices().tolist() == [0, 1, 1, 3]
    assert d.to_sparse(layout=ad.sparse_csr).is_sparse_csr
    for sparse in (x, d.to_sparse(1), d.to_sparse_csr(), x.to_sparse_csr().to_sparse()):
        assert sparse.to_dense().tolist() == d.tolist()
    picked = ad.arange(9.0).reshape(3, 3).sparse_mask(x)
    assert picked.values().tolist() == [1, 6, 8]
    sampled = ad.sparse.sampled_addmm(x, ad.ones(3, 2), ad.ones(2, 3), beta=0.5, alpha=2)
    assert sampled.values().tolist() == [5, 4.5, 5.5]


REFUSED: dict[str, Callable[[Any], Any]] = {
    "exp": lambda x: x.exp(),
    "eq": lambda x: x == x,
    "amax": lambda x: x.max(),
    "add of a number": lambda x: x + 1,
    "tolist": lambda x: x.tolist(),
    "item": lambda x: x.item(),
    "view": lambda x: x.view(-1),
    "reshape": lambda x: x.reshape(-1),
    "stride": lambda x: x.stride(),
    "data_ptr": lambda x: x.data_ptr(),
    "t_": lambda x: x.t_(),
    "sort": lambda x: x.sort(),
    "softmax": lambda x: x.softmax(0),
    "cumsum": lambda x: ad.cumsum(x, 0),
    "mse_loss": lambda x: ad.nn.functional.mse_loss(x, x),
    "bool": bool,
}


@pytest.mark.parametrize("layout", [ad.sparse_coo, ad.sparse_csr])
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_there_says_so(name: str, layout: Any) -> None:
    x = ad.eye(3).to_sparse(layout=layout)
    with pytest.raises((NotImplementedError, RuntimeError), match=r"to_dense\(\)|not supported"):
        REFUSED[name](x)


def test_pytorchs_errors() -> None:
    x = ad.eye(2).to_sparse()
    with pytest.raises(RuntimeError, match=r"Use add\(dense, sparse\) instead"):
        x + ad.ones(2, 2)
    with pytest.raises(RuntimeError, match="requires a scalar or zero-dim dense tensor divisor"):
        x / ad.ones(2, 2)
    with pytest.raises(RuntimeError, match="sizes must be equal"):
        x + ad.eye(3).to_sparse()
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        ad.sparse.mm(x, ad.ones(3, 2))
    with pytest.raises(RuntimeError, match="between dense and sparse"):
        x.copy_(ad.ones(2, 2))


# -- writing --------------------------------------------------------------------------------------


def test_in_place() -> None:
    x = ad.sparse_coo_tensor([[0, 0, 1]], [1.0, 2.0, 3.0], (3,))
    same = x
    x += x
    x *= 2
    x /= 4
    x.neg_()
    assert x is same
    assert x.to_dense().tolist() == [-3, -3, 0]
    x.copy_(ad.tensor([0.0, 5.0, 0.0]).to_sparse())
    assert x.to_dense().tolist() == [0, 5, 0]
    assert x.zero_()._nnz() == 0
    assert x.is_coalesced()


def test_adding_to_a_dense_tensor_writes_only_there() -> None:
    table = ad.zeros(4, 2)
    where = table.data_ptr()
    rows = ad.sparse_coo_tensor([[1, 3, 1]], ad.ones(3, 2), (4, 2))
    for _ in range(2):  # the second time, addition is known to the fast path
        table.add_(rows, alpha=0.5)
        table += rows
    assert table.data_ptr() == where
    assert table.tolist() == [[0, 0], [6, 6], [0, 0], [3, 3]]
    half = ad.zeros(4, 2, dtype=ad.float16).add_(rows.half())
    assert half.tolist() == [[0, 0], [2, 2], [0, 0], [1, 1]]
    turned = ad.zeros(2, 4).t().add_(rows)
    assert turned.tolist() == [[0, 0], [2, 2], [0, 0], [1, 1]]


@pytest.mark.parametrize("kind", ["repeated", "in order", "out of order"])
@pytest.mark.parametrize("width", [1, 3, 32])
def test_rows_are_added_in_order(kind: str, width: int) -> None:
    rng = np.random.default_rng(width)
    at = rng.integers(0, 30, 50) if kind == "repeated" else rng.permutation(60)[:20]
    at = np.sort(at) if kind == "in order" else at
    values = rng.standard_normal((at.size, width)).astype(np.float32)
    wanted = rng.standard_normal((60, width)).astype(np.float32)
    table, summed = ad.tensor(wanted), np.zeros_like(wanted)
    rows = ad.sparse_coo_tensor(ad.tensor(at[None]), ad.tensor(values), (60, width))
    for k, row in zip(at, values, strict=True):
        wanted[k] += row
        summed[k] += row
    assert np.array_equal(table.add_(rows).numpy(), wanted)
    once = rows.coalesce()
    assert once.indices().tolist() == [np.unique(at).tolist()]
    assert np.array_equal(once.values().numpy(), summed[np.unique(at)])


# -- derivatives ----------------------------------------------------------------------------------

AT = [[0, 1, 1, 2, 1], [2, 0, 2, 1, 0]]
AT_ROWS = ad.tensor([1, 2, 1])
FLOWS: dict[str, Callable[[Any, Any], Any]] = {
    "to_dense": lambda x, d: (x.to_dense() * d).sum(),
    "mm": lambda x, d: (x @ d.t()).sin().sum(),
    "dense by": lambda x, d: (d.t() @ x).sin().sum(),
    "both sparse": lambda x, d: (x @ (x * d).t()).to_dense().sin().sum(),
    "mul dense": lambda x, d: (x * d).to_dense().sin().sum(),
    "mul sparse": lambda x, d: (x * (x * 2)).sum() + d.sum(),
    "coalesce": lambda x, d: (x.coalesce().values() ** 2).sum() + d.sum(),
    "square": lambda x, d: (x**2).sum() + d.sum(),
    "sum": lambda x, d: (x.sum(0).to_dense() * d[0]).sin().sum(),
    "softmax": lambda x, d: (ad.sparse.softmax(x, 1).to_dense() * d).sum(),
    "log_softmax": lambda x, d: (ad.sparse.log_softmax(x, 0).to_dense() * d).sum(),
    "rows": lambda x, d: (x.to_sparse_csr() @ d.t()).sin().sum(),
    "mask": lambda x, d: (d.sparse_mask(x).to_dense().sin()).sum() + x.sum(),
    "add": lambda x, d: ((d + x) ** 2).sum(),
    "select": lambda x, d: (x[1].to_dense() * d[0]).sum() + x.index_select(0, AT_ROWS).norm(),
    "permute": lambda x, d: (x.t().to_dense() * d.t()).sin().sum(),
    "cat": lambda x, d: (ad.cat([x, x]).to_dense().sin()).sum() + d.sum(),
    "sampled": lambda x, d: ad.sparse.sampled_addmm(x, d, d.t()).to_dense().sin().sum(),
}


@pytest.mark.parametrize("name", FLOWS)
def test_gradients_agree_with_finite_differences(name: str) -> None:
    rng = np.random.default_rng(3)
    values = ad.tensor(rng.standard_normal(5), requires_grad=True)
    d = ad.tensor(rng.standard_normal((3, 3)), requires_grad=True)

    def flow(values: Any, d: Any) -> Any:
        return FLOWS[name](ad.sparse_coo_tensor(AT, values, (3, 3)), d)

    assert ad.autograd.gradcheck(flow, (values, d))
    assert ad.autograd.gradgradcheck(flow, (values, d))


def test_gradients_of_sparse_leaves() -> None:
    d = ad.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    x = ad.sparse_coo_tensor([[0, 1, 0], [1, 0, 1]], [1.0, 2.0, 3.0], (2, 2), requires_grad=True)
    assert x.is_leaf
    assert x.grad is None
    seen: list[Any] = []
    x.register_hook(seen.append)
    out = (x @ d).sum()
    (by_grad,) = ad.autograd.grad(out, x, retain_graph=True)
    out.backward()
    # d out / d x = ones @ d.t() where x has elements; the repeated one counts once.
    assert x.grad.is_sparse
    assert x.grad.to_dense().tolist() == [[0, 7], [3, 0]]
    assert by_grad.to_dense().tolist() == [[0, 7], [3, 0]]
    assert len(seen) == 2
    assert seen[0].is_sparse
    assert d.grad.tolist() == [[2, 2], [4, 4]]
    out = (x * 2).sum()
    assert not out.is_leaf
    out.backward()
    assert x.grad.to_dense().tolist() == [[0, 9], [5, 0]]
    assert not x.detach().requires_grad
    with pytest.raises(RuntimeError, match="leaf Variable"):
        x.mul_(2)


def test_function_transforms() -> None:
    x = random_coo(0, (3, 4), 7)
    v = ad.randn(4, dtype=ad.float64)
    dense = ad.tensor(to_numpy(x))
    gradient = ad.func.grad(lambda v: (x @ v).sin().sum())(v)
    wanted = ad.func.grad(lambda v: (dense @ v).sin().sum())(v)
    np.testing.assert_allclose(gradient.numpy(), wanted.numpy(), atol=1e-12)
    batch = ad.randn(5, 4, dtype=ad.float64)
    np.testing.assert_allclose(
        ad.func.vmap(lambda v: x @ v)(batch).numpy(), (batch @ dense.t()).numpy(), atol=1e-12
    )
    out, tangent = ad.func.jvp(lambda v: x @ v, (v,), (v,))
    np.testing.assert_allclose(out.numpy(), tangent.numpy(), atol=1e-12)


# -- sparse gradients -----------------------------------------------------------------------------


def embed(weight: Any, **options: Any) -> Any:
    picks = ad.tensor([[1, 3, 1], [0, 3, 3]])
    scale = ad.arange(12.0).reshape(2, 3, 2)
    return (ad.nn.functional.embedding(picks, weight, **options) * scale).sum()


def bag(weight: Any, **options: Any) -> Any:
    picks, starts = ad.tensor([1, 3, 1, 0, 3, 3]), ad.tensor([0, 2, 2])
    out = ad.nn.functional.embedding_bag(picks, weight, starts, **options)
    return (out * ad.arange(6.0).reshape(3, 2)[: len(out)]).sum()


@pytest.mark.parametrize(
    ("loss", "options"),
    [
        (embed, {}),
        (embed, {"padding_idx": 3}),
        (embed, {"max_norm": 0.5}),
        (bag, {"mode": "sum"}),
        (bag, {"mode": "mean"}),
        (bag, {"mode": "sum", "per_sample_weights": ad.arange(6.0)}),
        (bag, {"mode": "mean", "padding_idx": 1}),
        (bag, {"mode": "sum", "include_last_offset": True}),
    ],
)
def test_a_sparse_gradient_is_the_dense_one(loss: Any, options: dict[str, Any]) -> None:
    ad.manual_seed(0)
    start = ad.randn(5, 2)
    grads = []
    for sparse in (False, True):
        weight = start.clone().requires_grad_()
        loss(weight, sparse=sparse, **options).backward()
        assert weight.grad.is_sparse is sparse
        grads.append(weight.grad)
    np.testing.assert_allclose(to_numpy(grads[1]), grads[0].numpy(), rtol=1e-6)
    assert options.get("padding_idx") not in grads[1]._indices()[0].tolist()


def test_how_gradients_add_up() -> None:
    w = ad.zeros(8, 2, requires_grad=True)
    sparse, dense = lambda: embed(w, sparse=True), lambda: (w * 3).sum()
    embed(w).backward()
    one = w.grad.numpy().copy()
    w.grad = None
    sparse().backward()
    held = w.grad
    sparse().backward()
    assert w.grad is held
    assert (held.is_sparse, held._nnz()) == (True, 12)
    np.testing.assert_array_equal(to_numpy(held), 2 * one)
    dense().backward()
    held = w.grad
    assert not held.is_sparse
    sparse().backward()
    assert w.grad is held
    np.testing.assert_array_equal(held.numpy(), 3 * one + 3)
    for together in (lambda: sparse() + dense(), lambda: dense() + sparse()):
        w.grad = None
        together().backward()
        np.testing.assert_array_equal(w.grad.numpy(), one + 3)
    (found,) = ad.autograd.grad(sparse() + sparse(), w)
    np.testing.assert_array_equal(to_numpy(found), 2 * one)


def test_two_tables_do_not_share_a_gradient() -> None:
    a, b = ad.zeros(3, 2, requires_grad=True), ad.zeros(3, 2, requires_grad=True)
    picks = ad.tensor([0, 2])
    rows = [ad.nn.functional.embedding(picks, w, sparse=True) for w in (a, b)]
    (rows[0] + rows[1]).sum().backward()
    a.grad.mul_(5)
    assert b.grad.to_dense().tolist() == [[1, 1], [0, 0], [1, 1]]


def test_hooks_zero_grad_and_clipping() -> None:
    w = ad.zeros(5, 2, requires_grad=True)
    handle = w.register_hook(lambda g: g * 2)
    embed(w, sparse=True).backward()
    handle.remove()
    doubled = to_numpy(w.grad)
    w.grad = None
    embed(w, sparse=True).backward()
    np.testing.assert_array_equal(doubled, 2 * to_numpy(w.grad))
    full = to_numpy(w.grad)
    size = ad.nn.utils.clip_grad_norm_([w], 1.0)
    assert size.item() == pytest.approx(np.linalg.norm(full))
    np.testing.assert_allclose(to_numpy(w.grad), full / np.linalg.norm(full), rtol=1e-5)
    optimizer = ad.optim.SGD([w], lr=0.1)
    optimizer.zero_grad(set_to_none=False)
    assert w.grad._nnz() == 0
    optimizer.zero_grad()
    assert w.grad is None


def test_gradients_through_a_computed_table() -> None:
    grads = []
    for sparse in (False, True):
        w = ad.arange(10.0).reshape(5, 2).requires_grad_()
        embed(w.sin() * 2, sparse=sparse).backward()
        grads.append(to_numpy(w.grad))
    np.testing.assert_allclose(grads[0], grads[1], rtol=1e-6)


def test_gradients_refused() -> None:
    w = ad.zeros(5, 2, requires_grad=True)
    with pytest.raises(RuntimeError, match="scale_grad_by_freq not supported with sparse"):
        embed(w, sparse=True, scale_grad_by_freq=True).backward()
    with pytest.raises(ValueError, match="max mode does not support sparse weights"):
        bag(w, sparse=True, mode="max")


# -- optimizers -----------------------------------------------------------------------------------


def train(kind: Any, sparse: bool, steps: int = 20, **options: Any) -> Any:
    """A table trained on picks that differ from step to step."""
    rng = np.random.default_rng(1)
    table = ad.nn.Embedding.from_pretrained(
        ad.tensor(rng.standard_normal((6, 3))), freeze=False, sparse=sparse
    )
    optimizer = kind(table.parameters(), **options)
    for _ in range(steps):
        picks = ad.tensor(rng.integers(0, 6, 4))
        optimizer.zero_grad()
        (table(picks) ** 2).sum().backward()
        optimizer.step()
    return table.weight.detach().numpy()


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (ad.optim.SGD, {"lr": 0.1}),
        (ad.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
        (ad.optim.SGD, {"lr": 0.1, "momentum": 0.5, "dampening": 0.2, "maximize": True}),
        (ad.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
        (ad.optim.Adagrad, {"lr": 0.1, "lr_decay": 0.01}),
        (ad.optim.Adagrad, {"lr": 0.1, "initial_accumulator_value": 0.3, "maximize": True}),
    ],
)
def test_updates_are_those_of_dense_gradients(kind: Any, options: dict[str, Any]) -> None:
    np.testing.assert_allclose(
        train(kind, True, **options), train(kind, False, **options), atol=1e-9
    )


def test_sparse_adam() -> None:
    """Adam's recurrence on the rows that have a gradient; the others wait."""
    lr, (b1, b2), eps = 0.1, (0.8, 0.95), 1e-6
    rng = np.random.default_rng(1)
    w = rng.standard_normal((6, 3))
    m, v = np.zeros_like(w), np.zeros_like(w)
    for step in range(1, 21):
        picks = rng.integers(0, 6, 4)
        g = np.zeros_like(w)
        np.add.at(g, picks, 2 * w[picks])
        rows = np.unique(picks)
        m[rows] += (1 - b1) * (g[rows] - m[rows])
        v[rows] += (1 - b2) * (g[rows] ** 2 - v[rows])
        rate = lr * np.sqrt(1 - b2**step) / (1 - b1**step)
        w[rows] -= rate * m[rows] / (np.sqrt(v[rows]) + eps)
    got = train(ad.optim.SparseAdam, True, lr=lr, betas=(b1, b2), eps=eps)
    np.testing.assert_allclose(got, w, atol=1e-10)


def test_sparse_adam_state_and_refusals() -> None:
    w = ad.zeros(3, 2, requires_grad=True)
    optimizer = ad.optim.SparseAdam([w])
    ad.nn.functional.embedding(ad.tensor([1]), w, sparse=True).sum().backward()
    optimizer.step()
    state = optimizer.state_dict()["state"][0]
    assert (state["step"], list(state)) == (1, ["step", "exp_avg", "exp_avg_sq"])
    again = ad.optim.SparseAdam([w])
    again.load_state_dict(optimizer.state_dict())
    again.step()
    assert again.state[w]["step"] == 2
    with pytest.raises(ValueError, match=r"Sparse params at indices \[\[0, 0\]\]"):
        ad.optim.SparseAdam([ad.eye(2).to_sparse().requires_grad_()])


REFUSING = sorted(name for name, (kind, _) in first_rows().items() if not kind.sparse)


@pytest.mark.parametrize("name", REFUSING)
def test_other_optimizers_refuse(name: str) -> None:
    w = ad.zeros(3, 2, requires_grad=True)
    optimizer = getattr(ad.optim, name)([w])
    ad.nn.functional.embedding(ad.tensor([1]), w, sparse=True).sum().backward()
    called = "Adam" if name == "AdamW" else name
    with pytest.raises(RuntimeError, match=f"{called} does not support sparse gradients"):
        optimizer.step()
    assert not optimizer.state.get(w)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (ad.optim.SGD, {"weight_decay": 0.1}, r"add\(sparse, dense\) is not supported"),
        (ad.optim.SGD, {"fused": True}, "_fused_sgd` does not support sparse"),
        (ad.optim.Adagrad, {"weight_decay": 0.1}, "weight_decay option is not compatible"),
        (ad.optim.Adagrad, {"fused": True}, "`fused` does not support sparse grad"),
    ],
)
def test_options_refused(kind: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        train(kind, True, lr=0.1, **options)


def test_sparse_and_dense_parameters_in_one_group() -> None:
    """The dense ones are still updated together, the sparse one by itself."""
    results = []
    for sparse in (False, True):
        ad.manual_seed(0)
        table, head = ad.nn.Embedding(6, 3, sparse=sparse), ad.nn.Linear(3, 2)
        optimizer = ad.optim.SGD([*table.parameters(), *head.parameters()], lr=0.1)
        for step in range(4):
            optimizer.zero_grad()
            head(table(ad.tensor([step, 0, 5]))).pow(2).sum().backward()
            optimizer.step()
        results.append([p.detach().numpy() for p in (*table.parameters(), *head.parameters())])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_scaled_gradients() -> None:
    w = ad.zeros(5, 2, requires_grad=True)
    optimizer, scaler = ad.optim.SparseAdam([w], lr=0.1), ad.amp.GradScaler("cpu")
    scaler.scale(embed(w, sparse=True)).backward()
    scaler.unscale_(optimizer)
    unscaled = to_numpy(w.grad)
    w.grad = None
    embed(w, sparse=True).backward()
    np.testing.assert_allclose(unscaled, to_numpy(w.grad), rtol=1e-6)
    scaler.step(optimizer)
    assert optimizer.state[w]["step"] == 1


# -- captures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [capture, ad.compile])
@pytest.mark.parametrize("layout", [ad.sparse_coo, ad.sparse_csr])
def test_a_captured_step_with_a_sparse_constant(wrap: Any, layout: Any) -> None:
    """A graph's adjacency is read from outside; the weights learn as they do eagerly."""
    results = []
    for run in (lambda fn: fn, wrap):
        ad.manual_seed(0)
        adjacency = random_coo(2, (4, 4), 9).float().to_sparse(layout=layout)
        layer, x = ad.nn.Linear(3, 2), ad.randn(4, 3)
        optimizer = ad.optim.SGD(layer.parameters(), lr=0.1)

        def step(
            x: Any, adjacency: Any = adjacency, layer: Any = layer, optimizer: Any = optimizer
        ) -> Any:
            loss = (adjacency @ layer(x)).pow(2).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        called = run(step)
        results.append([called(x).item() for _ in range(4)])
    np.testing.assert_allclose(*results, rtol=1e-4)


def test_sparse_arguments_and_results_of_compiled_functions() -> None:
    call = ad.compile(lambda x, v: (x @ v, x * 2))
    for count in (3, 5, 3):
        x = random_coo(count, (3, 4), count).requires_grad_()
        v = ad.ones(4, dtype=ad.float64)
        out, twice = call(x, v)
        np.testing.assert_allclose(out.detach().numpy(), to_numpy(x) @ v.numpy(), atol=1e-12)
        np.testing.assert_allclose(to_numpy(twice), 2 * to_numpy(x), atol=1e-12)
        out.sum().backward()
        np.testing.assert_array_equal(to_numpy(x.grad), to_numpy(x) != 0)
    with pytest.raises(NotImplementedError, match="differentiate by its values"):
        ad.func.grad(lambda x: x.sum())(random_coo(0, (2,), 2))


def test_captures_refuse_what_depends_on_data() -> None:
    w = ad.zeros(5, 2, requires_grad=True)
    with pytest.raises(RuntimeError, match="Pass sparse=False"):
        capture(lambda x: embed(w, sparse=True) * x)(ad.ones(()))
    x = random_coo(0, (3,), 5)
    with pytest.raises(RuntimeError, match=r"coalesce: how many.*test_sparse.py:\d+"):
        capture(lambda s: x.coalesce().values() * s)(ad.ones((), dtype=ad.float64))


# -- files and copies -----------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [ad.sparse_coo, ad.sparse_csr])
def test_files_and_copies(layout: Any) -> None:
    x = ad.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse(layout=layout).requires_grad_()
    file = BytesIO()
    ad.save({"x": x.detach(), "layout": layout}, file)
    file.seek(0)
    loaded = ad.load(file)
    assert loaded["layout"] is layout
    for copied in (loaded["x"], pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x)):
        assert copied.layout is layout
        assert to_numpy(copied).tolist() == [[0, 2], [3, 0]]
    assert pickle.loads(pickle.dumps(x)).requires_grad
    assert copy.deepcopy(x)._values().data_ptr() != x._values().data_ptr()


def test_buffers() -> None:
    """A module may hold one: it moves, saves and loads with it."""
    module = ad.nn.Module()
    module.register_buffer("adjacency", ad.eye(3).to_sparse())
    module.double()
    assert module.adjacency.dtype is ad.float64
    other = ad.nn.Module()
    other.register_buffer("adjacency", ad.zeros(3, 3).to_sparse())
    other.load_state_dict(module.state_dict())
    assert to_numpy(other.adjacency).tolist() == np.eye(3).tolist()


def test_assert_close() -> None:
    x = ad.sparse_coo_tensor([[1, 0, 1]], [1.0, 2.0, 3.0], (3,))
    ad.testing.assert_close(x, x.coalesce())
    with pytest.raises(AssertionError, match="'layout' do not match"):
        ad.testing.assert_close(x, x.to_dense())
    ad.testing.assert_close(x, x.to_dense(), check_layout=False)
    with pytest.raises(AssertionError, match="not close"):
        ad.testing.assert_close(x, x * 2)
    with pytest.raises(AssertionError, match="specified values"):
        ad.testing.assert_close(x, x.clone().zero_())


@pytest.mark.cuda
def test_on_a_gpu() -> None:
    """The same compositions there: values, gradients and steps are the CPU's."""

    def flow(device: str) -> list[Any]:
        x = random_coo(0, (3, 4), 7).to(device).requires_grad_()
        d = ad.tensor(np.random.default_rng(1).standard_normal((3, 4))).to(device).requires_grad_()
        assert x.device.type == device
        picked = x.index_select(0, ad.tensor([1, 1]).to(device))
        terms = [
            (x @ d.t()).sin(), ad.sparse.softmax(x, 1).to_dense() * d, (x * d).to_dense(), d + x,
            x.to_sparse_csr() @ d.t(), x.sum(0).to_dense(), (x @ x.t()).to_dense(), x[0].to_dense(),
            picked.to_dense(), (x * x).to_dense(), x.norm(),
        ]  # fmt: skip
        out = sum(t.sum() for t in terms)
        out.backward()
        return [t.detach().cpu().numpy() for t in (out, x.grad.to_dense(), d.grad)]

    for one, other in zip(flow("cpu"), flow("cuda"), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)

    def steps(device: str, kind: Any) -> Any:
        rng = np.random.default_rng(1)
        table = ad.nn.Embedding(6, 3, sparse=True).double()
        with ad.no_grad():
            table.weight.copy_(ad.tensor(rng.standard_normal((6, 3))))
        table.to(device)
        optimizer = kind(table.parameters(), lr=0.1)
        for _ in range(10):
            optimizer.zero_grad()
            (table(ad.tensor(rng.integers(0, 6, 4)).to(device)) ** 2).sum().backward()
            optimizer.step()
        return table.weight.detach().cpu().numpy()

    for kind in (ad.optim.SparseAdam, ad.optim.SGD, ad.optim.Adagrad):
        np.testing.assert_allclose(steps("cuda", kind), steps("cpu", kind), rtol=1e-8)


def test_programs_without_sparse_tensors_do_not_load_them() -> None:
    code = (
        "import sys, adjoint as ad; w = ad.ones(2, requires_grad=True); w.sum().backward();"
        "ad.optim.SGD([w]).step(); print('adjoint.sparse' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("reduce", "wanted"),
    [
        ("sum", [[1.0, -14.0], [0.0, 0.0], [-17.0, -18.0]]),
        ("mean", [[0.5, -7.0], [0.0, 0.0], [-8.5, -9.0]]),
        ("amax", [[6.0, -6.0], [0.0, 0.0], [3.0, 6.0]]),
        ("amin", [[-5.0, -8.0], [0.0, 0.0], [-20.0, -24.0]]),
    ],
)
def test_products_reduce_what_rows_keep(reduce: str, wanted: list[list[float]]) -> None:
    dense = ad.tensor([[0.0, 2.0, -1.0], [0.0, 0.0, 0.0], [3.0, 0.0, -4.0]])
    y = ad.tensor([[1.0, 2.0], [3.0, -4.0], [5.0, 6.0]], requires_grad=True)
    for x in (dense.to_sparse(), dense.to_sparse_csr()):
        assert ad.sparse.mm(x, y, reduce).tolist() == wanted

    def value(y: Any) -> Any:
        return ad.sparse.mm(dense.double().to_sparse(), y, reduce)

    assert ad.autograd.gradcheck(value, (y.detach().double().requires_grad_(),))
    with pytest.raises(ValueError, match="sum, mean, amax or amin"):
        ad.sparse.mm(dense.to_sparse(), y, "prod")


# -- batches of coordinates -----------------------------------------------------------------------


def test_a_batch_of_matrices_multiplies_and_gains_dimensions() -> None:
    x = random_coo(3, (2, 3, 4), 9)
    values = x._values().requires_grad_()
    batch = ad.sparse_coo_tensor(x._indices(), values, (2, 3, 4))
    other = ad.tensor(np.random.default_rng(4).standard_normal((2, 4, 5)))
    out = ad.bmm(batch, other)
    np.testing.assert_allclose(out.detach(), to_numpy(x) @ other.numpy())
    (grad,) = ad.autograd.grad(out.sum(), values)
    at, _, place = x._indices().numpy()
    np.testing.assert_allclose(grad, other.numpy().sum(-1)[at, place])
    for dim in range(-4, 4):
        wider = x.unsqueeze(dim)
        np.testing.assert_array_equal(to_numpy(wider), np.expand_dims(to_numpy(x), dim))
    rows = random_coo(5, (4,), 6, (3,))
    for dim, indexed in ((0, 2), (1, 2), (2, 1)):
        wider = rows.unsqueeze(dim)
        assert wider.sparse_dim() == indexed
        np.testing.assert_array_equal(wider.to_dense(), np.expand_dims(to_numpy(rows), dim))


def test_zeros_like_keeps_the_layout_and_no_element() -> None:
    x = random_coo(6, (3, 4), 5, (2,))
    for made in (ad.zeros_like(x), ad.empty_like(x)):
        assert made.layout is ad.sparse_coo
        assert made._nnz() == 0
        assert made.shape == x.shape
        assert made.sparse_dim() == x.sparse_dim()
    assert ad.zeros_like(x, layout=ad.strided).layout is ad.strided
    assert ad.zeros_like(x, dtype=ad.float32).dtype is ad.float32
    np.testing.assert_array_equal(to_numpy(x.narrow_copy(0, 1, 2)), to_numpy(x)[1:3])


def test_the_old_form_of_a_new_sparse_tensor() -> None:
    x = ad.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3), dtype=ad.float64)
    doubled = x.new(x._indices(), 2 * x._values(), x.size())
    assert doubled.to_dense().tolist() == (2 * x.to_dense()).tolist()
    assert [tuple(made.shape) for made in (x.new(2, 3), x.new(x.size()))] == [(2, 3)] * 2
    assert (x.new(2, 3).layout, x.new(2, 3).dtype) == (ad.sparse_coo, ad.float64)
    assert x._cdata != doubled._cdata


@pytest.mark.parametrize("layout", ["to_sparse_coo", "to_sparse_csr"])
def test_whether_any_element_is_kept_that_is_not_zero(layout: str) -> None:
    x = getattr(ad.eye(2), layout)()
    assert x.any().item() is True
    assert (x * 0).any().item() is False
    for convert in (x.numpy, lambda: np.asarray(x)):
        with pytest.raises(TypeError, match="to_dense"):
            convert()
