"""Recurrent layers, attention and decoder parts: captured, cached, and against plain NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.nn import recurrent
from adjoint.graph import capture
from adjoint.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU", "MultiheadAttention"])
def test_five_captured_steps_equal_eager(kind: str) -> None:
    def trained(wrap: Any) -> list[Any]:
        ad.manual_seed(0)
        layer = getattr(ad.nn, kind)(4, 4 if kind != "MultiheadAttention" else 2)
        xs = ad.randn(5, 3, 2, 4)

        def step(x: Any) -> Any:
            out = layer(x, x, x)[0] if kind == "MultiheadAttention" else layer(x)[0]
            loss = (out * out).sum()
            loss.backward()
            with ad.no_grad():
                for p in layer.parameters():
                    p -= 0.1 * p.grad
                    p.grad = None
            return loss.detach()

        call = wrap(step)
        losses = [call(x).item() for x in xs]
        return [losses, *(p.detach().numpy() for p in layer.parameters())]

    for a, b in zip(trained(lambda f: f), trained(capture), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


LAYERS: dict[str, tuple[str, dict[str, Any], Any]] = {
    "rnn_relu": ("RNN", {"nonlinearity": "relu", "num_layers": 2}, None),
    "lstm_both_ways": ("LSTM", {"bidirectional": True, "num_layers": 2, "bias": False}, None),
    "lstm_projected": ("LSTM", {"proj_size": 2, "bidirectional": True, "num_layers": 2}, None),
    "gru_dropout": ("GRU", {"num_layers": 3, "dropout": 0.4, "batch_first": True}, None),
    "lstm_packed": ("LSTM", {"num_layers": 2, "dropout": 0.2}, [2, 5, 3]),
    "gru_packed_both_ways": ("GRU", {"bidirectional": True, "batch_first": True}, [5, 1, 3]),
    "lstm_packed_projected": ("LSTM", {"proj_size": 3, "bidirectional": True}, [4, 4, 1]),
}


@pytest.mark.parametrize("name", LAYERS)
def test_captured_layers_are_scans(name: str) -> None:
    kind, options, lengths = LAYERS[name]
    first = options.get("batch_first", False)

    def run(wrap: Any) -> tuple[list[Any], Any]:
        ad.manual_seed(0)
        layer = getattr(ad.nn, kind)(3, 4, **options)
        initial: Any = None

        def step(x: Any) -> Any:
            given = x
            if lengths is not None:
                given = pack_padded_sequence(x, lengths, batch_first=first, enforce_sorted=False)
            out, state = layer(given, initial)
            if lengths is not None:
                out, _ = pad_packed_sequence(out, batch_first=first)
            states = state if isinstance(state, tuple) else (state,)
            loss = (out * out).sum() + sum(s.sin().sum() for s in states)
            layer.zero_grad()
            loss.backward()
            return [loss.detach(), out.detach(), *(p.grad for p in layer.parameters())]

        call = wrap(step)
        shape = (3, 5, 3) if first else (5, 3, 3)
        results = [call(ad.randn(shape)) for _ in range(3)]
        return [r.numpy().copy() for each in results for r in each], call

    want, _ = run(lambda f: f)
    got, captured = run(capture)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    graph = captured.latest.graph
    scans = [n for n in graph if n.record.name == "scan"]
    count = options.get("num_layers", 1) * (1 + options.get("bidirectional", False))
    assert len(scans) == 2 * count  # forward and backward
    for node in scans:  # the gradients of weights are products outside the loop
        shapes = {tuple(v.spec.shape) for v in node.params["body"].outputs}
        assert not any(len(s) == 2 and s[0] in (12, 16) for s in shapes)


@pytest.mark.parametrize("name", LAYERS)
def test_captured_layers_under_autocast(name: str) -> None:
    """Values and dtypes of eager mode, and weights that are cast once, outside the loop."""
    kind, options, lengths = LAYERS[name]
    ad.manual_seed(0)
    layer = getattr(ad.nn, kind)(3, 4, **(options | {"dropout": 0.0, "batch_first": False}))
    packing: Any = lambda x: pack_padded_sequence(x, lengths, enforce_sorted=False)

    def step(x: Any) -> list[Any]:
        with ad.autocast("cpu", dtype=ad.bfloat16):
            out, state = layer(x if lengths is None else packing(x))
        states = state if isinstance(state, tuple) else (state,)
        rows = out if lengths is None else out.data
        loss = rows.float().square().sum() + sum(s.float().sum() for s in states)
        gradients = ad.autograd.grad(loss, [x, *layer.parameters()])
        return [rows.detach(), *(s.detach() for s in states), *gradients]

    x = ad.randn(5, 3, 3, requires_grad=True)
    captured = capture(step)
    for got, want in zip(captured(x), step(x), strict=True):
        assert got.dtype is want.dtype
        np.testing.assert_allclose(got.float().numpy(), want.float().numpy(), rtol=0.03, atol=0.03)
    for node in captured.latest.graph:
        if node.record.name == "scan":
            wide = [
                v.spec for v in node.params["body"].inputs if v.spec.shape[:1] in ((12,), (16,))
            ]
            assert not any(spec.dtype is ad.float32 for spec in wide)


def test_packed_equals_each_sequence_alone() -> None:
    ad.manual_seed(0)
    layer = ad.nn.GRU(3, 4, bidirectional=True, batch_first=True)
    x, lengths = ad.randn(3, 5, 3), [2, 5, 3]
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    out, sizes = pad_packed_sequence(layer(packed)[0], batch_first=True)
    assert sizes.tolist() == lengths
    for i, n in enumerate(lengths):
        alone = layer(x[i, :n])[0]
        np.testing.assert_allclose(out[i, :n].detach().numpy(), alone.detach().numpy(), atol=1e-6)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("batch", [1, 3])
def test_packed_sequences_of_one_length_are_not_packed(
    kind: str, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit what the layer gives of the tensor, with gradients, by the same operations."""
    layer = getattr(ad.nn, kind)(4, 5, num_layers=2, bidirectional=True)
    x = ad.randn(6, batch, 4, requires_grad=True)
    for name in ("_over_shrinking", "_over_growing"):
        monkeypatch.delattr(recurrent, name)
    found = []
    for given in (x, pack_padded_sequence(x, [6] * batch)):
        out, last = layer(given)
        data = out if isinstance(out, ad.Tensor) else pad_packed_sequence(out)[0]
        states = last if isinstance(last, tuple) else (last,)
        total = (data * data).sum() + sum((s * 3).sin().sum() for s in states)
        found.append([data, *states, *ad.autograd.grad(total, [x, *layer.parameters()])])
    for mine, theirs in zip(*found, strict=True):
        assert mine.tolist() == theirs.tolist()


@pytest.mark.parametrize("training", [False, True])
def test_attention_over_an_empty_batch_takes_padding(training: bool) -> None:
    layer = ad.nn.MultiheadAttention(8, 2, batch_first=True).train(training)
    x, padding = ad.zeros(0, 6, 8), ad.zeros(0, 6, dtype=ad.bool)
    out, weights = layer(x, x, x, key_padding_mask=padding)
    assert out.shape == (0, 6, 8)
    assert weights.shape == (0, 6, 6)


def test_rotary_turns_pairs() -> None:
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    got = ad.nn.RotaryEmbedding(4)(ad.tensor(x), offset=2).numpy()
    for t in range(3):
        for i in range(2):
            angle = (t + 2) * 10000.0 ** (-2 * i / 4)
            turned = (x[t, i] + 1j * x[t, i + 2]) * np.exp(1j * angle)
            np.testing.assert_allclose(got[t, [i, i + 2]], [turned.real, turned.imag], atol=1e-5)


def test_cached_attention_equals_whole() -> None:
    ad.manual_seed(0)
    layer = ad.nn.GroupedQueryAttention(16, 4, 2, ad.nn.RotaryEmbedding(4, 32))
    x = ad.randn(2, 6, 16)
    cache = ad.nn.KVCache(2, 2, 8, 4)
    with ad.no_grad():
        whole = layer(x)
        parts = [layer(x[:, a:b], cache) for a, b in ((0, 3), (3, 4), (4, 6))]
    np.testing.assert_allclose(ad.cat(parts, 1).numpy(), whole.numpy(), atol=1e-5)
    with pytest.raises(RuntimeError, match="KVCache"):
        layer(x, cache)


def test_gamma_samples_and_their_gradient() -> None:
    ad.manual_seed(0)
    a = ad.full((20000,), 2.5, dtype=ad.float64, requires_grad=True)
    x = ad.distributions.Gamma(a, 1.0).rsample()
    assert abs(x.mean().item() - 2.5) < 0.05
    x.sum().backward()
    assert a.grad is not None
    assert abs(a.grad.mean().item() - 1) < 0.05  # d mean / d shape


# -- layers as one operation --------------------------------------------------------------------

WHOLE_LAYERS: list[tuple[str, dict[str, Any]]] = [
    ("LSTM", {"num_layers": 2, "bidirectional": True}),
    ("LSTM", {"bias": False}),
    ("GRU", {"bidirectional": True}),
    ("GRU", {"bias": False}),
    ("RNN", {"bidirectional": True}),
    ("RNN", {"nonlinearity": "relu"}),
]


def layer_and_derivatives(kind: str, options: dict[str, Any]) -> list[ad.Tensor]:
    ad.manual_seed(0)
    layer = getattr(ad.nn, kind)(3, 4, dtype=ad.float64, **options)
    x = ad.randn(5, 2, 3, dtype=ad.float64, requires_grad=True)
    out, last = layer(x)
    states = last if isinstance(last, tuple) else (last,)
    total = out.sin().sum() + sum((state**3).sum() for state in states)
    leaves = [x, *layer.parameters()]
    slopes = ad.autograd.grad(total, leaves, create_graph=True)
    second = ad.autograd.grad(sum((g * g).sum() for g in slopes), leaves)
    return [out, *states, *slopes, *second]


@pytest.mark.parametrize(("kind", "options"), WHOLE_LAYERS)
def test_a_layer_as_one_operation_is_its_steps(
    kind: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To second order: as GPUs run it, here by the table, and as it is a fragment."""
    asked: list[str] = []

    def whole(step: str, *_: Any) -> bool:
        asked.append(step)
        return True

    monkeypatch.setattr(recurrent, "is_whole", lambda *_: False)
    want = layer_and_derivatives(kind, options)
    monkeypatch.setattr(recurrent, "is_whole", whole)
    for reference in (True, False):
        with CONTEXT.having(reference=reference):
            found = layer_and_derivatives(kind, options)
        for mine, theirs in zip(found, want, strict=True):
            ad.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-10)
    layers = options.get("num_layers", 1) * (1 + options.get("bidirectional", False))
    assert len(asked) == 2 * layers


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_large_layers_are_one_program(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward and backward: what the table computes, step by step, of sequences of any length."""
    ad.manual_seed(2)
    layer = getattr(ad.nn, kind)(24, 32, bidirectional=kind == "GRU")
    asked: list[bool] = []
    decide = recurrent.is_whole

    def noted(*given: Any) -> bool:
        asked.append(decide(*given))
        return asked[-1]

    monkeypatch.setattr(recurrent, "is_whole", noted)

    def run(x: ad.Tensor) -> list[ad.Tensor]:
        layer.zero_grad()
        x = x.detach().requires_grad_()
        out, last = layer(x)
        states = last if isinstance(last, tuple) else (last,)
        (out.square().sum() + sum(state.sin().sum() for state in states)).backward()
        return [out, *states, x.grad, *[p.grad.clone() for p in layer.parameters()]]

    for moments, batch in ((16, 16), (17, 16), (5, 1)):
        x = ad.randn(moments, batch, 24)
        with CONTEXT.having(reference=True):
            want = run(x)
        assert not any(asked)
        for got, wanted in zip(run(x), want, strict=True):
            ad.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)
        assert any(asked)
        asked.clear()
    getattr(ad.nn, kind)(24, 4)(ad.randn(4, 1, 24))  # fewer gates than a program is worth
    layer(ad.randn(1, 16, 24))
    assert asked
    assert not any(asked)
