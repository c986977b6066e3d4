"""Arguments that are one number or one per dimension."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """A function that repeats a single value n times and leaves sequences as tuples."""

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: tuple[int, ...], n: int) -> tuple[int, ...]:
    """Each element n times, the last first: padding per dimension as `pad` takes it."""
    return tuple(x for x in reversed(t) for _ in range(n))


def _list_with_default(out_size: Any, defaults: Any) -> Any:
    """Sizes, where None stands for the last of the sizes there are by default.

    >>> _list_with_default([None, 4], [1, 2, 3])
    [2, 4]
    """
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(
            f"Input dimension should be at least {len(out_size) + 1}, received {len(defaults)}"
        )
    last = defaults[-len(out_size) :]
    return [d if size is None else size for size, d in zip(out_size, last, strict=True)]


def consume_prefix_in_state_dict_if_present(state_dict: Any, prefix: str) -> None:
    """Take a prefix such as "module." off the keys of a state dict, in place.

    Example:
        >>> state = {"module.weight": 1, "bias": 2}
        >>> consume_prefix_in_state_dict_if_present(state, "module.")
        >>> state
        {'bias': 2, 'weight': 1}
    """
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is None:
        return
    for key in list(metadata):
        # "module." is the prefix of parameters, "module" the name the metadata is kept under.
        if key == prefix.replace(".", ""):
            metadata[""] = metadata.pop(key)
        elif key.startswith(prefix):
            metadata[key[len(prefix) :]] = metadata.pop(key)
