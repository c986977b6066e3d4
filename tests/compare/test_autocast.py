"""Result dtypes under CPU autocast, beside PyTorch's; GradScaler's behaviour."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

torch: Any = pytest.importorskip("torch")
pytestmark = [pytest.mark.compare, pytest.mark.filterwarnings("ignore")]


def even(network: Any) -> Any:
    """A network whose parameters are 0.1, 0.2, ... and want no gradients."""
    for number, parameter in enumerate(network.parameters(), 1):
        parameter.requires_grad_(False).fill_(number / 10)
    return network


# (library, float32 matrix, bfloat16 matrix, vector) -> tensor or tensors
EXPRESSIONS: dict[str, Callable[..., Any]] = {
    "matmul": lambda t, a, b, v: t.matmul(a, a),
    "operator": lambda t, a, b, v: a @ a,
    "matmul_mixed": lambda t, a, b, v: a @ b,
    "matmul_vector": lambda t, a, b, v: a @ v,
    "mm": lambda t, a, b, v: t.mm(a, b),
    "mv": lambda t, a, b, v: t.mv(a, v),
    "dot": lambda t, a, b, v: t.dot(v, v),
    "linalg.matmul": lambda t, a, b, v: t.linalg.matmul(a, b),
    "bilinear": lambda t, a, b, v: t.nn.functional.bilinear(a, a, a.expand(3, *a.shape)),
    "bmm": lambda t, a, b, v: t.bmm(a[None], b[None]),
    "addmm": lambda t, a, b, v: t.addmm(a, a, b),
    "addmv": lambda t, a, b, v: t.addmv(v, a, v),
    "addr": lambda t, a, b, v: t.addr(a, v, v),
    "baddbmm": lambda t, a, b, v: t.baddbmm(a[None], a[None], b[None]),
    "addbmm": lambda t, a, b, v: t.addbmm(a, a[None], b[None]),
    "einsum": lambda t, a, b, v: t.einsum("ij,jk->ik", a, a),
    "tensordot": lambda t, a, b, v: t.tensordot(a, a, 1),
    "outer": lambda t, a, b, v: t.outer(v, v),
    "linear": lambda t, a, b, v: t.nn.functional.linear(a, a, v),
    "linear_half": lambda t, a, b, v: t.nn.functional.linear(b, a, v),
    "conv1d": lambda t, a, b, v: t.nn.functional.conv1d(a[None], a[None], v[:1]),
    "conv2d": lambda t, a, b, v: t.nn.functional.conv2d(a[None, None], a[None, None]),
    "conv_transpose1d": lambda t, a, b, v: t.nn.functional.conv_transpose1d(a[None], a[:, :, None]),
    "sdpa": lambda t, a, b, v: t.nn.functional.scaled_dot_product_attention(
        a[None], a[None], a[None]
    ),
    "add": lambda t, a, b, v: a + b,
    "mul_scalar": lambda t, a, b, v: b * 2,
    "exp": lambda t, a, b, v: t.exp(b),
    "log": lambda t, a, b, v: t.log(b.abs() + 1),
    "pow": lambda t, a, b, v: b**2,
    "softmax": lambda t, a, b, v: t.softmax(b, 0),
    "log_softmax": lambda t, a, b, v: t.log_softmax(b, 0),
    "sum": lambda t, a, b, v: b.sum(),
    "prod": lambda t, a, b, v: b.prod(),
    "prod_dim": lambda t, a, b, v: t.prod(b, 0),
    "cumsum": lambda t, a, b, v: b.cumsum(0),
    "norm": lambda t, a, b, v: b.norm(),
    "mean": lambda t, a, b, v: b.mean(),
    "cat": lambda t, a, b, v: t.cat([a, b]),
    "stack": lambda t, a, b, v: t.stack([a, b]),
    "cat_half": lambda t, a, b, v: t.cat([b, b]),
    "where": lambda t, a, b, v: t.where(a > 0, a, b),
    "layer_norm": lambda t, a, b, v: t.nn.functional.layer_norm(b, (3,)),
    "gelu": lambda t, a, b, v: t.nn.functional.gelu(b),
    "relu": lambda t, a, b, v: t.relu(b),
    "tanh": lambda t, a, b, v: b.tanh(),
    "mse_loss": lambda t, a, b, v: t.nn.functional.mse_loss(b, a),
    "l1_loss": lambda t, a, b, v: t.nn.functional.l1_loss(b, b),
    "smooth_l1_loss": lambda t, a, b, v: t.nn.functional.smooth_l1_loss(b, b),
    "huber_loss": lambda t, a, b, v: t.nn.functional.huber_loss(b, b),
    "cross_entropy": lambda t, a, b, v: t.nn.functional.cross_entropy(b, t.tensor([0, 1, 2])),
    "nll_loss": lambda t, a, b, v: t.nn.functional.nll_loss(b, t.tensor([0, 1, 2])),
    "bce_logits": lambda t, a, b, v: t.nn.functional.binary_cross_entropy_with_logits(
        b, a.sigmoid()
    ),
    "kl_div": lambda t, a, b, v: t.nn.functional.kl_div(b, b),
    "cdist": lambda t, a, b, v: t.cdist(b, b),
    "trace": lambda t, a, b, v: t.trace(b),
    "quantile": lambda t, a, b, v: t.quantile(b, 0.5),
    "inverse": lambda t, a, b, v: t.linalg.inv(a),
    "double": lambda t, a, b, v: a.double() @ a.double(),
    "in_place": lambda t, a, b, v: a.clone().add_(b),
    "out": lambda t, a, b, v: t.mm(a, a, out=t.empty(3, 3)),
    "out_of_a_batch": lambda t, a, b, v: t.bmm(a[None], a[None], out=t.empty(1, 3, 3)),
    "out_of_a_sum": lambda t, a, b, v: t.addmm(a, a, a, out=t.empty(3, 3)),
    "out_of_halves": lambda t, a, b, v: t.mm(b, b, out=t.empty(3, 3, dtype=t.bfloat16)),
    "lstm": lambda t, a, b, v: even(t.nn.LSTM(3, 4))(a[None])[0],
    "lstm_of_halves": lambda t, a, b, v: even(t.nn.LSTM(3, 4))(b[None])[0],
    "lstm_both_ways": lambda t, a, b, v: even(t.nn.LSTM(3, 4, 2, bidirectional=True))(a[None])[1][
        1
    ],
    "lstm_projected": lambda t, a, b, v: even(t.nn.LSTM(3, 4, proj_size=2))(a[None])[1][1],
    "lstm_packed": lambda t, a, b, v: (
        even(t.nn.LSTM(3, 4))(t.nn.utils.rnn.pack_sequence([a, a]))[0].data
    ),
    "lstm_packed_unevenly": lambda t, a, b, v: (
        even(t.nn.LSTM(3, 4))(t.nn.utils.rnn.pack_sequence([a, a[:2]]))[0].data
    ),
    "lstm_double": lambda t, a, b, v: even(t.nn.LSTM(3, 4)).double()(a[None].double())[0],
    "gru": lambda t, a, b, v: even(t.nn.GRU(3, 4))(a[None])[0],
    "custom_fwd": lambda t, a, b, v: t.amp.custom_fwd(
        lambda x: x @ x, device_type="cpu", cast_inputs=t.float32
    )(b),
    "max_pool": lambda t, a, b, v: t.nn.functional.max_pool1d(b[None], 2),
    "avg_pool2d": lambda t, a, b, v: t.nn.functional.avg_pool2d(b[None], 2),
    "interpolate": lambda t, a, b, v: t.nn.functional.interpolate(b[None, None], scale_factor=2),
    "mlp": lambda t, a, b, v: t.nn.functional.mse_loss((a @ a).tanh() @ a + v, a),
}


def inputs(lib: Any) -> tuple[Any, ...]:
    rows = np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32)
    a = lib.tensor(rows.tolist())
    return a, a.to(lib.bfloat16), a[0]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_dtypes(name: str, dtype: str) -> None:
    outs = []
    for lib in (torch, ad):
        with lib.autocast("cpu", dtype=getattr(lib, dtype)):
            try:
                outs.append(EXPRESSIONS[name](lib, *inputs(lib)))
            except (RuntimeError, NotImplementedError) as error:
                outs.append(error)
    want, got = outs
    if isinstance(want, Exception):
        pytest.skip(f"PyTorch: {want}")
    assert not isinstance(got, Exception), got
    assert got.dtype.name == str(want.dtype).rsplit(".")[-1]
    np.testing.assert_allclose(
        got.float().numpy(), want.float().numpy(), rtol=0.05, atol=0.05, equal_nan=True
    )


def test_regions() -> None:
    logs = []
    for lib in (torch, ad):
        log: list[Any] = []

        def note(lib: Any = lib, log: list[Any] = log) -> None:
            a, _, _ = inputs(lib)
            log.append(
                (
                    str((a @ a).dtype).rsplit(".")[-1],
                    lib.is_autocast_enabled("cpu"),
                    str(lib.get_autocast_dtype("cpu")).rsplit(".")[-1],
                )
            )

        note()
        with lib.autocast("cpu"):
            note()
            with lib.autocast("cpu", dtype=lib.float16):
                note()
                with lib.autocast("cpu", enabled=False):
                    note()
                note()
            note()
        note()
        lib.autocast("cpu", dtype=lib.float16)(note)()
        with lib.cpu.amp.autocast():
            note()
        logs.append(log)
    assert logs[0] == logs[1]


def test_gradients_reach_parameters_in_float32() -> None:
    grads = []
    for lib in (torch, ad):
        a, _, v = inputs(lib)
        w = a.clone().requires_grad_()
        with lib.autocast("cpu"):
            h = lib.nn.functional.linear(a, w, v)
            h = lib.nn.functional.linear(h.tanh(), w)
            loss = lib.nn.functional.mse_loss(h, a)
        loss.backward()
        assert w.grad.dtype is lib.float32
        grads.append(w.grad.numpy())
    np.testing.assert_allclose(grads[1], grads[0], rtol=0.05, atol=0.02)


def scaler_run(lib: Any) -> list[Any]:
    seen: list[Any] = []
    w = lib.tensor([1.0, 2.0], requires_grad=True)
    optimizer = lib.optim.SGD([w], lr=0.1, momentum=0.9)
    scaler = lib.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
    for i in range(8):
        optimizer.zero_grad()
        factor = float("inf") if i in (2, 5) else 1.0
        loss = (w * w).sum() * factor
        scaler.scale(loss).backward()
        if i % 2:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        seen.append((w.tolist(), scaler.get_scale(), scaler.state_dict()))
    scaler.update(17.0)
    seen.append(scaler.get_scale())
    other = lib.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    seen.append(other.state_dict())
    for act in (scaler.unscale_, scaler.unscale_, scaler.step, scaler.step, scaler.unscale_):
        try:
            w.grad = lib.ones(2)
            act(optimizer)
            seen.append("done")
        except RuntimeError:
            seen.append("RuntimeError")
    seen.append(lib.amp.GradScaler("cpu", enabled=False).scale(3))
    return seen


def test_scaler() -> None:
    for g, w in zip(scaler_run(ad), scaler_run(torch), strict=True):
        if isinstance(w, tuple):
            assert g[0] == pytest.approx(w[0], rel=1e-6)
            assert g[1:] == w[1:]
        else:
            assert g == w


def test_custom_functions() -> None:
    outs = []
    for lib in (torch, ad):
        log: list[Any] = []

        class Product(lib.autograd.Function):  # type: ignore[misc,name-defined]
            @staticmethod
            @lib.amp.custom_fwd(device_type="cpu", cast_inputs=lib.float32)
            def forward(ctx: Any, x: Any, y: Any, log: Any = log, lib: Any = lib) -> Any:
                log.append((str(x.dtype).rsplit(".")[-1], lib.is_autocast_enabled("cpu")))
                ctx.save_for_backward(x, y)
                return x @ y

            @staticmethod
            @lib.amp.custom_bwd(device_type="cpu")
            def backward(ctx: Any, g: Any, log: Any = log, lib: Any = lib) -> Any:
                log.append((str(g.dtype).rsplit(".")[-1], lib.is_autocast_enabled("cpu")))
                x, y = ctx.saved_tensors
                return g @ y.t(), x.t() @ g

        _, b, _ = inputs(lib)
        b.requires_grad_()
        with lib.autocast("cpu"):
            out = Product.apply(b, b)
        out.sum().backward()
        log.append(str(b.grad.dtype).rsplit(".")[-1])
        outs.append(log)
    assert outs[0] == outs[1]
