"""From how many elements on an eager operation runs as a compiled fragment (Note [fragments]).

A fragment that is called often costs about five microseconds a call, as much as NumPy's (Note [met
fragments]); one that is composed of many operations saves a call of NumPy for each of them, one
that takes them at each of many steps for each of those. Of an exponential or a logarithm NumPy's
loops take five to twenty nanoseconds for each element, a fragment one; of a hyperbolic sine (a
"costly" one) thirty, and SciPy's inverse of the error function two thousand.
`ADJOINT_FRAGMENTS` in the environment sets one number for all: 0 has every operation run by the
eager table, 1 every one that can be a fragment be one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from numpy import ndarray

COMPUTED, COMPOSED, COSTLY, LOOPED = 1 << 11, 1 << 10, 1 << 9, 1 << 7
# From here on an operation that has the same bits either way does not wait to be met again, and
# ever new shapes of one operation have fragments of their own for longer.
AT_ONCE, SEVERAL = 1 << 16, 1 << 13

# Elements of a line on a GPU that a radix sort puts in order sooner than sorted runs are merged.
LONG_LINE = 1 << 18

# By what a record's `fragment` says.
_LARGE = {
    "plain": COMPUTED, "computed": COMPUTED, "host": COMPUTED, "function": COMPOSED,
    "composed": COMPOSED, "costly": COSTLY, "looped": LOOPED, "host_looped": LOOPED,
}  # fmt: skip


def _asked_for() -> int | None:
    """What the environment says."""
    text = os.environ.get("ADJOINT_FRAGMENTS", "").strip()
    if text and not text.isdecimal():
        raise ValueError(f"ADJOINT_FRAGMENTS: expected a number of elements, received {text!r}")
    return int(text) if text else None


_ASKED = _asked_for()
# The same of operands that are halves: NumPy takes ten nanoseconds for each element. Their dtypes.
HALVES = 1 << 8 if _ASKED is None else _ASKED
HALF_DTYPES: set[Any] = set()
# Whether an operation that has the same bits either way is left to the table a few times first.
WAITS = _ASKED is None
# On a GPU a fragment is one launch or a few, whatever the size, and costs the host less than the
# operations it is made of. 0: never
ON_DEVICE = 1 if _ASKED is None else _ASKED
# By class of a device's arrays, of those whose operations can be fragments: which device it is on,
# and whether its address is no multiple of 64.
DEVICE_LAYOUTS: dict[Any, Callable[[Any], tuple[int, bool]]] = {}
# Operations, or rules, of which a kind on a device was met first since a node was last made.
NEW_ON_DEVICE: list[Any] = []
EXPECTED: list[Any] = []  # the nodes of such operations, and what their results are like
# Of an optimizer's parameter, or of several that are updated together; 0: never
UPDATED = 2 * COMPOSED if _ASKED is None else _ASKED


def large(fragment: str) -> int:
    """How many elements an operand must have; 0: whatever it has, it is no fragment."""
    if fragment not in ("", "device", *_LARGE):
        raise ValueError(
            f"fragment: expected '', 'device' or one of {sorted(_LARGE)}, received {fragment!r}"
        )
    limit = _LARGE.get(fragment, 0)
    return limit if _ASKED is None or not limit else _ASKED


def is_large(array: Any, limit: int) -> bool:
    """Whether an array in the CPU's memory has as many elements as a fragment needs."""
    return array.__class__ is ndarray and 0 < limit <= array.size


def on_device(fragment: str) -> int:
    """The same on a GPU."""
    return 0 if fragment in ("", "host", "host_looped") else ON_DEVICE
