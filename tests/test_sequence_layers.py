"""Recurrent layers, attention and decoder parts: captured, cached, and against plain NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
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
