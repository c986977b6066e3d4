"""Attention of sequences of several lengths that lie one after another, against each by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.nn.attention import _group_heads, attend
from adjoint.nn.attention.varlen import AuxRequest, varlen_attn

WINDOWS = [(-1, -1), (-1, 0), (3, 0), (2, 2), (-1, 1)]


def alone(q: Any, k: Any, v: Any, window: tuple[int, int]) -> tuple[Any, Any]:
    """Attention of one sequence, all of its scores at once, and their logsumexp."""
    shared = q.shape[1] // k.shape[1]
    q, k, v = (x.transpose(0, 1) for x in (q, k, v))
    k, v = (x.repeat_interleave(shared, 0) for x in (k, v))
    queries, keys = q.shape[1], k.shape[1]
    own = ad.arange(queries).unsqueeze(1) + keys - queries
    here = ad.arange(keys)
    seen = ad.ones(queries, keys, dtype=ad.bool)
    if window[0] >= 0:
        seen &= here >= own - window[0]
    if window[1] >= 0:
        seen &= here <= own + window[1]
    scores = (q @ k.transpose(1, 2) * q.shape[-1] ** -0.5).masked_fill(~seen, -float("inf"))
    weights = scores.softmax(-1).masked_fill(~seen.any(1, keepdim=True), 0.0)
    return (weights @ v).transpose(0, 1), scores.logsumexp(-1)


def one_by_one(
    q: Any, k: Any, v: Any, starts: Any, key_starts: Any, window: Any, used: Any
) -> tuple[Any, Any]:
    outs, sums = [], []
    for i in range(len(starts) - 1):
        first = key_starts[i]
        last = key_starts[i + 1] if used is None else first + used[i]
        out, lse = alone(q[starts[i] : starts[i + 1]], k[first:last], v[first:last], window)
        outs.append(out)
        sums.append(lse)
    return ad.cat(outs), ad.cat(sums, 1)


def random_case(seed: int, longest: int = 20) -> tuple[Any, ...]:
    """Lengths and operands: some sequences have no queries, or no keys, or no keys yet."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, longest, 4)
    key_lengths = lengths if seed % 2 else rng.integers(0, longest, 4)
    used = rng.integers(0, key_lengths + 1) if seed % 3 == 0 else None
    starts, key_starts = ([0, *np.cumsum(n).tolist()] for n in (lengths + 1, key_lengths + 1))
    heads, shared = ((2, 2), (4, 2), (3, 1))[seed % 3]
    ad.manual_seed(seed)
    q = ad.randn(starts[-1], heads, 8, dtype=ad.float64)
    k, v = (ad.randn(key_starts[-1], shared, n, dtype=ad.float64) for n in (8, 12))
    return q, k, v, starts, key_starts, None if used is None else used.tolist()


def packed(q: Any, k: Any, v: Any, starts: Any, key_starts: Any, used: Any, window: Any) -> Any:
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    out, lse = varlen_attn(
        q, k, v, starts, key_starts, 99, 99, return_aux=AuxRequest(lse=True),
        window_size=window, enable_gqa=True, seqused_k=used,
    )  # fmt: skip
    return out, lse, *ad.autograd.grad((out * out).sum() + lse.exp().sum(), (q, k, v))


def compare(seed: int, run: Any, device: str = "cpu", dtype: Any = None) -> None:
    *tensors, starts, key_starts, used = random_case(seed, 70 if device == "cuda" else 20)
    dtype = dtype or ad.float64
    tensors = [x.to(dtype).double() for x in tensors]
    window = WINDOWS[seed % len(WINDOWS)]
    leaves = [x.detach().requires_grad_() for x in tensors]
    out, lse = one_by_one(*leaves, starts, key_starts, window, used)
    want = (out, lse, *ad.autograd.grad((out * out).sum() + lse.exp().sum(), leaves))
    places = [
        None if x is None else ad.tensor(x, dtype=ad.int32).to(device)
        for x in (starts, key_starts, used)
    ]
    given = [x.to(device, dtype) for x in tensors]
    results = run(lambda *args: packed(*args, window))(*given, *places)
    for result, expected in zip(results, want, strict=True):
        near = {ad.float64: 1e-9, ad.float32: 2e-4}.get(dtype, 4e-2)
        scale = float(expected.nan_to_num(0, 0, 0).abs().max()) + 1.0
        ad.testing.assert_close(
            result.double().cpu(), expected, rtol=near, atol=near * scale, equal_nan=True
        )


@pytest.mark.parametrize("seed", range(8))
def test_sequences_one_after_another_are_each_by_itself(seed: int) -> None:
    compare(seed, lambda fn: fn)


@pytest.mark.parametrize("seed", [1, 2])
def test_compiled(seed: int) -> None:
    compare(seed, ad.compile)


@pytest.mark.cuda
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_on_a_gpu(seed: int, dtype: str, mode: str) -> None:
    run = ad.compile if mode == "compiled" else lambda fn: fn
    compare(seed, run, "cuda", getattr(ad, dtype))


@pytest.mark.cuda
def test_memory_grows_with_the_rows() -> None:
    count = 1 << 16  # scores of all of them would be 8 GiB a head
    q, k, v = (
        ad.randn(count, 2, 64, device="cuda", dtype=ad.bfloat16, requires_grad=True)
        for _ in range(3)
    )
    starts = ad.arange(0, count + 1, 4096, device="cuda", dtype=ad.int32)
    attend: Any = varlen_attn
    for run in (attend, ad.compile(attend)):
        ad.cuda.reset_peak_memory_stats()
        before = ad.cuda.memory_allocated()
        run(q, k, v, starts, None, 4096, 4096, True).float().square().mean().backward()
        assert ad.cuda.max_memory_allocated() - before < 1 << 30


@pytest.mark.cuda
@pytest.mark.parametrize("causal", [False, True])
def test_nested_tensors_on_a_gpu(causal: bool) -> None:
    def attended(device: str) -> Any:
        ad.manual_seed(3)
        rows = [ad.randn(n, 2, 8).to(device) for n in (5, 1, 9)]
        x = ad.nested.as_nested_tensor(rows, layout=ad.jagged).transpose(1, 2)
        return ad.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=causal).values()

    ad.testing.assert_close(attended("cuda").cpu(), attended("cpu"), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"query": ad.ones(4, 8)}, RuntimeError, "rows, heads, features"),
        ({"value": ad.ones(3, 2, 8)}, RuntimeError, "same rows and heads"),
        ({"key": ad.ones(4, 1, 8), "value": ad.ones(4, 1, 8)}, RuntimeError, "enable_gqa"),
        ({"cu_seq_q": ad.tensor([0.0, 4.0])}, RuntimeError, "int32 or int64"),
        ({"cu_seq_q": ad.tensor([[0, 4]])}, RuntimeError, "sequences \\+ 1"),
        ({"cu_seq_k": ad.tensor([0, 2, 4])}, RuntimeError, "1 sequences of queries and 2"),
        ({"block_table": ad.tensor([[0]])}, NotImplementedError, "paged"),
    ],
)
def test_refusals(change: dict[str, Any], error: type[Exception], words: str) -> None:
    given: dict[str, Any] = dict.fromkeys(("query", "key", "value"), ad.ones(4, 2, 8))
    given |= {"cu_seq_q": ad.tensor([0, 4]), "cu_seq_k": ad.tensor([0, 4]), "max_q": 4, "max_k": 4}
    with pytest.raises(error, match=words):
        varlen_attn(**{**given, **change})


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (2, 1, 0, 3), (3, 2, 1, 0)])
def test_results_lie_row_after_row_however_operands_lie(order: Any, shared: bool) -> None:
    """What fragments of attention take for granted (`lies_in_rows`).

    Gradients of operands that were transposed lie as these do, after that.
    """

    def laid(*shape: int) -> Any:
        inverse = [order.index(d) for d in range(4)]
        x = ad.randn(*(shape[d] for d in order)).permute(inverse)
        return x.detach().requires_grad_()

    q = laid(2, 4, 6, 8)
    k, v = (laid(2, 2 if shared else 4, 5, 8) for _ in range(2))
    mask = ad.randn(6, 5)
    with CONTEXT.having(reference=True):
        if shared:
            plain = out = attend(*_group_heads(q, k, v, mask), 0.0, False, 0.5)
        else:
            out = attend(q, k, v, mask, 0.0, False, 0.5)
            turned = (x.transpose(0, 1) for x in (q, k, v))
            plain = attend(*turned, None, 0.0, False, 0.5)
        gradients = ad.autograd.grad(out.sum(), (q, k, v))
    assert out.is_contiguous()
    assert plain.is_contiguous()
    for g, x in zip(gradients, (q, k, v), strict=True):
        _, heads, rows, width = x.shape
        turned = {
            (0, 2, 1, 3): (heads * rows * width, width, heads * width, 1),
            (2, 1, 0, 3): (heads * width, width, 2 * heads * width, 1),
        }
        assert shared or g.stride() == turned.get(order, x.contiguous().stride())
