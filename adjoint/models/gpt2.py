"""GPT-2 (Radford et al., 2019), with Hugging Face's weight names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any

from adjoint import nn
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import ShapeError
from adjoint.engine.ops.create.creation import empty, zeros
from adjoint.engine.ops.create.ranges import arange
from adjoint.engine.ops.products.derived_products import affine
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.models.configuration import check_config, check_heads
from adjoint.models.sampling import choose
from adjoint.models.weights import build, read_json, read_weights
from adjoint.nn import functional as F


@dataclass(frozen=True, slots=True)
class GPT2Config:
    """Sizes of a GPT-2; the defaults are the small one's."""

    vocab_size: int = 50257
    n_positions: int = 1024
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    dropout: float = 0.1
    layer_norm_epsilon: float = 1e-5

    def __post_init__(self) -> None:
        check_config(self)
        check_heads(self, "n_embd", "n_head")

    @classmethod
    def from_dict(cls, about: Mapping[str, Any]) -> GPT2Config:
        """The sizes a published `config.json` states; what there is no place for is refused.

        >>> GPT2Config.from_dict({"n_layer": 6, "resid_pdrop": 0.0}).n_layer
        6
        """
        known = {name: about[name] for name in cls.__dataclass_fields__ if name in about}
        known["dropout"] = about.get("resid_pdrop", 0.1)
        out = cls(**known)
        for name, allowed in (
            ("activation_function", ("gelu_new", "gelu_pytorch_tanh")),
            ("n_inner", (4 * out.n_embd,)),
            ("scale_attn_by_inverse_layer_idx", (False,)),
            ("tie_word_embeddings", (True,)),
        ):
            if about.get(name) not in (None, *allowed):
                raise ValueError(
                    f"GPT2Config: {name} must be {allowed[0]!r}, received {about[name]!r}"
                )
        return out


SIZES = {
    "small": GPT2Config(),
    "medium": GPT2Config(n_embd=1024, n_layer=24, n_head=16),
    "large": GPT2Config(n_embd=1280, n_layer=36, n_head=20),
    "xl": GPT2Config(n_embd=1600, n_layer=48, n_head=25),
}
# Masks that older checkpoints keep beside the weights.
MASK = re.compile(r"\.attn\.(masked_)?bias$")


def published(weights: Mapping[str, Any]) -> dict[str, Any]:
    """A checkpoint under this file's names.

    Published files leave out `transformer.` and the output layer, which is the embedding.
    """
    out = {}
    for name, value in weights.items():
        if not MASK.search(name):
            inside = name.startswith(("transformer.", "lm_head."))
            out[name if inside else f"transformer.{name}"] = value
    if "transformer.wte.weight" in out:
        out.setdefault("lm_head.weight", out["transformer.wte.weight"])
    return out


class Conv1D(nn.Module):
    """A linear layer whose weight is stored (in, out), as GPT-2's checkpoints have it."""

    def __init__(self, fan_out: int, fan_in: int, std: float = 0.02) -> None:
        super().__init__()
        self.weight = nn.Parameter(empty(fan_in, fan_out))
        self.bias = nn.Parameter(zeros(fan_out))
        nn.init.normal_(self.weight, std=std)

    def forward(self, x: Tensor) -> Tensor:
        return affine(x, self.weight, self.bias)

    def linear_parameters(self) -> tuple[Tensor, Tensor | None]:
        """Weight and bias as a linear layer has them, for quantisation."""
        return self.weight.t(), self.bias


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        width = config.n_embd
        self.heads, self.dropout = config.n_head, config.dropout
        self.c_attn = Conv1D(3 * width, width)
        self.c_proj = Conv1D(width, width, 0.02 / sqrt(2 * config.n_layer))
        self.resid_dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.shape
        q, k, v = (
            part.view(B, T, self.heads, C // self.heads).transpose(1, 2)  # (B, heads, T, size)
            for part in self.c_attn(x).split(C, 2)
        )
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        return self.resid_dropout(self.c_proj(y.transpose(1, 2).reshape(B, T, C)))


class FeedForward(nn.Module):
    """Four times wider and back."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        width = config.n_embd
        self.c_fc = Conv1D(4 * width, width)
        self.c_proj = Conv1D(width, 4 * width, 0.02 / sqrt(2 * config.n_layer))
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.c_proj(F.gelu(self.c_fc(x), approximate="tanh")))


class Block(nn.Module):
    """Attention and feed-forward, each after a normalisation, beside shortcuts."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)
        self.attn = Attention(config)
        self.ln_2 = nn.LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)
        self.mlp = FeedForward(config)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT2(nn.Module):
    """The language model; the output layer shares the embedding's weight.

    Shape:
        (B, T) tokens -> (B, T, vocab_size) scores of the next token

    Example:
        >>> import adjoint as ad
        >>> model = GPT2(GPT2Config(vocab_size=11, n_positions=8, n_embd=8, n_layer=1, n_head=2))
        >>> model(ad.zeros(2, 5).long()).shape
        adjoint.Size([2, 5, 11])
    """

    def __init__(self, config: GPT2Config | None = None) -> None:
        super().__init__()
        self.config = config = config or GPT2Config()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(config.vocab_size, config.n_embd),
                "wpe": nn.Embedding(config.n_positions, config.n_embd),
                "drop": nn.Dropout(config.dropout),
                "h": nn.ModuleList(Block(config) for _ in range(config.n_layer)),
                "ln_f": nn.LayerNorm(config.n_embd, eps=config.layer_norm_epsilon),
            }
        )
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.lm_head.weight = self.transformer["wte"].weight
        for name in ("wte", "wpe"):
            nn.init.normal_(self.transformer[name].weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        if length > self.config.n_positions:
            raise ShapeError(
                f"GPT2: {length} tokens are more than the model's {self.config.n_positions} "
                "positions. Cut the input."
            )
        parts = self.transformer
        places = arange(length, device=tokens.device)
        x = parts["drop"](parts["wte"](tokens) + parts["wpe"](places))  # (B, T, width)
        for block in parts["h"]:
            x = block(x)
        return self.lm_head(parts["ln_f"](x))

    @no_grad()
    def generate(
        self, tokens: Tensor, count: int, temperature: float = 1.0, top_k: int | None = None
    ) -> Tensor:
        """Sample `count` further tokens; temperature 0 takes the likeliest."""
        for _ in range(count):
            scores = self(tokens[:, -self.config.n_positions :])[:, -1]
            tokens = cat([tokens, choose(scores, temperature, top_k)], 1)
        return tokens

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """As any module's; names may have a published checkpoint's variants (see `published`)."""
        return super().load_state_dict(published(state_dict), strict, assign)

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str], dtype: DType | None = None) -> GPT2:
        """The model in a folder with `config.json` and weights, in evaluation mode.

        Parameters are of the default dtype unless `dtype` is given.
        """
        config = GPT2Config.from_dict(read_json(Path(folder) / "config.json"))
        return build(lambda: cls(config), read_weights(folder), dtype)
