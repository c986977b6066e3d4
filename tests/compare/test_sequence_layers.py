"""Recurrent layers, attention and transformers against PyTorch's: same weights in, same out."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import adjoint as ad  # noqa: E402

pytestmark = pytest.mark.compare


def ours(x: Any) -> Any:
    return None if x is None else ad.tensor(x.detach().numpy())


def pair(name: str, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    t = getattr(torch.nn, name)(*args, **kwargs).double()
    a = getattr(ad.nn, name)(*args, **kwargs).double()
    a.load_state_dict({k: ours(v) for k, v in t.state_dict().items()})
    assert repr(t) == repr(a)
    return t, a


def same(wants: list[Any], gots: list[Any], theirs: Any, mine: Any) -> None:
    weights = [torch.randn_like(w) for w in wants]
    sum((v * w).sum() for v, w in zip(wants, weights, strict=True)).backward()
    sum((v * ours(w)).sum() for v, w in zip(gots, weights, strict=True)).backward()
    wants = wants + [p.grad for p in theirs.parameters()]
    gots = gots + [p.grad for p in mine.parameters()]
    for want, got in zip(wants, gots, strict=True):
        np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), atol=1e-9)


@pytest.mark.parametrize("packed", [0, 1, 2])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (kind, {"num_layers": layers, "bidirectional": both, "bias": bias})
        for kind, layers, both, bias in itertools.product(
            ["RNN", "LSTM", "GRU"], [1, 2], [False, True], [False, True]
        )
    ]
    + [("LSTM", {"proj_size": 2, "num_layers": 2}), ("RNN", {"nonlinearity": "relu"})],
)
def test_recurrent(kind: str, options: dict[str, Any], batch_first: bool, packed: int) -> None:
    torch.manual_seed(0)
    t, a = pair(kind, 3, 4, batch_first=batch_first, **options)
    x: Any = torch.randn(5, 5, 3, dtype=torch.float64)
    y: Any = ours(x)
    if packed:
        lengths = [5, 4, 4, 2, 1] if packed == 1 else [2, 5, 1, 4, 4]
        x = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first, packed == 1)
        y = ad.nn.utils.rnn.pack_padded_sequence(y, lengths, batch_first, packed == 1)
    (want, want_state), (got, got_state) = t(x), a(y)
    if packed:
        want, got = want.data, got.data
    states = ([want_state], [got_state])
    if kind == "LSTM":
        states = (list(want_state), list(got_state))
    same([want, *states[0]], [got, *states[1]], t, a)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("mask", [None, "bool", "float"])
@pytest.mark.parametrize(
    "options",
    [{}, {"bias": False}, {"add_bias_kv": True}, {"add_zero_attn": True}, {"kdim": 5, "vdim": 6}],
)
def test_multi_head(options: dict[str, Any], mask: str | None, need_weights: bool) -> None:
    torch.manual_seed(0)
    t, a = pair("MultiheadAttention", 8, 2, **options)
    sizes = (8, options.get("kdim", 8), options.get("vdim", 8))
    inputs = [
        torch.randn(n, 2, size, dtype=torch.float64)
        for n, size in zip((4, 3, 3), sizes, strict=True)
    ]
    m = None
    if mask == "bool":
        m = torch.ones(4, 3).triu(1).bool()
    elif mask == "float":
        m = torch.randn(4, 4, 3, dtype=torch.float64)
    want, want_w = t(*inputs, attn_mask=m, need_weights=need_weights)
    got, got_w = a(*map(ours, inputs), attn_mask=ours(m), need_weights=need_weights)
    extra = ([want_w], [got_w]) if need_weights else ([], [])
    same([want, *extra[0]], [got, *extra[1]], t, a)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_transformer(norm_first: bool, activation: str) -> None:
    torch.manual_seed(0)
    t, a = pair("Transformer", 8, 2, 2, 2, 12, 0.0, activation, norm_first=norm_first)
    src = torch.randn(5, 3, 8, dtype=torch.float64)
    tgt = torch.randn(4, 3, 8, dtype=torch.float64)
    m = torch.nn.Transformer.generate_square_subsequent_mask(4).double()
    padding = torch.zeros(3, 5).bool()
    padding[1, -1] = True
    want = t(src, tgt, tgt_mask=m, src_key_padding_mask=padding)
    got = a(ours(src), ours(tgt), tgt_mask=ours(m), src_key_padding_mask=ours(padding))
    same([want], [got], t, a)
