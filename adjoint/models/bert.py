"""BERT (Devlin et al., 2018) and sentence embeddings from it, with Hugging Face's weight names."""

from __future__ import annotations

from dataclasses import dataclass

from adjoint import nn
from adjoint.nn import functional as F
from adjoint.ops.creation import ones_like, zeros_like
from adjoint.ops.ranges import arange
from adjoint.tensor.tensor import Tensor


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


MINILM_L6 = BertConfig(hidden_size=384, num_hidden_layers=6, intermediate_size=1536)


class BertEmbeddings(nn.Module):
    """Word, place and segment, added and normalised."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, width, padding_idx=0)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, width)
        self.LayerNorm = nn.LayerNorm(width, eps=1e-12)
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
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=1e-12)
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

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.attention["output"](self.attention["self"](x, mask), x)
        return self.output(F.gelu(self.intermediate["dense"](x)), x)


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


def sentence_embedding(model: Bert, tokens: Tensor, mask: Tensor) -> Tensor:
    """MiniLM's sentence vectors: the mean of the real tokens' states, at unit length.

    Shape:
        (B, T), (B, T) -> (B, hidden_size)
    """
    hidden = model(tokens, mask)
    weight = mask.unsqueeze(-1).to(hidden.dtype)
    return F.normalize((hidden * weight).sum(1) / weight.sum(1).clamp(min=1e-9), dim=1)


def minilm_l6() -> Bert:
    """all-MiniLM-L6-v2's encoder: 22,713,216 parameters."""
    return Bert(MINILM_L6)
