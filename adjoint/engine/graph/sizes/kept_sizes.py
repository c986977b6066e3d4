"""Numbers that depend on sizes, and what scopes decided, as plain data that can be kept on disk.

A function of sizes is known by its name. Found again are the package's own and those of Python's
that are listed here; whoever needs another is not kept.
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable, Sequence
from functools import partial
from math import gcd
from types import FunctionType
from typing import Any

from adjoint.engine.core.ownership import is_own
from adjoint.engine.graph.sizes.extents import (
    SIGNS,
    Extent,
    ExtentFloat,
    Poly,
    Sizes,
    SizeScope,
    extent,
)

OF_PYTHON: dict[str, Callable[..., Any]] = {
    fn.__name__: fn
    for fn in (
        operator.add, operator.sub, operator.mul, operator.truediv, operator.pow,
        operator.floordiv, operator.mod, min, max, gcd, int.bit_length,
    )
}  # fmt: skip
COMPARISONS = {compare.__name__: compare for compare in SIGNS}


class NotKept(Exception):
    """Something that has no name in other processes."""


def function_name(fn: Any) -> list[Any]:
    """A function as plain data: its module and name, and what it is given first.

    >>> function_name(min), found(function_name(min)) is min
    (['', 'min'], True)
    """
    if isinstance(fn, partial):
        if fn.keywords or not {int, str}.issuperset(map(type, fn.args)):
            raise NotKept(str(fn))
        return [*function_name(fn.func), *fn.args]
    name = getattr(fn, "__name__", "")
    if OF_PYTHON.get(name) is fn:
        return ["", name]
    if not isinstance(fn, FunctionType) or not is_own(fn):
        raise NotKept(str(fn))
    named = [fn.__module__, name]
    if getattr(importlib.import_module(fn.__module__), name, None) is not fn:
        raise NotKept(str(fn))
    return named


def found(named: Sequence[Any]) -> Callable[..., Any]:
    """The function that a name was given to."""
    module, name, *given = named
    if not module:
        return OF_PYTHON[name]
    if module.partition(".")[0] != __name__.partition(".")[0]:
        raise ValueError(f"{module} is not the package's own")
    fn = getattr(importlib.import_module(module), name)
    if not isinstance(fn, FunctionType) or not is_own(fn):
        raise ValueError(f"{module}.{name} is no function of the package's own")
    return partial(fn, *given) if given else fn


def poly_rows(poly: Poly) -> list[list[Any]]:
    """A polynomial as rows: coefficient, symbols.

    >>> poly_rows({("s0", "s1"): 4, (): -3}), poly_of([[4, "s0", "s1"], [-3]])
    ([[-3], [4, 's0', 's1']], {('s0', 's1'): 4, (): -3})
    """
    return [[c, *mono] for mono, c in sorted(poly.items())]


def poly_of(rows: Sequence[Sequence[Any]]) -> Poly:
    """The polynomial of rows."""
    return {tuple(map(str, mono)): int(c) for c, *mono in rows}


class NumberWriter:
    """Writes numbers; those that depend on sizes go to a table, once each."""

    def __init__(self) -> None:
        self.table: list[list[Any]] = []
        self.places: dict[Any, int] = {}

    def number(self, x: Any) -> Any:
        """A number as it is, or in a list where in the table it is."""
        if x.__class__ is int or x.__class__ is float:
            return x
        if isinstance(x, Extent):
            key: Any = frozenset(x.poly.items())
            if key not in self.places:
                self._enter(key, ["sum", poly_rows(x.poly)])
        elif isinstance(x, ExtentFloat):
            key = id(x)
            if key not in self.places:
                fn, *parts = x.parts
                self._enter(key, ["float", function_name(fn), *map(self.number, parts)])
        else:
            raise NotKept(f"{x!r}, a {type(x).__name__}")
        return [self.places[key]]

    def _enter(self, key: Any, row: list[Any]) -> None:
        self.places[key] = len(self.table)
        self.table.append(row)


class NumberReader:
    """Reads what a `NumberWriter` wrote, as extents of a scope."""

    def __init__(self, table: Sequence[Sequence[Any]], sizes: Sizes, scope: SizeScope) -> None:
        self.numbers: list[Any] = []
        for kind, *row in table:
            if kind == "sum":
                self.numbers.append(extent(poly_of(row[0]), sizes, scope))
                continue
            fn, *parts = row
            number = found(fn)(*map(self.number, parts))
            if not isinstance(number, ExtentFloat):
                raise ValueError("no float of sizes")
            self.numbers.append(number)

    def number(self, x: Any) -> Any:
        """The number that was written."""
        if x.__class__ is list:
            return self.numbers[x[0]]
        if x.__class__ is int or x.__class__ is float:
            return x
        raise ValueError(f"{x!r} is no number")


def scope_rows(scope: SizeScope) -> dict[str, Any]:
    """What a scope's computed symbols mean, and its decisions."""
    return {
        "derived": [
            [name, function_name(fn), [poly_rows(a) for a in args]]
            for name, fn, args in scope.derived.values()
        ],
        "guards": [
            [poly_rows(difference), compare.__name__, outcome]
            for difference, compare, outcome in scope.guards.values()
        ],
    }


def scope_of_rows(rows: dict[str, Any]) -> SizeScope:
    """The scope that was written."""
    scope = SizeScope()
    for name, fn, args in rows["derived"]:
        polys = tuple(map(poly_of, args))
        meant = found(fn)
        key = (meant, *[frozenset(a.items()) for a in polys])
        scope.derived[key] = (str(name), meant, polys)
    for difference, compare, outcome in rows["guards"]:
        scope.decide(poly_of(difference), COMPARISONS[compare], bool(outcome))
    return scope
