"""Nested tensors; the rows one by one are the oracle."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint import nested, nn
from adjoint.engine.core.errors import ShapeError
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F

LENGTHS = (2, 5, 1)
LINE, NORM = nn.Linear(8, 4), nn.LayerNorm(8)


def batch() -> tuple[list[Tensor], Any]:
    rows = [ad.randn(n, 8) for n in LENGTHS]
    return rows, nested.nested_tensor(rows, requires_grad=True)


def attend(x: Any) -> Any:
    """Heads of attention on rows: (B, *, 8), or one row as a batch of one."""
    heads = x.unflatten(-1, (2, 4)).transpose(1, 2)
    out = F.scaled_dot_product_attention(heads, heads * 2, heads.cos(), is_causal=True)
    return out.transpose(1, 2).flatten(-2)


ROWWISE: dict[str, Callable[[Any], Any]] = {
    "line": LINE,
    "norm": NORM,
    "chain": lambda x: LINE(F.gelu(NORM(x)) * 2 + x).relu(),
    "bias": lambda x: 1 - x * ad.ones(8) / 3,
    "softmax": lambda x: x.softmax(-1),
    "product": lambda x: x @ LINE.weight.t(),
    "view": lambda x: x.view(x.shape[0], -1, 4, 2) * 2,
    "last": lambda x: x.mean(-1, keepdim=True),
    "attention": attend,
}


@pytest.mark.parametrize("name", ROWWISE)
def test_functions_do_what_they_do_row_by_row(name: str) -> None:
    rows, x = batch()
    found = ROWWISE[name](x)
    own = [row.clone().requires_grad_() for row in rows]
    expected = [ROWWISE[name](row[None])[0] for row in own]
    for a, b in zip(found.unbind(), expected, strict=True):
        ad.testing.assert_close(a, b)
    found.values().square().sum().backward()
    sum(e.square().sum() for e in expected).backward()  # type: ignore[union-attr]
    ad.testing.assert_close(x.grad.values(), ad.cat([row.grad for row in own]))


def test_gradients_are_given_and_taken_nested() -> None:
    _, x = batch()
    out = x * x
    weight = ad.zeros_like(x) + 3
    (found,) = ad.autograd.grad(out, x, weight, retain_graph=True)
    assert found.is_nested
    ad.testing.assert_close(found.values(), 6 * x.values())
    out.sum().backward(inputs=[x], retain_graph=True)
    ad.testing.assert_close(x.grad.values(), 2 * x.values())
    x.grad = weight
    out.backward(weight)
    ad.testing.assert_close(x.grad.values(), 6 * x.values() + 3)
    x.grad = None
    assert x.grad is None


@pytest.mark.parametrize("workers", [0, 1])
def test_batches_of_loaders_are_nested(workers: int) -> None:
    rows = [ad.randn(n, 2) for n in LENGTHS]
    loader = ad.utils.data.DataLoader(
        rows, batch_size=2, num_workers=workers, collate_fn=nested.as_nested_tensor
    )
    found = [row for batch in loader for row in batch.unbind()]
    ad.testing.assert_close(found, rows)


def test_copies_have_values_of_their_own() -> None:
    rows, x = batch()
    for copied in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert copied.requires_grad
        with ad.no_grad():
            copied.zero_()
        assert not copied.values().any()
    assert copy.copy(x).values() is x.values()
    ad.testing.assert_close(list(x.unbind()), rows)
    twice = copy.deepcopy([x, x])
    assert twice[0] is twice[1]


def test_rows_are_padded_reduced_and_found_again() -> None:
    rows, x = batch()
    padded = x.to_padded_tensor(-1.0)
    for k, row in enumerate(rows):
        ad.testing.assert_close(padded[k, : len(row)], row)
        assert bool((padded[k, len(row) :] == -1).all())
    ad.testing.assert_close(x.sum(1), ad.stack([row.sum(0) for row in rows]))
    ad.testing.assert_close(x.mean(), ad.cat(rows).mean())
    again = nested.nested_tensor_from_jagged(x.values(), lengths=x.offsets().diff())
    assert x.lengths() is None
    ad.testing.assert_close((again + x).values(), x.values() * 2)
    added = x + ad.arange(3.0).reshape(3, 1, 1)
    ad.testing.assert_close(added.unbind()[2], rows[2] + 2)
    assert x.is_nested
    assert x.layout is ad.jagged
    assert tuple(x.shape) == (3, 5, 8)


def test_what_rows_do_not_allow_is_refused() -> None:
    _, x = batch()
    for wrong in (lambda: x.sort(1), lambda: x.reshape(3, -1), lambda: x.softmax(0)):
        with pytest.raises(NotImplementedError, match="nested"):
            wrong()
    with pytest.raises(RuntimeError, match="ragged"):
        x + ad.ones(5, 8)
    with pytest.raises(RuntimeError, match="lengths"):
        x + nested.nested_tensor([ad.ones(3, 8)] * 3)
    with pytest.raises(RuntimeError, match="first size only"):
        nested.nested_tensor([ad.ones(2, 3), ad.ones(2, 4)])
    with pytest.raises(RuntimeError, match="rise from 0"):
        nested.nested_tensor_from_jagged(ad.ones(4, 2), ad.tensor([0, 3]))


def test_what_is_taken_along_the_ragged_dimension_is_never_another() -> None:
    _, x = batch()
    heads = x.unflatten(-1, (2, 4))
    turned = heads.transpose(1, 2)
    wrong: list[tuple[Callable[[], Any], type[Exception]]] = [
        (lambda: F.normalize(x), NotImplementedError),  # its dim is 1
        (lambda: x.sum(5), IndexError),
        (lambda: x.softmax(3), IndexError),
        (lambda: ad.cat([x, x], 3), IndexError),
        (lambda: ad.cat([turned, turned]), NotImplementedError),
        (lambda: heads + turned, ShapeError),
        (lambda: turned + ad.ones(2, 4), ShapeError),  # 2 is as many as heads, not as entries
    ]
    for call, error in wrong:
        with pytest.raises(error):
            call()
    ad.testing.assert_close((turned + ad.arange(4.0)).values(), heads.values() + ad.arange(4.0))
    assert tuple(turned.to_padded_tensor(0.0, (3, 2, 6, 4)).shape) == (3, 2, 6, 4)


def test_sizes_types_and_results_to_write_to() -> None:
    _, x = batch()
    assert x.numel() == x.nelement() == sum(LENGTHS) * 8
    assert nested.as_nested_tensor(x, dtype=ad.float64).dtype is ad.float64
    out = ad.empty(0)
    assert nested.to_padded_tensor(x, 0.0, out=out) is out
    assert tuple(out.shape) == (3, 5, 8)


def test_a_row_is_taken_by_its_number() -> None:
    rows, whole = batch()
    for at in (0, 2, -1):
        assert whole[at].equal(rows[at])
    assert whole[1, 2:4].equal(rows[1][2:4])
    whole[1].sum().backward()
    assert [float(g.sum()) for g in whole.grad.unbind()] == [0.0, 40.0, 0.0]
    with pytest.raises(NotImplementedError, match="number of a row"):
        whole[:, 0]


def listed(nested: Any) -> list[Any]:
    return [row.tolist() for row in nested.unbind()]


def test_parts_of_rows_and_chosen_elements() -> None:
    x = ad.arange(12.0).reshape(2, 6).requires_grad_()
    parts = ad.nested.narrow(x, 1, ad.tensor([0, 3]), ad.tensor([2, 3]), layout=ad.jagged)
    assert listed(parts) == [[0.0, 1.0], [9.0, 10.0, 11.0]]
    (parts * 2).sum().backward()
    assert x.grad.tolist() == [[2.0, 2.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 2.0, 2.0, 2.0]]
    assert ad.nested.narrow(x, 1, 1, 2).shape == (2, 2)
    chosen = ad.nested.masked_select(x, x.detach() % 4 != 0)
    assert listed(chosen) == [[1.0, 2.0, 3.0, 5.0], [6.0, 7.0, 9.0, 10.0, 11.0]]
    for bad in ((0, 0, 1), (1, 4, 3)):
        with pytest.raises(RuntimeError):
            ad.nested.narrow(x, *bad[:1], ad.tensor(bad[1]), ad.tensor(bad[2]), layout=ad.jagged)


# Name -> what it makes of the batch, and of each of its rows.
BY_ROWS: dict[str, tuple[Any, Any]] = {
    "chunk": (lambda n: n.chunk(3, -1)[1], lambda r: r.chunk(3, -1)[1]),
    "split": (lambda n: n.split([1, 2], -1)[1], lambda r: r.split([1, 2], -1)[1]),
    "unsqueeze": (lambda n: n.unsqueeze(2), lambda r: r.unsqueeze(1)),
    "select": (lambda n: n.select(-1, 1), lambda r: r.select(-1, 1)),
    "cat": (lambda n: ad.cat([n, n * 2], -1), lambda r: ad.cat([r, r * 2], -1)),
    "softmax": (lambda n: n.softmax(1), lambda r: r.softmax(0)),
    "log_softmax": (lambda n: n.log_softmax(-1), lambda r: r.log_softmax(-1)),
    "glu": (
        lambda n: F.glu(ad.cat([n, n], 2), 2),
        lambda r: F.glu(ad.cat([r, r], 1), 1),
    ),
    "normalize": (
        lambda n: F.normalize(n, dim=2),
        lambda r: F.normalize(r, dim=1),
    ),
    "prod": (lambda n: n.prod(2), lambda r: r.prod(1)),
    "any": (lambda n: n.any(1), lambda r: r.any(0)),
    "matmul": (lambda n: n @ ad.ones(2, 3, 2), lambda r: r @ ad.ones(3, 2)),
    "pow": (lambda n: n.pow(2), lambda r: r.pow(2)),
    "remainder": (lambda n: n % 0.3, lambda r: r % 0.3),
    "maximum": (lambda n: ad.maximum(n, n * 2), lambda r: ad.maximum(r, r * 2)),
    "max of two": (lambda n: n.max(n * 2), lambda r: r.max(r * 2)),
    "lerp": (lambda n: n.lerp(n * 3, 0.5), lambda r: r.lerp(r * 3, 0.5)),
    "isclose": (lambda n: ad.isclose(n, n + 1e-9), lambda r: ad.isclose(r, r + 1e-9)),
    "bits": (lambda n: ~(n > 0) & (n < 1) | (n > 2), lambda r: ~(r > 0) & (r < 1) | (r > 2)),
    "detach": (lambda n: n.detach(), lambda r: r),
    "max ragged": (lambda n: n.max(1)[0], lambda r: r.max(0)[0]),
    "max ragged places": (lambda n: n.max(dim=1, keepdim=True)[1], lambda r: r.max(0, True)[1]),
    "max": (lambda n: n.max(-1).values, lambda r: r.max(-1).values),
    "min places": (lambda n: n.min(2).indices, lambda r: r.min(1).indices),
    "reshape": (lambda n: n.reshape(2, -1, 3, 1), lambda r: r.reshape(-1, 3, 1)),
    "reshape to a size": (lambda n: n.reshape(2, n.size(1), 1, -1), lambda r: r.reshape(-1, 1, 3)),
    "view": (lambda n: n.view(2, -1, 1, 3), lambda r: r.view(-1, 1, 3)),
    "stack": (lambda n: ad.stack([n, n * 2], 2), lambda r: ad.stack([r, r * 2], 1)),
    "stack last": (lambda n: ad.stack([n, n * 2], -1), lambda r: ad.stack([r, r * 2], -1)),
    "sum of two": (lambda n: n.unsqueeze(-1).sum((2, 3)), lambda r: r.sum(1)),
    "add_": (lambda n: n.clone().add_(1), lambda r: r + 1),
    "mul_": (lambda n: n.clone().mul_(n), lambda r: r * r),
    "row_": (lambda n: n.clone().sub_(ad.arange(3.0)), lambda r: r - ad.arange(3.0)),
    "clamp_": (lambda n: n.clone().clamp_(-0.5, 0.5), lambda r: r.clamp(-0.5, 0.5)),
    "relu_": (lambda n: n.clone().relu_(), lambda r: r.relu()),
    "masked_fill_": (
        lambda n: n.clone().masked_fill_(n > 0, 7.0),
        lambda r: r.masked_fill(r > 0, 7),
    ),
    "zero_": (lambda n: n.clone().zero_(), lambda r: r * 0),
    "fill_": (lambda n: n.clone().fill_(3), lambda r: ad.full_like(r, 3)),
    "copy_": (lambda n: ad.zeros_like(n).copy_(n), lambda r: r),
}


@pytest.mark.parametrize("name", sorted(BY_ROWS))
def test_a_batch_is_its_rows(name: str) -> None:
    rows = [ad.randn(2, 3), ad.randn(4, 3)]
    whole, one = BY_ROWS[name]
    got = whole(ad.nested.nested_tensor(rows))
    for found, row in zip(got.unbind(0), rows, strict=True):
        ad.testing.assert_close(found, one(row))


def test_writes_go_into_the_values() -> None:
    values = ad.arange(6.0)
    x = nested.nested_tensor_from_jagged(values, ad.tensor([0, 2, 6]))
    y = x
    x += 1
    assert x is y
    assert x.mul_(2) is x
    assert values.tolist() == [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]
    shorter = nested.nested_tensor([ad.ones(3), ad.ones(3)])
    for wrong in (lambda: x.add_(shorter), lambda: x.copy_(shorter)):
        with pytest.raises(RuntimeError, match="lengths"):
            wrong()
    with pytest.raises(NotImplementedError, match="gradient"):
        nested.nested_tensor([ad.ones(3)], requires_grad=True).mul_(2)
    assert values.tolist() == [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]


def test_sums_over_rows_and_their_entries() -> None:
    rows, x = batch()
    whole = ad.cat(rows)
    ad.testing.assert_close(x.sum((0, 1)), whole.sum(0))
    ad.testing.assert_close(x.mean((0, 1, 2)), whole.mean())
    ad.testing.assert_close(x.amax((0, 1), keepdim=True), whole.amax(0).reshape(1, 1, 8))
    for dims in (0, (0, 2), (1, 2)):
        with pytest.raises(NotImplementedError, match="over dimensions"):
            x.sum(dims)


def test_shapes_that_are_not_of_the_rows_are_refused() -> None:
    _, x = batch()  # lengths 2, 5, 1 of 8
    for sizes in (
        (-1, 8),
        (3, 5, 7),
        (3, 40),
        (8, -1, 3),
        (3, 4, 10),
        (3, -1, -1),
        (3, -1, -8, -1),
    ):
        with pytest.raises(NotImplementedError, match="nested"):
            x.reshape(*sizes)
    with pytest.raises(NotImplementedError, match="nested"):
        x.max(0)
    with pytest.raises(IndexError):
        x.max(3)
