"""Keys of Python values: equal keys mean the same value to an operation.

Python's own equality is no such key. 0.0 == -0.0, yet 1 / x tells them apart; True == 1 == 1.0, yet
they promote unalike; a NaN is unlike itself, so a cache would never find it again.
"""

from __future__ import annotations

from numbers import Number
from typing import Any


def number_key(value: Any) -> Any:
    """A value as a key: by type and, of a number, by sign of zero; NaNs are alike.

    Tuples and frozen sets are looked into; anything else is keyed by type and equality. A value
    that has no hash gives a key that has none.

    >>> number_key(0.0) == number_key(-0.0), number_key(1) == number_key(True)
    (False, False)
    >>> number_key(float("nan")) == number_key(float("nan"))
    True
    """
    kind = type(value)
    if kind is str or kind is int or kind is bool:
        return (kind, value)
    if kind is float:
        return (kind, value if value and value == value else repr(value))
    if isinstance(value, tuple):
        return (kind, tuple([number_key(x) for x in value]))
    if kind is frozenset:
        return (kind, frozenset([number_key(x) for x in value]))
    if isinstance(value, Number) and not isinstance(value, int):
        return (kind, repr(value))  # complex, NumPy's, decimals: each part may be a zero or NaN
    return (kind, value)
