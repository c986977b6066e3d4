"""The names of published Llama checkpoints: Hugging Face's, and those of the authors' files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from adjoint.engine.tensor.tensor import Tensor

# The authors' names, in order: what they match and what they are called here.
ORIGINAL = (
    (re.compile(r"tok_embeddings\.(\w+)"), r"model.embed_tokens.\1"),
    (re.compile(r"norm\.(\w+)"), r"model.norm.\1"),
    (re.compile(r"output\.(\w+)"), r"lm_head.\1"),
    (
        re.compile(r"layers\.(\d+)\.attention\.w([qkvo])\.(\w+)"),
        r"model.layers.\1.self_attn.\2_proj.\3",
    ),
    (re.compile(r"layers\.(\d+)\.feed_forward\.w1\.(\w+)"), r"model.layers.\1.mlp.gate_proj.\2"),
    (re.compile(r"layers\.(\d+)\.feed_forward\.w2\.(\w+)"), r"model.layers.\1.mlp.down_proj.\2"),
    (re.compile(r"layers\.(\d+)\.feed_forward\.w3\.(\w+)"), r"model.layers.\1.mlp.up_proj.\2"),
    (re.compile(r"layers\.(\d+)\.attention_norm\.(\w+)"), r"model.layers.\1.input_layernorm.\2"),
    (re.compile(r"layers\.(\d+)\.ffn_norm\.(\w+)"), r"model.layers.\1.post_attention_layernorm.\2"),
)  # fmt: skip
# Tables of the rotary positions, which follow from the configuration.
ROTARY = re.compile(r"(^|\.)(rope\.freqs|rotary_emb\.inv_freq)$")


def published(weights: Mapping[str, Any], head_dim: int, tied: bool) -> dict[str, Any]:
    """A checkpoint under the names of `Llama`.

    Args:
        weights: with Hugging Face's names, with or without `model.`, or the authors' own.
        head_dim: size of a head.
        tied: whether the output layer is the embedding, which is then stored once.
    """
    named = {name: value for name, value in weights.items() if not ROTARY.search(name)}
    if "tok_embeddings.weight" in named:
        named = {_ours(name): value for name, value in named.items()}
        for name in named:
            if name.endswith(("q_proj.weight", "k_proj.weight")):
                named[name] = halves(named[name], head_dim)
    elif "embed_tokens.weight" in named:
        named = {f"model.{name}": value for name, value in named.items()}
    if tied and "model.embed_tokens.weight" in named:
        named.setdefault("lm_head.weight", named["model.embed_tokens.weight"])
    return named


def _ours(name: str) -> str:
    for pattern, ours in ORIGINAL:
        if pattern.fullmatch(name):
            return pattern.sub(ours, name)
    return name


def halves(weight: Tensor, head_dim: int) -> Tensor:
    """Rows of a head in the order of Hugging Face: the firsts of all pairs, then the seconds.

    The authors turn neighbours (2i, 2i + 1) of a head; here the pair of i is i + head_dim / 2.

    Example:
        >>> import adjoint as ad
        >>> halves(ad.arange(8).view(8, 1), 4).flatten()
        tensor([0, 2, 1, 3, 4, 6, 5, 7])
    """
    rows, columns = weight.shape
    pairs = weight.reshape(rows // head_dim, head_dim // 2, 2, columns)
    return pairs.transpose(1, 2).reshape(rows, columns)
