"""flex_attention against attention written out, for random functions, masks and sizes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
    noop_mask,
    or_masks,
)

BIAS = ad.tensor(np.random.default_rng(0).normal(size=(4, 99)).astype(np.float32))
PAGES = ad.arange(40) // 9


def causal(b: Any, h: Any, q: Any, kv: Any) -> Any:
    return q >= kv


def pages(b: Any, h: Any, q: Any, kv: Any) -> Any:
    return PAGES[q] == PAGES[kv]


def window(b: Any, h: Any, q: Any, kv: Any) -> Any:
    return (q - kv).abs() < 4 + h + b


def relative(score: Any, b: Any, h: Any, q: Any, kv: Any) -> Any:
    return score + BIAS[h, q - kv + 40]


def capped(score: Any, b: Any, h: Any, q: Any, kv: Any) -> Any:
    return 2 * ad.tanh(score / 2)


MASKS = {
    "none": (None, None),
    "causal": (causal, lambda b, h, q, k: q >= k),
    "pages": (and_masks(causal, pages), lambda b, h, q, k: (q >= k) & (q // 9 == k // 9)),
    "either": (or_masks(causal, pages), lambda b, h, q, k: (q >= k) | (q // 9 == k // 9)),
    "window": (window, lambda b, h, q, k: abs(q - k) < 4 + h + b),
}
SCORES = {
    "none": (None, lambda s, b, h, q, k: s),
    "relative": (relative, lambda s, b, h, q, k: s + BIAS.numpy()[h, q - k + 40]),
    "capped": (capped, lambda s, b, h, q, k: 2 * np.tanh(s / 2)),
}


def written_out(q: Any, k: Any, v: Any, score: Any, mask: Any) -> Any:
    """The same element by element, in float64."""
    out = np.zeros((*q.shape[:3], v.shape[-1]))
    share = q.shape[1] // k.shape[1]
    for b, h, i in np.ndindex(*q.shape[:3]):
        rows = []
        for j in range(k.shape[2]):
            product = float(q[b, h, i] @ k[b, h // share, j]) / math.sqrt(q.shape[-1])
            rows.append(score(product, b, h, i, j) if mask(b, h, i, j) else -math.inf)
        if max(rows) > -math.inf:
            weights = np.exp(np.array(rows) - max(rows))
            out[b, h, i] = weights / weights.sum() @ v[b, h // share]
    return out


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("mask", MASKS)
def test_agrees_with_attention_written_out(score: str, mask: str) -> None:
    rng = np.random.default_rng(len(score) * 7 + len(mask))
    q, k, v = (
        rng.normal(size=s).astype(np.float32) for s in ((2, 4, 13, 3), (2, 2, 17, 3), (2, 2, 17, 5))
    )
    score_mod, plain_score = SCORES[score]
    mask_mod, plain_mask = MASKS[mask]
    block = None if mask_mod is None else create_block_mask(mask_mod, 2, 4, 13, 17, BLOCK_SIZE=4)
    got = flex_attention(
        ad.tensor(q), ad.tensor(k), ad.tensor(v), score_mod, block, enable_gqa=True
    )
    want = written_out(q, k, v, plain_score, plain_mask or (lambda *_: True))
    np.testing.assert_allclose(got.numpy(), want, atol=2e-5)


def test_gradients_flow_through_scores_and_functions() -> None:
    x = ad.randn(1, 2, 6, 4, dtype=ad.float64)
    strength = ad.ones((), dtype=ad.float64)
    block = create_block_mask(causal, None, None, 6, 6, BLOCK_SIZE=2)

    def fn(q: Any, k: Any, v: Any, s: Any) -> Any:
        return flex_attention(
            q, k, v, lambda score, b, h, a, c: score * s + s * (a - c), block_mask=block
        )

    inputs = [y.clone().requires_grad_() for y in (x, x + 1, x * 2, strength)]
    assert ad.autograd.gradcheck(fn, inputs)


def test_rows_that_meet_nothing_give_zeros_and_lse_is_theirs() -> None:
    x = ad.randn(1, 1, 4, 2)
    block = create_block_mask(lambda b, h, q, kv: q > kv, None, None, 4, 4, BLOCK_SIZE=2)
    out, lse = flex_attention(x, x, x, lambda s, *_: s, block, return_lse=True)
    assert bool((out[0, 0, 0] == 0).all())
    assert float(lse[0, 0, 0]) == -math.inf
    _, aux = flex_attention(x, x, x, block_mask=block, return_aux=AuxRequest(lse=True))
    assert ad.allclose(aux.lse, lse)
    assert aux.max_scores is None


def test_compiled_as_eager() -> None:
    x = ad.randn(2, 2, 8, 4)
    block = create_block_mask(causal, None, None, 8, 8, BLOCK_SIZE=4)

    def fn(y: Any) -> Any:
        return flex_attention(y, y, y, capped, block_mask=block)

    ad.testing.assert_close(ad.compile(fn)(x), fn(x))


def test_block_masks_count_blocks() -> None:
    block = create_block_mask(causal, None, None, 8, 8, BLOCK_SIZE=2)
    assert block.shape == (1, 1, 8, 8)
    assert block.sparsity() == 37.5
    assert block.kv_num_blocks.tolist() == [[[1, 1, 1, 1]]]
    assert block.full_kv_num_blocks is not None
    assert block.full_kv_num_blocks.tolist() == [[[0, 1, 2, 3]]]
    assert block.q_num_blocks.tolist() == [[[1, 1, 1, 1]]]
    again = BlockMask.from_kv_blocks(
        block.kv_num_blocks, block.kv_indices, block.full_kv_num_blocks, block.full_kv_indices,
        BLOCK_SIZE=2, mask_mod=causal,
    )  # fmt: skip
    x = ad.randn(1, 1, 8, 2)
    ad.testing.assert_close(
        flex_attention(x, x, x, block_mask=again), flex_attention(x, x, x, block_mask=block)
    )
    assert create_mask(noop_mask, 1, 1, 2, 2).all()


def test_what_does_not_fit_is_refused() -> None:
    x = ad.randn(1, 2, 8, 2)
    block = create_block_mask(causal, None, None, 8, 8, BLOCK_SIZE=4)
    with pytest.raises(ValueError, match="made for lengths"):
        flex_attention(x[:, :, :4], x, x, block_mask=block)
    with pytest.raises(ValueError, match="enable_gqa"):
        flex_attention(x, x[:, :1], x[:, :1])
    with pytest.raises(TypeError, match="booleans"):
        create_mask(lambda b, h, q, kv: q, 1, 1, 2, 2)
    with pytest.raises(RuntimeError, match="mask function of its own"):
        flex_attention(x[:, :, :4], x, x, block_mask=block[:, :, 0])


def test_blocks_in_one_list_and_in_two() -> None:
    def causal(b: ad.Tensor, h: ad.Tensor, q: ad.Tensor, kv: ad.Tensor) -> ad.Tensor:
        return q >= kv

    apart = create_block_mask(causal, None, None, 256, 256)
    whole = create_block_mask(causal, None, None, 256, 256, separate_full_blocks=False)
    assert apart.kv_num_blocks.tolist() == [[[1, 1]]]
    assert whole.kv_num_blocks.tolist() == [[[1, 2]]]
    assert whole.full_kv_num_blocks is whole.full_q_num_blocks is whole.full_q_indices is None
    assert ad.equal(apart.to_dense(), whole.to_dense())
    x = ad.sin(ad.arange(256.0 * 4)).reshape(1, 1, 256, 4)
    assert ad.equal(
        flex_attention(x, x, x, block_mask=apart), flex_attention(x, x, x, block_mask=whole)
    )


def test_block_masks_are_drawn() -> None:
    """As PyTorch prints them."""
    mask = create_block_mask(lambda b, h, q, kv: q >= kv, 2, 3, 256, 384, BLOCK_SIZE=128)
    lines = str(mask).split("\n")
    assert lines[:5] == [
        "BlockMask(shape=(2, 3, 256, 384), sparsity=50.00%, ", "(0, 0)", "██    ", "████  ", "",
    ]  # fmt: skip
    assert [line for line in lines if line.startswith("(")] == [
        "(0, 0)",
        "(0, 1)",
        "(0, 2)",
        "(1, 0)",
    ]
    assert lines[-4] == "..."
    small = create_block_mask(lambda b, h, q, kv: q >= kv, 1, 1, 64, 32, BLOCK_SIZE=16)
    assert small.to_string(grid_size=-1).split("\n")[1:5] == ["██  ", "████", "████", "████"]
    assert small.to_string(grid_size=1).split("\n")[1] == "░░"
    assert repr(mask).split("\n")[:2] == [
        "BlockMask(",
        "    kv_num_blocks=adjoint.Size([2, 3, 2]),",
    ]
    assert repr(mask).endswith("sparsity=50.00%,\n    mask_mod=<lambda>\n)")
