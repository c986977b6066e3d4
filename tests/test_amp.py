"""Mixed precision: regions, the cache of casts, policies, GradScaler."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.amp.autocast_mode import ActiveAutocast, AutocastSettings, DeviceAutocast
from adjoint.engine.core.operations import dispatch
from adjoint.engine.core.operations.autocast import FUNCTIONS
from adjoint.engine.core.operations.record import REGISTRY
from adjoint.engine.core.state.context import CONTEXT
from adjoint.nn import functional as F


def test_products_are_lowered_and_losses_are_not() -> None:
    x = ad.ones(2, 2)
    with ad.autocast("cpu", dtype=ad.bfloat16):
        y = x @ x
        assert y.dtype is ad.bfloat16
        assert ad.nn.functional.linear(x, x, x[0]).dtype is ad.bfloat16
        assert (y + x).dtype is ad.float32
        assert ad.nn.functional.mse_loss(y, y).dtype is ad.float32
        assert ad.cat([y, x]).dtype is ad.float32
        assert (x.double() @ x.double()).dtype is ad.float64
    assert (x @ x).dtype is ad.float32


def test_what_is_asked_for_into_a_tensor_has_its_precision() -> None:
    x = ad.full((2, 2), 1.001)
    with ad.autocast("cpu"):
        for out in (ad.mm(x, x, out=ad.empty(2, 2)), ad.bmm(x[None], x[None], out=ad.empty(0))):
            assert ad.allclose(out.reshape(2, 2), ad.full((2, 2), 2 * 1.001**2), rtol=1e-6)


def test_custom_functions_cast_all_they_are_given() -> None:
    """Functions with a `setup_context` have no context in front of their operands."""
    seen: list[Any] = []

    @ad.amp.custom_fwd(device_type="cpu", cast_inputs=ad.float32)
    def forward(x: Any, y: Any, rest: Any) -> Any:
        seen.extend(v.dtype for v in (x, y, rest["z"]))
        return x @ y

    half = ad.ones(2, 2, dtype=ad.bfloat16)
    with ad.autocast("cpu"):
        assert forward(half, half, {"z": half}).dtype is ad.float32
    assert seen == [ad.float32] * 3


@pytest.mark.parametrize("compiled", [False, True])
def test_an_lstm_is_lowered_as_a_whole(compiled: bool) -> None:
    """On the CPU; one with projected states, or over uneven sequences, is not."""
    x = ad.randn(5, 3, 4)
    uneven = ad.nn.utils.rnn.pack_sequence([x[:, 0], x[:3, 1]])
    for network, given, wanted in (
        (ad.nn.LSTM(4, 6, 2, bidirectional=True), x, ad.bfloat16),
        (ad.nn.LSTM(4, 6, proj_size=2), x, None),
        (ad.nn.LSTM(4, 6), uneven, ad.float32),
        (ad.nn.LSTM(4, 6).double(), x.double(), ad.float64),
    ):
        if compiled and given is uneven:
            continue  # sequences are packed inside of compiled functions
        call = ad.compile(network) if compiled else network
        with ad.autocast("cpu"):
            out, (_, cells) = call(given)
        assert cells.dtype is (wanted or ad.float32)
        full, _ = network(given)
        out, full = (v.data if given is uneven else v for v in (out, full))
        assert ad.allclose(out.to(full.dtype), full, atol=0.02)
        out.float().sum().backward()
        assert all(p.grad.dtype is p.dtype for p in network.parameters())


# PyTorch's documentation of autocast on GPUs ("CUDA Op-Specific Behavior"), name by name; modules
# stand under the function they call.
DOCUMENTED = {
    "lower": """
        addbmm addmm addmv addr baddbmm bmm chain_matmul multi_dot conv1d conv2d conv3d
        conv_transpose1d conv_transpose2d conv_transpose3d gru_cell linear lstm_cell matmul mm mv
        prelu rnn_tanh_cell rnn_relu_cell
    """,
    "fp32": """
        pow acos asin binary_cross_entropy_with_logits cosh cosine_embedding_loss cdist
        cosine_similarity cross_entropy cumprod cumsum dist erfinv exp expm1 group_norm
        hinge_embedding_loss kl_div l1_loss layer_norm log log10 log_softmax log1p log2
        margin_ranking_loss mse_loss multilabel_margin_loss multi_margin_loss nll_loss norm pdist
        poisson_nll_loss prod reciprocal rsqrt sinh smooth_l1_loss soft_margin_loss softmax softmin
        softplus sum renorm tan triplet_margin_loss
    """,
    "promote": """
        addcdiv addcmul atan2 bilinear cross dot grid_sample index_put scatter_add tensordot
    """,
    "banned": "binary_cross_entropy",
}
# Operators reach their record, not the function: its policy is the same.
OPERATORS = {"matmul": {"cpu": "lower", "cuda": "lower"}, "pow": {"cuda": "fp32"}}


@pytest.mark.parametrize("policy", DOCUMENTED)
def test_policies_on_gpus_are_the_documented_ones(policy: str) -> None:
    for name in DOCUMENTED[policy].split():
        assert FUNCTIONS[name]["cuda"] == policy, name


def test_policies_of_operators_are_those_of_their_functions() -> None:
    for name, policies in OPERATORS.items():
        assert REGISTRY[name].policies == policies
    casting = ActiveAutocast(AutocastSettings(cuda=DeviceAutocast(True, ad.float16)))
    half, wide = ad.ones(2, dtype=ad.float16), ad.ones(2)
    for policy, want in (("lower", ad.float16), ("fp32", ad.float32), ("keep", ad.float32)):
        assert casting.cast(policy, "cpu", (wide,))[0].dtype is (
            ad.bfloat16 if policy == "lower" else want
        )
    widened = casting.cast("promote", "cpu", (half, wide))
    assert [x.dtype for x in widened] == [ad.float32, ad.float32]
    with pytest.raises(RuntimeError, match="unsafe to autocast"):
        casting.cast("banned", "cuda", (half,))


def test_regions_nest() -> None:
    x = ad.ones(2, 2)
    with ad.autocast("cpu"):
        with ad.autocast("cpu", enabled=False):
            assert (x @ x).dtype is ad.float32
            assert not ad.is_autocast_enabled("cpu")
        with ad.autocast("cpu", dtype=ad.float16):
            assert (x @ x).dtype is ad.float16
        assert ad.get_autocast_dtype("cpu") is ad.bfloat16


def test_a_region_ends_with_an_exception() -> None:
    with pytest.raises(RuntimeError, match="matmul"), ad.autocast("cpu"):
        ad.ones(2, 2) @ ad.ones(3, 3)
    assert not ad.is_autocast_enabled("cpu")
    assert CONTEXT.plain


def test_decorator_and_old_names() -> None:
    x = ad.ones(2, 2)
    assert ad.autocast("cpu")(lambda: x @ x)().dtype is ad.bfloat16
    with ad.cpu.amp.autocast():
        assert (x @ x).dtype is ad.bfloat16
    if not ad.cuda.is_available():
        with pytest.warns(UserWarning, match="CUDA is not available"), ad.cuda.amp.autocast():
            assert (x @ x).dtype is ad.float32


def test_other_threads_are_not_cast() -> None:
    seen: list[Any] = []
    x = ad.ones(2, 2)
    with ad.autocast("cpu"):
        thread = threading.Thread(target=lambda: seen.append((x @ x).dtype))
        thread.start()
        thread.join()
    assert seen == [ad.float32]


def test_a_parameter_is_cast_once_per_region() -> None:
    w = ad.ones(2, 2, requires_grad=True)
    with ad.autocast("cpu"):
        for _ in range(3):
            ad.ones(2, 2) @ w
        (held,) = CONTEXT.autocast.cache.values()
        assert held[0] is w
        with ad.no_grad():
            w.add_(1)
            assert (ad.ones(1, 2) @ w).float().numpy().tolist() == [[4, 4]]  # not the old cast
        loss = (ad.ones(2, 2) @ w).float().sum() + (ad.ones(2, 2) @ w).float().sum()
    loss.backward()
    assert w.grad is not None
    assert w.grad.dtype is ad.float32
    assert w.grad.numpy().tolist() == [[4, 4], [4, 4]]
    with ad.autocast("cpu", cache_enabled=False):
        ad.ones(2, 2) @ w
        assert not CONTEXT.autocast.cache


def test_unsupported_dtypes_and_devices() -> None:
    with pytest.warns(UserWarning, match="not supported"), ad.autocast("cpu", dtype=ad.int32):
        assert (ad.ones(2, 2) @ ad.ones(2, 2)).dtype is ad.float32
    with pytest.raises(RuntimeError, match="unsupported autocast device_type"):
        ad.autocast("tpu")
    with pytest.raises(ValueError, match="type `str`"):
        ad.autocast(ad.float16)  # type: ignore[arg-type]


def test_a_small_network_trains() -> None:
    ad.manual_seed(0)
    x = ad.linspace(-1, 1, 32).unsqueeze(1)
    y = x**2
    model = ad.nn.Sequential(ad.nn.Linear(1, 16), ad.nn.Tanh(), ad.nn.Linear(16, 1))
    optimizer = ad.optim.Adam(model.parameters(), lr=0.02)
    scaler = ad.amp.GradScaler("cpu")
    losses = []
    for _ in range(100):
        optimizer.zero_grad()
        with ad.autocast("cpu"):
            loss = ad.nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]


def test_backward_inside_a_region_is_backward_outside() -> None:
    seen: list[bool] = []

    class Doubled(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return 2 * x

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            seen.append(ad.is_autocast_enabled("cpu"))
            return 2 * grads[0]

    def gradients(inside: bool) -> list[Any]:
        ad.manual_seed(0)
        nn = ad.nn
        net = nn.Sequential(nn.Linear(5, 7), nn.LayerNorm(7), nn.GELU(), nn.Linear(7, 3))
        x = ad.randn(4, 5, requires_grad=True)
        x.register_hook(lambda g: seen.append(ad.is_autocast_enabled("cpu")))
        with ad.autocast("cpu", dtype=ad.bfloat16):
            loss = nn.functional.cross_entropy(Doubled.apply(net(x)), ad.tensor([0, 1, 2, 0]))
            if inside:
                loss.backward()
                assert ad.is_autocast_enabled("cpu")
        if not inside:
            loss.backward()
        return [p.grad for p in (x, *net.parameters())]

    for within, without in zip(gradients(True), gradients(False), strict=True):
        assert within.dtype is ad.float32
        assert within.tolist() == without.tolist()
    assert seen == [True, True, False, False]


def test_scaler_skips_and_backs_off() -> None:
    w = ad.ones(1, requires_grad=True)
    optimizer = ad.optim.SGD([w], lr=0.5)
    scaler = ad.amp.GradScaler("cpu", init_scale=8.0, growth_interval=1)
    for factor, want, scale in (
        (float("inf"), 1.0, 4.0),
        (1.0, 0.5, 8.0),
        (float("nan"), 0.5, 4.0),
    ):
        optimizer.zero_grad()
        scaler.scale((w * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert w.item() == want
        assert scaler.get_scale() == scale
    other = ad.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 4.0
    assert scaler.scale([w, (w,)])[1][0].item() == 2.0


def test_scaler_refusals() -> None:
    w = ad.ones(1, requires_grad=True)
    optimizer = ad.optim.SGD([w], lr=0.5)
    scaler = ad.amp.GradScaler("cpu")
    with pytest.raises(AssertionError, match="_scale is None"):
        scaler.step(optimizer)
    scaler.scale(w.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="step\\(\\) has already"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="after step"):
        scaler.unscale_(optimizer)
    half = ad.ones(1, dtype=ad.float16, requires_grad=True)
    half.grad = ad.ones(1, dtype=ad.float16)
    with pytest.raises(ValueError, match="FP16"):
        scaler.unscale_(ad.optim.SGD([half]))
    off = ad.amp.GradScaler("cpu", enabled=False)
    assert off.scale(w) is w
    assert off.get_scale() == 1.0
    assert off.state_dict() == {}


def test_matmul_precision() -> None:
    assert ad.get_float32_matmul_precision() == "highest"
    ad.set_float32_matmul_precision("high")
    assert ad.get_float32_matmul_precision() == "high"
    ad.set_float32_matmul_precision("highest")
    with pytest.raises(RuntimeError, match="unknown precision"):
        ad.set_float32_matmul_precision("low")


def test_averages() -> None:
    swa = ad.optim.swa_utils
    model = ad.nn.Sequential(ad.nn.Linear(2, 2), ad.nn.BatchNorm1d(2))
    equal = swa.AveragedModel(model)
    ema = swa.AveragedModel(model, avg_fn=swa.get_ema_avg_fn(0.75), use_buffers=True)
    for value in (1.0, 2.0, 6.0):
        for p in model.parameters():
            ad.nn.init.constant_(p, value)
        equal.update_parameters(model)
        ema.update_parameters(model)
    assert next(equal.parameters()).detach().numpy().ravel().tolist() == [3.0] * 4
    first = 0.75 * (0.75 * 1 + 0.25 * 2) + 0.25 * 6
    np.testing.assert_allclose(next(ema.parameters()).detach().numpy(), first, rtol=1e-6)
    assert equal.n_averaged.item() == 3
    data = [ad.ones(4, 2) * i for i in range(3)]
    swa.update_bn(data, equal)
    norm = equal.module[1]
    assert norm.momentum == 0.1
    assert norm.num_batches_tracked.item() == 3
    with pytest.raises(ValueError, match="decay"):
        swa.get_ema_avg_fn(2.0)
    before = [p.tolist() for p in equal.parameters()]
    model.append(ad.nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="6 parameters.*made of 4 parameters"):
        equal.update_parameters(model)
    assert [p.tolist() for p in equal.parameters()] == before


CALM: dict[str, Any] = {
    "layer_norm": lambda x: F.layer_norm(x, (4,), x[0, 0], x[0, 1]),
    "group_norm": lambda x: F.group_norm(x, 1, x[0, :, 0], None),
    "rms_norm": lambda x: F.rms_norm(x, (4,)),
    "instance_norm": F.instance_norm,
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "running": lambda x: F.batch_norm(x, ad.zeros(3), ad.ones(3)),
    "tanh gelu": lambda x: F.gelu(x, approximate="tanh"),
    "embedding": lambda x: F.embedding(ad.tensor([1, 0]), x[0]),
    "max": lambda x: x.max(1)[0],
    "min": lambda x: x.min(2)[0],
    "rows": lambda x: x.softmax(-1) + x.log_softmax(0) + x.logsumexp(1, keepdim=True),
    "moments": lambda x: x.mean(1) + x.var(1) + x.std(),
    "powers": lambda x: x.exp() + x.abs().pow(1.5) + x.sum() + x.cumsum(1) + (x * x + 1).log(),
    **{
        name: getattr(F, name)
        for name in "gelu silu elu mish hardswish hardsigmoid hardtanh hardshrink leaky_relu "
        "logsigmoid softplus softsign tanhshrink".split()
    },
}


@pytest.mark.parametrize("dtype", [ad.float32, ad.bfloat16])
@pytest.mark.parametrize("name", CALM)
def test_what_autocast_leaves_alone_is_computed_as_without_it(
    name: str, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the CPU: its parts, asked one by one, are not cast either."""
    rng = np.random.default_rng(3)
    x = ad.from_numpy(rng.standard_normal((2, 3, 4)).astype(np.float32)).to(dtype)

    def results() -> list[Any]:
        leaf = x.clone().requires_grad_()
        with ad.autocast("cpu", dtype=ad.bfloat16):
            out = CALM[name](leaf)
        out.float().square().sum().backward()
        return [out.dtype, out.detach().double().tolist(), leaf.grad.double().tolist()]  # type: ignore[union-attr]

    quick = results()
    asked: list[Any] = []
    ask = ActiveAutocast.__call__

    def heard(self: Any, record: Any, operands: Any) -> Any:
        cast = ask(self, record, operands)
        asked.append(cast)
        return cast

    monkeypatch.setattr(dispatch, "is_calm", lambda record, operands: False)
    monkeypatch.setattr(ActiveAutocast, "__call__", heard)
    assert results() == quick
    assert not any(cast is not None for cast in asked)


def test_what_autocast_casts_is_not_left_alone() -> None:
    x, y = ad.ones(3, 4), ad.ones(2, 1, 3, 4)
    with ad.autocast("cpu", dtype=ad.bfloat16):
        assert (x @ x.T).dtype is ad.bfloat16
        assert F.scaled_dot_product_attention(y, y, y).dtype is ad.bfloat16
        assert F.mse_loss(x.bfloat16(), x.bfloat16()).dtype is ad.float32
        assert ad.cat([x, x.bfloat16()]).dtype is ad.float32


def test_sums_of_all_products_are_not_cast() -> None:
    x, y = ad.arange(4.0) + 1 / 3, ad.arange(4.0) / 7
    square, other = x.reshape(2, 2), y.reshape(2, 2)
    with ad.autocast("cpu", dtype=ad.bfloat16):
        whole = [ad.inner(x, y), ad.tensordot(x, y, 1), ad.tensordot(square, other, 2)]
        turned = ad.tensordot(square, other.t(), ([0, 1], [1, 0]))
        rows = [ad.inner(square, other), ad.tensordot(square, other, 1)]
    for got in (*whole, turned):
        ad.testing.assert_close(got, (x * y).sum())
    assert {got.dtype for got in rows} == {ad.bfloat16}
