"""Transformers: stacks of encoder and decoder layers."""

from __future__ import annotations

import copy
import math
from typing import Any

from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import ShapeError, ShapeIndexError
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.create.creation import full
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import init
from adjoint.nn.modules.container import ModuleList
from adjoint.nn.modules.module import Module
from adjoint.nn.modules.normalization import LayerNorm
from adjoint.nn.modules.transformer_layers import (
    Activation,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
    activation_named,
)


def causal_mask(size: int, device: Any = None, dtype: DType | None = None) -> Tensor:
    """A (size, size) mask to add: minus infinity above the diagonal, 0 elsewhere."""
    return full((size, size), -math.inf, dtype=dtype, device=device).triu(1)


def _get_clones(module: Module, count: int) -> ModuleList:
    """A list of copies; programs that extend the layers below import it by this name."""
    return ModuleList([copy.deepcopy(module) for _ in range(count)])


_get_activation_fn = activation_named  # likewise
_generate_square_subsequent_mask = causal_mask


def detect_causal(
    mask: Tensor | None, is_causal: bool | None = None, size: int | None = None
) -> bool:
    """Whether a mask is the causal one: as told, or by looking when told nothing."""
    if is_causal is not None:
        return is_causal
    if mask is None or not CONTEXT.plain:  # the elements of a symbolic mask cannot be looked at
        return False
    wanted = causal_mask(size or mask.shape[-2], mask.device, mask.dtype)
    return tuple(mask.shape) == tuple(wanted.shape) and bool((mask == wanted).all())


def _length(x: Tensor, batch_first: bool) -> int | None:
    """The number of steps."""
    return x.shape[0] if x.ndim == 2 else x.shape[1 if batch_first else 0]


_detect_is_causal_mask, _get_seq_len = detect_causal, _length  # PyTorch's names


class TransformerEncoder(Module):
    """A stack of encoder layers.

    Args:
        encoder_layer: the layer, copied for each place.
        num_layers: how many.
        norm: applied to the last output; none by default.
        enable_nested_tensor: accepted for PyTorch's sake; padding is always kept.
        mask_check: accepted for PyTorch's sake.

    Example:
        >>> import adjoint as ad
        >>> layer = ad.nn.TransformerEncoderLayer(16, 4, 32)
        >>> ad.nn.TransformerEncoder(layer, 2)(ad.randn(5, 2, 16)).shape
        adjoint.Size([5, 2, 16])
    """

    __constants__ = ["norm"]

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """The last layer's output, normalised if there is a norm.

        Args:
            src: the sequence.
            mask: where not to look.
            src_key_padding_mask: positions to ignore.
            is_causal: whether `mask` is the causal one; found out if None.
        """
        attention = getattr(self.layers[0], "self_attn", None) if len(self.layers) else None
        size = _length(src, getattr(attention, "batch_first", False))
        causal = detect_causal(mask, is_causal, size)
        for layer in self.layers:
            src = layer(
                src, src_mask=mask, is_causal=causal, src_key_padding_mask=src_key_padding_mask
            )
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """A stack of decoder layers.

    Args:
        decoder_layer: the layer, copied for each place.
        num_layers: how many.
        norm: applied to the last output; none by default.

    Example:
        >>> import adjoint as ad
        >>> layer = ad.nn.TransformerDecoderLayer(16, 4, 32)
        >>> ad.nn.TransformerDecoder(layer, 2)(ad.randn(5, 2, 16), ad.randn(7, 2, 16)).shape
        adjoint.Size([5, 2, 16])
    """

    __constants__ = ["norm"]

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The last layer's output, normalised if there is a norm."""
        attention = getattr(self.layers[0], "self_attn", None) if len(self.layers) else None
        size = _length(tgt, getattr(attention, "batch_first", False))
        causal = detect_causal(tgt_mask, tgt_is_causal, size)
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """Encoder and decoder (Vaswani et al. 2017: Attention is all you need).

    Args:
        d_model: E, the size of inputs and outputs.
        nhead: how many heads.
        num_encoder_layers: how many encoder layers.
        num_decoder_layers: how many decoder layers.
        dim_feedforward: size of the hidden layers.
        dropout: probability of dropping, in training.
        activation: "relu", "gelu" or a function.
        custom_encoder: replaces the encoder.
        custom_decoder: replaces the decoder.
        layer_norm_eps: added to variances.
        batch_first: whether inputs are (B, T, E) rather than (T, B, E).
        norm_first: whether to normalise before each block.
        bias: whether linear layers and normalisations have biases.

    Shape:
        source (S, B, E), target (T, B, E) -> (T, B, E); without B too.

    Example:
        >>> import adjoint as ad
        >>> model = ad.nn.Transformer(16, 4, 1, 1, 32)
        >>> model(ad.randn(7, 2, 16), ad.randn(5, 2, 16)).shape
        adjoint.Size([5, 2, 16])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = "relu",
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        shared: tuple[Any, ...] = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, bias, device, dtype,
        )  # fmt: skip

        def last_norm() -> LayerNorm:
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, device=device, dtype=dtype)

        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            self.encoder = TransformerEncoder(
                TransformerEncoderLayer(*shared), num_encoder_layers, last_norm()
            )
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            self.decoder = TransformerDecoder(
                TransformerDecoderLayer(*shared), num_decoder_layers, last_norm()
            )
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The decoder's output for a target, given a source; masks as for MultiheadAttention."""
        batch_dim = 0 if self.batch_first else 1
        if min(src.ndim, tgt.ndim) <= batch_dim:
            raise ShapeIndexError(
                "src and tgt must have 2 or 3 dimensions, received "
                f"{tuple(src.shape)} and {tuple(tgt.shape)}"
            )
        if src.ndim == 3 and src.shape[batch_dim] != tgt.shape[batch_dim]:
            raise ShapeError(
                "the batch number of src and tgt must be equal, received "
                f"{tuple(src.shape)} and {tuple(tgt.shape)}"
            )
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise ShapeError(
                "the feature number of src and tgt must be equal to d_model, received "
                f"{src.shape[-1]} and {tgt.shape[-1]} for d_model={self.d_model}"
            )
        memory = self.encoder(
            src,
            mask=src_mask,
            src_key_padding_mask=src_key_padding_mask,
            is_causal=src_is_causal,
        )
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: Any = None, dtype: DType | None = None
    ) -> Tensor:
        """The causal mask: minus infinity above the diagonal, 0 elsewhere.

        >>> import adjoint as ad
        >>> ad.nn.Transformer.generate_square_subsequent_mask(2)
        tensor([[0., -inf],
                [0., 0.]])
        """
        return causal_mask(sz, device, dtype)

    def _reset_parameters(self) -> None:
        for p in self.parameters():
            if p.ndim > 1:
                init.xavier_uniform_(p)
