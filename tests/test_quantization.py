"""Quantisation against closed forms and NumPy: numbers, observers, layers, workflows, files."""

from __future__ import annotations

import copy
import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
import adjoint.quantization as q
from adjoint import models, nn
from adjoint.nn import functional as F
from adjoint.quantization.formats import files
from adjoint.quantization.functional import (
    dequantize_affine,
    grouped_linear,
    quantize_affine,
    quantized_convolution,
    quantized_linear,
)
from adjoint.quantization.modules.dynamic import CalledLinear, DynamicLinear
from adjoint.quantization.modules.recurrent import DynamicLSTM
from adjoint.quantization.modules.weight_only import WeightOnlyEmbedding, WeightOnlyLinear
from adjoint.quantization.weights import group_weight, pack


def rounded(x: Any, scale: Any, zero: Any, low: int, high: int) -> Any:
    """Quantisation in NumPy, as PyTorch defines it."""
    inverse = np.float32(1) / np.asarray(scale, np.float32)
    return np.clip(np.round(x * inverse) + zero, low, high)


# -- numbers ----------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**31),
    st.floats(1e-3, 2.0),
    st.integers(-100, 100),
    st.sampled_from([None, 0, 1, 2]),
)
def test_quantised_and_back(seed: int, scale: float, zero: int, axis: int | None) -> None:
    random = np.random.default_rng(seed)
    x = random.normal(size=(3, 4, 5)).astype(np.float32) * 20
    scales = np.float32(scale)
    if axis is not None:
        shape = [1, 1, 1]
        shape[axis] = x.shape[axis]
        scales = (scale * random.uniform(0.5, 2, shape)).astype(np.float32)
    want = rounded(x, scales, zero, -128, 127)
    given_scale = ad.tensor(scales if axis is None else scales.reshape(-1))
    given_zero = ad.tensor(np.full(given_scale.shape, zero, np.int32))

    def there_and_back(x: Any) -> Any:
        ints = quantize_affine(x, given_scale, given_zero, -128, 127, ad.int8, axis)
        return ints, dequantize_affine(ints, given_scale, given_zero, axis=axis)

    for run in (there_and_back, ad.compile(there_and_back)):
        ints, real = run(ad.tensor(x))
        assert ints.dtype is ad.int8
        assert (ints.numpy() == want).all()
        np.testing.assert_allclose(real.numpy(), (want - zero) * scales, rtol=1e-6)


def test_gradients_pass_straight_through() -> None:
    x = ad.tensor([-3.0, -0.82, 0.0, 0.31, 0.69, 2.0], requires_grad=True)
    out = ad.fake_quantize_per_tensor_affine(x, 0.1, 1, -8, 7)
    np.testing.assert_allclose(out.tolist(), [-0.9, -0.8, 0.0, 0.3, 0.6, 0.6], rtol=1e-6)
    out.backward(ad.arange(1.0, 7.0))
    assert x.grad is not None
    # 0.69 is nearest to 7, which with the zero point is beyond the range: cut off.
    assert x.grad.tolist() == [0, 2, 3, 4, 0, 0]


def test_learned_steps() -> None:
    """The gradients of scale and zero point, by the definition."""
    x = ad.tensor([-9.0, 0.26, 9.0], requires_grad=True)
    scale, zero = ad.tensor([0.1], requires_grad=True), ad.tensor([1.0], requires_grad=True)
    ad._fake_quantize_learnable_per_tensor_affine(x, scale, zero, -8, 7, 2.0).sum().backward()
    for given_, want in ((x, [0, 1, 0]), (scale, [2 * (-9 + (3 - 2.6) + 6)]), (zero, [2 * -0.2])):
        assert given_.grad is not None
        np.testing.assert_allclose(given_.grad.tolist(), want, rtol=1e-5)


REFUSED: list[tuple[Any, type[Exception], str]] = [
    (lambda x: ad.fake_quantize_per_tensor_affine(x, 0.1, 9, 0, 7), RuntimeError, "zero_point"),
    (lambda x: ad.fake_quantize_per_tensor_affine(x, 0.1, 0, 7, 0), RuntimeError, "quant_min"),
    (lambda x: ad.fake_quantize_per_tensor_affine(x.int(), 0.1, 0, 0, 7), RuntimeError, "floating"),
    (lambda x: ad.fake_quantize_per_tensor_affine(x, "a", 0, 0, 7), TypeError, "scale"),
    (
        lambda x: ad.fake_quantize_per_channel_affine(x, ad.ones(2), ad.zeros(2), 0, 0, 7),
        RuntimeError,
        "dimension 0",
    ),
    (
        lambda x: ad.fake_quantize_per_channel_affine(x, ad.ones(3), ad.zeros(3), 2, 0, 7),
        IndexError,
        "axis",
    ),
    (lambda x: ad._int_mm(x, x.t()), RuntimeError, "int8"),
    (lambda x: ad._int_mm(x.to(ad.int8), x.to(ad.int8)), RuntimeError, "cannot be multiplied"),
    (lambda x: ad.quantize_per_tensor(x, 0.1, 0, ad.int64), RuntimeError, "qint8"),
    (
        lambda x: grouped_linear(x, x.to(ad.int8), ad.ones(3, 3), None, None, 8, 3),
        RuntimeError,
        "scales of",
    ),
    (
        lambda x: grouped_linear(x, x.to(ad.int8), ad.ones(3, 1), None, None, 4, 8),
        RuntimeError,
        "4 bits",
    ),
    (lambda x: q.MinMaxObserver(dtype=ad.float32), RuntimeError, "qint8"),
    (lambda x: q.MinMaxObserver(quant_min=3, quant_max=9), ValueError, "zero between"),
    (
        lambda x: q.PerChannelMinMaxObserver(qscheme=ad.per_tensor_affine),
        NotImplementedError,
        "Min",
    ),
    (lambda x: q.get_default_qconfig("other"), AssertionError, "backend"),
    (lambda x: q.fuse_modules(nn.Sequential(nn.ReLU()), ["0"]), AssertionError, "eval"),
    (
        lambda x: q.fuse_modules(nn.Sequential(nn.ReLU(), nn.ReLU()).eval(), ["0", "1"]),
        NotImplementedError,
        "Cannot fuse",
    ),
    (lambda x: q.quantize_(nn.Linear(2, 2), q.Int8WeightOnlyConfig()), ValueError, "Wrap it"),
    (
        lambda x: q.quantize_(nn.Sequential(nn.Linear(6, 2)), q.Int4WeightOnlyConfig(4)),
        ValueError,
        "'0'",
    ),
    (lambda x: ad.quantize_per_tensor(x, 0.1, 0, ad.qint8).exp(), AttributeError, "dequantize"),
    (lambda x: ad.exp(ad.quantize_per_tensor(x, 0.1, 0, ad.qint8)), NotImplementedError, "DeQuant"),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_refusals(case: int) -> None:
    run, kind, words = REFUSED[case]
    with pytest.raises(kind, match=words):
        run(ad.ones(3, 4))


# -- layers of whole numbers --------------------------------------------------------------------------


def test_linear_is_the_real_one_of_what_numbers_stand_for() -> None:
    random = np.random.default_rng(0)
    x, w = (random.integers(-128, 128, shape).astype(np.int8) for shape in ((2, 3, 8), (5, 8)))
    scale, bias = random.uniform(0.01, 0.1, 5), random.normal(size=5)
    zero = random.integers(-20, 20, 5)
    tensors = [ad.tensor(v.astype(np.float32)) for v in (scale, bias)]
    sums = ad.tensor(w.sum(1, dtype=np.int32))
    for point in (0, 17):
        for weight_zero in (None, ad.tensor(zero)):
            got = quantized_linear(
                ad.tensor(x), ad.tensor(0.05), ad.tensor(point), ad.tensor(w), tensors[0], sums,
                tensors[1], weight_zero,
            )  # fmt: skip
            moved = w - (0 if weight_zero is None else zero[:, None])
            real = (x.astype(float) - point) * 0.05
            want = real @ (moved * scale[:, None]).T + bias
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-4)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_convolution_is_the_real_one(data: Any) -> None:
    rank, groups = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 2))
    small = [data.draw(st.integers(1, 2)) for _ in range(4)]
    random = np.random.default_rng(sum(small))
    shape = (2, 2 * groups, *[7 - rank + n for n in range(rank)])
    x = random.integers(-128, 128, shape).astype(np.int8)
    w = random.integers(-128, 128, (2 * groups, 2, *[small[0]] * rank)).astype(np.int8)
    scale = random.uniform(0.01, 0.1, 2 * groups).astype(np.float32)
    zero = random.integers(-9, 9, 2 * groups)
    geometry = {"stride": small[1], "padding": small[2] - 1, "dilation": small[3]}
    point, affine = data.draw(st.integers(-9, 9)), data.draw(st.booleans())

    def run(x: Any, w: Any) -> Any:
        sums = w.sum(tuple(range(1, w.ndim)), dtype=ad.int32)
        return quantized_convolution(
            x, ad.tensor(0.05), ad.tensor(point), w, ad.tensor(scale), sums, None,
            **geometry, groups=groups, zero=ad.tensor(zero) if affine else None,
        )  # fmt: skip

    spread = (-1, *[1] * (rank + 1))
    real_w = (w - (zero.reshape(spread) if affine else 0)) * scale.reshape(spread).astype(float)
    conv = getattr(F, f"conv{rank}d")
    real = ad.tensor((x.astype(float) - point) * 0.05)
    want = conv(real, ad.tensor(real_w), None, **geometry, groups=groups)
    got = run(ad.tensor(x), ad.tensor(w))
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5, atol=1e-3)
    compiled = ad.compile(run)(ad.tensor(x), ad.tensor(w))
    np.testing.assert_allclose(compiled.numpy(), got.numpy(), rtol=1e-6, atol=1e-5)


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from([4, 8]),
    st.sampled_from([2, 4, 16]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 99),
)
def test_weights_in_groups(bits: int, group: int, symmetric: bool, search: bool, seed: int) -> None:
    random = np.random.default_rng(seed)
    w = random.normal(size=(3, 16)).astype(np.float32)
    kept = group_weight(ad.tensor(w), bits, group, symmetric, search)
    parts = w.reshape(3, 16 // group, group)
    low, high = np.minimum(parts.min(-1), 0), np.maximum(parts.max(-1), 0)
    steps = 2**bits - 1
    width = np.maximum(-low, high) / (steps / 2) if symmetric else (high - low) / steps
    real = kept.real().numpy().reshape(parts.shape)
    if not search:
        np.testing.assert_allclose(kept.scale.numpy(), width, rtol=1e-5)
        # Half a step by rounding, half by the end of the range or the zero point's rounding.
        assert (np.abs(real - parts) <= width[..., None] * 1.001 + 1e-7).all()
    else:
        plain = group_weight(ad.tensor(w), bits, group, symmetric).real().numpy()
        errors = [((v.reshape(parts.shape) - parts) ** 2).sum(-1) for v in (real, plain)]
        assert (errors[0] <= errors[1] + 1e-9).all()
    assert kept.weight.shape == (3, 16 if bits == 8 else 8)
    x = ad.tensor(random.normal(size=(2, 16)).astype(np.float32))
    layer = WeightOnlyLinear(kept, ad.zeros(3))
    want = x.numpy() @ kept.real().numpy().T
    for run in (layer, ad.compile(layer)):
        np.testing.assert_allclose(run(x).detach().numpy(), want, rtol=1e-4, atol=1e-5)


def test_packing_is_undone() -> None:
    numbers = ad.arange(16).to(ad.uint8)
    assert pack(numbers).tolist() == [(2 * i) | ((2 * i + 1) << 4) for i in range(8)]


def test_weight_only_layers_give_gradients_to_their_inputs() -> None:
    layer = WeightOnlyLinear(group_weight(ad.randn(3, 8), 4, 4))
    x = ad.randn(2, 8, requires_grad=True)
    layer(x).sum().backward()
    assert x.grad is not None
    ad.testing.assert_close(x.grad, layer.dequantize().sum(0).expand(2, 8))


@pytest.mark.parametrize("per_row", [True, False])
@pytest.mark.parametrize("symmetric", [True, False])
def test_dynamic_linear(per_row: bool, symmetric: bool) -> None:
    ad.manual_seed(0)
    plain = nn.Linear(64, 8)
    layer = DynamicLinear.of(plain, per_row, symmetric)
    called = CalledLinear.of(plain, per_row, symmetric)
    assert called.weight().q_per_channel_scales().tolist() == layer.scale.tolist()
    assert called.weight().dequantize().equal(layer.dequantize())
    assert called.bias().data_ptr() == plain.bias.data_ptr()
    assert not called.bias().requires_grad
    assert "bias=True" in repr(called)
    assert "bias=False" in repr(CalledLinear.of(nn.Linear(4, 2, bias=False)))
    x = ad.randn(3, 5, 64)
    values = x.numpy()
    axes: Any = -1 if per_row else None
    low = np.minimum(values.min(axes, keepdims=True), 0)
    high = np.maximum(values.max(axes, keepdims=True), 0)
    scale = (np.maximum(-low, high) / 127.5 if symmetric else (high - low) / 255).astype(np.float32)
    zero = 0 if symmetric else np.clip(-128 - np.round(low / scale), -128, 127)
    steps = rounded(values, scale, zero, -128, 127)
    want = ((steps - zero) * scale) @ layer.dequantize().numpy().T + plain.bias.detach().numpy()
    np.testing.assert_allclose(layer(x).detach().numpy(), want, rtol=1e-4, atol=1e-4)
    assert called(x).equal(layer(x))
    compiled = ad.compile(layer)(x)
    np.testing.assert_allclose(compiled.detach().numpy(), want, rtol=1e-4, atol=1e-4)


def far_out(model: Any, x: Any) -> None:
    """One weight and one feature of the inputs far from the others of their rows."""
    with ad.no_grad():
        model[0].weight[2, 5] = 4.0
        x[1, 7] = 60.0


@pytest.mark.parametrize(
    "config", [q.Int8DynamicActivationInt8WeightConfig, q.Int8WeightOnlyConfig]
)
def test_what_stands_out_is_multiplied_apart(config: Any, tmp_path: Path) -> None:
    ad.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(64, 32)), ad.randn(6, 64)
    far_out(model, x)
    real = model(x)
    errors = {}
    for outliers in (True, False):
        made: Any = copy.deepcopy(model)
        q.quantize_(made, config(outliers=outliers))
        assert made[0].dequantize().allclose(model[0].weight, atol=0.02)
        errors[outliers] = float((made(x) - real).abs().max())
        assert (ad.compile(made)(x) - made(x)).abs().max() < 1e-4 * real.abs().max()
        path = tmp_path / f"{outliers}.safetensors"
        q.save_quantized(made, path)
        assert (q.load_quantized(copy.deepcopy(model), path)(x) == made(x)).all()
        assert made(x[:0]).shape == (0, 32)
        spoiled = x.clone()
        spoiled[0, 3], spoiled[4, 2] = math.nan, math.inf  # whose rows alone are lost
        least = (made(spoiled) - real)[[1, 2, 3, 5]].abs().max()
        assert float(least) < max(1.5 * errors[outliers], 0.02)
    assert errors[True] < 0.25 * errors[False]


def test_columns_that_no_matrix_has_are_refused(tmp_path: Path) -> None:
    model, x = nn.Sequential(nn.Linear(64, 32)), ad.randn(6, 64)
    far_out(model, x)
    plain = copy.deepcopy(model)
    q.quantize_(model, q.Int8WeightOnlyConfig())
    path = tmp_path / "m.safetensors"
    q.save_quantized(model, path)
    tensors, about = ad.io.safetensors.load_file(path), ad.io.safetensors.load_metadata(path)
    for name, wrong in (
        ("0.columns", ad.tensor([64])),
        ("0.columns", ad.tensor([-1])),
        ("0.column_weight", ad.ones(32, 2)),
    ):
        ad.io.safetensors.save_file(tensors | {name: wrong}, path, about)
        with pytest.raises(RuntimeError, match="cannot make"):
            q.load_quantized(plain, path)
    tensors.pop("0.columns")
    ad.io.safetensors.save_file(tensors, path, about)
    with pytest.raises(RuntimeError, match="cannot make"):
        q.load_quantized(plain, path)


def test_an_embedding_in_bytes() -> None:
    table = nn.Embedding(10, 16, padding_idx=0)
    kept = group_weight(table.weight, 8)
    layer = WeightOnlyEmbedding(kept, 0)
    at = ad.tensor([[3, 0], [9, 3]])
    ad.testing.assert_close(layer(at), kept.real()[at])
    assert (layer(at) - table(at)).abs().max() < 0.02
    for wrong in (10, -1):
        with pytest.raises(IndexError):
            layer(ad.tensor([wrong]))


# -- observers ----------------------------------------------------------------------------------------

DATA = [np.random.default_rng(s).normal(size=(4, 3)).astype(np.float32) * (s + 1) for s in range(4)]


def test_ranges_of_observers() -> None:
    plain, moving = q.MinMaxObserver(), q.MovingAverageMinMaxObserver(averaging_constant=0.1)
    channels = q.PerChannelMinMaxObserver(ch_axis=1, dtype=ad.qint8)
    for x in DATA:
        for observer in (plain, moving, channels):
            assert observer(ad.tensor(x)).numpy() is not None
    low, high = DATA[0].min(), DATA[0].max()
    for x in DATA[1:]:
        low, high = low + 0.1 * (x.min() - low), high + 0.1 * (x.max() - high)
    every = np.concatenate(DATA)
    np.testing.assert_allclose(plain.min_val.item(), every.min())
    np.testing.assert_allclose(moving.min_val.item(), low, rtol=1e-5)
    np.testing.assert_allclose(moving.max_val.item(), high, rtol=1e-5)
    np.testing.assert_allclose(channels.max_val.numpy(), every.max(0))
    scale, zero = plain.calculate_qparams()
    np.testing.assert_allclose(scale.item(), (every.max() - every.min()) / 255, rtol=1e-6)
    assert zero.item() == -round(float(every.min() / scale.item()))


def test_an_observer_that_saw_nothing_warns() -> None:
    with pytest.warns(UserWarning, match="must run observer"):
        scale, zero = q.MinMaxObserver().calculate_qparams()
    assert scale.item() == 1
    assert zero.item() == 0


def test_histograms_add_up() -> None:
    observer = q.HistogramObserver(bins=64)
    for x in DATA:
        observer(ad.tensor(x))
    assert observer.histogram.sum().item() == pytest.approx(48, rel=1e-4)
    assert observer.min_val.item() == pytest.approx(min(x.min() for x in DATA))


def test_observers_come_back_from_files() -> None:
    observer = q.PerChannelMinMaxObserver(dtype=ad.qint8)
    observer(ad.tensor(DATA[0]))
    other = q.PerChannelMinMaxObserver(dtype=ad.qint8)
    other.load_state_dict(observer.state_dict())
    assert (other.calculate_qparams()[0] == observer.calculate_qparams()[0]).all()


# -- quantised tensors --------------------------------------------------------------------------------

KEPT: list[Any] = [
    lambda x: x.reshape(3, 2, 8).permute(2, 0, 1),
    lambda x: ad.flatten(x, 1),
    lambda x: F.relu(x),
    lambda x: x.transpose(0, 1)[1],
    lambda x: F.max_pool2d(x.reshape(1, 3, 4, 4), 2),
    lambda x: ad.cat([x, x], 0),
    lambda x: F.dropout(x, 0.5, False),
    lambda x: x.chunk(2, 1)[1],
]


@pytest.mark.parametrize("case", range(len(KEPT)))
def test_functions_of_quantised_tensors(case: int) -> None:
    x = ad.quantize_per_tensor(ad.randn(3, 16), 0.05, 3, ad.quint8)
    got = KEPT[case](x)
    assert got.is_quantized
    assert got.q_scale() == x.q_scale()
    np.testing.assert_allclose(
        got.dequantize().numpy(), KEPT[case](x.dequantize()).numpy(), atol=1e-6
    )


def test_what_a_quantised_tensor_says() -> None:
    x = ad.quantize_per_channel(ad.ones(2, 3), ad.tensor([0.1, 0.2]), ad.zeros(2), 0, ad.qint8)
    assert x.dtype is ad.qint8
    assert x.qscheme() is ad.per_channel_affine
    assert x.int_repr().tolist() == [[10] * 3, [5] * 3]
    assert x.q_per_channel_axis() == 0
    assert "per_channel_affine" in repr(x)
    with pytest.raises(RuntimeError, match="PerTensor"):
        x.q_scale()


# -- workflows ----------------------------------------------------------------------------------------


class Net(nn.Module):
    """Two convolutions and two linear layers between stubs, as PyTorch's guide has it."""

    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = q.QuantStub(), q.DeQuantStub()
        self.conv1, self.bn1, self.relu1 = (
            nn.Conv2d(1, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
        )
        self.conv2, self.relu2 = nn.Conv2d(8, 16, 3, stride=2), nn.ReLU()
        self.add = q.FloatFunctional()
        self.fc1, self.relu3, self.fc2 = nn.Linear(144, 32), nn.ReLU(), nn.Linear(32, 10)

    def forward(self, x: Any) -> Any:
        x = self.relu1(self.bn1(self.conv1(self.quant(x))))
        x = self.relu2(self.conv2(x))
        x = self.relu3(self.fc1(ad.flatten(x, 1)))
        return self.dequant(self.fc2(self.add.add(x, x)))


FUSED = [["conv1", "bn1", "relu1"], ["conv2", "relu2"], ["fc1", "relu3"]]
STEP = 0.07  # of the output's range: what rounding may cost this untrained network


@pytest.mark.parametrize("backend", ["x86", "qnnpack", "onednn"])
def test_static_quantisation(backend: str) -> None:
    ad.manual_seed(1)
    model = Net().eval()
    x = ad.rand(64, 1, 8, 8)
    fused = q.fuse_modules(model, FUSED)
    with ad.no_grad():
        want = model(x)
        ad.testing.assert_close(fused(x), want, rtol=1e-4, atol=1e-5)
        fused.qconfig = q.get_default_qconfig(backend)
        prepared = q.prepare(fused)
        ad.testing.assert_close(prepared(x), fused(x))
        model = q.convert(prepared)
        got = model(x)
        assert type(model.conv1).__name__ == "QuantizedConv"
        layer, weight = model.fc2, model.fc2.weight()  # methods, as in PyTorch
        per_channel = backend != "qnnpack"
        assert weight.qscheme() == (ad.per_channel_affine if per_channel else ad.per_tensor_affine)
        assert weight.dtype == ad.qint8
        assert weight.int_repr().equal(layer.state_dict()["weight"])
        step = layer.weight_scale.unsqueeze(1)
        assert ((weight.dequantize() - fused.fc2.weight).abs() <= step * 0.501).all()
        assert layer.dequantize().equal(weight.dequantize())
        assert layer.bias().equal(fused.fc2.bias)
        assert (got - want).abs().max() < STEP * (want.max() - want.min())
        compiled = ad.compile(model)(x)
        # One step of the last layer, where its sum lies between two.
        assert (compiled - got).abs().max() <= model.fc2.scale * 1.01


def test_the_observer_of_a_weight_sees_the_norm_s_scale_from_the_first() -> None:
    """A moving average would keep the range of a weight without it for hundreds of steps."""
    ad.manual_seed(0)
    model = q.fuse_modules_qat(Net().train(), FUSED)
    model.qconfig = q.get_default_qat_qconfig("fbgemm")
    norm = model.conv1[1]
    with ad.no_grad():
        norm.weight.mul_(0.1)
    conv = q.prepare_qat(model).conv1
    seen = conv.weight * (0.1 * (conv.bn.running_var + conv.bn.eps).rsqrt()).reshape(-1, 1, 1, 1)
    observer = conv.weight_fake_quant.activation_post_process
    for got, want in zip(
        (observer.min_val, observer.max_val),
        (seen.flatten(1).amin(1), seen.flatten(1).amax(1)),
        strict=True,
    ):
        ad.testing.assert_close(got, want.detach())


def test_training_that_feels_the_rounding() -> None:
    ad.manual_seed(0)
    model = q.fuse_modules_qat(Net().train(), FUSED)
    model.qconfig = q.get_default_qat_qconfig("onednn")
    prepared = q.prepare_qat(model)
    optimizer = ad.optim.Adam(prepared.parameters(), 1e-2)
    x, y = ad.rand(64, 1, 8, 8), ad.randint(0, 10, (64,))

    def step() -> Any:
        loss = F.cross_entropy(prepared(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    run = ad.compile(step)
    losses = [run().item() for _ in range(12)]
    assert losses[-1] < 0.8 * losses[0]
    prepared.apply(q.disable_observer)
    prepared.eval()
    with ad.no_grad():
        felt = prepared(x)
        model = q.convert(prepared)
        got = model(x)
    scale = model.fc2.scale
    # The same numbers up to a few steps of the last layer: sums are rounded elsewhere.
    assert ((got - felt).abs() > 2.5 * scale).float().mean() < 0.02


def test_compiled_training_equals_eager() -> None:
    def losses(compiled: bool) -> list[float]:
        ad.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).train()
        model.qconfig = q.get_default_qat_qconfig("x86")
        prepared = q.prepare_qat(model)
        optimizer = ad.optim.SGD(prepared.parameters(), 0.1)
        x, y = ad.randn(32, 6), ad.randint(0, 3, (32,))

        def step() -> Any:
            loss = F.cross_entropy(prepared(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        run = ad.compile(step) if compiled else step
        return [run().item() for _ in range(5)]

    assert losses(True) == pytest.approx(losses(False), rel=1e-4)


def test_parts_without_a_configuration_stay() -> None:
    model: Any = q.QuantWrapper(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))).eval()
    model.qconfig = q.default_qconfig
    model.module[1].qconfig = None
    prepared = q.prepare(model)
    prepared(ad.randn(8, 4))
    made: Any = q.convert(prepared)
    assert [type(m).__name__ for m in made.module] == ["QuantizedLinear", "Linear"]
    with pytest.raises(Exception, match=r"quantised|linear"):
        made(ad.randn(1, 4))


def test_results_of_quantised_layers_want_no_gradient() -> None:
    model = nn.Sequential(nn.Linear(3, 2))
    assert not q.quantize_dynamic(model)(ad.ones(1, 3)).requires_grad
    assert model[0].bias.requires_grad


def test_dynamic_quantisation_leaves_the_model_alone() -> None:
    model = nn.Sequential(nn.Linear(8, 4), nn.LSTM(4, 4))
    made: Any = q.quantize_dynamic(model)
    assert isinstance(made[0], CalledLinear)
    weight = made[0].weight()
    assert (weight.dequantize() - model[0].weight).abs().max() <= weight.q_scale() * 0.501
    assert isinstance(made[1], DynamicLSTM)
    assert isinstance(model[0], nn.Linear)
    assert isinstance(model[1], nn.LSTM)
    assert not hasattr(made, "qconfig")


# -- quantize_ and files --------------------------------------------------------------------------------


class Tied(nn.Module):
    """An embedding whose weight is the last layer's too."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.inner = nn.Embedding(40, 32), nn.Linear(32, 32)
        self.head = nn.Linear(32, 40, bias=False)
        self.head.weight = self.table.weight

    def forward(self, x: Any) -> Any:
        return self.head(self.inner(self.table(x)))


CONFIGS: dict[str, tuple[Any, float]] = {
    "int8": (q.Int8WeightOnlyConfig(), 0.02),
    "int8 groups": (q.Int8WeightOnlyConfig(group_size=8), 0.02),
    "int4": (q.Int4WeightOnlyConfig(group_size=16), 0.35),
    "intx": (q.IntxWeightOnlyConfig(4, q.PerGroup(8), q.MappingType.ASYMMETRIC), 0.35),
    "dynamic": (q.Int8DynamicActivationInt8WeightConfig(), 0.05),
    "dynamic int4": (q.Int8DynamicActivationInt4WeightConfig(8), 0.5),
}


def both(module: nn.Module, name: str) -> bool:
    return isinstance(module, (nn.Linear, nn.Embedding))


@pytest.mark.parametrize("name", CONFIGS)
def test_quantised_models_in_files(name: str, tmp_path: Path) -> None:
    config, near = CONFIGS[name]
    ad.manual_seed(0)
    model, at = Tied(), ad.arange(40).reshape(4, 10)
    want = model(at)
    q.quantize_(model, config, both)
    got = model(at)
    assert (got - want).abs().max() < near * want.abs().max()
    ad.testing.assert_close(ad.compile(model)(at), got, rtol=1e-4, atol=1e-4)
    assert model.table.weight is model.head.weight
    path = tmp_path / "model.safetensors"
    q.save_quantized(model, path)
    other = q.load_quantized(Tied(), path)
    assert (other(at) == got).all()
    stored = ad.io.safetensors.load_file(path)
    assert ("table.weight" in stored) != ("head.weight" in stored)


def test_static_models_in_files(tmp_path: Path) -> None:
    model = q.fuse_modules(Net().eval(), FUSED)
    model.qconfig = q.default_per_channel_qconfig
    other, x = copy.deepcopy(model), ad.rand(4, 1, 8, 8)
    prepared = q.prepare(model)
    with ad.no_grad():
        prepared(x)
        made = q.convert(prepared)
        q.save_quantized(made, tmp_path / "m.safetensors")
        assert (q.load_quantized(other, tmp_path / "m.safetensors")(x) == made(x)).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda about: about.update(format=9), "format 9"),
        (lambda about: about["layers"]["0"].update(kind="os.system"), "unknown kind"),
        (lambda about: about["layers"]["0"].update(kind={}), "unknown kind"),
        (lambda about: about["layers"].update({"7": about["layers"].pop("0")}), "cannot make"),
        (lambda about: about["layers"]["0"].update(bits=3), "cannot make"),
        (lambda about: about["layers"]["0"].update(color="red"), "cannot make"),
        (lambda about: about["layers"].update({"7": about["layers"]["0"]}), "cannot make"),
        (lambda about: about["layers"].update({"0": 3}), "damaged"),
        (lambda about: about.update(layers=3), "damaged"),
        (lambda about: about["shared"].update({"a": "b"}), "damaged"),
    ],
)
def test_damaged_files_change_nothing(change: Any, words: str, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 2))
    q.quantize_(model, q.Int8WeightOnlyConfig())
    path = tmp_path / "m.safetensors"
    q.save_quantized(model, path)
    about = json.loads(ad.io.safetensors.load_metadata(path)[files.KEY])
    change(about)
    tensors = ad.io.safetensors.load_file(path)
    ad.io.safetensors.save_file(tensors, path, {files.KEY: json.dumps(about)})
    fresh = nn.Sequential(nn.Linear(8, 2))
    with pytest.raises(RuntimeError, match=words):
        q.load_quantized(fresh, path)
    assert isinstance(fresh[0], nn.Linear)


def test_files_of_others_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    ad.io.safetensors.save_file({"w": ad.ones(2)}, path)
    with pytest.raises(RuntimeError, match="save_quantized"):
        q.load_quantized(nn.Linear(1, 1), path)


def test_names_of_pytorch() -> None:
    from adjoint.ao.nn import intrinsic, qat, quantized
    from adjoint.ao.quantization import convert, prepare_qat

    assert convert is q.convert is ad.quantization.convert
    assert prepare_qat is q.prepare_qat
    assert issubclass(qat.Conv2d, nn.Conv2d)
    assert issubclass(intrinsic.ConvReLU2d, nn.Sequential)
    assert quantized.FloatFunctional is q.FloatFunctional
    with warnings.catch_warnings():
        ad.backends.quantized.engine = "qnnpack"
    assert ad.backends.quantized.engine == "qnnpack"
    with pytest.raises(RuntimeError, match="not supported"):
        ad.backends.quantized.engine = "abacus"


def test_files_of_a_language_model_shrink(tmp_path: Path) -> None:
    config = models.GPT2Config(vocab_size=8000, n_positions=128, n_embd=512, n_layer=1, n_head=8)
    model = models.GPT2(config)
    state = {k: v for k, v in model.state_dict().items() if k != "lm_head.weight"}  # kept once
    ad.io.safetensors.save_file(state, tmp_path / "floats.safetensors")

    def chosen(module: nn.Module, name: str) -> bool:
        return both(module, name) or hasattr(module, "linear_parameters")

    for name, how, factor in (
        ("int4", q.Int4WeightOnlyConfig(search=False), 7.0),
        ("int8", q.Int8WeightOnlyConfig(), 3.9),
    ):
        made = copy.deepcopy(model)
        q.quantize_(made, how, chosen)
        q.save_quantized(made, tmp_path / f"{name}.safetensors")
        sizes = [(tmp_path / f"{n}.safetensors").stat().st_size for n in ("floats", name)]
        assert sizes[0] > factor * sizes[1], (name, sizes)


@pytest.mark.parametrize(
    "observer",
    [q.MinMaxObserver, q.HistogramObserver, q.PerChannelMinMaxObserver, q.FakeQuantize],
)
def test_states_of_observers_have_the_names_and_version_of_pytorch(observer: Any) -> None:
    """`eps` is a buffer, and version 3 has `min_val` of each channel, not `min_vals`."""
    first = observer()
    first(ad.randn(4, 3))
    state = first.state_dict()
    inner = "activation_post_process." if observer is q.FakeQuantize else ""
    assert {inner + "eps", inner + "min_val", inner + "max_val"} <= set(state)
    assert state._metadata[inner.rstrip(".")]["version"] == 3
    again = observer()
    again.load_state_dict(state)
    older = observer()
    older.load_state_dict({k: v for k, v in state.items() if not k.endswith("eps")})
    for other in (again, older):
        for mine, theirs in zip(first.calculate_qparams(), other.calculate_qparams(), strict=True):
            assert mine.tolist() == theirs.tolist()


def test_a_nan_that_was_seen_is_in_the_scale() -> None:
    for observer in (q.MinMaxObserver(), q.PerChannelMinMaxObserver()):
        observer(ad.tensor([[float("nan"), 1.0]]))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert observer.calculate_qparams()[0].isnan().all()
