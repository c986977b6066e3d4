"""One layer of a transformer: attention and feed-forward, each added to its input.

The blocks have PyTorch's names (`_sa_block`, `_mha_block`, `_ff_block`): programs define them anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.engine.core.dtype import DType
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.nn.modules.attention import MultiheadAttention
from adjoint.nn.modules.dropout import Dropout
from adjoint.nn.modules.linear import Linear
from adjoint.nn.modules.module import Module
from adjoint.nn.modules.normalization import LayerNorm

Activation = Callable[[Tensor], Tensor]


def activation_named(activation: str | Activation) -> Activation:
    """relu or gelu by name; a function is itself."""
    if not isinstance(activation, str):
        return activation
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return getattr(F, activation)


class _Layer(Module):
    """The feed-forward block and the rule of where to normalise."""

    norm_first: bool
    activation: Activation

    def _make_feed_forward(
        self, d_model: int, dim_feedforward: int, dropout: float, bias: bool, options: Any
    ) -> None:
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **options)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **options)

    def _make_norms(self, count: int, d_model: int, eps: float, bias: bool, options: Any) -> None:
        for i in range(1, count + 1):
            setattr(self, f"norm{i}", LayerNorm(d_model, eps=eps, bias=bias, **options))

    def _added(self, x: Tensor, norm: Module, block: Callable[[Tensor], Tensor]) -> Tensor:
        if self.norm_first:
            return x + block(norm(x))
        return norm(x + block(x))

    def _sa_block(
        self,
        x: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        out = self.self_attn(
            x,
            x,
            x,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            need_weights=False,
            is_causal=is_causal,
        )[0]
        return self.dropout1(out)

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def __setstate__(self, state: dict[str, Any]) -> None:
        state.setdefault("activation", F.relu)
        super().__setstate__(state)


class TransformerEncoderLayer(_Layer):
    """Self-attention, then a feed-forward network, each added to its input and normalised.

    Args:
        d_model: E, the size of inputs and outputs.
        nhead: how many heads.
        dim_feedforward: size of the hidden layer.
        dropout: probability of dropping, in training.
        activation: "relu", "gelu" or a function.
        layer_norm_eps: added to variances.
        batch_first: whether inputs are (B, T, E) rather than (T, B, E).
        norm_first: whether to normalise before each block rather than after its sum.
        bias: whether linear layers and normalisations have biases.

    Shape:
        (T, B, E) -> (T, B, E); without B too.

    Example:
        >>> import adjoint as ad
        >>> layer = ad.nn.TransformerEncoderLayer(16, 4, batch_first=True)
        >>> layer(ad.randn(2, 5, 16)).shape
        adjoint.Size([2, 5, 16])
    """

    __constants__ = ["norm_first"]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        options = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **options
        )
        self._make_feed_forward(d_model, dim_feedforward, dropout, bias, options)
        self.norm_first = norm_first
        self._make_norms(2, d_model, layer_norm_eps, bias, options)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = activation_named(activation)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """The layer's output.

        Args:
            src: the sequence.
            src_mask: where not to look, as `attn_mask` of MultiheadAttention.
            src_key_padding_mask: positions to ignore, as `key_padding_mask` there.
            is_causal: promise that `src_mask` is the causal one.
        """

        x = self._added(
            src,
            self.norm1,
            lambda y: self._sa_block(y, src_mask, src_key_padding_mask, is_causal=is_causal),
        )
        return self._added(x, self.norm2, self._ff_block)

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout2(self._feed_forward(x))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to a memory, and a feed-forward network.

    Args:
        d_model: E, the size of inputs and outputs.
        nhead: how many heads.
        dim_feedforward: size of the hidden layer.
        dropout: probability of dropping, in training.
        activation: "relu", "gelu" or a function.
        layer_norm_eps: added to variances.
        batch_first: whether inputs are (B, T, E) rather than (T, B, E).
        norm_first: whether to normalise before each block rather than after its sum.
        bias: whether linear layers and normalisations have biases.

    Shape:
        target (T, B, E), memory (S, B, E) -> (T, B, E); without B too.

    Example:
        >>> import adjoint as ad
        >>> layer = ad.nn.TransformerDecoderLayer(16, 4)
        >>> layer(ad.randn(5, 2, 16), ad.randn(7, 2, 16)).shape
        adjoint.Size([5, 2, 16])
    """

    __constants__ = ["norm_first"]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        options = {"device": device, "dtype": dtype}
        for name in ("self_attn", "multihead_attn"):
            attention = MultiheadAttention(
                d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **options
            )
            setattr(self, name, attention)
        self._make_feed_forward(d_model, dim_feedforward, dropout, bias, options)
        self.norm_first = norm_first
        self._make_norms(3, d_model, layer_norm_eps, bias, options)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = activation_named(activation)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The layer's output; masks as for MultiheadAttention."""
        x = self._added(
            tgt,
            self.norm1,
            lambda y: self._sa_block(y, tgt_mask, tgt_key_padding_mask, tgt_is_causal),
        )
        x = self._added(
            x,
            self.norm2,
            lambda y: self._mha_block(
                y, memory, memory_mask, memory_key_padding_mask, memory_is_causal
            ),
        )
        return self._added(x, self.norm3, self._ff_block)

    def _mha_block(
        self,
        x: Tensor,
        mem: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        out = self.multihead_attn(
            x,
            mem,
            mem,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            is_causal=is_causal,
            need_weights=False,
        )[0]
        return self.dropout2(out)

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout3(self._feed_forward(x))
