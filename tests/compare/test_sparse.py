"""Sparse tensors and sparse gradients beside PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.samples.optimizers import first_rows

torch: Any = pytest.importorskip("torch")
pytestmark = [pytest.mark.compare, pytest.mark.filterwarnings("ignore")]

BOTH = (torch, ad)


def of(lib: Any, array: Any) -> Any:
    """An array as a tensor of one library or the other."""
    return lib.from_numpy(np.array(array))


def plain(x: Any) -> Any:
    """What a result holds: for a sparse tensor, coordinates and elements as they are."""
    if isinstance(x, (tuple, list)):
        return [plain(v) for v in x]
    if not isinstance(x, (torch.Tensor, ad.Tensor)):
        return x
    x = x.detach()
    layout = str(x.layout).rsplit(".", 1)[-1]
    if layout == "strided":
        return x.numpy()
    if layout in ("sparse_csr", "sparse_bsr"):
        return [layout, x.crow_indices().numpy(), x.col_indices().numpy(), x.values().numpy()]
    if layout in ("sparse_csc", "sparse_bsc"):
        return [layout, x.ccol_indices().numpy(), x.row_indices().numpy(), x.values().numpy()]
    return [layout, tuple(x.shape), x._indices().numpy(), x._values().numpy(), x.is_coalesced()]


def assert_same(theirs: Any, ours: Any) -> None:
    if isinstance(theirs, list):
        assert len(theirs) == len(ours)
        for a, b in zip(theirs, ours, strict=True):
            assert_same(a, b)
    elif isinstance(theirs, np.ndarray):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)
        assert ours.dtype == theirs.dtype
    else:
        assert ours == theirs


def pair(lib: Any, coalesced: bool) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    at = rng.integers(0, 3, (2, 6))
    x = lib.sparse_coo_tensor(of(lib, at), of(lib, rng.standard_normal(6)), (3, 4))
    y = lib.sparse_coo_tensor(of(lib, at[:, ::-1].copy()), of(lib, rng.standard_normal(6)), (3, 4))
    dense = of(lib, rng.standard_normal((3, 4)))
    return (x.coalesce(), y.coalesce(), dense) if coalesced else (x, y, dense)


# Functions whose coordinates agree one by one, not only as dense tensors.
SAME: dict[str, Callable[..., Any]] = {
    "x": lambda lib, x, y, d: x,
    "coalesce": lambda lib, x, y, d: x.coalesce(),
    "scale": lambda lib, x, y, d: (x * 2, 3 * x, x / 4, -x),
    "mul dense": lambda lib, x, y, d: (x.coalesce() * d, d * x.coalesce()),
    "mul": lambda lib, x, y, d: (x * y).coalesce(),
    "sum": lambda lib, x, y, d: (x.sum(), lib.sparse.sum(x, 0), lib.sparse.sum(x, 1), x.sum(1, keepdim=True).coalesce()),
    "t": lambda lib, x, y, d: (x.t(), x.transpose(0, 1), x.T),
    "mm": lambda lib, x, y, d: (x @ d.t(), lib.mm(x, d.t()), d.t() @ x, x.mv(d[0])),
    "sparse mm": lambda lib, x, y, d: lib.sparse.mm(x, y.t()).coalesce(),
    "addmm": lambda lib, x, y, d: lib.sparse.addmm(d[:, :3], x, d.t(), beta=2.0, alpha=3.0),
    "dense": lambda lib, x, y, d: (x.to_dense(), d + x, d - x),
    "softmax": lambda lib, x, y, d: (lib.sparse.softmax(x, 1), lib.sparse.log_softmax(x, 0)),
    "csr": lambda lib, x, y, d: (x.to_sparse_csr(), x.to_sparse_csr() @ d.t(), x.to_sparse_csr() * 2),
    "csc": lambda lib, x, y, d: (x.to_sparse_csc(), x.to_sparse_csc() @ d.t(), x.to_sparse_csc() * 2, x.to_sparse_csr().t(), x.to_sparse_csc().t(), x.to_sparse_csc().to_sparse()),
    "rows of lines": lambda lib, x, y, d: (x.to_sparse_csr()[0], x.to_sparse_csr()[:, 1], x.to_sparse_csr().sum(1, keepdim=True), x.to_sparse_csr().sum(0, keepdim=True)),
    "blocks": lambda lib, x, y, d: (d.to_sparse_bsr((1, 2)), d.to_sparse_bsc((3, 2)), d.to_sparse_bsr((3, 1)).t(), x.to_sparse_csr().to_sparse_bsr((3, 2))),
    "layouts": lambda lib, x, y, d: [x.to_sparse(layout=layout) for layout in (lib.sparse_coo, lib.sparse_csr, lib.sparse_csc)],
    "diagonals": lambda lib, x, y, d: lib.sparse.spdiags(d, lib.tensor([0, -1, 2]), (4, 4)).coalesce(),
    "from dense": lambda lib, x, y, d: (d.to_sparse(), d.to_sparse(1), (d > 0).to_sparse(), d.to_sparse_csr()),
    "mask": lambda lib, x, y, d: d.sparse_mask(x.coalesce()),
    "unary": lambda lib, x, y, d: (x.abs(), x.sin(), x.tanh(), lib.nn.functional.relu(x), x**2),
    "norm": lambda lib, x, y, d: x.norm(),
    "select": lambda lib, x, y, d: (x.coalesce()[0].coalesce(), x.coalesce()[:, 1].coalesce(), x.coalesce()[0, 2]),
    "index_select": lambda lib, x, y, d: x.coalesce().index_select(0, lib.tensor([2, 0])).coalesce(),
    "join": lambda lib, x, y, d: (lib.cat([x, y]), lib.cat([x, y], 1), lib.stack([x, y])),
    "casts": lambda lib, x, y, d: (x.float(), x.to(lib.float16).coalesce().is_coalesced(), x.clone()),
    "types": lambda lib, x, y, d: (x.type(), x.sparse_dim(), x.dense_dim(), x._nnz(), x.numel()),
    "linear": lambda lib, x, y, d: lib.nn.functional.linear(x, d),
    "rows": lambda lib, x, y, d: lib.sparse_coo_tensor(lib.tensor([[0, 0, 2]]), d).coalesce(),
    "sum of coalesced": lambda lib, x, y, d: x.coalesce() + y.coalesce(),
}  # fmt: skip


@pytest.mark.parametrize("coalesced", [False, True])
@pytest.mark.parametrize("name", SAME)
def test_results(name: str, coalesced: bool) -> None:
    theirs, ours = (plain(SAME[name](lib, *pair(lib, coalesced))) for lib in BOTH)
    assert_same(theirs, ours)


@pytest.mark.parametrize("coalesced", [False, True])
def test_printing(coalesced: bool) -> None:
    shown = []
    for lib in BOTH:
        x, _, d = pair(lib, coalesced)
        made = [x, x.float(), x.to_sparse_csr(), lib.sparse_coo_tensor((2, 3)), d.to_sparse(1)]
        made += [x.to_sparse_csc(), d.to_sparse_bsr((3, 2)), d.float().to_sparse_bsc((1, 2))]
        made += [x.float().requires_grad_(), x.bool(), x.to_sparse_csr().float()]
        shown.append([repr(m).replace("adjoint.", "torch.") for m in made])
    assert shown[0] == shown[1]


# -- gradients ------------------------------------------------------------------------------------

FLOWS: dict[str, Callable[..., Any]] = {
    "mm": lambda lib, x, d: lib.sparse.mm(x, d.t()).sin().sum(),
    "dense": lambda lib, x, d: (x.to_dense() * d).sum(),
    "mul": lambda lib, x, d: (x * d).sum(),
    "softmax": lambda lib, x, d: (lib.sparse.softmax(x, 1).to_dense() * d).sum(),
    "sum": lambda lib, x, d: (lib.sparse.sum(x, 0).to_dense() * d[0]).sum(),
    "addmm": lambda lib, x, d: lib.sparse.addmm(d[:, :3], x, d.t()).sin().sum(),
}


@pytest.mark.parametrize("name", FLOWS)
def test_gradients_to_both(name: str) -> None:
    results = []
    for lib in BOTH:
        x, _, d = pair(lib, True)
        x.requires_grad_()
        d.requires_grad_()
        FLOWS[name](lib, x, d).backward()
        grad = x.grad.to_dense() if str(x.grad.layout).endswith("coo") else x.grad
        kept = x.detach().to_dense() != 0  # PyTorch's may have more: those outside are not of x
        results.append([plain(grad * kept), plain(d.grad.to_dense())])  # PyTorch's may be sparse
    assert_same(*results)


def run_table(lib: Any, step: Callable[[Any, Any, Any], None], steps: int = 100) -> Any:
    """A table of embeddings under an optimizer, with the same picks on both sides."""
    rng = np.random.default_rng(0)
    table = lib.nn.Embedding(12, 3, sparse=True, padding_idx=5).to(lib.float64)
    with lib.no_grad():
        table.weight.copy_(of(lib, rng.standard_normal((12, 3))))
    made = None
    losses = []
    for i in range(steps):
        picks = of(lib, np.random.default_rng(i).integers(0, 12, (3, 2)))
        made = step(lib, table, picks) if made is None else made
        made.zero_grad(set_to_none=i % 3 != 2)
        loss = (table(picks) ** 2).sum() + table(picks[:1]).sin().sum()
        loss.backward()
        made.step()
        losses.append(loss.item())
    return [np.array(losses), plain(table.weight)]


OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "SparseAdam": lambda lib, p: lib.optim.SparseAdam(p, lr=0.05),
    "SparseAdam, other rates": lambda lib, p: lib.optim.SparseAdam(p, 0.01, (0.7, 0.9), 1e-4, maximize=True),
    "SGD": lambda lib, p: lib.optim.SGD(p, lr=0.05),
    "SGD with momentum": lambda lib, p: lib.optim.SGD(p, lr=0.02, momentum=0.8),
    "SGD, nesterov": lambda lib, p: lib.optim.SGD(p, lr=0.02, momentum=0.8, nesterov=True),
    "Adagrad": lambda lib, p: lib.optim.Adagrad(p, lr=0.1, lr_decay=0.01),
    "Adagrad from a value": lambda lib, p: lib.optim.Adagrad(p, lr=0.1, initial_accumulator_value=0.5),
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_hundred_steps(name: str) -> None:
    theirs, ours = (
        run_table(lib, lambda lib, table, _: OPTIMIZERS[name](lib, table.parameters()))
        for lib in BOTH
    )
    assert_same(theirs, ours)


@pytest.mark.parametrize("options", [{}, {"padding_idx": 2}, {"max_norm": 0.7}], ids=str)
@pytest.mark.parametrize("kind", ["Embedding", "EmbeddingBag", "EmbeddingBag sum"])
def test_layers(kind: str, options: dict[str, Any]) -> None:
    results = []
    for lib in BOTH:
        name, *mode = kind.split()
        extra = {"mode": mode[0]} if mode else {}
        layer = getattr(lib.nn, name)(6, 3, sparse=True, **extra, **options)
        rng = np.random.default_rng(0)
        with lib.no_grad():
            layer.weight.copy_(of(lib, rng.standard_normal((6, 3)).astype("float32")))
        out = layer(of(lib, rng.integers(0, 6, (4, 5))))
        (out * out).sum().backward()
        results.append([plain(out), plain(layer.weight.grad.coalesce())])
    np.testing.assert_allclose(results[1][0], results[0][0], rtol=1e-5, atol=1e-6)
    for mine, theirs in zip(results[1][1][2:4], results[0][1][2:4], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


REFUSING = [
    name
    for name, (kind, _) in first_rows().items()
    if not kind.sparse and hasattr(torch.optim, name)  # Lion and LAMB are ours alone
]


@pytest.mark.parametrize("name", REFUSING)
def test_refusals(name: str) -> None:
    messages = []
    for lib in BOTH:
        w = lib.ones(3, 2, requires_grad=True)
        lib.nn.functional.embedding(lib.tensor([1]), w, sparse=True).sum().backward()
        with pytest.raises(RuntimeError) as caught:
            getattr(lib.optim, name)([w]).step()
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


# -- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr", "bsc"])
def test_files_both_ways(layout: str) -> None:
    def made(lib: Any) -> Any:
        x, blocks = pair(lib, True)[0], layout.startswith("b")
        return getattr(x, f"to_sparse_{layout}")(*[(3, 2)] * blocks)

    file = BytesIO()
    ad.save({"x": made(ad)}, file)
    file.seek(0)
    assert_same(plain(made(torch)), plain(torch.load(file, weights_only=True)["x"]))
    for zipped in (True, False):
        file = BytesIO()
        torch.save({"x": made(torch)}, file, _use_new_zipfile_serialization=zipped)
        file.seek(0)
        assert_same(plain(made(torch)), plain(ad.load(file)["x"]))


LINES: dict[str, Callable[[Any, Any], Any]] = {
    "csr": lambda lib, x: x.to_sparse_csr(),
    "csc": lambda lib, x: x.to_sparse_csc(),
    "csr of rows": lambda lib, x: x.to_sparse_csr(dense_dim=1),
    "bsr": lambda lib, x: x.to_sparse_bsr((2, 2)),
    "bsc of cells": lambda lib, x: x.to_sparse_bsc((1, 2), dense_dim=1),
    "layout": lambda lib, x: x.to_sparse(layout=lib.sparse_csc, dense_dim=0),
    "turned": lambda lib, x: x.to_sparse_csr().transpose(-1, -2),
    "one": lambda lib, x: x.to_sparse_csr()[1],
    "row of one": lambda lib, x: x.to_sparse_csr()[1, 0],
    "dense part": lambda lib, x: x.to_sparse_csr(dense_dim=1).select(-1, 1),
    "other": lambda lib, x: x.to_sparse_csr().to_sparse_csc(),
    "coordinates": lambda lib, x: x.to_sparse_csc().to_sparse(),
    "coordinates of blocks": lambda lib, x: x.to_sparse_bsr((2, 2)).to_sparse().coalesce(),
    "sine": lambda lib, x: x.to_sparse_csr().sin() * 2,
    "sum": lambda lib, x: x.to_sparse_csr().sum(),
    "with dense": lambda lib, x: lib.ones_like(x) + x.to_sparse_csr(),
    "mask": lambda lib, x: (x + 1).sparse_mask(x.to_sparse_csr()),
}


@pytest.mark.parametrize("name", LINES)
def test_batches_of_lines(name: str) -> None:
    x = np.zeros((2, 4, 4))
    x[0, [0, 1, 3], [1, 0, 2]] = [1.0, 2.0, 3.0]
    x[1, [0, 0, 2], [0, 3, 3]] = [4.0, 5.0, 6.0]
    if name in ("bsr", "coordinates of blocks"):
        x[0, 0, 3] = 7.0  # three blocks in each
    theirs, ours = (plain(LINES[name](lib, of(lib, x))) for lib in BOTH)
    assert_same(theirs, ours)
