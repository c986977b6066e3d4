"""A language model of LSTM layers (Zaremba et al., 2014)."""

from __future__ import annotations

from typing import Any

from adjoint import nn
from adjoint.engine.tensor.tensor import Tensor


class LSTMLanguageModel(nn.Module):
    """Embedding, LSTM layers, scores of the next token.

    Shape:
        (B, T) tokens -> (B, T, vocabulary) scores, and the state to go on from

    Example:
        >>> import adjoint as ad
        >>> scores, state = LSTMLanguageModel(11, 8)(ad.zeros(2, 5).long())
        >>> scores.shape
        adjoint.Size([2, 5, 11])
    """

    def __init__(
        self,
        vocabulary: int,
        width: int = 650,
        layers: int = 2,
        dropout: float = 0.0,
        tied: bool = False,
    ) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.encoder = nn.Embedding(vocabulary, width)
        self.rnn = nn.LSTM(width, width, layers, batch_first=True, dropout=dropout)
        self.decoder = nn.Linear(width, vocabulary)
        if tied:
            self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)

    def forward(self, tokens: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        hidden, state = self.rnn(self.dropout(self.encoder(tokens)), state)
        return self.decoder(self.dropout(hidden)), state
