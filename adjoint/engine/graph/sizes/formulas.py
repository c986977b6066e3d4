"""Numbers of many sizes as a function of its own: what a scope decides and what extents are.

`SizeScope.allow` and `evaluate` take some microseconds for each guard and each number. What is
asked for at every new size of an eager operation is written out instead, once.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from adjoint.engine.core.generated import function_of_text
from adjoint.engine.graph.sizes.extents import SIGNS, Extent, ExtentFloat, Poly, SizeScope

Answer = Callable[..., tuple[Any, ...] | None]


def text_of(poly: Poly) -> str:
    """A polynomial as Python reads it.

    >>> text_of({("s0", "s1"): 4, (): -3}), text_of({})
    ('4*s0*s1 + -3', '0')
    """
    terms = ["*".join([str(c), *mono] if c != 1 or not mono else mono) for mono, c in poly.items()]
    return " + ".join(terms) or "0"


def formula(scope: SizeScope, names: Sequence[str], numbers: Sequence[Any]) -> Answer:
    """What numbers are at given sizes, or None where a decision comes out otherwise there.

    >>> scope = SizeScope()
    >>> n = Extent.symbol("s0", 17, scope)
    >>> at = formula(scope, ["s0"], [n * 4, 7, n // 3]) if n > 9 else None
    >>> at(20), at(8)
    ((80, 7, 6), None)
    """
    return Formula(scope, names).function(numbers)


class Formula:
    """Writes such a function."""

    def __init__(self, scope: SizeScope, names: Sequence[str]) -> None:
        self.scope, self.names = scope, names
        self.found: dict[str, Any] = {}  # what the text finds by name
        self.called: dict[int, str] = {}

    def function(self, numbers: Sequence[Any]) -> Answer:
        values = [self.value(number) for number in numbers]
        tests = [
            f"({text_of(difference)} {SIGNS[compare]} 0) is {outcome}"
            for difference, compare, outcome in self.scope.guards.values()
        ]
        lines = [f"def answer({', '.join(self.names)}):"]
        for name, fn, args in self.scope.derived.values():
            given = [f"({text_of(a)})" for a in args]
            called = f"{self.name(fn)}({', '.join(given)})"
            lines.append(f" {name} = {' // '.join(given) if fn is operator.floordiv else called}")
        lines += [f" if not ({test}): return None" for test in tests]
        lines.append(f" return ({' '.join(f'{v},' for v in values)})")
        return function_of_text("\n".join(lines), "answer", f"{__file__}: answer", self.found)

    def value(self, number: Any) -> str:
        """A number as text."""
        if isinstance(number, Extent):
            return text_of(number.poly)
        if isinstance(number, ExtentFloat):
            fn, *parts = number.parts
            return f"{self.name(fn)}({', '.join(map(self.value, parts))})"
        return self.name(number) if number.__class__ is not int else str(number)

    def name(self, x: Any) -> str:
        """A name for something that has no text."""
        if id(x) not in self.called:
            self.called[id(x)] = f"f{len(self.called)}"
            self.found[self.called[id(x)]] = x
        return self.called[id(x)]
