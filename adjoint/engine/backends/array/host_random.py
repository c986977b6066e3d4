"""The states of Python's and NumPy's own generators, as plain values for checkpoints."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np

WORDS = 624  # of the Mersenne twister


def host_state() -> dict[str, Any]:
    """The states of Python's and NumPy's global generators.

    Example:
        >>> state = host_state()
        >>> drawn = random.random()
        >>> set_host_state(state)
        >>> random.random() == drawn
        True
    """
    legacy: Any = np.random.get_state()
    kind, keys, position, has_gauss, cached = legacy
    version, words, gauss = random.getstate()
    return {
        "python": [version, list(words), gauss],
        "numpy": [str(kind), keys.tolist(), position, has_gauss, cached],
    }


def set_host_state(state: Mapping[str, Any]) -> None:
    """Return both to a state that `host_state` gave."""
    check_host_state(state)
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    kind, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((kind, np.array(keys, np.uint32), position, has_gauss, cached))


def check_host_state(state: Mapping[str, Any]) -> None:
    """Refuse a state that the generators would believe: NumPy's reads outside its memory."""
    version, words, gauss = state["python"]
    if version != 3 or type(words) is not list or len(words) != WORDS + 1:
        raise ValueError("the words of Python's generator")
    kind, keys, position, has_gauss, cached = state["numpy"]
    if kind != "MT19937" or type(keys) is not list or len(keys) != WORDS:
        raise ValueError("the words of NumPy's generator")
    listed = [*words, *keys]
    if not all(type(word) is int for word in listed):
        raise ValueError("a word of a generator is no whole number")
    if not 0 <= min(listed) <= max(listed) < 1 << 32 or words[-1] > WORDS:
        raise ValueError("a word of a generator has more than 32 bits")
    if type(position) is not int or not 0 <= position <= WORDS or has_gauss not in (0, 1):
        raise ValueError(f"NumPy's generator at {position!r}")
    if type(cached) is not float or type(gauss) not in (float, type(None)):
        raise ValueError("a kept number of a generator")
