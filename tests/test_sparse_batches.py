"""Compressed tensors with batch and dense dimensions, beside dense ones and plain loops."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import adjoint as ad

Array = np.ndarray[Any, Any]
LAYOUTS = (ad.sparse_csr, ad.sparse_csc, ad.sparse_bsr, ad.sparse_bsc)
# Batch and dense dimensions around a matrix of 4 by 6.
AROUND = [((3,), ()), ((2, 3), ()), ((), (2,)), ((3,), (2,)), ((1, 2), (2, 3))]
CASES = [(layout, *around) for layout in LAYOUTS for around in AROUND]


def blocks(layout: Any) -> tuple[int, int] | None:
    return (2, 3) if layout in (ad.sparse_bsr, ad.sparse_bsc) else None


def made(layout: Any, batch: tuple[int, ...], dense: tuple[int, ...], seed: int = 0) -> Array:
    """Numbers of which every matrix of the batch keeps as many, single or in blocks."""
    rng = np.random.default_rng(seed)
    height, width = blocks(layout) or (1, 1)
    rows, columns = 4 // height, 6 // width
    count = rows * columns // 2
    kept = np.zeros((*batch, rows * columns), bool)
    for which in np.ndindex(*batch):
        kept[which][rng.choice(rows * columns, count, replace=False)] = True
    kept = kept.reshape((*batch, rows, columns)).repeat(height, -2).repeat(width, -1)
    numbers = rng.normal(size=(*batch, 4, 6, *dense))
    out: Array = numbers * kept.reshape(kept.shape + (1,) * len(dense))
    return out


def sparse(x: Any, layout: Any, dense: tuple[int, ...]) -> Any:
    return x.to_sparse(layout=layout, blocksize=blocks(layout), dense_dim=len(dense))


@pytest.mark.parametrize(("layout", "batch", "dense"), CASES)
def test_there_and_back(layout: Any, batch: Any, dense: Any) -> None:
    a = made(layout, batch, dense)
    x = sparse(ad.tensor(a), layout, dense)
    assert x.layout is layout
    assert (tuple(x.shape), x.sparse_dim(), x.dense_dim()) == (a.shape, 2, len(dense))
    np.testing.assert_array_equal(x.to_dense().numpy(), a)
    np.testing.assert_array_equal(x.to_sparse().to_dense().numpy(), a)
    assert x.to_sparse().sparse_dim() == len(batch) + 2
    parts = [getattr(x, name)() for name in x.shown()]
    assert [tuple(p.shape[: len(batch)]) for p in parts] == [batch] * 3
    again = ad.sparse_compressed_tensor(*parts, tuple(x.shape), layout=layout)
    np.testing.assert_array_equal(again.to_dense().numpy(), a)
    np.testing.assert_array_equal((-again * 2).to_dense().numpy(), -a * 2)
    for other in LAYOUTS:
        if blocks(other) == blocks(layout):  # else matrices may keep different numbers of blocks
            changed = x.to_sparse(layout=other, blocksize=blocks(other))
            np.testing.assert_array_equal(changed.to_dense().numpy(), a)


@pytest.mark.parametrize(("layout", "batch", "dense"), CASES)
def test_each_matrix_is_that_of_its_own(layout: Any, batch: Any, dense: Any) -> None:
    a = made(layout, batch, dense)
    x = sparse(ad.tensor(a), layout, dense)
    for which in np.ndindex(*batch):
        one = sparse(ad.tensor(a[which]), layout, dense)
        chosen = x[which] if batch else x
        assert chosen.layout is layout
        for part, want in zip(chosen.tensors(), one.tensors(), strict=True):
            np.testing.assert_array_equal(part.numpy(), want.numpy())
    if dense:
        last = x.select(-1, 1)
        assert last.layout is layout
        np.testing.assert_array_equal(last.to_dense().numpy(), a[..., 1])
    if batch:
        np.testing.assert_array_equal(x[-1:].to_dense().numpy(), a[-1:])
        first = (0,) * len(batch)
        np.testing.assert_array_equal(x[(*first, 1)].to_dense().numpy(), a[(*first, 1)])


@pytest.mark.parametrize(("layout", "batch", "dense"), CASES)
def test_operations_are_those_of_dense_tensors(layout: Any, batch: Any, dense: Any) -> None:
    a = made(layout, batch, dense)
    x, rank = sparse(ad.tensor(a), layout, dense), len(batch)
    other = ad.tensor(made(layout, batch, dense, 1))
    turned = x.transpose(rank, rank + 1)
    np.testing.assert_array_equal(turned.to_dense().numpy(), a.swapaxes(rank, rank + 1))
    assert turned._starts is x._starts
    if rank == 2:
        np.testing.assert_array_equal(x.transpose(0, 1).to_dense().numpy(), a.swapaxes(0, 1))
    np.testing.assert_array_equal((other + x).numpy(), other.numpy() + a)
    np.testing.assert_array_equal((x * other).to_dense().numpy(), a * other.numpy())
    np.testing.assert_array_equal(x.sin().to_dense().numpy(), np.sin(a))
    np.testing.assert_array_equal((x + x.clone()).to_dense().numpy(), a + a)
    np.testing.assert_allclose(x.sum().item(), a.sum())
    picked = other.sparse_mask(x)
    np.testing.assert_array_equal(picked.to_dense().numpy(), other.numpy() * (a != 0))
    assert x.float().dtype is ad.float32
    if batch:
        with pytest.raises(RuntimeError, match="of the same type"):
            x.transpose(0, rank)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("batch", [(3,), (2, 3)])
def test_products(layout: Any, batch: tuple[int, ...]) -> None:
    a, rng = made(layout, batch, ()), np.random.default_rng(2)
    for shape in ((*batch, 6, 5), (6, 5)):
        b = rng.normal(size=shape)
        A = ad.tensor(a).requires_grad_()
        B = ad.tensor(b, requires_grad=True)
        out = sparse(A, layout, ()) @ B
        np.testing.assert_allclose(out.detach().numpy(), a @ b, atol=1e-12)
        (out * out).sum().backward()
        C, D = ad.tensor(a, requires_grad=True), ad.tensor(b, requires_grad=True)
        ((C @ D) ** 2).sum().backward()
        kept = a != 0
        got, want = ([t.grad.numpy() for t in pair] for pair in ((A, B), (C, D)))  # type: ignore[union-attr]
        np.testing.assert_allclose(got[0][kept], want[0][kept], atol=1e-10)
        np.testing.assert_allclose(got[1], want[1], atol=1e-10)
    left = rng.normal(size=(*batch, 5, 4))
    out = ad.tensor(left) @ sparse(ad.tensor(a), layout, ())
    np.testing.assert_allclose(out.numpy(), left @ a, atol=1e-12)
    if len(batch) == 1:
        b = rng.normal(size=(3, 6, 2))
        out = ad.bmm(sparse(ad.tensor(a), layout, ()), ad.tensor(b))
        np.testing.assert_allclose(out.numpy(), a @ b, atol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_files_and_print(layout: Any) -> None:
    a = made(layout, (2,), (3,))
    x = sparse(ad.tensor(a), layout, (3,)).requires_grad_()
    (x.to_dense() ** 2).sum().backward()
    np.testing.assert_allclose(x.grad.to_dense().numpy(), 2 * a)
    file = io.BytesIO()
    ad.save(x.detach(), file)
    file.seek(0)
    read = ad.load(file)
    assert (read.layout, tuple(read.shape)) == (layout, a.shape)
    np.testing.assert_array_equal(read.to_dense().numpy(), a)
    assert f"size={a.shape}, nnz={x._nnz()}" in " ".join(repr(x).split())


WRONG: dict[str, tuple[Any, str]] = {
    "batches of parts": (
        lambda: ad.sparse_csr_tensor([[0, 1], [0, 1]], [[0]], [[1.0], [1.0]]),
        r"all batch dimensions of crow_indices \(\[2\]\), col_indices \(\[1\]\) and values",
    ),
    "ranks of indices": (
        lambda: ad.sparse_csc_tensor([[0, 1]], [0], [[1.0]]),
        "ccol_indices and row_indices must have the same number of dimensions",
    ),
    "ranks of values": (
        lambda: ad.sparse_bsr_tensor([[0, 1]], [[0]], [[[1.0]]]),
        "values must have dimensionality of at least 4",
    ),
    "size of batch": (
        lambda: ad.sparse_csr_tensor([[0, 1]], [[0]], [[1.0]], (2, 1, 1)),
        "do not make a tensor of size",
    ),
    "dense size": (
        lambda: ad.sparse_csr_tensor([0, 1], [0], [[1.0, 2.0]], (1, 1, 3)),
        "do not make a tensor of size",
    ),
    "one matrix of two": (
        lambda: ad.sparse_csr_tensor([[0, 1], [1, 1]], [[0], [0]], [[1.0], [1.0]]),
        "must rise from 0",
    ),
    "uneven": (
        lambda: ad.tensor([[[1.0, 0.0]], [[1.0, 2.0]]]).to_sparse_csr(),
        "Expect the same number of specified elements per batch",
    ),
    "empty batch": (lambda: ad.ones(0, 2, 2).to_sparse_csr(), "to be non-zero"),
    "dense_dim": (lambda: ad.ones(2, 2, 2).to_sparse_csr(dense_dim=2), r"in \[0,1\] range"),
    "vector": (lambda: ad.ones(3).to_sparse_csr(), "dense_dim argument"),
    "coordinates": (lambda: ad.ones(2, 2, 2).to_sparse().to_sparse_csr(), "of 3 dimensions"),
    "two batches": (
        lambda: ad.ones(2, 2, 2).to_sparse_csr() @ ad.ones(2, 2, 2).to_sparse_csr(),
        "two batches of sparse",
    ),
    "product": (lambda: ad.ones(2, 2, 2).to_sparse_csr() @ ad.ones(3, 2, 2), "cannot contract"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_parts(case: str) -> None:
    make, message = WRONG[case]
    with pytest.raises(RuntimeError, match=message):
        make()


def test_places_of_every_matrix_must_rise_where_asked() -> None:
    parts = ([[0, 2], [0, 2]], [[0, 1], [1, 0]], [[1.0, 2.0], [3.0, 4.0]])
    assert ad.sparse_csr_tensor(*parts).shape == (2, 1, 2)
    with pytest.raises(RuntimeError, match="col_indices must rise within each row"):
        ad.sparse_csr_tensor(*parts, check_invariants=True)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("layout", [*LAYOUTS, ad.sparse_coo], ids=str)
@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize("wrong", [-1, 70, 10**12])
def test_files_with_positions_outside_are_refused(
    layout: Any, part: int, wrong: int, zipped: bool
) -> None:
    if layout is ad.sparse_coo:
        if part:
            pytest.skip("of coordinates there is one part")
        x = ad.from_numpy(made(ad.sparse_csr, (2,), ())).to_sparse(3)
        index = x._indices()
    else:
        x = sparse(ad.from_numpy(made(layout, (2,), ())), layout, ())
        index = x.tensors()[part]
    index[(0,) * (index.ndim - 1) + (1,)] = wrong  # in the memory that is saved
    for weights_only in (True, False):
        file = io.BytesIO()
        ad.save(x, file, _use_new_zipfile_serialization=zipped)
        file.seek(0)
        with pytest.raises(RuntimeError, match=r"must rise from 0|must be from 0|indices along"):
            ad.load(file, weights_only=weights_only)
