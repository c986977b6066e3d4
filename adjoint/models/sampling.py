"""Choosing the next token from scores."""

from __future__ import annotations

from adjoint.engine.ops.random.tensor_parameters import multinomial
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F


def choose(scores: Tensor, temperature: float = 1.0, top_k: int | None = None) -> Tensor:
    """A token for each row of scores.

    Args:
        scores: (B, vocabulary).
        temperature: divides the scores; 0 takes the likeliest token.
        top_k: draw among so many of the likeliest only.

    Example:
        >>> import adjoint as ad
        >>> choose(ad.tensor([[0.0, 3.0, 1.0]]), temperature=0)
        tensor([[1]])
    """
    if not temperature >= 0:
        raise ValueError(f"choose: temperature must be 0 or more, got {temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"choose: top_k must be at least 1, or None for all, got {top_k}")
    if temperature == 0:
        return scores.argmax(1, keepdim=True)
    scores = scores / temperature
    if top_k is not None:
        least = scores.topk(min(top_k, scores.shape[1])).values[:, -1:]
        scores = scores.masked_fill(scores < least, -float("inf"))
    return multinomial(F.softmax(scores, -1), 1)
