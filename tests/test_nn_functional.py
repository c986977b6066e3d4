"""What users rely on in the functions behind layers, and in the layers made of them."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.graph import capture

F = nn.functional


def close(a: Any, b: Any, tolerance: float = 1e-6) -> None:
    a, b = (x.detach().numpy() if isinstance(x, ad.Tensor) else np.asarray(x) for x in (a, b))
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


# -- activations --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["relu", "elu", "silu", "hardtanh", "leaky_relu", "mish", "selu"])
def test_inplace_activations_write_and_differentiate(name: str) -> None:
    x = ad.randn(5, dtype=ad.float64, requires_grad=True)
    plain = getattr(F, name)(x)
    (want,) = ad.autograd.grad(plain.sum(), x)
    y = x * 1
    out = getattr(F, name)(y, inplace=True)
    assert out is y
    close(out, plain)
    (got,) = ad.autograd.grad(out.sum(), x)
    close(got, want)


def test_half_activations_round_once() -> None:
    x = ad.linspace(-4, 4, 100)
    for fn in (F.gelu, F.silu, F.softplus, F.mish, F.logsigmoid):
        half = fn(x.bfloat16())
        assert half.dtype is ad.bfloat16
        close(half.float(), fn(x.bfloat16().float()).bfloat16().float(), 0)


def test_extreme_inputs_stay_finite() -> None:
    x = ad.tensor([-1e4, -50.0, 0.0, 50.0, 1e4], dtype=ad.float64, requires_grad=True)
    for fn in (F.gelu, F.silu, F.softplus, F.mish, F.logsigmoid, F.elu, F.selu):
        out = fn(x)
        (g,) = ad.autograd.grad(out.sum(), x)
        assert np.isfinite(out.detach().numpy()).all(), fn
        assert np.isfinite(g.numpy()).all(), fn


def test_implicit_softmax_dimension_warns() -> None:
    with pytest.warns(UserWarning, match="Implicit dimension"):
        F.softmax(ad.zeros(2, 2))


# -- normalisation ------------------------------------------------------------------------------


def test_batch_norm_statistics_and_evaluation() -> None:
    layer: Any = nn.BatchNorm1d(2, momentum=0.5)
    x = ad.tensor([[1.0, 10.0], [3.0, 30.0]])
    layer(x)
    close(layer.running_mean, [1.0, 10.0])
    close(layer.running_var, [0.5 + 0.5 * 2.0, 0.5 + 0.5 * 200.0])
    assert int(layer.num_batches_tracked) == 1
    layer.eval()
    want = (x - layer.running_mean) / (layer.running_var + layer.eps).sqrt()
    close(layer(x), want, 1e-5)
    assert int(layer.num_batches_tracked) == 1


def test_batch_norm_without_momentum_averages() -> None:
    layer = nn.BatchNorm1d(1, momentum=None)
    batches = [ad.randn(4, 1) for _ in range(3)]
    for x in batches:
        layer(x)
    close(layer.running_mean, np.mean([x.numpy().mean() for x in batches], keepdims=True), 1e-5)


def test_one_value_per_channel_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        nn.BatchNorm1d(3)(ad.ones(1, 3))


def test_shape_errors_name_the_layer() -> None:
    with pytest.raises(ValueError, match="BatchNorm2d: expected 4D input"):
        nn.BatchNorm2d(3)(ad.ones(2, 3))
    with pytest.raises(RuntimeError, match=r"BatchNorm2d.*num_features \(3\)"):
        nn.BatchNorm2d(3)(ad.ones(2, 4, 1, 1))
    with pytest.raises(RuntimeError, match=r"normalized_shape=\[5\]"):
        nn.LayerNorm(5)(ad.ones(2, 4))
    with pytest.raises(ValueError, match="GroupNorm"):
        nn.GroupNorm(2, 3)


def test_sync_batch_norm_in_one_process() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    x = ad.randn(5, 3)
    want = model(x)
    synced: Any = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert isinstance(synced[1], nn.SyncBatchNorm)
    close(synced(x), want)
    with pytest.raises(TypeError, match="expected a ProcessGroup"):
        nn.SyncBatchNorm(4, process_group=object())(ad.randn(5, 4))


def test_lazy_norms_become_their_class() -> None:
    layer: Any = nn.LazyBatchNorm2d()
    layer(ad.randn(2, 3, 4, 4))
    assert type(layer) is nn.BatchNorm2d
    assert layer.num_features == 3
    assert sum(p.numel() for p in layer.parameters()) == 6


# -- dropout ------------------------------------------------------------------------------------


def test_dropout_keeps_the_mean() -> None:
    ad.manual_seed(0)
    x = ad.ones(200, 200)
    out = F.dropout(x, 0.3)
    assert abs(float(out.mean()) - 1) < 0.02
    assert set(np.unique(np.round(out.numpy(), 4))) == {0.0, np.float32(np.round(1 / 0.7, 4))}
    assert F.dropout(x, 0.3, training=False) is x


def test_channel_dropout_drops_whole_channels() -> None:
    ad.manual_seed(0)
    out = F.dropout2d(ad.ones(8, 16, 3, 3), 0.5).numpy().reshape(8 * 16, 9)
    assert ((out == 0).all(1) | (out == 2).all(1)).all()


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    ad.manual_seed(0)
    out = F.alpha_dropout(ad.randn(400, 400), 0.2, training=True)
    assert abs(float(out.mean())) < 0.02
    assert abs(float(out.std()) - 1) < 0.02


# -- embeddings ---------------------------------------------------------------------------------


def test_padding_row_gets_no_gradient() -> None:
    table = nn.Embedding(4, 3, padding_idx=-2)
    assert table.padding_idx == 2
    close(table.weight[2], np.zeros(3))
    table(ad.tensor([2, 1, 1])).sum().backward()
    close(table.weight.grad, [[0] * 3, [2] * 3, [0] * 3, [0] * 3])


def test_max_norm_renormalises_in_place() -> None:
    table = nn.Embedding(3, 4, max_norm=1.0)
    with ad.no_grad():
        table.weight.fill_(2.0)
    out = table(ad.tensor([0, 0]))
    close(out.norm(dim=1), [1.0, 1.0], 1e-5)
    close(table.weight[1], np.full(4, 2.0))


def test_bags_match_loops() -> None:
    w = ad.randn(6, 3, dtype=ad.float64)
    index, offsets = [1, 2, 4, 5, 5], [0, 2, 2]
    for mode, fn in (("sum", np.sum), ("mean", np.mean), ("max", np.max)):
        out = F.embedding_bag(ad.tensor(index), w, ad.tensor(offsets), mode=mode)
        rows = w.numpy()
        want = [fn(rows[index[:2]], 0), np.zeros(3), fn(rows[index[2:]], 0)]
        close(out, np.stack(want))


@pytest.mark.parametrize("rows", [3, 3000])
@pytest.mark.parametrize("offsets", [[0, 3], None])
def test_the_first_of_equal_rows_has_the_gradient_of_a_bag(rows: int, offsets: Any) -> None:
    w = ad.ones(rows, 2, requires_grad=True)
    index = ad.tensor([2, 0, 1, 1, 2, 0])
    given = (index, w, ad.tensor(offsets)) if offsets else (index.reshape(2, 3), w)
    F.embedding_bag(*given, mode="max").sum().backward()
    assert w.grad is not None
    assert w.grad[:3].tolist() == [[0, 0], [1, 1], [1, 1]]


def test_pretrained_tables_are_frozen() -> None:
    table = nn.Embedding.from_pretrained(ad.ones(2, 3))
    assert not table.weight.requires_grad
    assert nn.EmbeddingBag.from_pretrained(ad.ones(2, 3), freeze=False).weight.requires_grad


# -- losses -------------------------------------------------------------------------------------


def test_cross_entropy_of_ignored_targets() -> None:
    x = ad.randn(3, 4, dtype=ad.float64, requires_grad=True)
    loss = F.cross_entropy(x, ad.tensor([1, -100, 2]))
    want = F.cross_entropy(x[ad.tensor([0, 2])], ad.tensor([1, 2]))
    close(loss, want)
    loss.backward()
    close(x.grad[1], np.zeros(4))


def test_smoothed_classes_equal_smoothed_probabilities() -> None:
    x = ad.randn(3, 4, dtype=ad.float64)
    y = ad.tensor([1, 0, 3])
    one_hot = F.one_hot(y, 4).double()
    close(
        F.cross_entropy(x, y, label_smoothing=0.3), F.cross_entropy(x, one_hot, label_smoothing=0.3)
    )


def test_class_out_of_range_is_an_index_error() -> None:
    with pytest.raises(IndexError, match="Target 7 is out of bounds"):
        F.cross_entropy(ad.zeros(2, 3), ad.tensor([0, 7]))


def test_logits_do_not_overflow() -> None:
    x = ad.tensor([1e4, -1e4], requires_grad=True)
    loss = F.binary_cross_entropy_with_logits(x, ad.tensor([1.0, 0.0]))
    close(loss, 0.0)
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        F.binary_cross_entropy(ad.tensor([1.5]), ad.tensor([1.0]))


def test_different_sizes_warn() -> None:
    with pytest.warns(UserWarning, match="target size"):
        F.mse_loss(ad.zeros(2, 1), ad.zeros(2))


def brute_force(log_p: np.ndarray[Any, Any], target: list[int]) -> float:
    """The likelihood by listing every alignment."""
    steps, classes = log_p.shape
    total = -np.inf
    for code in range(classes**steps):
        path = [code // classes**t % classes for t in range(steps)]
        merged = [c for i, c in enumerate(path) if i == 0 or c != path[i - 1]]
        if [c for c in merged if c] == target:
            total = np.logaddexp(total, sum(log_p[t, c] for t, c in enumerate(path)))
    return -float(total)


@pytest.mark.parametrize("target", [[1], [1, 2], [2, 2], [1, 2, 1], []])
def test_ctc_counts_every_alignment(target: list[int]) -> None:
    ad.manual_seed(len(target))
    log_p = ad.randn(5, 1, 3, dtype=ad.float64).log_softmax(2)
    padded = ad.tensor([target], dtype=ad.int64).reshape(1, -1)
    loss = F.ctc_loss(log_p, padded, (5,), (len(target),), reduction="none")
    close(loss[0], brute_force(log_p[:, 0].numpy(), target), 1e-9)


def test_ctc_differentiates_through_log_softmax() -> None:
    x = ad.randn(6, 2, 4, dtype=ad.float64, requires_grad=True)
    targets = ad.tensor([[1, 3, 2], [2, 2, 0]])

    def loss(x: Any) -> Any:
        return F.ctc_loss(x.log_softmax(2), targets, (6, 5), (3, 2))

    assert ad.autograd.gradcheck(loss, (x,))
    vector = F.ctc_loss(x.log_softmax(2), ad.tensor([1, 3, 2, 2, 2]), (6, 5), (3, 2))
    close(vector, loss(x))


def test_ctc_of_impossible_targets() -> None:
    log_p = ad.zeros(3, 2, 3).log_softmax(2).requires_grad_()
    targets = ad.tensor([[1, 2, 1], [1, 0, 0]])

    def gradient(zero_infinity: bool) -> Any:
        loss = F.ctc_loss(log_p, targets, (2, 3), (3, 1), 0, "none", zero_infinity)
        assert float(loss[0]) == (0 if zero_infinity else float("inf"))
        (grad,) = ad.autograd.grad(loss.sum(), log_p)
        return grad.numpy()

    undefined, zero = gradient(zero_infinity=False), gradient(zero_infinity=True)
    close(undefined[:, 0], [[np.nan] * 3, [np.nan] * 3, [0.0] * 3])  # two steps were read
    close(zero[:, 0], np.zeros((3, 3)))
    assert np.abs(zero[:, 1]).max() > 0.1
    close(undefined[:, 1], zero[:, 1])


def test_adaptive_softmax_is_a_distribution() -> None:
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 12], div_value=2.0)
    x, y = ad.randn(6, 8), ad.tensor([0, 4, 5, 11, 12, 19])
    table = layer.log_prob(x)
    close(table.exp().sum(1), np.ones(6), 1e-5)
    out = layer(x, y)
    close(out.output, table.gather(1, y.unsqueeze(1)).squeeze(1), 1e-5)
    close(out.loss, -out.output.mean(), 1e-6)
    assert layer.predict(x).shape == (6,)


def test_adaptive_softmax_leaves_unused_clusters_alone() -> None:
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 12], div_value=2.0)
    layer(ad.randn(3, 8), ad.tensor([0, 13, 4])).loss.backward()
    used = [p.grad is not None for p in layer.parameters()]
    assert used == [True, False, False, True, True]  # head, two layers of each cluster


# -- a whole step -------------------------------------------------------------------------------


def test_captured_steps_equal_eager_ones() -> None:
    """Embedding, norms, dropout and cross entropy: five steps with their state."""

    def run(wrap: Any) -> list[Any]:
        ad.manual_seed(0)
        table, norm = nn.Embedding(10, 8), nn.BatchNorm1d(8)
        head = nn.Sequential(nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.3), nn.Linear(8, 4))
        parts = nn.ModuleList([table, norm, head])

        @wrap
        def step(index: Any, target: Any) -> Any:
            loss = F.cross_entropy(head(norm(table(index).mean(1))), target, label_smoothing=0.1)
            loss.backward()
            with ad.no_grad():
                for p in parts.parameters():
                    p -= 0.1 * p.grad
                    p.grad = None
            return loss.detach()

        losses = []
        for i in range(5):
            index = (ad.arange(12) * (i + 1) % 10).reshape(6, 2)
            losses.append(float(step(index, ad.arange(6) % 4)))
        return [losses, *(v.numpy().copy() for v in parts.state_dict().values())]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for e, c in zip(run(lambda f: f), run(capture), strict=True):
            np.testing.assert_array_equal(e, c)


# -- refusals -----------------------------------------------------------------------------------

INTS, FLOATS, BOOLS = ad.ones(3, 4, dtype=ad.int64), ad.rand(3, 4), ad.ones(3, 4, dtype=ad.bool)
REFUSED: list[tuple[type[Exception], str, tuple[Any, ...]]] = [
    (NotImplementedError, "mse_loss", (INTS, INTS)),
    (NotImplementedError, "smooth_l1_loss", (FLOATS, FLOATS.to(ad.complex64))),
    (RuntimeError, "huber_loss", (INTS, FLOATS)),
    (RuntimeError, "l1_loss", (FLOATS, BOOLS)),
    (RuntimeError, "kl_div", (FLOATS, INTS, None, None, "sum")),
    (RuntimeError, "soft_margin_loss", (FLOATS[0], FLOATS)),
    (RuntimeError, "binary_cross_entropy", (FLOATS, FLOATS + 1)),
    (RuntimeError, "binary_cross_entropy_with_logits", (FLOATS, INTS)),
    (RuntimeError, "multi_margin_loss", (FLOATS, ad.tensor([0, 4, 1]))),
    (RuntimeError, "multilabel_margin_loss", (FLOATS, INTS - 3)),
    (ValueError, "gaussian_nll_loss", (FLOATS, FLOATS, ad.ones(1, 1))),
    (ValueError, "nll_loss", (FLOATS[0], ad.tensor([0, 1]))),
    (ValueError, "cross_entropy", (FLOATS, FLOATS[0])),
    (NotImplementedError, "cross_entropy", (INTS, ad.tensor([0, 1, 2]))),
    (RuntimeError, "layer_norm", (FLOATS.double(), (4,), ad.ones(4))),
    (RuntimeError, "batch_norm", (FLOATS.double(), None, None, ad.ones(4), None, True)),
    (NotImplementedError, "group_norm", (INTS, 2)),
    (NotImplementedError, "instance_norm", (INTS[None],)),
    (RuntimeError, "adaptive_avg_pool2d", (FLOATS, 2)),
    (ValueError, "adaptive_avg_pool2d", (FLOATS, (2, 2))),
    (RuntimeError, "pad", (FLOATS[0], (1, 1, 1, 1), "reflect")),
]


@pytest.mark.parametrize(("kind", "name", "args"), REFUSED, ids=[row[1] for row in REFUSED])
def test_refusals_are_of_pytorchs_kinds(
    kind: type[Exception], name: str, args: tuple[Any, ...]
) -> None:
    with pytest.raises(kind, match=f"^{name}: ") as caught:
        getattr(F, name)(*args)
    # A kind of Adjoint's own may stand below it, but no other of Python's: programs catch those.
    assert next(c for c in type(caught.value).__mro__ if c.__module__ == "builtins") is kind


# -- grouped products ---------------------------------------------------------------------------


def test_grouped_products_are_those_of_the_runs() -> None:
    x = ad.randn(6, 4, dtype=ad.float64, requires_grad=True)
    experts = ad.randn(3, 4, 5, dtype=ad.float64, requires_grad=True)
    ends = ad.tensor([2, 2, 5], dtype=ad.int32)
    out = F.grouped_mm(x, experts, offs=ends)
    want = np.zeros((6, 5))
    for group, (begin, end) in enumerate([(0, 2), (2, 2), (2, 5)]):
        want[begin:end] = x[begin:end].detach().numpy() @ experts[group].detach().numpy()
    close(out, want)
    assert ad.autograd.gradcheck(lambda a, b: F.grouped_mm(a, b, offs=ends), (x, experts))
    assert ad.autograd.gradgradcheck(lambda a, b: F.grouped_mm(a, b, offs=ends), (x, experts))
    depths = [ad.randn(shape, dtype=ad.float64, requires_grad=True) for shape in ((2, 6), (6, 3))]
    assert F.grouped_mm(*depths, offs=ends).shape == (3, 2, 3)
    assert ad.autograd.gradcheck(lambda a, b: F.grouped_mm(a, b, offs=ends), depths)
    assert ad.autograd.gradgradcheck(lambda a, b: F.grouped_mm(a, b, offs=ends), depths)
    assert ad.func.vmap(lambda a: F.grouped_mm(a, experts, offs=ends))(x[None]).shape == (1, 6, 5)
    with pytest.raises(RuntimeError, match="offs"):
        F.grouped_mm(x, experts)


def test_gaussian_nll_loss_refuses_negative_variances_alone_also_compiled() -> None:
    """What is not a number is none that is negative."""
    x, fn = ad.zeros(3), ad.compile(lambda x, var: F.gaussian_nll_loss(x, x + 1, var))
    for call in (F.gaussian_nll_loss, lambda x, _, var: fn(x, var)):
        assert call(x, x + 1, ad.tensor([1.0, math.nan, 2.0])).isnan()
        with pytest.raises(ValueError, match="negative entry"):
            call(x, x + 1, ad.tensor([1.0, -1.0, 2.0]))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("compiled", [False, True])
def test_the_last_bag_ends_where_it_is_told(mode: str, compiled: bool) -> None:
    table = (ad.arange(10.0).reshape(5, 2) ** 2).requires_grad_()
    index = ad.tensor([4, 0, 3, 1, 2])

    def run(table: Any, ends: Any) -> Any:
        out = F.embedding_bag(index, table, ends, mode=mode, include_last_offset=True)
        return out, ad.autograd.grad(out.sum(), table)[0]

    for end in (2, 3, 5):
        ends = ad.tensor([0, 2, end])
        got = (ad.compile(run) if compiled else run)(table, ends)
        bags = F.embedding_bag(index[:end], table, ends[:-1], mode=mode)
        want = bags, ad.autograd.grad(bags.sum(), table)[0]
        assert [x.tolist() for x in got] == [x.tolist() for x in want]


@pytest.mark.parametrize("shape", [(2,), (3, 2), (4, 3, 2), (0, 2)])
@pytest.mark.parametrize("dtype", [ad.float64, ad.float32, ad.bfloat16])
@pytest.mark.parametrize("tracked", [False, True])
def test_linear_takes_a_weight_of_one_dimension(shape: Any, dtype: Any, tracked: bool) -> None:
    x = ad.arange(float(np.prod(shape))).reshape(shape).to(dtype).requires_grad_(tracked)
    weight = ad.tensor([2.0, -1.0], dtype=dtype, requires_grad=tracked)
    for bias in (None, ad.tensor(0.5, dtype=dtype)):
        out = F.linear(x, weight, bias)
        expected = x.detach().numpy().astype("float32") @ np.array([2, -1]) + (bias is not None) / 2
        np.testing.assert_array_equal(out.detach().to(ad.float64).numpy(), expected)
    if tracked:
        out.sum().backward()
        assert x.grad is not None
        assert weight.grad is not None
        assert x.grad.tolist() == ad.tensor([2.0, -1.0]).expand(shape).tolist()
        assert weight.grad.tolist() == x.detach().reshape(-1, 2).sum(0).tolist()


@pytest.mark.parametrize("rows", [(), (5,), (2, 5), (2, 0)])
def test_linear_of_no_features_is_the_bias(rows: tuple[int, ...]) -> None:
    x, weight = (ad.ones(*shape, 0, requires_grad=True) for shape in (rows, (3,)))
    bias = ad.tensor([1.0, 2.0, 3.0])
    for linear in (F.linear, ad.compile(F.linear)):
        assert linear(x, weight, bias).tolist() == bias.expand(*rows, 3).tolist()
    F.linear(x, weight, bias).sum().backward()
    assert x.grad is not None
    assert weight.grad is not None
    assert (x.grad.shape, weight.grad.shape) == ((*rows, 0), (3, 0))


@pytest.mark.parametrize("shape", [(1, 6, 1, 5), (1, 6, 5, 4), (2, 6, 5, 4)])
def test_a_batch_norms_gradient_does_not_depend_on_strides(shape: tuple[int, ...]) -> None:
    """PyTorch's does, where channels lie innermost and a picture is one line."""
    plain = ad.sin(ad.arange(math.prod(shape), dtype=ad.float64)).reshape(shape)
    turned = plain.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0)
    grads = []
    for cotangent in (plain, turned):
        x = ad.cos(plain * 3).requires_grad_()
        weight = ad.ones(6, dtype=ad.float64, requires_grad=True)
        nn.functional.batch_norm(x, None, None, weight, None, training=True).backward(cotangent)
        assert x.grad is not None
        assert weight.grad is not None
        grads.append((x.grad, weight.grad))
    for one, other in zip(*grads, strict=True):
        assert ad.allclose(one, other, rtol=1e-12, atol=1e-12)
