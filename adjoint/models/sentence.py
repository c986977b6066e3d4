"""Sentence embeddings: text through a BERT to one vector, as the Sentence Transformers have it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from adjoint import nn
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.ops.create.creation import empty
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.models.bert import Bert
from adjoint.models.configuration import is_size
from adjoint.models.weights import read_json
from adjoint.models.wordpiece import WordPieceTokenizer
from adjoint.nn import functional as F


def mean_pooling(hidden: Tensor, mask: Tensor) -> Tensor:
    """The mean of the real tokens' states.

    Shape:
        (B, T, C), mask (B, T) with 1 for real tokens -> (B, C)
    """
    weight = mask.unsqueeze(-1).to(hidden.dtype)
    return (hidden * weight).sum(1) / weight.sum(1).clamp(min=1e-9)


def sentence_embedding(model: Bert, tokens: Tensor, mask: Tensor) -> Tensor:
    """The mean of the real tokens' states, at unit length.

    Shape:
        (B, T), (B, T) -> (B, hidden_size)
    """
    return F.normalize(mean_pooling(model(tokens, mask), mask), dim=1)


class SentenceEncoder(nn.Module):
    """Sentences to vectors whose products say how alike the meanings are.

    Args:
        bert: the model.
        tokenizer: makes its tokens.
        max_length: longer texts are cut to so many tokens.
        normalise: whether vectors have unit length.

    Example:
        >>> from adjoint.models import Bert, BertConfig, WordPieceTokenizer
        >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "morning", "night"]
        >>> tokenizer = WordPieceTokenizer({word: i for i, word in enumerate(words)})
        >>> encoder = SentenceEncoder(Bert(BertConfig(8, 8, 1, 2, 16, 16)), tokenizer)
        >>> encoder.encode(["Good morning", "Good night"]).shape
        adjoint.Size([2, 8])
    """

    def __init__(
        self,
        bert: Bert,
        tokenizer: WordPieceTokenizer,
        max_length: int | None = None,
        normalise: bool = True,
    ) -> None:
        super().__init__()
        self.bert = bert
        self.tokenizer = tokenizer
        places = bert.config.max_position_embeddings
        self.max_length = min(places, max_length or tokenizer.max_length or places)
        self.normalise = normalise

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str]) -> SentenceEncoder:
        """The encoder in a folder of the Sentence Transformers, in evaluation mode.

        The folder says how long texts may be and how tokens become a vector; pooling other than
        the mean is refused.
        """
        path = Path(folder)
        about = path / "sentence_bert_config.json"
        longest = read_json(about).get("max_seq_length") if about.is_file() else None
        if longest is not None and not is_size(longest):
            raise ValueError(
                f"SentenceEncoder: {about}: max_seq_length must be a whole number of at least 1, "
                f"received {str(longest)[:80]}"
            )
        pooling = path / "1_Pooling" / "config.json"
        if pooling.is_file():
            modes = {k for k, on in read_json(pooling).items() if "mode" in k and on is True}
            if modes != {"pooling_mode_mean_tokens"}:
                raise ValueError(
                    f"SentenceEncoder: {pooling} asks for {sorted(modes)}; there is the mean of "
                    "tokens only"
                )
        modules = path / "modules.json"
        normalise = not modules.is_file() or b"Normalize" in modules.read_bytes()
        tokenizer = WordPieceTokenizer.from_pretrained(path)
        return cls(Bert.from_pretrained(path), tokenizer, longest, normalise).eval()

    def forward(self, tokens: Tensor, mask: Tensor, segments: Tensor | None = None) -> Tensor:
        pooled = mean_pooling(self.bert(tokens, mask, segments), mask)
        return F.normalize(pooled, dim=1) if self.normalise else pooled

    @no_grad()
    def encode(self, texts: str | Sequence[str], batch_size: int = 32) -> Tensor:
        """The vectors of texts, (N, hidden_size); of a single text, (hidden_size).

        Texts of like lengths are computed together, so that little is padding.
        """
        if isinstance(texts, str):
            return self.encode([texts])[0]
        where = self.bert.embeddings.word_embeddings.weight.device
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        vectors: list[Tensor] = [empty(0)] * len(texts)
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            batch = self.tokenizer([texts[i].strip() for i in chosen], max_length=self.max_length)
            rows = self(batch["input_ids"].to(where), batch["attention_mask"].to(where))
            for i, row in zip(chosen, rows.split(1), strict=True):
                vectors[i] = row
        return cat(vectors) if vectors else empty(0, self.bert.config.hidden_size, device=where)
