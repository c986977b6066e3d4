"""nn.init and nn.utils without PyTorch at hand."""

from __future__ import annotations

import copy
import pickle
from math import prod, sqrt
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.nn.utils import parametrizations, parametrize, prune


@pytest.mark.parametrize(
    ("name", "mean", "std"),
    [
        ("uniform_", 0.5, sqrt(1 / 12)),
        ("normal_", 0.0, 1.0),
        ("trunc_normal_", 0.0, 0.8796),
        ("xavier_uniform_", 0.0, sqrt(2 / 250)),
        ("xavier_normal_", 0.0, sqrt(2 / 250)),
        ("kaiming_uniform_", 0.0, sqrt(2 / 150)),
        ("kaiming_normal_", 0.0, sqrt(2 / 150)),
    ],
)
def test_distributions(name: str, mean: float, std: float) -> None:
    w = nn.Parameter(ad.empty(100, 150))
    fill: Any = getattr(nn.init, name)
    assert fill(w, generator=ad.Generator().manual_seed(1)) is w
    assert abs(float(w.mean()) - mean) < 0.02 * max(std, 0.1) * 5
    assert abs(float(w.std()) - std) < 0.03 * std
    again = fill(ad.empty(100, 150), generator=ad.Generator().manual_seed(1))
    assert ad.equal(w, again)
    assert w.grad_fn is None


def test_orthogonal_and_sparse() -> None:
    for shape in ((3, 5), (5, 3), (4, 2, 2)):
        w = nn.init.orthogonal_(ad.empty(shape), gain=2).reshape(shape[0], -1)
        square = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
        assert ad.allclose(square, 4 * ad.eye(min(w.shape)), atol=1e-4)
    assert (nn.init.sparse_(ad.empty(10, 4), 0.35) == 0).sum(0).tolist() == [4, 4, 4, 4]


def test_empty_and_unknown() -> None:
    with pytest.warns(UserWarning, match="no-op"):
        nn.init.kaiming_uniform_(ad.empty(0, 3))
    with pytest.raises(ValueError, match="Unsupported nonlinearity"):
        nn.init.calculate_gain("nothing")
    with pytest.warns(FutureWarning, match="uniform_"):
        nn.init.uniform(ad.empty(2))


def test_skip_init_draws_nothing() -> None:
    ad.manual_seed(3)
    expected = ad.rand(1)
    ad.manual_seed(3)
    nn.utils.skip_init(nn.Linear, 4, 4)
    assert ad.equal(ad.rand(1), expected)


def test_clip_by_value_and_norm() -> None:
    p = nn.Parameter(ad.zeros(2))
    p.grad = ad.tensor([3.0, -4.0])
    nn.utils.clip_grad_value_(p, 3.5)
    assert p.grad.tolist() == [3.0, -3.5]
    p.grad = ad.tensor([3.0, float("inf")])
    with pytest.raises(RuntimeError, match="non-finite"):
        nn.utils.clip_grad_norm_(p, 1.0, error_if_nonfinite=True)
    nothing: list[nn.Parameter] = []
    with pytest.warns(UserWarning, match="empty generator"):
        nn.utils.clip_grad_norm_((q for q in nothing), 1.0)


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
@pytest.mark.parametrize("name", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("based", [True, False])
def test_orthogonal_parametrisation(shape: tuple[int, int], name: str, based: bool) -> None:
    layer = parametrizations.orthogonal(
        nn.Linear(*shape), orthogonal_map=name, use_trivialization=based
    )
    w = layer.weight
    w = w if w.shape[0] >= w.shape[1] else w.T
    assert ad.allclose(w.T @ w, ad.eye(w.shape[1]), atol=1e-4)
    layer.weight.pow(3).sum().backward()
    assert layer.parametrizations.weight.original.grad is not None


def test_parametrised_modules_copy_but_do_not_pickle() -> None:
    layer = parametrizations.weight_norm(nn.Linear(2, 2))
    twin = copy.deepcopy(layer)
    assert ad.equal(twin.weight, layer.weight)
    assert twin.parametrizations.weight.original1 is not layer.parametrizations.weight.original1
    with pytest.raises(RuntimeError, match="state_dict"):
        pickle.dumps(layer)
    other = nn.Linear(2, 2)
    parametrize.transfer_parametrizations_and_params(layer, other)
    assert ad.equal(other.weight, layer.weight)


def test_spectral_norm_reaches_one() -> None:
    x = ad.ones(1, 4)
    old = nn.utils.spectral_norm(nn.Linear(4, 3))
    new = parametrizations.spectral_norm(nn.Linear(4, 3))
    for layer in (old, new):
        for _ in range(40):
            layer(x)
        layer.eval()
        assert abs(float(ad.linalg.matrix_norm(layer.weight, 2)) - 1) < 1e-3


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (lambda: nn.Linear(3, 4), (2, 3)),
        (lambda: nn.Conv1d(3, 4, 3), (2, 3, 5)),
        (lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), (2, 3, 5, 5)),
        (lambda: nn.ConvTranspose2d(3, 4, 3), (2, 3, 5, 5)),
        (lambda: nn.GroupNorm(1, 3), (2, 3, 5)),
    ],
    ids=["linear", "conv1d", "conv2d", "conv_transpose2d", "group_norm"],
)
def test_parametrised_weights_are_computed_once_a_call(layer: Any, shape: tuple[int, ...]) -> None:
    class Counted(nn.Module):
        count = 0

        def forward(self, weight: Any) -> Any:
            self.count += 1
            return weight

    counted, made = Counted(), layer()
    parametrize.register_parametrization(made, "weight", counted)
    before = counted.count
    made(ad.ones(shape))
    assert counted.count == before + 1


def test_pruning_composes_and_leaves_no_trace() -> None:
    layer = nn.Linear(6, 4)
    prune.random_unstructured(layer, "weight", 6)
    prune.random_structured(layer, "weight", 1, dim=0)
    assert isinstance(next(iter(layer._forward_pre_hooks.values())), prune.PruningContainer)
    assert (layer.weight == 0).sum() >= 6
    assert prune.is_pruned(layer)
    kept = layer.weight.detach().clone()
    prune.remove(layer, "weight")
    assert ad.equal(layer.weight, kept)
    assert list(layer.state_dict()) == ["bias", "weight"]
    assert not layer._forward_pre_hooks


def test_functional_call_leaves_the_module_alone() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    held = net[0].weight
    zeros = {k: ad.zeros_like(v) for k, v in net.named_parameters()}
    assert ad.func.functional_call(net, zeros, (ad.ones(4, 2),)).abs().sum() == 0
    assert net[0].weight is held
    with pytest.warns(FutureWarning, match="func.functional_call"):
        nn.utils.stateless.functional_call(net, zeros, (ad.ones(4, 2),))


@pytest.mark.parametrize("dtype", [ad.float32, ad.int64, ad.bool, ad.bfloat16])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padded_sequences(dtype: ad.dtype, side: str) -> None:
    """Followed by the tape or not, elements and layout are those of rows filled one by one."""
    rest, value = (2, 3), 1
    rows = [(ad.arange(6.0 * n).reshape(2, n, 3).transpose(0, 1) - 2).to(dtype) for n in (3, 1, 4)]
    want = np.full((3, 4, *rest), value, dtype=rows[0].numpy().dtype)
    for row, x in zip(want, rows, strict=True):
        row[4 - len(x) if side == "left" else 0 :][: len(x)] = x.numpy()
    for batch_first, ordered in ((True, want), (False, want.swapaxes(0, 1))):
        got = nn.utils.rnn.pad_sequence(rows, batch_first, value, side)
        assert got.dtype is dtype
        assert got.is_contiguous()
        assert got.numpy().tolist() == ordered.tolist()
        if dtype is ad.float32:
            followed = [x.clone().requires_grad_() for x in rows]
            padded = nn.utils.rnn.pad_sequence(followed, batch_first, value, side)
            assert padded.tolist() == got.tolist()
            padded.mul(3).sum().backward()
            assert all(x.grad.eq(3).all() for x in followed)
        with ad.inference_mode():
            assert nn.utils.rnn.pad_sequence(rows, batch_first, value, side).is_inference()


@pytest.mark.parametrize("dtype", [ad.float32, ad.int64, ad.bool, ad.bfloat16, ad.complex64])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3), (3, 1, 2)])
def test_many_stacked(dtype: ad.dtype, shape: tuple[int, ...]) -> None:
    """Stacks of many little tensors, of every layout, are NumPy's of their elements."""
    size = 40
    base = (ad.arange(float(size * max(1, prod(shape)))) % 7).to(dtype)
    whole = base[: size * prod(shape)].reshape(size, *shape)
    for source in (whole, whole.transpose(0, -1).contiguous().transpose(0, -1)):
        rows = list(source)
        for dim in range(-len(shape) - 1, len(shape) + 1):
            got = ad.stack(rows, dim)
            assert got.dtype is dtype
            assert got.is_contiguous()
            assert not any(got.data_ptr() == x.data_ptr() for x in rows if x.numel())
            want = np.stack([x.numpy() for x in rows], dim)
            assert got.shape == want.shape
            assert got.tolist() == want.tolist()


def test_many_stacked_that_the_general_way_takes() -> None:
    rows = [ad.ones(3, requires_grad=True) for _ in range(9)]
    ad.stack(rows).mul(2).sum().backward()
    assert all(x.grad.tolist() == [2.0, 2.0, 2.0] for x in rows)
    views = list(ad.ones(9, 3, requires_grad=True))
    assert ad.stack(views).requires_grad
    mixed = [*(x.detach() for x in rows), ad.ones(3, dtype=ad.float64)]
    assert ad.stack(mixed).dtype is ad.float64
    for one, other in (((2, 3), (3, 2)), ((4,), (2, 2)), ((1, 4), (4, 1)), ((), (1,)), ((1,), ())):
        for dim in (0, -1):
            with pytest.raises(RuntimeError, match="equal size"):
                ad.stack([*[ad.ones(one)] * 9, ad.ones(other)], dim)
    with pytest.raises(RuntimeError, match="equal size"):
        ad.stack([*mixed, ad.ones(4)])
    with pytest.raises(IndexError):
        ad.stack(mixed[:9], 2)
    with pytest.raises(TypeError, match="element 9"):
        ad.stack([*mixed[:9], 1.0])
    with ad.inference_mode():
        assert ad.stack(mixed[:9]).is_inference()
    assert ad.func.vmap(lambda x: ad.stack([x] * 8))(ad.ones(2, 3)).shape == (2, 8, 3)
    assert ad.compile(lambda x: ad.stack([x] * 8))(ad.ones(3)).shape == (8, 3)
