"""Llama (Touvron et al., 2023; with grouped heads from version 2), Hugging Face's weight names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import pi
from pathlib import Path
from typing import Any

from adjoint import nn
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.ops.create.ranges import arange
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.models.configuration import check_config, check_heads, made_for_loading, stated
from adjoint.models.llama_weights import halves, published
from adjoint.models.sampling import choose
from adjoint.models.weights import build, read_json, read_weights
from adjoint.nn import functional as F
from adjoint.quantization.formats.gguf import GGUFFile, load_gguf, read_gguf

Cache = list[nn.KVCache]


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """How Llama 3.1 reaches further than it was first trained: slow rotations are slowed down.

    Rotations with a round within `original / high_freq_factor` positions are kept, those that take
    longer than `original / low_freq_factor` divided by `factor`, with a passage between.
    """

    factor: float = 8.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position_embeddings: int = 8192

    def __post_init__(self) -> None:
        check_config(self)
        if not (self.factor > 0 and self.high_freq_factor > self.low_freq_factor):
            raise ValueError(
                "RopeScaling: factor must be above 0 and high_freq_factor above low_freq_factor, "
                f"received {self.factor}, {self.high_freq_factor} and {self.low_freq_factor}"
            )

    def __call__(self, frequencies: Tensor) -> Tensor:
        """The frequencies to turn by."""
        rounds = self.original_max_position_embeddings * frequencies / (2 * pi)
        span = self.high_freq_factor - self.low_freq_factor
        share = ((rounds - self.low_freq_factor) / span).clamp(0, 1)
        return frequencies * (share + (1 - share) / self.factor)


@dataclass(frozen=True, slots=True)
class LlamaConfig:
    """Sizes of a Llama; the defaults are those of 7B."""

    vocab_size: int = 32000
    hidden_size: int = 4096
    intermediate_size: int = 11008
    num_hidden_layers: int = 32
    num_attention_heads: int = 32
    num_key_value_heads: int = 32
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-6
    max_position_embeddings: int = 2048
    tie_word_embeddings: bool = False
    rope_scaling: RopeScaling | None = None

    def __post_init__(self) -> None:
        check_config(self)
        check_heads(self, "hidden_size", "num_attention_heads")
        check_heads(self, "num_attention_heads", "num_key_value_heads")
        if not self.rope_theta > 0:
            raise ValueError(f"LlamaConfig: rope_theta must be above 0, received {self.rope_theta}")

    @property
    def head_dim(self) -> int:
        """Size of a head."""
        return self.hidden_size // self.num_attention_heads

    @property
    def tables(self) -> int:
        """Bytes of what is prepared for the positions."""
        return 16 * self.head_dim * (1 + self.max_position_embeddings)

    @classmethod
    def from_gguf(cls, file: GGUFFile) -> LlamaConfig:
        """The sizes a GGUF file states."""
        about = file.metadata
        if about.get("general.architecture") != "llama":
            raise ValueError(
                f"LlamaConfig: a GGUF file of {about.get('general.architecture')!r}, not of a Llama"
            )
        if any(key.startswith("llama.rope.scaling") for key in about):
            raise ValueError("LlamaConfig: a GGUF file with scaled rotations cannot be read yet")
        said = partial(stated, about, who="LlamaConfig")
        heads = said("llama.attention.head_count")
        return cls(
            vocab_size=stated(file.tensors, "token_embd.weight", "LlamaConfig").shape[0],
            hidden_size=said("llama.embedding_length"),
            intermediate_size=said("llama.feed_forward_length"),
            num_hidden_layers=said("llama.block_count"),
            num_attention_heads=heads,
            num_key_value_heads=about.get("llama.attention.head_count_kv", heads),
            rope_theta=about.get("llama.rope.freq_base", 10000.0),
            rms_norm_eps=said("llama.attention.layer_norm_rms_epsilon"),
            max_position_embeddings=said("llama.context_length"),
            tie_word_embeddings="output.weight" not in file.tensors,
        )

    @classmethod
    def from_dict(cls, about: Mapping[str, Any]) -> LlamaConfig:
        """The sizes a published `config.json` states; what there is no place for is refused.

        >>> LlamaConfig.from_dict({"hidden_size": 64, "num_attention_heads": 4}).head_dim
        16
        """
        known = {name: about[name] for name in cls.__dataclass_fields__ if name in about}
        known.setdefault("num_key_value_heads", about.get("num_attention_heads", 32))
        scaling = about.get("rope_scaling")
        if scaling is not None:
            if not isinstance(scaling, Mapping):
                raise ValueError(f"LlamaConfig: rope_scaling must be a dict, received {scaling!r}")
            kind = scaling.get("rope_type", scaling.get("type"))
            if kind != "llama3":
                raise ValueError(f"LlamaConfig: rope_scaling of type {kind!r}; there is 'llama3'")
            fields = RopeScaling.__dataclass_fields__
            known["rope_scaling"] = RopeScaling(**{k: scaling[k] for k in fields if k in scaling})
        out = cls(**known)
        for name, only in (
            ("head_dim", out.head_dim),
            ("hidden_act", "silu"),
            ("attention_bias", False),
            ("mlp_bias", False),
        ):
            if about.get(name) not in (None, only):
                raise ValueError(f"LlamaConfig: {name} must be {only!r}, received {about[name]!r}")
        return out

    @classmethod
    def from_params(cls, about: Mapping[str, Any], weights: Mapping[str, Tensor]) -> LlamaConfig:
        """The sizes in the authors' `params.json`; those it leaves out are in the weights."""
        if about.get("use_scaled_rope"):
            raise ValueError(
                "LlamaConfig: params.json says use_scaled_rope without its factors. Use the "
                "folder in Hugging Face's layout, whose config.json has them."
            )
        said = partial(stated, about, who="LlamaConfig")
        table, gate = (
            stated(weights, name, "LlamaConfig")
            for name in ("tok_embeddings.weight", "layers.0.feed_forward.w1.weight")
        )
        if table.ndim != 2 or gate.ndim != 2:
            raise ShapeValueError(
                "LlamaConfig: weights must have two dimensions, received shapes "
                f"{tuple(table.shape)} and {tuple(gate.shape)}"
            )
        return cls(
            table.shape[0],
            table.shape[1],
            gate.shape[0],
            said("n_layers"),
            said("n_heads"),
            about.get("n_kv_heads", about["n_heads"]),
            about.get("rope_theta", 10000.0),
            said("norm_eps"),
        )

    def parameters(self) -> int:
        """The number of parameters of such a model.

        >>> LlamaConfig().parameters()
        6738415616
        """
        width = self.hidden_size
        attention = 2 * width * width + 2 * width * self.head_dim * self.num_key_value_heads
        layer = attention + 3 * width * self.intermediate_size + 2 * width
        tables = 1 if self.tie_word_embeddings else 2
        return tables * self.vocab_size * width + self.num_hidden_layers * layer + width


SIZES = {
    "7b": LlamaConfig(),
    "13b": LlamaConfig(32000, 5120, 13824, 40, 40, 40),
    "33b": LlamaConfig(32000, 6656, 17920, 60, 52, 52),
    "65b": LlamaConfig(32000, 8192, 22016, 80, 64, 64, rms_norm_eps=1e-5),
    "2-70b": LlamaConfig(32000, 8192, 28672, 80, 64, 8, 1e4, 1e-5, 4096),
    "3-8b": LlamaConfig(128256, 4096, 14336, 32, 32, 8, 5e5, 1e-5, 8192),
    "3-70b": LlamaConfig(128256, 8192, 28672, 80, 64, 8, 5e5, 1e-5, 8192),
    "3.2-1b": LlamaConfig(
        128256, 2048, 8192, 16, 32, 8, 5e5, 1e-5, 131072, True, RopeScaling(32.0)
    ),
    "3.2-3b": LlamaConfig(
        128256, 3072, 8192, 28, 24, 8, 5e5, 1e-5, 131072, True, RopeScaling(32.0)
    ),
}


class LlamaMLP(nn.Module):
    """SwiGLU feed-forward."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        width, hidden = config.hidden_size, config.intermediate_size
        self.gate_proj = nn.Linear(width, hidden, bias=False)
        self.up_proj = nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaLayer(nn.Module):
    """Attention and feed-forward, each after a normalisation, beside shortcuts."""

    def __init__(self, config: LlamaConfig, rotary: nn.RotaryEmbedding) -> None:
        super().__init__()
        width, eps = config.hidden_size, config.rms_norm_eps
        self.self_attn = nn.GroupedQueryAttention(
            width, config.num_attention_heads, config.num_key_value_heads, rotary
        )
        self.mlp = LlamaMLP(config)
        self.input_layernorm = nn.RMSNorm(width, eps=eps)
        self.post_attention_layernorm = nn.RMSNorm(width, eps=eps)

    def forward(self, x: Tensor, cache: nn.KVCache | None = None) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cache)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """The language model, with a cache of keys and values for generation.

    Shape:
        (B, T) tokens -> (B, T, vocab_size) scores of the next token

    Example:
        >>> import adjoint as ad
        >>> model = Llama(LlamaConfig(11, 16, 32, 2, 4, 2))
        >>> tokens = ad.arange(6).view(1, 6)
        >>> whole = model(tokens)
        >>> cache = model.cache(batch=1, max_positions=6)
        >>> first = model(tokens[:, :4], cache)
        >>> rest = model(tokens[:, 4:], cache)
        >>> ad.allclose(whole[:, 4:], rest, atol=1e-5)
        True
    """

    def __init__(self, config: LlamaConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or LlamaConfig()
        rotary = nn.RotaryEmbedding(
            config.head_dim,
            config.max_position_embeddings,
            config.rope_theta,
            scaling=config.rope_scaling,
        )
        layers = (LlamaLayer(config, rotary) for _ in range(config.num_hidden_layers))
        self.model = nn.ModuleDict(
            {
                "embed_tokens": nn.Embedding(config.vocab_size, config.hidden_size),
                "layers": nn.ModuleList(layers),
                "norm": nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps),
            }
        )
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.model["embed_tokens"].weight
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def cache(self, batch: int, max_positions: int | None = None) -> Cache:
        """An empty cache for each layer.

        Args:
            batch: how many sequences.
            max_positions: room for how many tokens; as many as the model has positions by default.
        """
        weight = self.model["embed_tokens"].weight
        size = (
            self.config.num_key_value_heads,
            max_positions or self.config.max_position_embeddings,
        )
        return [
            nn.KVCache(batch, *size, self.config.head_dim, weight.device, weight.dtype)
            for _ in self.model["layers"]
        ]

    def forward(self, tokens: Tensor, cache: Cache | None = None) -> Tensor:
        """Scores after each token; with a cache, of tokens that follow those in it."""
        x = self.model["embed_tokens"](tokens)
        for index, layer in enumerate(self.model["layers"]):
            x = layer(x, None if cache is None else cache[index])
        return self.lm_head(self.model["norm"](x))

    @no_grad()
    def generate(
        self, tokens: Tensor, count: int, temperature: float = 1.0, top_k: int | None = None
    ) -> Tensor:
        """Sample `count` further tokens, each computed once; temperature 0 takes the likeliest."""
        cache = self.cache(len(tokens), tokens.shape[1] + count)
        new = tokens
        for _ in range(count):
            new = choose(self(new, cache)[:, -1], temperature, top_k)
            tokens = cat([tokens, new], 1)
        return tokens

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """As any module's; names may be those of Hugging Face or of the authors' own files."""
        config = self.config
        named = published(state_dict, config.head_dim, config.tie_word_embeddings)
        return super().load_state_dict(named, strict, assign)

    @classmethod
    def from_gguf(cls, path: str | os.PathLike[str]) -> Llama:
        """The Llama in a GGUF file, in evaluation mode; weights stay in few bits where they can."""
        file = read_gguf(path)
        config = LlamaConfig.from_gguf(file)
        shapes = [tensor.shape for tensor in file.tensors.values()]
        with made_for_loading(shapes, besides=config.tables):
            model = cls(config).eval()
        order = {
            f"model.layers.{i}.self_attn.{name}_proj.weight": halves(
                arange(heads * config.head_dim).view(-1, 1), config.head_dim
            ).flatten()
            for i in range(config.num_hidden_layers)
            for name, heads in (
                ("q", config.num_attention_heads), ("k", config.num_key_value_heads),
            )
        }  # fmt: skip
        load_gguf(model, file, order=order)
        return model

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str], dtype: DType | None = None) -> Llama:
        """The model in a folder, in evaluation mode.

        The folder is as Hugging Face has it, with `config.json` and `model.safetensors`, or as the
        authors have it, with `params.json` and `consolidated.00.pth`. Parameters are of the
        default dtype unless `dtype` is given.
        """
        path = Path(folder)
        weights = read_weights(path)
        if (path / "params.json").is_file() and "tok_embeddings.weight" in weights:
            config = LlamaConfig.from_params(read_json(path / "params.json"), weights)
        else:
            config = LlamaConfig.from_dict(read_json(path / "config.json"))
        return build(lambda: cls(config), weights, dtype, config.tables)
