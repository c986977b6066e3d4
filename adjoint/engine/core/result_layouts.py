"""How results lie in memory that follow images: channels innermost, where PyTorch keeps them so.

Records name a rule (`keeps_layout`). Recordings, fragments and the meta device ask it what a result
will be, and the eager table lays out by it what kernels give. What does not depend on an order of
dimensions goes in that of memory (`order_in_memory`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise, permutations
from typing import Any, Final

from adjoint.engine.core.layout import broadcast_strides, is_dense, last_strides, lies_channels_last
from adjoint.engine.core.spec import contiguous_strides

Shape = tuple[int, ...]
Place = tuple[Shape, Shape]  # a tensor's shape and strides
_INTEGERS = frozenset({int})
MOST_TRIED = 5  # dimensions, in every order


def is_last(place: Place) -> bool:
    """Whether a tensor is taken for images whose channels lie innermost.

    Of sizes that are symbols the formulas are compared: to compare the sizes would pin them. How
    many images there are does not matter, if there are some, as of a size that is a symbol.
    """
    shape, strides = place
    if _INTEGERS.issuperset(map(type, (*shape, *strides))):
        return lies_channels_last(shape, strides)
    if _INTEGERS.issuperset(map(type, (*shape[1:], *strides))):
        return lies_channels_last((2, *shape[1:]), strides)
    if len(shape) not in (4, 5):
        return False
    return [*map(_formula, strides)] == [*map(_formula, last_strides(shape))]


def order_in_memory(shape: Shape, strides: Shape) -> Sequence[int] | None:
    """Which dimensions come first in memory; None where there are gaps, or too many to try.

    Of sizes that are symbols formulas are compared, as in `is_last`.
    """
    if _INTEGERS.issuperset(map(type, (*shape, *strides))):
        if not is_dense(shape, strides):
            return None
        return sorted(range(len(shape)), key=lambda d: (-strides[d], -shape[d]))
    if len(shape) > MOST_TRIED:
        return None
    steps = [*map(_formula, strides)]
    for order in permutations(range(len(shape))):
        packed = contiguous_strides([shape[d] for d in order])
        if [steps[d] for d in order] == [*map(_formula, packed)]:
            return order
    return None


def _formula(size: Any) -> Any:
    return getattr(size, "poly", size)


def as_images(operands: Sequence[Place], shape: Shape, dim: int | None = None) -> Shape | None:
    """Channels lie innermost if those of an operand do."""
    rank = len(shape)
    last = rank in (4, 5) and any(len(place[0]) == rank and is_last(place) for place in operands)
    return last_strides(shape) if last else None


def _as_convolved(operands: Sequence[Place], shape: Shape, dim: int | None) -> Shape | None:
    """The same of convolutions: lines of elements are images of one row.

    Those lie row by row first, as in PyTorch, so that their filters decide.
    """
    if len(shape) != 3:
        return as_images(operands, shape)
    rows = [
        ((*its[:2], 1, its[2]), (*steps[:2], its[2] * steps[2], steps[2]))
        for its, steps in operands[1:]
    ]
    strides = as_images(rows, (*shape[:2], 1, shape[2]))
    return None if strides is None else (*strides[:2], strides[3])


def _as_joined(operands: Sequence[Place], shape: Shape, dim: int | None) -> Shape | None:
    """Channels lie innermost if those of all operands do."""
    return last_strides(shape) if operands and all(map(is_last, operands)) else None


def _as_stacked(operands: Sequence[Place], shape: Shape, dim: int | None) -> Shape | None:
    """A new dimension is cut off the one before which it stands, along which tensors are joined."""
    assert dim is not None
    if not len(operands[0][0]) > dim:  # behind all others
        apart = [((*its, 1), (*steps, 1)) for its, steps in operands]
        return _as_joined(apart, shape, None)
    joined = (*shape[:dim], shape[dim] * shape[dim + 1], *shape[dim + 2 :])
    strides = _as_joined(operands, joined, None)
    if strides is None:
        return None
    return (*strides[:dim], shape[dim + 1] * strides[dim], *strides[dim:])


def block_position(dims: Sequence[int]) -> int:
    """Where the dimensions that indices pick along `dims` stand in the result."""
    adjacent = all(b == a + 1 for a, b in pairwise(dims))
    return dims[0] if adjacent else 0


def picked_places(operands: Sequence[Place], shape: Shape, dims: Sequence[int]) -> list[Place]:
    """Where a tensor and the indices into it lie, seen as operands of the result's shape.

    The tensor says nothing of the order of dimensions that indices pick, and these nothing of the
    others': what is picked lies as what is computed element by element of such operands.

    >>> picked_places([((2, 3, 4), (1, 2, 6)), ((5,), (1,))], (5, 3, 4), (0,))
    [((5, 3, 4), (0, 2, 6)), ((5, 3, 4), (1, 0, 0))]
    """
    (_, steps), *indices = operands
    at = block_position(dims)
    rest = [step for d, step in enumerate(steps) if d not in dims]
    rank = len(shape) - len(rest)
    places = [(shape, (*rest[:at], *(0,) * rank, *rest[at:]))]
    behind = len(rest) - at
    for own, strides in indices:
        if not own:
            continue
        # As if reshaped, with dimensions of one element before and behind: those have steps too.
        seen = (*(1,) * (at + rank - len(own)), *own, *(1,) * behind)
        outer = (own[0] * strides[0],) * (len(seen) - len(own) - behind)
        reshaped = (*outer, *strides, *strides[-1:] * behind)
        places.append((shape, broadcast_strides(seen, reshaped, shape)))
    return places


def lie_in_order(sizes: Sequence[int], steps: Sequence[int]) -> bool:
    """Whether dimensions lie in memory as they are counted, none of several repeated.

    What indices that do so pick along others lies row by row (`picked_places`).

    >>> lie_in_order((2, 3), (7, 2)), lie_in_order((2, 3), (1, 2)), lie_in_order((2, 1), (1, 1))
    (True, False, True)
    """
    outer = [*zip(steps, sizes, strict=True)]
    return all(a > b > 0 or (a == b > 0 and n >= m) for (a, n), (b, m) in pairwise(outer))


# How results lie, from where operands do, the result's shape and the parameter `dim`; None: rows.
RULES: Final[dict[Any, Callable[[Sequence[Place], Shape, int | None], Shape | None]]] = {
    "images": as_images,
    "convolved": _as_convolved,
    "joined": _as_joined,
    "stacked": _as_stacked,
}
