"""Multi-head attention."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.dtype import DType
from adjoint.engine.ops.create.creation import empty
from adjoint.engine.ops.nn.multi_head import AttentionHeads, attend_by_heads
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import init
from adjoint.nn.modules.linear import NonDynamicallyQuantizableLinear
from adjoint.nn.modules.module import Module
from adjoint.nn.parameter import Parameter


class MultiheadAttention(Module):
    r"""Attention by several heads: $[head_1, ..., head_h] W^O$, each on projections of its own.

    $head_i = attention(Q W^Q_i, K W^K_i, V W^V_i)$; see
    `nn.functional.scaled_dot_product_attention`.

    Args:
        embed_dim: E, the size of queries and results; `num_heads` divides it.
        num_heads: how many heads.
        dropout: probability of dropping a weight, in training.
        bias: whether the projections have biases.
        add_bias_kv: whether a learned position is added to keys and values.
        add_zero_attn: whether a position of zeros is added to them.
        kdim: size of keys; E by default.
        vdim: size of values; E by default.
        batch_first: whether inputs and results are (B, L, E) rather than (L, B, E).

    Shape:
        query (L, B, E), key (S, B, kdim), value (S, B, vdim) -> (L, B, E), (B, L, S); without B
        too.

    Example:
        >>> import adjoint as ad
        >>> x = ad.randn(2, 5, 16)
        >>> out, weights = ad.nn.MultiheadAttention(16, 4, batch_first=True)(x, x, x)
        >>> out.shape, weights.shape
        (adjoint.Size([2, 5, 16]), adjoint.Size([2, 5, 5]))
    """

    __constants__ = ["batch_first"]
    bias_k: Tensor | None
    bias_v: Tensor | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and "
                f"num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError(
                f"embed_dim must be divisible by num_heads, received {embed_dim} and {num_heads}"
            )

        def make(name: str, *shape: int, wanted: bool = True) -> None:
            if wanted:
                setattr(self, name, Parameter(empty(shape, device=device, dtype=dtype)))
            else:
                self.register_parameter(name, None)

        same = self._qkv_same_embed_dim
        make("q_proj_weight", embed_dim, embed_dim, wanted=not same)
        make("k_proj_weight", embed_dim, self.kdim, wanted=not same)
        make("v_proj_weight", embed_dim, self.vdim, wanted=not same)
        make("in_proj_weight", 3 * embed_dim, embed_dim, wanted=same)
        make("in_proj_bias", 3 * embed_dim, wanted=bias)
        self.out_proj = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias=bias, device=device, dtype=dtype
        )
        make("bias_k", 1, 1, embed_dim, wanted=add_bias_kv)
        make("bias_v", 1, 1, embed_dim, wanted=add_bias_kv)
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        names = ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")
        for name in names:
            if getattr(self, name) is not None:
                init.xavier_uniform_(getattr(self, name))
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for row in (self.bias_k, self.bias_v):
            if row is not None:
                init.xavier_normal_(row)

    def __setstate__(self, state: dict[str, Any]) -> None:
        state.setdefault("_qkv_same_embed_dim", True)
        super().__setstate__(state)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Results, and the attention weights if `need_weights`.

        Args:
            query: what looks.
            key: what is compared with it.
            value: what is averaged.
            key_padding_mask: (B, S), true (or a number to add) at positions to ignore.
            need_weights: whether to return the weights; without them attention is one operation.
            attn_mask: (L, S) or (B * heads, L, S), true (or a number to add) where not to look.
            average_attn_weights: whether to average the weights over heads.
            is_causal: promise that `attn_mask` is the causal one.
        """
        return attend_by_heads(
            self._heads(),
            query,
            key,
            value,
            key_padding_mask,
            need_weights,
            attn_mask,
            average_attn_weights,
            is_causal,
        )

    def _heads(self) -> AttentionHeads:
        apart = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        return AttentionHeads(
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            None if self._qkv_same_embed_dim else apart,
            self.in_proj_bias,
            self.out_proj.weight,
            self.out_proj.bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout if self.training else 0.0,
            self.batch_first,
        )

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Both masks as one, and its kind: 0 attention only, 1 padding only, 2 (B, H, L, S)."""
        mask, kind = key_padding_mask, None if key_padding_mask is None else 1
        if attn_mask is None:
            return mask, kind
        batch, length = query.shape[:2]
        if attn_mask.ndim == 3:
            wide = attn_mask.reshape((batch, -1, length, attn_mask.shape[-1]))
        else:
            wide = attn_mask.reshape((1, 1, length, -1)).expand((batch, self.num_heads, -1, -1))
        if key_padding_mask is not None:
            wide = wide + key_padding_mask.reshape((batch, 1, 1, -1)).expand(
                (-1, self.num_heads, -1, -1)
            )
        return wide, 2
