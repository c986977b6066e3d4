"""What numbers have in common that were met at several sizes: which go with which.

Shapes and strides of an operation's operands are numbers; at other sizes they are others. From a
few samples of them it is guessed which are sizes of their own and which are products of these. A
guess is no more than that: numbers fit a pattern only where each of them is what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import prod

from adjoint.engine.core.generated import function_of_text
from adjoint.engine.graph.sizes.extents import Poly
from adjoint.engine.graph.sizes.formulas import text_of

Numbers = tuple[int, ...]
LEAST = 2  # what a symbol stands for: sizes of 0 and 1 mean more than how many (Note [extents])
MOST = 4  # symbols


@dataclass(frozen=True, slots=True)
class SizePattern:
    """What each of some numbers is made of."""

    polys: tuple[Poly, ...]
    names: tuple[str, ...]  # of the symbols
    sizes: Callable[[Numbers], Numbers | None]  # those of numbers that fit; None: they do not


def pattern_of(samples: Sequence[Numbers]) -> SizePattern | None:
    """The pattern of numbers that were met; None where they have none.

    >>> found = pattern_of([(4, 17, 68, 7), (4, 20, 80, 7)])
    >>> found.polys
    ({(): 4}, {('s0',): 1}, {('s0',): 4}, {(): 7})
    >>> found.sizes((4, 23, 92, 7)), found.sizes((4, 23, 93, 7)), found.sizes((4, 1, 4, 7))
    ((23,), None, None)
    """
    last = samples[-1]
    columns = [*zip(*samples, strict=True)]
    polys: list[Poly] = [{(): n} if n else {} for n in last]
    symbols: list[int] = []
    differing = [k for k, column in enumerate(columns) if len(set(column)) > 1]
    for k in sorted(differing, key=lambda k: last[k]):
        polys[k] = made_of(columns[k], [columns[s] for s in symbols])
        if not polys[k]:
            polys[k] = {(f"s{len(symbols)}",): 1}
            symbols.append(k)
    if not 0 < len(symbols) <= MOST or any(n < LEAST for s in symbols for n in columns[s]):
        return None
    return pattern_for(polys, tuple([f"s{k}" for k in range(len(symbols))]))


def pattern_for(polys: Sequence[Poly], names: tuple[str, ...]) -> SizePattern:
    """The pattern of numbers that are made of symbols in these ways, each of them a number too."""
    symbols = [polys.index({(name,): 1}) for name in names]
    lines = [f" {name} = n[{at}]" for name, at in zip(names, symbols, strict=True)]
    tests = [f"{name} >= {LEAST}" for name in names]
    tests += [f"n[{k}] == {text_of(poly)}" for k, poly in enumerate(polys) if k not in symbols]
    lines.append(f" return ({', '.join(names)},) if {' and '.join(tests)} else None")
    text = "\n".join(["def sizes(n):", *lines])
    return SizePattern(
        tuple(polys), names, function_of_text(text, "sizes", f"{__file__}: sizes", {})
    )


def made_of(column: Numbers, symbols: list[Numbers]) -> Poly:
    """A multiple of one symbol or of a product of two or three that numbers are; {}: of none."""
    for count in (1, 2, 3):
        for some in combinations_with_replacement(range(len(symbols)), count):
            products = [prod(sizes) for sizes in zip(*[symbols[s] for s in some], strict=True)]
            factor = column[0] // products[0] if products[0] else 0
            if factor > 0 and all(n == factor * p for n, p in zip(column, products, strict=True)):
                return {tuple([f"s{s}" for s in some]): factor}
    return {}
