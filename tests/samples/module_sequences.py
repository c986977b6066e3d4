"""Rows of `tests.samples.modules` for what reads sequences: recurrent layers, attention."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import nn
from tests.samples.modules import Row, draw, real, reals


def causal(n: int) -> Any:
    """A mask that hides what comes later."""
    return nn.Transformer.generate_square_subsequent_mask(n)


def padding() -> Any:
    """Which of 4 places of 2 sequences are filled up."""
    return ad.tensor([[False, False, False, True], [False, False, True, True]])


def packed(module: Any, x: Any) -> Any:
    """Sequences of lengths 4, 2 and 1, packed."""
    held = nn.utils.rnn.pack_padded_sequence(x, [4, 2, 1], batch_first=module.batch_first)
    out, state = module(held)
    return nn.utils.rnn.pad_packed_sequence(out, batch_first=module.batch_first)[0], state


def unsorted(module: Any, x: Any) -> Any:
    """The same in another order."""
    held = nn.utils.rnn.pack_padded_sequence(
        x, [1, 4, 2], batch_first=module.batch_first, enforce_sorted=False
    )
    out, state = module(held)
    return nn.utils.rnn.pad_packed_sequence(out, batch_first=module.batch_first)[0], state


def with_state(module: Any, x: Any, h: Any, c: Any) -> Any:
    """From a given state."""
    return module(x, (h, c) if isinstance(module, (nn.LSTM, nn.LSTMCell)) else h)


def recurrent(kind: Any, **more: Any) -> list[Row]:
    """One layer; several, both ways, with dropout; packed; from a state."""
    deep = partial(kind, 3, 5, 2, dropout=0.5, bidirectional=True, **more)
    return [
        Row(partial(kind, 3, 5, **more), real(4, 2, 3)),
        Row(partial(kind, 3, 5, bias=False, batch_first=True, **more), real(2, 4, 3)),
        Row(deep, real(4, 2, 3)),
        Row(deep, real(4, 3, 3), packed),
        Row(partial(kind, 3, 5, batch_first=True, **more), real(3, 4, 3), unsorted),
        Row(partial(kind, 3, 5, **more), reals((4, 2, 3), (1, 2, 5), (1, 2, 5)), with_state),
    ]


def _self(module: Any, x: Any) -> Any:
    return module(x, x, x)


def _masked(module: Any, x: Any) -> Any:
    return module(x, x, x, key_padding_mask=padding(), attn_mask=causal(4), is_causal=True)


def _separate(module: Any, q: Any, k: Any, v: Any) -> Any:
    return module(q, k, v, average_attn_weights=False)


def _no_weights(module: Any, x: Any) -> Any:
    return module(x, x, x, need_weights=False)


def _encoder(module: Any, x: Any) -> Any:
    return module(x, causal(4), padding().float().masked_fill(padding(), float("-inf")))


def _encoder_only_padding(module: Any, x: Any) -> Any:
    return module(x, src_key_padding_mask=padding())


def _decoder(module: Any, x: Any, memory: Any) -> Any:
    return module(x, memory, tgt_mask=causal(4), tgt_is_causal=True)


def _transformer(module: Any, source: Any, target: Any) -> Any:
    return module(source, target, tgt_mask=causal(3), src_key_padding_mask=padding())


def _layer(kind: Any, **more: Any) -> Any:
    return kind(8, 2, 16, batch_first=True, **more)


def _cached(cache: Any, x: Any) -> Any:
    keys, values = cache.update(x, 2 * x)
    cache.reset()
    return keys, values + x  # the cache itself is off the tape


def _heads(rng: np.random.Generator) -> tuple[Any, ...]:
    return draw(rng, 2, 3, 6), draw(rng, 2, 4, 5), draw(rng, 2, 4, 7)


ATTENTION = nn.MultiheadAttention
SEQUENCES: dict[str, list[Row]] = {
    "RNN": [
        *recurrent(nn.RNN),
        Row(partial(nn.RNN, 3, 5, nonlinearity="relu"), real(4, 2, 3)),
    ],
    "GRU": recurrent(nn.GRU),
    "LSTM": [
        *recurrent(nn.LSTM),
        Row(partial(nn.LSTM, 3, 5, 2, proj_size=2, bidirectional=True), real(4, 2, 3)),
        Row(partial(nn.LSTM, 3, 5, proj_size=2), real(4, 3, 3), packed),
    ],
    "RNNCell": [Row(partial(nn.RNNCell, 3, 5), reals((2, 3), (2, 5)))],
    "GRUCell": [Row(partial(nn.GRUCell, 3, 5), reals((2, 3), (2, 5)))],
    "LSTMCell": [
        Row(partial(nn.LSTMCell, 3, 5), real(2, 3)),
        Row(partial(nn.LSTMCell, 3, 5), reals((2, 3), (2, 5), (2, 5)), with_state),
    ],
    "MultiheadAttention": [
        Row(partial(ATTENTION, 8, 2), real(4, 2, 8), _self),
        Row(partial(ATTENTION, 8, 2, dropout=0.3, batch_first=True), real(2, 4, 8), _self),
        Row(partial(ATTENTION, 8, 2, bias=False, batch_first=True), real(2, 4, 8), _masked),
        Row(partial(ATTENTION, 6, 2, kdim=5, vdim=7, batch_first=True), _heads, _separate),
        Row(partial(ATTENTION, 8, 2, add_bias_kv=True, add_zero_attn=True), real(4, 2, 8), _self),
        Row(partial(ATTENTION, 8, 2, dropout=0.3), real(4, 2, 8), _no_weights),
        Row(partial(ATTENTION, 8, 2), real(4, 8), _self),
    ],
    "TransformerEncoderLayer": [
        Row(partial(_layer, nn.TransformerEncoderLayer), real(2, 4, 8), _encoder),
        Row(
            partial(_layer, nn.TransformerEncoderLayer, activation="gelu", norm_first=True),
            real(2, 4, 8),
            _encoder_only_padding,
        ),
        Row(lambda: _layer(nn.TransformerEncoderLayer, bias=False).eval(), real(2, 4, 8)),
    ],
    "TransformerDecoderLayer": [
        Row(partial(_layer, nn.TransformerDecoderLayer), reals((2, 4, 8), (2, 3, 8)), _decoder),
        Row(
            partial(_layer, nn.TransformerDecoderLayer, norm_first=True, dropout=0.0),
            reals((2, 4, 8), (2, 3, 8)),
        ),
    ],
    "TransformerEncoder": [
        Row(
            lambda: nn.TransformerEncoder(
                _layer(nn.TransformerEncoderLayer), 2, nn.LayerNorm(8), enable_nested_tensor=False
            ),
            real(2, 4, 8),
            call,
        )
        for call in (_encoder, _encoder_only_padding)
    ],
    "TransformerDecoder": [
        Row(
            lambda: nn.TransformerDecoder(_layer(nn.TransformerDecoderLayer), 2),
            reals((2, 4, 8), (2, 3, 8)),
            _decoder,
        )
    ],
    "Transformer": [
        Row(
            partial(nn.Transformer, 8, 2, 1, 1, 16, batch_first=True),
            reals((2, 4, 8), (2, 3, 8)),
            _transformer,
        )
    ],
    "RotaryEmbedding": [Row(partial(nn.RotaryEmbedding, 8, 16), real(2, 4, 8))],
    "SwiGLU": [Row(partial(nn.SwiGLU, 8, 12), real(2, 4, 8))],
    "KVCache": [Row(partial(nn.KVCache, 1, 2, 4, 3), real(1, 2, 3, 3), _cached)],
    "GroupedQueryAttention": [
        Row(lambda: nn.GroupedQueryAttention(16, 4, 2, nn.RotaryEmbedding(4, 8)), real(2, 5, 16)),
        Row(partial(nn.GroupedQueryAttention, 16, 4, 2, bias=True), real(2, 5, 16)),
    ],
}
