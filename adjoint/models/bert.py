"""BERT (Devlin et al., 2018), with Hugging Face's weight names."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adjoint import nn
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.dtype import DType
from adjoint.engine.ops.create.creation import ones_like, zeros_like
from adjoint.engine.ops.create.ranges import arange
from adjoint.engine.tensor.tensor import Tensor
from adjoint.models.configuration import check_config, check_heads
from adjoint.models.weights import build, read_json, read_weights
from adjoint.nn import functional as F


@dataclass(frozen=True, slots=True)
class BertConfig:
    """Sizes of a BERT; the defaults are those of base, uncased."""

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    dropout: float = 0.1
    layer_norm_eps: float = 1e-12
    hidden_act: str = "gelu"

    def __post_init__(self) -> None:
        check_config(self)
        check_heads(self, "hidden_size", "num_attention_heads")

    @classmethod
    def from_dict(cls, about: Mapping[str, Any]) -> BertConfig:
        """The sizes a published `config.json` states.

        >>> BertConfig.from_dict({"hidden_size": 384, "hidden_dropout_prob": 0.0}).hidden_size
        384
        """
        known = {name: about[name] for name in cls.__dataclass_fields__ if name in about}
        if "hidden_dropout_prob" in about:
            known["dropout"] = about["hidden_dropout_prob"]
        if about.get("position_embedding_type", "absolute") != "absolute":
            raise ValueError(
                "BertConfig: position_embedding_type must be 'absolute', received "
                f"{about['position_embedding_type']!r}"
            )
        return cls(**known)


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU by its approximation with a hyperbolic tangent."""
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": gelu_tanh,
    "gelu_pytorch_tanh": gelu_tanh,
    "relu": F.relu,
    "silu": F.silu,
}
SIZES = {
    "tiny": BertConfig(
        hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=512
    ),
    "mini": BertConfig(
        hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024
    ),
    "small": BertConfig(
        hidden_size=512, num_hidden_layers=4, num_attention_heads=8, intermediate_size=2048
    ),
    "medium": BertConfig(
        hidden_size=512, num_hidden_layers=8, num_attention_heads=8, intermediate_size=2048
    ),
    "base": BertConfig(),
    "large": BertConfig(
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096
    ),
    "minilm_l6": BertConfig(hidden_size=384, num_hidden_layers=6, intermediate_size=1536),
    "minilm_l12": BertConfig(hidden_size=384, num_hidden_layers=12, intermediate_size=1536),
}


class BertEmbeddings(nn.Module):
    """Word, place and segment, added and normalised."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, width, padding_idx=0)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, width)
        self.LayerNorm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, tokens: Tensor, segments: Tensor) -> Tensor:
        places = arange(tokens.shape[1], device=tokens.device)
        x = self.word_embeddings(tokens) + self.token_type_embeddings(segments)
        return self.dropout(self.LayerNorm(x + self.position_embeddings(places)))


class BertSelfAttention(nn.Module):
    """Attention of every token to every real one."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.heads, self.rate = config.num_attention_heads, config.dropout
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        B, T, C = x.shape
        q, k, v = (
            p(x).view(B, T, self.heads, C // self.heads).transpose(1, 2)
            for p in (self.query, self.key, self.value)
        )
        rate = self.rate if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=rate)
        return y.transpose(1, 2).reshape(B, T, C)


class BertOutput(nn.Module):
    """A linear layer back to the stream, normalised with it."""

    def __init__(self, fan_in: int, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(fan_in, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, stream: Tensor) -> Tensor:
        return self.LayerNorm(self.dropout(self.dense(x)) + stream)


class BertLayer(nn.Module):
    """Attention and feed-forward, each normalised after its shortcut."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.attention = nn.ModuleDict(
            {"self": BertSelfAttention(config), "output": BertOutput(config.hidden_size, config)}
        )
        self.intermediate = nn.ModuleDict(
            {"dense": nn.Linear(config.hidden_size, config.intermediate_size)}
        )
        self.output = BertOutput(config.intermediate_size, config)
        if config.hidden_act not in ACTIVATIONS:
            raise ValueError(
                f"Bert: hidden_act must be one of {', '.join(ACTIVATIONS)}, "
                f"received {config.hidden_act!r}"
            )
        self.activation = ACTIVATIONS[config.hidden_act]

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.attention["output"](self.attention["self"](x, mask), x)
        return self.output(self.activation(self.intermediate["dense"](x)), x)


def published(weights: Mapping[str, Any]) -> dict[str, Any]:
    """A checkpoint under this file's names.

    Checkpoints of models that contain a BERT put `bert.` before its names; those made from
    TensorFlow's say gamma and beta; some keep the numbers of the places, 0, 1, 2 and so on.
    """
    out = {}
    for name, value in weights.items():
        name = name.removeprefix("bert.")
        name = name.replace("LayerNorm.gamma", "LayerNorm.weight")
        name = name.replace("LayerNorm.beta", "LayerNorm.bias")
        if name != "embeddings.position_ids":
            out[name] = value
    return out


class Bert(nn.Module):
    """The encoder.

    Shape:
        (B, T) tokens, attention mask (B, T) with 1 for real tokens -> (B, T, hidden_size)

    Example:
        >>> import adjoint as ad
        >>> model = Bert(BertConfig(11, 8, 1, 2, 16, 16))
        >>> model(ad.ones(2, 5).long()).shape
        adjoint.Size([2, 5, 8])
    """

    def __init__(self, config: BertConfig | None = None, pooler: bool = True) -> None:
        super().__init__()
        self.config = config = config or BertConfig()
        self.embeddings = BertEmbeddings(config)
        self.encoder = nn.ModuleDict(
            {"layer": nn.ModuleList(BertLayer(config) for _ in range(config.num_hidden_layers))}
        )
        if pooler:
            width = config.hidden_size
            self.pooler = nn.ModuleDict({"dense": nn.Linear(width, width)})
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)
        with no_grad():
            self.embeddings.word_embeddings.weight[0] = 0  # padding says nothing

    def forward(
        self, tokens: Tensor, mask: Tensor | None = None, segments: Tensor | None = None
    ) -> Tensor:
        mask = ones_like(tokens) if mask is None else mask
        segments = zeros_like(tokens) if segments is None else segments
        x = self.embeddings(tokens, segments)
        visible = mask.bool()[:, None, None, :]  # (B, 1, 1, T)
        for layer in self.encoder["layer"]:
            x = layer(x, visible)
        return x

    def pool(self, hidden: Tensor) -> Tensor:
        """The first token's state through the pooler."""
        return self.pooler["dense"](hidden[:, 0]).tanh()

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """As any module's; names may have a published checkpoint's variants (see `published`)."""
        return super().load_state_dict(published(state_dict), strict, assign)

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str], dtype: DType | None = None) -> Bert:
        """The model in a folder with `config.json` and weights, in evaluation mode.

        Without weights of a pooler it has none. Weights of another task's head are left out, with
        a warning that names them. Parameters are of the default dtype unless `dtype` is given.
        """
        config = BertConfig.from_dict(read_json(Path(folder) / "config.json"))
        weights = published(read_weights(folder))
        pooler = "pooler.dense.weight" in weights
        return build(lambda: cls(config, pooler), weights, dtype)


def minilm_l6() -> Bert:
    """all-MiniLM-L6-v2's encoder: 22,713,216 parameters."""
    return Bert(SIZES["minilm_l6"])
