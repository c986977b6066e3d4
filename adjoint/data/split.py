"""Dividing a dataset at random."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from adjoint.data.dataset import Subset
from adjoint.data.sampler import random_order
from adjoint.engine.core.errors import warn_user
from adjoint.engine.core.state.rng import Generator, default_generator


def _lengths_of(fractions: Sequence[float], total: int) -> list[int]:
    """Whole lengths for fractions, what rounding leaves given out one by one from the first."""
    for i, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(
                f"random_split: Fraction at index {i} is not between 0 and 1: {fraction}"
            )
    lengths = [math.floor(total * fraction) for fraction in fractions]
    for i in range(total - sum(lengths)):
        lengths[i % len(lengths)] += 1
    for i, length in enumerate(lengths):
        if length == 0:
            warn_user(f"Length of split at index {i} is 0. This might result in an empty dataset.")
    return lengths


def random_split(
    dataset: Any, lengths: Sequence[float], generator: Generator | None = default_generator
) -> list[Subset[Any]]:
    """Divide a dataset at random into parts that do not overlap.

    Args:
        dataset: anything with a length and items.
        lengths: the sizes of the parts, or fractions that sum to 1.
        generator: the source of the permutation.

    Example:
        >>> [len(part) for part in random_split(range(10), [0.75, 0.25])]
        [8, 2]
    """
    total = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _lengths_of(lengths, total)
    if sum(lengths) != total:
        raise ValueError(
            "random_split: Sum of input lengths does not equal the length of the input dataset! "
            f"Received {list(lengths)} for {total} items."
        )
    sizes = [int(n) for n in lengths]
    order = random_order(total, generator)
    return [
        Subset(dataset, order[end - size : end])
        for end, size in zip(accumulate(sizes), sizes, strict=True)
    ]
