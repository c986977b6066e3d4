"""Rotary positions, SwiGLU, shared key heads and caches, against closed forms and each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import models, nn
from adjoint.nn import functional as F


def seeded(*shape: int) -> Any:
    return ad.randn(*shape, dtype=ad.float64)


@pytest.mark.parametrize("dim", [2, 4, 10, 64])
@pytest.mark.parametrize("offset", [0, 7])
@pytest.mark.parametrize("base", [10000.0, 500000.0])
def test_rotary_is_a_complex_turn(dim: int, offset: int, base: float) -> None:
    x = np.random.default_rng(dim).normal(size=(2, 3, 5, dim))
    half = dim // 2
    angle = np.outer(np.arange(offset, offset + 5), base ** (-2.0 * np.arange(half) / dim))
    turned = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angle)
    want = np.concatenate([turned.real, turned.imag], -1)
    got = nn.RotaryEmbedding(dim, 16, base)(ad.tensor(x), offset)
    np.testing.assert_allclose(got.numpy(), want, atol=2e-6)  # tables are float32


def test_rotary_keeps_lengths_and_differences() -> None:
    ad.manual_seed(0)
    rotary = nn.RotaryEmbedding(16, 64)
    q, k = seeded(1, 16), seeded(1, 16)
    assert ad.allclose(rotary(q, 40).norm(), q.norm(), rtol=1e-5)
    products = [(rotary(q, m) * rotary(k, m - 5)).sum().item() for m in (5, 20, 63)]
    np.testing.assert_allclose(products, products[0], rtol=1e-4)
    assert ad.equal(rotary(q, 0), q)
    assert list(rotary.state_dict()) == []
    with pytest.raises(ValueError, match="even"):
        nn.RotaryEmbedding(5)
    with pytest.raises(RuntimeError, match="positions below 64"):
        rotary(q, 64)
    with pytest.raises(RuntimeError, match=r"\(\.\.\., T, 16\)"):
        rotary(seeded(2, 8))


def test_rotary_gradient_turns_back() -> None:
    rotary = nn.RotaryEmbedding(8, 16)
    x = seeded(3, 8).requires_grad_()
    weight = seeded(3, 8)
    (rotary(x) * weight).sum().backward()
    # The derivative of a turn is the turn; its transpose is the turn back.
    assert x.grad is not None
    np.testing.assert_allclose(rotary(x.grad).numpy(), weight.numpy(), atol=1e-6)


@pytest.mark.parametrize("bias", [False, True])
def test_swiglu(bias: bool) -> None:
    ad.manual_seed(0)
    layer = nn.SwiGLU(6, 10, bias, dtype=ad.float64)
    x = seeded(2, 3, 6)
    w = {k: v.detach().numpy() for k, v in layer.named_parameters()}
    add = (lambda name: w[f"{name}.bias"]) if bias else lambda name: 0.0

    def dense(y: Any, name: str) -> Any:
        return y @ w[f"{name}.weight"].T + add(name)

    gate = dense(x.numpy(), "w1")
    want = dense(gate / (1 + np.exp(-gate)) * dense(x.numpy(), "w3"), "w2")
    np.testing.assert_allclose(layer(x).detach().numpy(), want, rtol=1e-12)
    assert sum(p.numel() for p in layer.parameters()) == 3 * 60 + (26 if bias else 0)
    assert ad.autograd.gradcheck(layer, (x.requires_grad_(),))


def repeated(layer: Any, name: str) -> Any:
    """A projection's weight with every shared head written out once per query head."""
    times = layer.num_heads // layer.num_kv_heads
    weight = getattr(layer, f"{name}_proj").weight
    heads = weight.reshape(layer.num_kv_heads, layer.head_dim, -1)
    return heads.repeat_interleave(times, 0).flatten(0, 1)


@pytest.mark.parametrize("shared", [1, 2, 4, 8])
def test_grouped_heads_equal_repeated_heads(shared: int) -> None:
    ad.manual_seed(0)
    layer = nn.GroupedQueryAttention(16, 8, shared, dtype=ad.float64)
    full = nn.MultiheadAttention(16, 8, bias=False, batch_first=True, dtype=ad.float64)
    with ad.no_grad():
        parts = [layer.q_proj.weight, repeated(layer, "k"), repeated(layer, "v")]
        full.in_proj_weight.copy_(ad.cat(parts))
        full.out_proj.weight.copy_(layer.o_proj.weight)
    x = seeded(2, 5, 16)
    mask = nn.Transformer.generate_square_subsequent_mask(5, dtype=ad.float64)
    want, _ = full(x, x, x, attn_mask=mask, need_weights=False)
    got = layer(x)
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-10)
    # A shared head's gradient is the sum of those of its copies.
    weight = seeded(2, 5, 16)
    (got * weight).sum().backward()
    (want * weight).sum().backward()
    copies = full.in_proj_weight.grad[16:32].reshape(shared, 8 // shared, 2, 16).sum(1)
    found = layer.k_proj.weight.grad.reshape(shared, 2, 16)
    np.testing.assert_allclose(found.numpy(), copies.numpy(), rtol=1e-9, atol=1e-12)


def test_grouped_attention_is_causal_and_checked() -> None:
    ad.manual_seed(0)
    layer = nn.GroupedQueryAttention(16, 4, 2, nn.RotaryEmbedding(4, 32), dtype=ad.float64)
    x = seeded(1, 6, 16)
    changed = x.clone()
    changed[:, 4:] += 1
    assert ad.equal(layer(x)[:, :4], layer(changed)[:, :4])
    assert not ad.allclose(layer(x)[:, 4], layer(changed)[:, 4])
    for sizes in ((16, 3, 1), (16, 4, 3)):
        with pytest.raises(ValueError, match="GroupedQueryAttention: num_heads must divide"):
            nn.GroupedQueryAttention(*sizes)


CUTS = [[6], [1] * 6, [3, 1, 2], [5, 1], [1, 5], [2, 4]]


@pytest.mark.parametrize("cuts", CUTS, ids=str)
@pytest.mark.parametrize("shared", [1, 2, 4])
def test_attention_through_a_cache(cuts: list[int], shared: int) -> None:
    ad.manual_seed(0)
    layer = nn.GroupedQueryAttention(16, 4, shared, nn.RotaryEmbedding(4, 32), dtype=ad.float64)
    x = seeded(2, 6, 16)
    cache = nn.KVCache(2, shared, 6, 4, dtype=ad.float64)
    assert list(cache.state_dict()) == []
    with ad.no_grad():
        whole = layer(x)
        for _ in range(2):  # again after a reset
            parts = [layer(part, cache) for part in x.split(cuts, 1)]
            np.testing.assert_allclose(ad.cat(parts, 1).numpy(), whole.numpy(), rtol=1e-9)
            assert cache.length == 6
            with pytest.raises(RuntimeError, match="room for 6 positions, received position 6"):
                layer(x[:, :1], cache)
            cache.reset()


LLAMA = models.LlamaConfig(17, 16, 32, 2, 4, 2)


@pytest.mark.parametrize("cuts", CUTS, ids=str)
def test_llama_through_a_cache(cuts: list[int]) -> None:
    ad.manual_seed(0)
    model = models.Llama(LLAMA).double()
    tokens = ad.randint(0, 17, (3, 6))
    with ad.no_grad():
        whole = model(tokens)
        cache = model.cache(3, 6)
        parts = [model(part, cache) for part in tokens.split(cuts, 1)]
    np.testing.assert_allclose(ad.cat(parts, 1).numpy(), whole.numpy(), rtol=1e-6, atol=1e-9)


def test_llama_generates_what_it_would_without_a_cache() -> None:
    ad.manual_seed(0)
    model = models.Llama(LLAMA).eval()
    with ad.no_grad():
        for p in model.parameters():  # far enough apart that rounding chooses nothing
            p.mul_(10)
    start = ad.randint(0, 17, (2, 3))
    tokens = start
    with ad.no_grad():
        for _ in range(8):
            tokens = ad.cat([tokens, model(tokens)[:, -1].argmax(1, keepdim=True)], 1)
    assert model.generate(start, 8, temperature=0).tolist() == tokens.tolist()
    assert model.generate(start, 8, top_k=1).tolist() == tokens.tolist()
    ad.manual_seed(1)
    drawn = model.generate(start, 8)
    ad.manual_seed(1)
    assert drawn.tolist() == model.generate(start, 8).tolist()


def test_llama_feed_forward_is_swiglu() -> None:
    ad.manual_seed(0)
    ours = models.Llama(LLAMA).model["layers"][0].mlp
    layer = nn.SwiGLU(16, 32)
    state = ours.state_dict()
    names = {"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}
    layer.load_state_dict({f"{k}.weight": state[f"{v}.weight"] for k, v in names.items()})
    x = ad.randn(2, 16)
    assert ad.allclose(layer(x), ours(x))


def test_sampling() -> None:
    ad.manual_seed(0)
    scores = ad.tensor([[0.0, 5.0, 4.0, -2.0]]).expand(4000, 4)
    drawn = models.choose(scores, temperature=1.0, top_k=2)
    assert drawn.shape == (4000, 1)
    assert set(drawn.flatten().tolist()) == {1, 2}
    share = (drawn == 1).double().mean().item()
    assert abs(share - 1 / (1 + np.exp(-1))) < 0.03
    assert (models.choose(scores, temperature=0) == 1).all()
    cold = models.choose(scores, temperature=0.1)
    assert (cold == 1).double().mean().item() > 0.99
    assert F.softmax(scores[0], -1)[3] > 0  # so the two above were chosen, not the only ones
