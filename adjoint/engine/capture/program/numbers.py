"""Float arguments that differ from call to call: read at each call instead of recorded.

A float is recorded as a constant at first. When a later call differs from an earlier one in floats
only, those become host scalars: the recording then serves all their values. A function that needs
the value itself (`float(rate)`, a branch taken for each) keeps being recorded for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from adjoint.engine.core.state.host import READS, HostScalar
from adjoint.engine.core.tree import TreeDef


class NumberSlot:
    """Where a host scalar finds the float of the present call."""

    __slots__ = ("place", "scalar", "value")

    def __init__(self, place: int, value: float) -> None:
        self.place = place
        self.value = value
        self.scalar = HostScalar(lambda: self.value, f"argument {place}", key=("slot", place))


class FreeNumbers:
    """Which float arguments of a function are read at each call, by structure of the call."""

    def __init__(self) -> None:
        self.places: dict[TreeDef, frozenset[int]] = {}
        self.fixed: set[tuple[TreeDef, int]] = set()  # tried, and found to be needed as constants

    def of(self, structure: TreeDef) -> frozenset[int]:
        """The places of such arguments among the leaves."""
        return self.places.get(structure, frozenset())

    def notice(self, key: Any, known: Iterable[Any]) -> bool:
        """Free the floats in which a call differs from an earlier one; whether there are any."""
        structure, parts, modes = key
        for other in known:
            if other[0] != structure or other[2] != modes:
                continue
            pairs = list(enumerate(zip(parts, other[1], strict=True)))
            differ = {i for i, (a, b) in pairs if a != b}
            if differ and all(
                parts[i][0] is float is other[1][i][0] and (structure, i) not in self.fixed
                for i in differ
            ):
                self.places[structure] = self.of(structure) | differ
                return True
        return False

    def fix(self, structure: TreeDef) -> None:
        """Go back to constants."""
        self.fixed |= {(structure, i) for i in self.places.pop(structure, ())}


def slots(places: Iterable[int], leaves: Sequence[Any]) -> list[NumberSlot]:
    """A slot for each of the places where a float is passed this time."""
    return [NumberSlot(i, leaves[i]) for i in sorted(places) if type(leaves[i]) is float]


def needs_values(tests: Iterable[tuple[HostScalar, Any]]) -> bool:
    """Whether a recording with these tests of host numbers holds for one value of a slot only."""
    return any(_pins(test) for test, _ in tests)


def _pins(test: HostScalar) -> bool:
    if test.parts is None:
        return False
    fn, args = test.parts
    return fn in READS and any(_is_slot(x) for x in args)


def _is_slot(x: Any) -> bool:
    if not isinstance(x, HostScalar):
        return False
    if x.parts is None:
        return isinstance(x.key, tuple) and x.key[:1] == ("slot",)
    return any(map(_is_slot, x.parts[1]))
