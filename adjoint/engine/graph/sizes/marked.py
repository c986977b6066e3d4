"""Texts with marks in the place of numbers that depend on sizes (Note [extents])."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from adjoint.engine.graph.sizes.extents import MARK, Extent, ExtentFloat, SizeScope

_MARKED = re.compile(f"{MARK}(\\d+){MARK}")


@dataclass(frozen=True, slots=True)
class Marked:
    """A number in a text, and how it is written there."""

    number: Extent | ExtentFloat
    write: Callable[[Any], str]

    def key(self) -> Any:
        """What is the same of marks that always stand for the same."""
        if isinstance(self.number, Extent):
            return frozenset(self.number.poly.items()), self.write
        return id(self.number), self.write


@dataclass(frozen=True, slots=True)
class Span:
    """Where in a text a mark was."""

    start: int
    end: int
    marked: Marked


def as_marked(x: Any) -> Marked:
    """What a mark stands for: an extent is written as the int that it is."""
    return x if isinstance(x, Marked) else Marked(x, int.__repr__)


def scope_of(number: Any) -> SizeScope | None:
    """The scope of a number that depends on sizes."""
    if isinstance(number, Extent):
        return number.scope
    parts = number.parts[1:] if isinstance(number, ExtentFloat) else ()
    return next((scope for part in parts if (scope := scope_of(part)) is not None), None)


def pin(number: Any) -> None:
    """Have what is decided hold for no other value of a number."""
    if isinstance(number, Extent):
        number.pin()
    elif isinstance(number, ExtentFloat):
        for part in number.parts[1:]:
            pin(part)


def written(text: str, scope: SizeScope, value: Callable[[Any], Any]) -> tuple[str, list[Span]]:
    """A text with the values of numbers in the place of their marks, and where those were."""
    parts: list[str] = []
    spans: list[Span] = []
    done = length = 0
    for found in _MARKED.finditer(text):
        marked = as_marked((scope.marks or [])[int(found[1])])
        told = marked.write(value(marked.number))
        before = text[done : found.start()]
        start = length + len(before)
        length = start + len(told)
        spans.append(Span(start, length, marked))
        parts += [before, told]
        done = found.end()
    return "".join([*parts, text[done:]]), spans
