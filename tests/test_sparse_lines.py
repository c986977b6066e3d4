"""Sparse matrices kept line by line (CSR, CSC, BSR, BSC): NumPy and the dense tensor judge them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np
import pytest

import adjoint as ad

BLOCKS = {ad.sparse_bsr, ad.sparse_bsc}
LAYOUTS = [ad.sparse_csr, ad.sparse_csc, ad.sparse_bsr, ad.sparse_bsc]
each_layout = pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)


def matrix(seed: int = 0) -> Any:
    """A dense 4 by 6 matrix with a few elements, one of its rows and columns empty."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((4, 6)) * (rng.random((4, 6)) < 0.4)
    values[1], values[:, 3] = 0, 0
    return values


def kept(values: Any, layout: Any) -> Any:
    """The matrix in a layout, made of parts that NumPy finds."""
    by_rows = layout in (ad.sparse_csr, ad.sparse_bsr)
    if layout in BLOCKS:
        height, width = values.shape[0] // 2, values.shape[1] // 3
        tiles = values.reshape(height, 2, width, 3).transpose(0, 2, 1, 3)
        filled = (tiles != 0).any((2, 3))
    else:
        tiles, filled = values, values != 0
    lines = filled if by_rows else filled.T
    starts = np.concatenate([[0], np.cumsum(lines.sum(1))])
    line, place = np.nonzero(lines)
    elements = tiles[(line, place) if by_rows else (place, line)]
    return ad.sparse_compressed_tensor(starts, place, elements, values.shape, layout=layout)


def parts(x: Any) -> tuple[Any, Any, Any]:
    """What PyTorch's names for the three tensors give."""
    if x.layout in (ad.sparse_csr, ad.sparse_bsr):
        return x.crow_indices(), x.col_indices(), x.values()
    return x.ccol_indices(), x.row_indices(), x.values()


def converted(x: Any, layout: Any) -> Any:
    return x.to_sparse(layout=layout, blocksize=(2, 3) if layout in BLOCKS else None)


@each_layout
def test_conversions_give_the_parts_that_numpy_finds(layout: Any) -> None:
    values = matrix()
    wanted = kept(values, layout)
    assert wanted.layout is layout
    assert wanted.is_sparse_csr is (layout is ad.sparse_csr)
    np.testing.assert_array_equal(wanted.to_dense().numpy(), values)
    sources = [ad.tensor(values), ad.tensor(values).to_sparse()]
    # A block keeps its zeros, also as single elements.
    sources += [kept(values, other) for other in LAYOUTS if other not in BLOCKS or layout in BLOCKS]
    for source in sources:
        for got, want in zip(parts(converted(source, layout)), parts(wanted), strict=True):
            np.testing.assert_array_equal(got.numpy(), want.numpy())
    for source in (kept(values, other) for other in LAYOUTS):
        np.testing.assert_array_equal(converted(source, layout).to_dense().numpy(), values)
    assert wanted.to_sparse().is_coalesced() is (layout in (ad.sparse_csr, ad.sparse_bsr))
    coordinates = wanted.to_sparse().coalesce()
    found = coordinates.indices().numpy()
    keys = found[0] * values.shape[1] + found[1]
    assert (np.diff(keys) > 0).all()
    np.testing.assert_array_equal(coordinates.to_dense().numpy(), values)
    method = {
        ad.sparse_csr: lambda x: x.to_sparse_csr(),
        ad.sparse_csc: lambda x: x.to_sparse_csc(),
        ad.sparse_bsr: lambda x: x.to_sparse_bsr((2, 3)),
        ad.sparse_bsc: lambda x: x.to_sparse_bsc((2, 3)),
    }[layout]
    assert method(ad.tensor(values)).layout is layout


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "times": lambda x, d: x * 2.5,
    "by dense": lambda x, d: x * d,
    "sin": lambda x, d: x.sin(),
    "dense plus": lambda x, d: d + x,
    "matmul": lambda x, d: x @ d.t(),
    "dense by": lambda x, d: d.t() @ x,
    "mv": lambda x, d: x.mv(d[0]),
    "sum": lambda x, d: x.sum(),
    "sum 0": lambda x, d: x.sum(0),
    "sum 1": lambda x, d: x.sum(1, keepdim=True),
    "row": lambda x, d: x[2],
    "column": lambda x, d: x[:, 1],
    "part": lambda x, d: x[1:, ::2],
    "norm": lambda x, d: x.norm(),
    "t": lambda x, d: x.t(),
    "transpose": lambda x, d: x.transpose(0, 1),
    "twice": lambda x, d: x.t().t(),
    "add": lambda x, d: x + x * 2,
    "both": lambda x, d: x + (x * 2).clone(),
    "mul": lambda x, d: x * (x * 2),
    "product": lambda x, d: x @ x.t(),
    "double": lambda x, d: x.float().double(),
    "reduced": lambda x, d: ad.sparse.mm(x, d.t(), "sum"),
}


@each_layout
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_are_those_of_the_dense_matrix(name: str, layout: Any) -> None:
    if name == "product" and layout in BLOCKS:
        pytest.skip("4 by 4 has no blocks of 2 by 3")
    x, d = matrix(1), ad.tensor(np.random.default_rng(2).standard_normal((4, 6)))
    got = OPERATIONS[name](kept(x, layout), d).to_dense()
    near = 1e-6 if name == "double" else 1e-12
    np.testing.assert_allclose(got, OPERATIONS[name](ad.tensor(x), d), rtol=near, atol=near)


def test_a_transpose_shares_the_indices() -> None:
    twins = [(ad.sparse_csr, ad.sparse_csc), (ad.sparse_bsr, ad.sparse_bsc)]
    for one, other in [*twins, *[pair[::-1] for pair in twins]]:
        x = kept(matrix(), one)
        assert x.t().layout is other
        assert x.t().shape == (6, 4)
        assert parts(x.t())[0] is parts(x)[0]


@each_layout
def test_gradients(layout: Any) -> None:
    x = kept(matrix(3), layout)
    d = ad.tensor(np.random.default_rng(4).standard_normal((4, 6)), requires_grad=True)
    first, second, values = parts(x)

    def flow(values: Any, d: Any) -> Any:
        made = ad.sparse_compressed_tensor(first, second, values, (4, 6), layout=layout)
        sampled = ad.sparse.sampled_addmm(made, d[:, :2], d[:2])
        return ((made * d) @ d.t()).sin().sum() + sampled.to_dense().sin().sum()

    assert ad.autograd.gradcheck(flow, (values.requires_grad_(), d))
    leaf = kept(matrix(3), layout).requires_grad_()
    (leaf * 3.0).sum().backward()
    assert leaf.grad.layout is layout
    assert set(leaf.grad.values().flatten().tolist()) == {3.0}


@each_layout
def test_files_copies_and_print(layout: Any) -> None:
    x = kept(matrix(), layout)
    file = BytesIO()
    ad.save({"x": x, "layout": layout}, file)
    file.seek(0)
    loaded = ad.load(file)
    assert loaded["layout"] is layout
    for copied in (loaded["x"], pickle.loads(pickle.dumps(x)), copy.deepcopy(x), x.clone()):
        assert copied.layout is layout
        np.testing.assert_array_equal(copied.to_dense().numpy(), matrix())
        ad.testing.assert_close(copied, x)
    starts = "crow_indices" if layout in (ad.sparse_csr, ad.sparse_bsr) else "ccol_indices"
    assert repr(x).startswith(f"tensor({starts}=tensor([0, ")
    assert repr(x).endswith(f"dtype=adjoint.float64, layout={layout})")


@pytest.mark.parametrize("layout", [ad.sparse_csc, ad.sparse_bsr])
def test_compiled_steps_take_them(layout: Any) -> None:
    x, d = kept(matrix(), layout), ad.ones(6, 2, dtype=ad.float64)
    got = ad.compile(lambda x, d: (x @ d, x.t()))(x, d)
    np.testing.assert_allclose(got[0].numpy(), matrix() @ np.ones((6, 2)))
    np.testing.assert_array_equal(got[1].to_dense().numpy(), matrix().T)


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "rows": (lambda: ad.sparse_csc_tensor([0, 1], [4], [1.0], (2, 1)), "row_indices must be from 0 to 1"),
    "starts": (lambda: ad.sparse_csc_tensor([0, 1], [0], [1.0], (2, 3)), "2 column starts"),
    "fall": (lambda: ad.sparse_csc_tensor([0, 2, 1], [0, 1], [1.0, 2.0], (2, 2)), "ccol_indices must rise"),
    "blocks": (lambda: ad.sparse_bsr_tensor([0, 1], [0], [[[1.0, 2.0]]], (1, 3)), "do not make a matrix"),
    "no blocks": (lambda: ad.ones(4, 4).to_sparse(layout=ad.sparse_bsr), "blocksize must be two"),
    "uneven": (lambda: ad.ones(4, 4).to_sparse_bsr((3, 2)), "not divisible"),
    "single": (lambda: ad.ones(4, 4).to_sparse(layout=ad.sparse_csc, blocksize=(2, 2)), "takes no blocksize"),
    "strided": (lambda: ad.sparse_compressed_tensor([0], [0], [1.0], layout=ad.strided), "layout must be"),
    "asked of rows": (lambda: ad.eye(2).to_sparse_csr().ccol_indices(), "ccol_indices expected sparse column compressed tensor layout but got SparseCsr"),
    "asked of columns": (lambda: ad.eye(2).to_sparse_csc().col_indices(), "row compressed tensor layout but got SparseCsc"),
    "asked of dense": (lambda: ad.eye(2).row_indices(), "column compressed tensor layout but got Strided"),
    "unsorted": (lambda: ad.sparse_csc_tensor([0, 2], [1, 0], [1.0, 2.0], check_invariants=True), "row_indices must rise within each column"),
    "two layouts": (lambda: ad.eye(2).to_sparse_csr() + ad.eye(2).to_sparse_csc(), "two layouts"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_parts(case: str) -> None:
    make, message = WRONG[case]
    with pytest.raises((RuntimeError, NotImplementedError), match=message):
        make()


def test_invariants_are_checked_where_asked() -> None:
    asked = ad.sparse.check_sparse_tensor_invariants

    def made() -> Any:
        return ad.sparse_csr_tensor([0, 2], [1, 0], [1.0, 2.0])

    assert not asked.is_enabled()
    assert made().to_dense().tolist() == [[2.0, 1.0]]
    with asked(), pytest.raises(RuntimeError, match="must rise within each row"):
        made()
    with pytest.raises(RuntimeError, match="must rise within each row"):
        asked()(made)()
    asked.enable()
    try:
        with asked(enable=False):
            made()
    finally:
        asked.disable()


def test_diagonals() -> None:
    diagonals, offsets = ad.arange(1.0, 13.0).reshape(3, 4), [0, 2, -1]
    wanted = np.zeros((3, 4))
    for line, step in zip(diagonals.numpy(), offsets, strict=True):
        for column in range(4):
            if 0 <= column - step < 3:
                wanted[column - step, column] = line[column]
    for layout in (None, ad.sparse_coo, ad.sparse_csc):
        got = ad.sparse.spdiags(diagonals, ad.tensor(offsets), (3, 4), layout)
        np.testing.assert_array_equal(got.to_dense().numpy(), wanted)
    with pytest.raises(RuntimeError, match="offsets must differ"):
        ad.sparse.spdiags(diagonals[:2], ad.tensor([1, 1]), (3, 4))
