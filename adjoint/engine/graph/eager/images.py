"""Images whose channels lie innermost, as eager operations on a GPU keep them.

Convolutions of halves are several times faster so, and what stands between them (norms,
activations, pools) is as fast either way: so what is made of such images lies as they do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.engine.core.layout import last_strides
from adjoint.engine.core.spec import contiguous_strides

RANKS = (4, 5)  # of batches of images


def rank_of(tensors: Sequence[Any]) -> int:
    """How many dimensions images have whose channels lie innermost; 0 if none do.

    The first tensor decides that has so many dimensions and lies in one order alone.
    """
    for t in tensors:
        if t.ndim in RANKS:
            first, last = (
                same_steps(t.shape, t.stride(), wanted)
                for wanted in (contiguous_strides(t.shape), last_strides(t.shape))
            )
            if first != last:
                return t.ndim if last else 0
    return 0


def same_steps(shape: Sequence[int], strides: Sequence[int], wanted: Sequence[int]) -> bool:
    """Whether strides are those wanted, but for dimensions of one element."""
    return all(n == 1 or a == b for n, a, b in zip(shape, strides, wanted, strict=True))
