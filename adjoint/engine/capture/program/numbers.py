"""Numbers among arguments that differ from call to call: read at each call instead of recorded.

A number is recorded as a constant at first. When a later call differs from an earlier one in it,
and besides in other such numbers and in sizes only, it becomes a host scalar: the recording then
serves all its values. A function that needs the value itself (`float(rate)`, a loop taken so many
times) keeps being recorded for each, unless a whole number can be free as sizes are (`dynamic`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from adjoint.engine.capture.signature import may_be_free
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.host import READS, HostScalar
from adjoint.engine.core.tree import TreeDef

_NUMBERS = (int, float)


def differ_in_numbers_and_sizes(parts: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether arguments of two signatures of one structure are alike but for numbers and sizes."""
    return all(
        _alike_but_for_sizes(p, q) if isinstance(p[0], Spec) else p == q or p[0] is q[0] in _NUMBERS
        for p, q in zip(parts, others, strict=True)
    )


def _alike_but_for_sizes(p: Any, q: Any) -> bool:
    a, b = p[0], q[0]
    if not isinstance(b, Spec):
        return False
    return (a.dtype, a.device, len(a.shape), *p[2:]) == (b.dtype, b.device, len(b.shape), *q[2:])


class NumberSlot:
    """Where a host scalar finds the number of the present call."""

    __slots__ = ("place", "scalar", "value")

    def __init__(self, place: int, value: int | float) -> None:
        self.place = place
        self.value = value
        self.scalar = HostScalar(lambda: self.value, f"argument {place}", key=("slot", place))


class FreeNumbers:
    """Which numbers among a function's arguments are read at each call, by structure of the call.

    `kinds` are the types of those that may be.
    """

    def __init__(self, kinds: tuple[type, ...] = (int, float)) -> None:
        self.kinds = kinds
        self.places: dict[TreeDef, frozenset[int]] = {}
        self.fixed: set[tuple[TreeDef, int]] = set()  # tried, and found to be needed as constants

    def of(self, structure: TreeDef) -> frozenset[int]:
        """The places of such arguments among the leaves."""
        return self.places.get(structure, frozenset())

    def notice(self, key: Any, known: Iterable[Any]) -> bool:
        """Free the numbers in which a call differs from an earlier one; whether there are any."""
        structure, parts, modes = key
        for other in known:
            if other[0] != structure or other[2] != modes:
                continue
            if not differ_in_numbers_and_sizes(parts, other[1]):
                continue
            differ = {
                i
                for i, (a, b) in enumerate(zip(parts, other[1], strict=True))
                if a != b and a[0] in self.kinds and (structure, i) not in self.fixed
                if a[0] is float or (may_be_free(a[1]) and may_be_free(b[1]))
            } - self.of(structure)
            if differ:
                self.places[structure] = self.of(structure) | differ
                return True
        return False

    def fix(self, structure: TreeDef, places: set[int]) -> None:
        """Go back to constants at some places."""
        self.fixed |= {(structure, i) for i in places}
        self.places[structure] = self.of(structure) - places


def slots(places: Iterable[int], leaves: Sequence[Any]) -> list[NumberSlot]:
    """A slot for each of the places where a number is passed this time."""
    return [NumberSlot(i, leaves[i]) for i in sorted(places) if may_be_free(leaves[i])]


def needed_values(tests: Iterable[tuple[HostScalar, Any]]) -> set[int]:
    """The places of numbers of which a recording with these tests holds for one value only."""
    reads = [
        test.parts[1] for test, _ in tests if test.parts is not None and test.parts[0] in READS
    ]
    return {place for args in reads for x in args for place in _slot_places(x)}


def _slot_places(x: Any) -> set[int]:
    """The places of the numbers that a host scalar is computed of."""
    if not isinstance(x, HostScalar):
        return set()
    if x.parts is None:
        return {x.key[1]} if isinstance(x.key, tuple) and x.key[:1] == ("slot",) else set()
    return {place for part in x.parts[1] for place in _slot_places(part)}
