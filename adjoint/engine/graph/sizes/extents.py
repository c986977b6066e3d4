"""Sizes that stand for any size: integers that know how they were made from dynamic dimensions.

Note [extents]
    While a function is recorded for dynamic sizes, a dynamic dimension is an `Extent`: an int with
    the value of the present call that also carries a polynomial in the symbols. Sums and products
    carry on; whatever a comparison decides becomes a guard on the sizes; a quotient that leaves a
    remainder becomes a symbol of its own, computed from the others. Where an extent turns into a
    plain int unseen (in `range`, say) it is baked into the recording as a constant. So a recording
    is checked against a second one, made at other sizes, before it is used for any
    (`capture.dynamic`).

    A planner that runs on extents has two more ways to use one. `computed` is a function of sizes
    that is evaluated again for each (how work is dealt out); its value is a symbol of its own.
    `typical` is a plain number for choices that are right at every size and only better at some
    (what to keep in memory): the value at the scope's reference sizes, no guard. In an `exact`
    scope there is none: plans are then those that would be made at each size by itself.

    Where a text is written (a kernel's), a scope with `marks` has extents write marks, which are
    sorted out when the text is complete (`graph.sizes.marked`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from math import ceil, floor, gcd, isinf, prod
from numbers import Number
from typing import Any

from adjoint.engine.core.spec import pinned

Monomial = tuple[str, ...]
Poly = dict[Monomial, int]  # monomial -> coefficient; no zeros
Sizes = Mapping[str, int]
SIGNS = {
    operator.eq: "==", operator.ne: "!=", operator.lt: "<",
    operator.le: "<=", operator.gt: ">", operator.ge: ">=",
}  # fmt: skip
_OPPOSITE = {
    operator.eq: operator.ne, operator.ne: operator.eq, operator.lt: operator.ge,
    operator.ge: operator.lt, operator.le: operator.gt, operator.gt: operator.le,
}  # fmt: skip
MARK = "\ue000"  # before and after the number of a mark; no text of a kernel's has it
_ROUNDED = "q"  # how the names of computed symbols begin


def evaluate(poly: Poly, sizes: Sizes) -> int:
    """The polynomial's value."""
    return sum(c * prod(sizes[s] for s in mono) for mono, c in poly.items())


class SizeScope:
    """The guards that one recording's decisions about sizes came to."""

    def __init__(self, labels: Mapping[str, str] | None = None) -> None:
        self.labels = labels  # what symbols are called where sizes are shown, if they are unknown
        self.guards: dict[Any, tuple[Poly, Callable[..., Any], bool]] = {}
        # Symbols that stand for a function of others, in an order in which they can be computed.
        self.derived: dict[Any, tuple[str, Callable[..., int], tuple[Poly, ...]]] = {}
        self.reference: dict[str, int] = {}  # sizes that `typical` looks at
        self.referred = 0  # how many derived symbols are among them
        self.remainders: list[Poly] = []  # kept though they neither grow nor fall with the sizes
        self.exact = False  # whether choices are those of each size by itself
        self.narrows = False  # whether choices may be guards: other sizes are recorded apart
        self.left_open: list[Poly] = []  # sizes by which a choice was not made, though it could be
        self.marks: list[Any] | None = None  # numbers that texts have marks for, if they do

    def mark(self, number: Any) -> str:
        """What stands for a number in a text."""
        assert self.marks is not None
        self.marks.append(number)
        return f"{MARK}{len(self.marks) - 1}{MARK}"

    def again(self, reference: Sizes) -> SizeScope:
        """A scope without guards in which the symbols of this one mean the same."""
        scope = SizeScope()
        scope.derived = dict(self.derived)
        scope.reference = dict(reference)
        return scope

    def typical(self, poly: Poly) -> int:
        """A polynomial's value at the reference sizes."""
        for name, fn, args in list(self.derived.values())[self.referred :]:
            try:
                self.reference[name] = fn(*[evaluate(a, self.reference) for a in args])
            except ZeroDivisionError:  # the guards do not allow the reference sizes
                self.reference[name] = 0
        self.referred = len(self.derived)
        return evaluate(poly, self.reference)

    def symbol(self, fn: Callable[..., int], args: tuple[Poly, ...]) -> Poly:
        """The symbol for a function of sizes, such as a rounded quotient."""
        key = (fn, *[frozenset(a.items()) for a in args])
        if key not in self.derived:
            self.derived[key] = (f"{_ROUNDED}{len(self.derived)}", fn, args)
        return {(self.derived[key][0],): 1}

    def complete(self, sizes: Sizes) -> dict[str, int]:
        """Sizes with the symbols that are computed from them."""
        known = dict(sizes)
        for name, fn, args in self.derived.values():
            known[name] = fn(*[evaluate(a, known) for a in args])
        return known

    def decide(self, difference: Poly, compare: Callable[..., Any], outcome: bool) -> None:
        """The recording holds for sizes at which `difference` compares with 0 like this."""
        key = (frozenset(difference.items()), compare.__name__, outcome)
        self.guards[key] = difference, compare, outcome

    def pinned(self) -> set[str]:
        """Symbols of which a decision allows one size."""
        fixed = set()
        for difference in self.equations():
            symbols = [mono for mono in difference if mono]
            if len(symbols) == 1 and len(symbols[0]) == 1:
                fixed.add(symbols[0][0])
        return fixed

    def equations(self) -> list[Poly]:
        """What decisions say is 0."""
        return [
            difference
            for difference, compare, outcome in self.guards.values()
            if compare in (operator.eq, operator.ne) and outcome is (compare is operator.eq)
        ]

    def direction(self, poly: Poly) -> int | None:
        """1 where a polynomial only grows with the sizes, -1 where it only falls, else None.

        A remainder does neither: two sizes at which it is the same say nothing about a third.
        """
        meanings = {name: (fn, args) for name, fn, args in self.derived.values()}

        def of_symbol(symbol: str) -> int | None:
            if symbol not in meanings:
                return 1
            fn, args = meanings[symbol]
            if fn is not operator.floordiv or any(args[1]):
                return None
            return self.direction(args[0])

        def of_term(mono: Monomial, factor: int) -> int | None:
            if len(mono) > 1 and any(symbol in meanings for symbol in mono):
                return None
            way = of_symbol(mono[0])
            return way if way is None or factor > 0 else -way

        ways = {of_term(mono, c) for mono, c in poly.items() if mono}
        return ways.pop() if len(ways) == 1 else None

    def tell_apart(self, sizes: Sizes, others: Sizes) -> bool:
        """Whether every remainder that was kept is another one at other sizes."""
        here, there = self.complete(sizes), self.complete(others)
        fixed = [_slopes(difference) for difference in self.equations()]
        fixed += [{mono: -c for mono, c in slopes.items()} for slopes in fixed]
        free = [p for p in self.remainders if _slopes(p) not in fixed]
        return all(evaluate(p, here) != evaluate(p, there) for p in free)

    def equals(self, symbol: str) -> str:
        """The first symbol that a decision says is always as large as this one."""
        equal = {symbol}
        for difference in self.equations():
            if sorted(difference.values()) == [-1, 1] and () not in difference:
                pair = {mono[0] for mono in difference if len(mono) == 1}
                equal |= pair if pair & equal and len(pair) == 2 else set()
        return min(equal, key=lambda s: (len(s), s))

    def broken(self, sizes: Sizes) -> str | None:
        """A decision that comes out otherwise at these sizes, in words."""
        known = self.complete(sizes)
        for difference, compare, outcome in self.guards.values():
            if compare(evaluate(difference, known), 0) != outcome:
                sign = SIGNS[compare if outcome else _OPPOSITE[compare]]
                constant = difference.get((), 0)
                left = {mono: c for mono, c in difference.items() if mono}
                return f"{self.words(left)} {sign} {-constant}"
        return None

    def words(self, poly: Poly) -> str:
        """A polynomial in the names that its symbols have."""
        text = ""
        for mono, c in sorted(poly.items(), key=lambda term: (-len(term[0]), term[0])):
            factors = [self._called(symbol) for symbol in mono]
            if abs(c) != 1 or not mono:
                factors.insert(0, str(abs(c)))
            sign = "-" if c < 0 else "+"
            joined = "*".join(factors)
            text += f" {sign} {joined}" if text else joined if c > 0 else f"-{joined}"
        return text or "0"

    def _called(self, symbol: str) -> str:
        for name, fn, args in self.derived.values():
            if name == symbol:
                given = [*map(self.words, args)]
                if fn is operator.floordiv:
                    return f"(({given[0]}) // ({given[1]}))"
                return f"{fn.__name__}({', '.join(given)})"
        return (self.labels or {}).get(symbol, symbol)

    def allow(self, sizes: Sizes) -> bool:
        """Whether every decision comes out the same at these sizes."""
        try:
            known = self.complete(sizes)
        except ZeroDivisionError:  # of what was no divisor where it was decided on
            return False
        return all(
            compare(evaluate(difference, known), 0) == outcome
            for difference, compare, outcome in self.guards.values()
        )


class Extent(int):
    """A size made of dynamic dimensions."""

    poly: Poly
    scope: SizeScope

    @staticmethod
    def symbol(name: str, value: int, scope: SizeScope) -> Extent:
        """A dynamic dimension itself."""
        return _extent({(name,): 1}, value, scope)  # type: ignore[return-value]

    def __reduce__(self) -> Any:
        return (int, (int(self),))

    def __repr__(self) -> str:
        if self.scope.marks is not None:
            return self.scope.mark(self)
        return int.__repr__(self) if self.scope.labels is None else self.scope.words(self.poly)

    def __format__(self, how: str) -> str:
        return repr(self) if not how else format(self.pin(), how)

    def __hash__(self) -> int:
        # Unlike that of the plain int: a table filled by one must not answer for the other.
        return hash((id(self.scope), frozenset(self.poly.items())))

    def __bool__(self) -> bool:
        return bool(self._compare(0, operator.ne))

    def _compare(self, other: Any, compare: Callable[..., Any]) -> Any:
        if not isinstance(other, int):
            if not isinstance(other, Number):
                return compare(int(self), other)
            if not isinstance(other, float):
                return compare(self.pin(), other)
            other = _whole(float(other), compare)
            if other is None:
                return compare is operator.ne
            if isinf(other):
                return compare(int(self), other)
        outcome = compare(int(self), int(other))
        if other.__class__ is int and self.least() > other:
            return outcome  # at all sizes
        difference = _sum(self.poly, _poly(other), -1)
        if not _certain(difference, compare):
            self.scope.decide(difference, compare, outcome)
        return outcome

    def least(self) -> int:
        """The value where every symbol is 2, if it only grows from there on; else too small."""
        least: int | None = getattr(self, "_least", None)
        if least is None:
            least = _least(self.poly)
            self._least = least
        return least

    @staticmethod
    def exceeds(a: int, b: int) -> bool | None:
        """Whether a > b at all sizes from 2 on (True) or at none (False), as far as signs tell."""
        difference = _beyond_two(_sum(_poly(a), _poly(b), -1))
        if difference is None:
            return None
        if min(difference.values(), default=0) >= 0:
            return True if difference.get((), 0) > 0 else None if difference else False
        return False if max(difference.values()) <= 0 else None

    def pin(self) -> int:
        """The plain value; the recording then holds for no other."""
        self.scope.decide(_sum(self.poly, _poly(int(self)), -1), operator.eq, True)
        return int(self)

    @property
    def decides(self) -> bool:
        """Whether choices go by it as by a plain size."""
        return self.scope.exact

    @property
    def narrows(self) -> bool:
        """Whether a choice by it may keep the recording from other sizes, which get their own."""
        return self.scope.exact or self.scope.narrows

    def leave_open(self) -> bool:
        """Whether a choice that is right at every size is not made by it; checks then do not."""
        if not self.scope.exact:
            self.scope.left_open.append(self.poly)
        return not self.scope.exact

    def settled(self) -> int:
        """The extent, or where it neither grows nor falls with the sizes its plain value (`pin`).

        For code that may make a plain int of it unseen: a check at other sizes would not show that.
        """
        return self.pin() if self.scope.direction(self.poly) is None else self

    def kept(self) -> int:
        """The extent; a check is then made at sizes where it is another, if it is a remainder."""
        if self.scope.direction(self.poly) is None:
            self.scope.remainders.append(self.poly)
        return self

    def moved(self, sizes: Sizes, scope: SizeScope) -> int:
        """The same at other sizes, in another scope."""
        return _extent(self.poly, evaluate(self.poly, sizes), scope)

    def __abs__(self) -> int:
        return self if self >= 0 else -self


def _whole(number: float, compare: Callable[..., Any]) -> Any:
    """What a whole number compares with as with a float; None: it compares unequal.

    >>> _whole(4.5, operator.lt), _whole(4.5, operator.gt), _whole(5.0, operator.eq)
    (5, 4, 5)
    """
    if isinf(number) or (number == number and compare not in (operator.eq, operator.ne)):
        upwards = compare in (operator.lt, operator.ge)
        return number if isinf(number) else ceil(number) if upwards else floor(number)
    return int(number) if number.is_integer() else None


class ExtentFloat(float):
    """A float made of dynamic dimensions, such as the reciprocal of a size."""

    at: Callable[[Sizes], float]
    parts: tuple[Callable[..., Any], Any, Any]  # what it was computed by, and of what

    def settled(self) -> ExtentFloat:
        """This number, with extents in it that neither grow nor fall pinned."""
        for part in self.parts[1:]:
            if isinstance(part, (Extent, ExtentFloat)):
                part.settled()
        return self

    def pin(self) -> float:
        """The plain value; the recording then holds for no other sizes that it is made of."""
        for part in self.parts[1:]:
            pinned(part)
        return float(self)

    def __bool__(self) -> bool:
        return bool(self.pin())

    def moved(self, sizes: Sizes, scope: SizeScope) -> ExtentFloat:
        """The same at other sizes."""
        moved = ExtentFloat(self.at(sizes))
        moved.at, moved.parts = self.at, self.parts
        return moved

    def __reduce__(self) -> Any:
        return (float, (float(self),))


def _certain(difference: Poly, compare: Callable[..., Any]) -> bool:
    """Whether a comparison with 0 has one outcome at all sizes from 2 on, as far as signs tell."""
    slopes = [c for mono, c in difference.items() if mono]
    if not slopes:
        return True
    if min(slopes) < 0 < max(slopes) or any(_ROUNDED in "".join(mono) for mono in difference):
        return False
    edge = sum(c << len(mono) for mono, c in difference.items())  # where every symbol is 2
    if slopes[0] > 0:  # grows from the edge on
        return edge > 0 or (edge == 0 and compare in (operator.ge, operator.lt))
    return edge < 0 or (edge == 0 and compare in (operator.le, operator.gt))


def _least(poly: Poly) -> int:
    """The value where every symbol is 2, the least at all sizes; far below 0 where that is not so.

    >>> _least({("s0", "s1"): 3, (): -1}), _least({("s0",): 1, ("s1",): -1}) < -(2**60)
    (11, True)
    """
    total = 0
    for mono, c in poly.items():
        if mono and (c < 0 or _ROUNDED in "".join(mono)):
            return -(2**62)
        total += c << len(mono)
    return total


def _beyond_two(poly: Poly) -> Poly | None:
    """The polynomial of what symbols are beyond 2; None where some are functions of others.

    >>> _beyond_two({("s0", "s1"): 1, ("s1",): -1})  # (2 + s0) * (2 + s1) - (2 + s1)
    {(): 2, ('s1',): 1, ('s0',): 2, ('s0', 's1'): 1}
    """
    total: Poly = {}
    for mono, c in poly.items():
        if _ROUNDED in "".join(mono):
            return None
        term: Poly = {(): c}
        for symbol in mono:
            term = _product(term, {(): 2, (symbol,): 1})
        total = _sum(total, term)
    return total


def _poly(x: int) -> Poly:
    if isinstance(x, Extent):
        return x.poly
    return {(): int(x)} if x else {}


def _slopes(poly: Poly) -> Poly:
    return {mono: c for mono, c in poly.items() if mono}


def _sum(a: Poly, b: Poly, sign: int = 1) -> Poly:
    total = dict(a)
    for mono, c in b.items():
        total[mono] = total.get(mono, 0) + sign * c
    return {m: c for m, c in total.items() if c}


def _product(a: Poly, b: Poly) -> Poly:
    total: Poly = {}
    for m, c in a.items():
        for n, d in b.items():
            mono = tuple(sorted(m + n))
            total[mono] = total.get(mono, 0) + c * d
    return {m: c for m, c in total.items() if c}


def _quotient(a: Poly, b: Poly) -> Poly | None:
    """a / b where b is one term that divides every term of a, else None."""
    if len(b) != 1:
        return None
    ((below, d),) = b.items()
    quotient: Poly = {}
    for mono, c in a.items():
        rest = list(mono)
        for s in below:
            if s not in rest:
                return None
            rest.remove(s)
        if c % d:
            return None
        quotient[tuple(rest)] = c // d
    return quotient


def _extent(poly: Poly, value: int, scope: SizeScope) -> int:
    """An extent, or a plain int where no symbol is left."""
    if not any(poly):
        return value
    extent = int.__new__(Extent, value)
    extent.poly, extent.scope = poly, scope
    return extent


def _scope(a: Any, b: Any) -> SizeScope:
    return a.scope if isinstance(a, Extent) else b.scope


def extent(poly: Poly, sizes: Sizes, scope: SizeScope) -> int:
    """The extent of a polynomial; a plain int where it has no symbol."""
    return _extent(poly, evaluate(poly, sizes), scope)


def is_extent(x: Any) -> bool:
    """Whether a number depends on dynamic sizes."""
    return isinstance(x, (Extent, ExtentFloat))


def is_undecided(x: Any) -> bool:
    """Whether choices may not go by a number: an extent, unless they are those of each size."""
    return isinstance(x, ExtentFloat) or (isinstance(x, Extent) and not x.decides)


def computed(fn: Callable[..., int], *args: int) -> int:
    """`fn(*args)`, evaluated for each size by itself (Note [extents])."""
    value = fn(*[int(a) for a in args])
    scope = next((a.scope for a in args if isinstance(a, Extent)), None)
    return (
        value if scope is None else _extent(scope.symbol(fn, tuple(map(_poly, args))), value, scope)
    )


def typical(x: int) -> int:
    """A plain number in the place of an extent, for choices that any size allows."""
    return x.scope.typical(x.poly) if isinstance(x, Extent) and not x.scope.exact else x


def common_divisor(*numbers: int) -> int:
    """The greatest common divisor, computed for each size by itself where it may differ."""
    known = gcd(*[n for n in numbers if not isinstance(n, Extent)])
    if known and all(content(n) % known == 0 for n in numbers):
        return known
    return computed(gcd, *numbers)


def content(x: int) -> int:
    """The largest number that divides x at all sizes."""
    return gcd(*x.poly.values()) if isinstance(x, Extent) else x


def _linear(fn: Callable[..., Any], combine: Callable[[Poly, Poly], Poly]) -> Any:
    def method(a: Any, b: Any) -> Any:
        if not isinstance(b, int) or not isinstance(a, int):
            return _float(fn)(a, b)
        return _extent(combine(_poly(a), _poly(b)), fn(int(a), int(b)), _scope(a, b))

    return method


def _floordiv(a: Any, b: Any) -> Any:
    if not isinstance(a, int) or not isinstance(b, int):
        return operator.floordiv(pinned(a), pinned(b))
    if not isinstance(b, Extent) and b <= 0:
        return pinned(a) // b
    scope, value = _scope(a, b), int(a) // int(b)
    quotient = _quotient(_poly(a), _poly(b))
    if quotient is None:
        quotient = scope.symbol(operator.floordiv, (_poly(a), _poly(b)))
    return _extent(quotient, value, scope)


def _mod(a: Any, b: Any) -> Any:
    if not isinstance(a, int) or not isinstance(b, int):
        return operator.mod(pinned(a), pinned(b))
    return a - b * _floordiv(a, b)


def _float(fn: Callable[..., Any]) -> Any:
    """An operation whose result is a float of the sizes."""

    def method(a: Any, b: Any) -> Any:
        if not isinstance(a, (int, float)) or not isinstance(b, (int, float)):
            return NotImplemented
        value = fn(_number(a), _number(b))
        if not isinstance(value, float):  # an integer power of an extent, say
            return fn(pinned(a), pinned(b))
        result = ExtentFloat(value)
        result.at = lambda sizes: fn(_at(a, sizes), _at(b, sizes))
        result.parts = (fn, a, b)
        return result

    return method


def _number(x: Any) -> Any:
    """The plain number."""
    return int(x) if isinstance(x, Extent) else float(x) if isinstance(x, ExtentFloat) else x


def _at(x: Any, sizes: Sizes) -> Any:
    if isinstance(x, ExtentFloat):
        return x.at(sizes)
    return evaluate(x.poly, sizes) if isinstance(x, Extent) else x


def _pow(a: Any, b: Any) -> Any:
    if isinstance(a, Extent) and type(b) is int and 0 < b < 4:
        return prod([a] * b)
    return _float(operator.pow)(a, b)


_BINARY = {
    "add": _linear(operator.add, _sum),
    "sub": _linear(operator.sub, lambda a, b: _sum(a, b, -1)),
    "mul": _linear(operator.mul, _product),
    "floordiv": _floordiv,
    "mod": _mod,
    "truediv": _float(operator.truediv),
    "pow": _pow,
    "divmod": lambda a, b: (_floordiv(a, b), _mod(a, b)),
}
for _name, _method in _BINARY.items():
    setattr(Extent, f"__{_name}__", lambda self, other, _m=_method: _m(self, other))
    setattr(Extent, f"__r{_name}__", lambda self, other, _m=_method: _m(other, self))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    _compare = getattr(operator, _name)
    setattr(Extent, f"__{_name}__", lambda self, other, _c=_compare: self._compare(other, _c))
for _name in ("add", "sub", "mul", "truediv", "pow"):
    _method = _float(getattr(operator, _name))
    setattr(ExtentFloat, f"__{_name}__", lambda self, other, _m=_method: _m(self, other))
    setattr(ExtentFloat, f"__r{_name}__", lambda self, other, _m=_method: _m(other, self))
# Bits neither grow nor fall with a size; how many there are does, and what is decided by that is
# decided by a symbol of its own.
for _name in ("and", "or", "xor", "lshift", "rshift"):
    _method = getattr(operator, f"{_name}_" if _name in ("and", "or") else _name)
    setattr(Extent, f"__{_name}__", lambda self, other, _m=_method: _m(pinned(self), pinned(other)))
    setattr(Extent, f"__r{_name}__", lambda self, other, _m=_method: _m(other, pinned(self)))
Extent.__invert__ = lambda self: ~pinned(self)  # type: ignore[method-assign]
Extent.bit_length = lambda self: computed(int.bit_length, self)  # type: ignore[method-assign]
Extent.__neg__ = lambda self: self * -1  # type: ignore[method-assign]
ExtentFloat.__neg__ = lambda self: self * -1.0  # type: ignore[method-assign]
Extent.__pos__ = lambda self: self  # type: ignore[method-assign]
