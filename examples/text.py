"""A text every Python has: the language's own topics, 465,000 characters of English."""

from __future__ import annotations

from pydoc_data.topics import topics

import adjoint as ad


def characters() -> tuple[ad.Tensor, list[str]]:
    """The text as indices, and the alphabet they index."""
    text = "\n".join(topics.values())
    alphabet = sorted(set(text))
    index = {c: i for i, c in enumerate(alphabet)}
    return ad.tensor([index[c] for c in text]), alphabet


def batch(data: ad.Tensor, size: int, length: int) -> tuple[ad.Tensor, ad.Tensor]:
    """Random stretches of the text and the same one character on."""
    starts = ad.randint(0, len(data) - length - 1, (size, 1))
    places = starts + ad.arange(length + 1)
    stretch = data[places]
    return stretch[:, :-1], stretch[:, 1:]
