"""Sizes that a graph does not know and each run of it says.

Note [unknown sizes]
    A placeholder's unknown size is an extent (Note [extents]) with a sample value, so every
    operation records what it would at any size, and what is decided by sizes becomes a condition
    that runs must meet. Two things could still depend on the sample unseen.

    The user's code could: `range(n)` reads an int in C. A recorded call (`to_graph`) is observed,
    and such a use fixes the size. Code in a graph's `with` block is not; so it gets a `Dimension`,
    which is no int: arithmetic and comparison work, everything else is refused.

    An operation's own code could. So what was recorded is recorded again at other sizes: the whole
    call by `to_graph`, each call of a public function in a `with` block (`session/watching.py`). A
    graph runs at sizes between those at which that said the same, and at one where that did.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from itertools import combinations, islice

from adjoint.engine.graph.sizes.extents import Extent, Sizes, SizeScope

# Samples have many divisors, so that reshaping by a factor goes through, under its condition.
_ROUND = 720
_SMALL = (2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 60, 64, 101, 128, 256, 512)
_TRIALS = 6  # sizes, at most, that are looked at on each side
# Records again at sizes, plain or symbols of a scope: how that differs from the nodes there.
Differs = Callable[[Sizes, SizeScope | None], str | None]


class UnknownSizes:
    """The unknown sizes of a graph: their names, and which of them its nodes hold for."""

    def __init__(self) -> None:
        self.labels: dict[str, str] = {}  # symbol -> what it is called
        self.scope = SizeScope(self.labels)
        self.sample: dict[str, int] = {}
        self.low: dict[str, int] = {}  # the least and largest size that the nodes were checked at
        self.high: dict[str, int] = {}
        self.not_one: set[frozenset[str]] = set()  # symbols that may not be one at the same time

    def __bool__(self) -> bool:
        return bool(self.labels)

    def symbol(self, label: str, sample: int | None = None) -> Extent:
        """The size of a name: the same wherever the name is given."""
        known = {name: symbol for symbol, name in self.labels.items()}
        symbol = known.get(label)
        if symbol is None:
            symbol = f"s{len(self.labels)}"
            self.labels[symbol] = label
            self.sample[symbol] = sample or _ROUND * (len(self.sample) + 1)
            self.low[symbol], self.high[symbol] = 2, sys.maxsize
        return Extent.symbol(symbol, self.sample[symbol], self.scope)

    # -- sizes that nodes are checked at ------------------------------------------------------

    def _allowed(self, offered: Iterator[dict[str, int]]) -> Iterator[dict[str, int]]:
        """Of the sizes offered those that the decisions allow, a few."""
        fit = (sizes for sizes in offered if sizes != self.sample and self.scope.allow(sizes))
        return islice(fit, _TRIALS)

    def _near(self) -> Iterator[dict[str, int]]:
        for step in (1, 2, 3, 5, 7, 12, 60, _ROUND):
            yield {s: n + step * (i + 1) for i, (s, n) in enumerate(self.sample.items())}
            yield {s: n + step for s, n in self.sample.items()}
        for part in (2, 3, 4):
            yield {s: max(2, n // part) for s, n in self.sample.items()}

    def _larger(self) -> Iterator[dict[str, int]]:
        bits = {1: 40, 2: 24, 3: 16}.get(len(self.sample), 14)
        bases = [
            (1 << power) // _ROUND * _ROUND for power in (bits, bits - 6, bits - 12, 15, 14, 13)
        ]
        yield self._one_by_one([n for base in bases for n in (base + 1, base)])
        for base in bases:
            yield {s: base + 1 + i for i, s in enumerate(self.sample)}
            yield {s: base // _ROUND * n for s, n in self.sample.items()}
        yield {s: 2 * n for s, n in self.sample.items()}

    def _smaller(self) -> Iterator[dict[str, int]]:
        yield {s: 2 + i for i, s in enumerate(self.sample)}
        yield self._one_by_one(_SMALL)
        for n in _SMALL:
            yield dict.fromkeys(self.sample, n)
            yield {s: n * (i + 1) for i, s in enumerate(self.sample)}

    def _one_by_one(self, offered: Collection[int]) -> dict[str, int]:
        """For each symbol the first size that is allowed while the others are as sampled."""
        return {
            s: next((n for n in offered if self.scope.allow(self.sample | {s: n})), present)
            for s, present in self.sample.items()
        }

    def _beyond(self, sizes: Sizes) -> bool:
        return any(sizes[s] > n for s, n in self.sample.items())

    def ones(self) -> Iterator[dict[str, int]]:
        """Sizes of which some are one, to record again at."""
        symbols = list(self.sample)
        for count in self._counts():
            for some in combinations(symbols, count):
                if frozenset(some) not in self.not_one:
                    yield self.sample | dict.fromkeys(some, 1)

    def check(self, differs: Differs, what: str) -> None:
        """Have nodes compared with a recording at other sizes: refused where they differ."""
        near = next(self._allowed(self._near()), None)
        if near is None:
            words = self.scope.broken({s: n + 1 for s, n in self.sample.items()})
            raise ValueError(
                f"Graph: an unknown size is fixed by {what}: {words or 'no other size was found'}. "
                "Give the placeholder that size."
            )
        difference = differs(near, None)
        if difference is not None:
            raise ValueError(
                f"Graph: {what} does not record the same at every size ({difference}). Give the "
                "placeholder the size it has, or compute this outside the graph."
            )

        # Far off an operation may choose another composition, which says the same: attention does
        # by blocks what is long. With symbols it does not choose.
        def holds(sizes: dict[str, int]) -> bool:
            return not differs(sizes, None) or not differs(sizes, self.scope.again(sizes))

        far = (x for x in self._allowed(self._larger()) if self._beyond(x) and holds(x))
        small = (x for x in self._allowed(self._smaller()) if holds(x))
        tried = [self.sample, near, next(far, near), next(small, near)]
        for s in self.sample:
            self.low[s] = max(self.low[s], min(sizes[s] for sizes in tried))
            self.high[s] = min(self.high[s], max(sizes[s] for sizes in tried))
        for sizes in self.ones():
            if not self.scope.allow(sizes) or differs(sizes, None) is not None:
                self.not_one.add(frozenset(s for s, n in sizes.items() if n == 1))

    # -- sizes of a run -----------------------------------------------------------------------

    def read(self, pattern: tuple[int, ...], shape: tuple[int, ...], sizes: dict[str, int]) -> bool:
        """Whether a shape fits a pattern; notes what symbols are there."""
        if len(pattern) != len(shape):
            return False
        for wanted, n in zip(pattern, shape, strict=True):
            symbol = self._alone(wanted)
            if symbol is not None:
                if sizes.setdefault(symbol, n) != n:
                    return False
            elif not isinstance(wanted, Extent) and wanted != n:
                return False
        return True

    def _alone(self, n: int) -> str | None:
        """The symbol that a size is, where it is nothing but one."""
        poly = n.poly if isinstance(n, Extent) else {}
        (only,) = poly if len(poly) == 1 else ((),)
        return only[0] if len(only) == 1 and only[0] in self.labels and poly[only] == 1 else None

    def complete(self, sizes: Sizes) -> dict[str, int]:
        """The sizes of a run with all that is computed of them; an error where it cannot be."""
        refusal = self._refusal(sizes)
        if refusal is not None:
            raise ValueError(f"Session.run: the graph cannot run at these sizes: {refusal}.")
        try:
            return self.scope.complete(sizes)
        except KeyError as missing:
            raise self.not_said(missing.args[0]) from None

    def not_said(self, symbol: str) -> ValueError:
        """The error where a size is needed that nothing fed says."""
        return ValueError(
            f"Session.run: the size {self.labels.get(symbol, symbol)!r} is needed, and nothing "
            "that was fed says what it is. Feed the placeholder that has it too."
        )

    def _refusal(self, sizes: Sizes) -> str | None:
        return (
            self._outside(sizes)
            or self._single(frozenset(s for s, n in sizes.items() if n == 1))
            or self._broken(sizes)
        )

    def _outside(self, sizes: Sizes) -> str | None:
        for s, n in sizes.items():
            if n == 0 or n > self.high[s] or 1 < n < self.low[s]:
                between = f"from {self.low[s]} to {self.high[s]}"
                return f"{self.labels[s]} is {n}, and its nodes were checked at sizes {between}"
        return None

    def _single(self, ones: frozenset[str]) -> str | None:
        tried = not ones or len(ones) in self._counts()
        if tried and not any(part <= ones for part in self.not_one):
            return None
        named = " and ".join(self.labels[s] for s in sorted(ones))
        return f"where {named} is 1 some of its operations would record something else"

    def _counts(self) -> Collection[int]:
        """How many symbols are one at the same time in what `ones` offers."""
        count = len(self.sample)
        return range(1, count + 1) if count < 4 else (1, count)

    def _broken(self, sizes: Sizes) -> str | None:
        try:
            words = self.scope.broken(sizes)
        except ZeroDivisionError:
            return "a size is divided by 0"
        except KeyError as missing:
            raise self.not_said(missing.args[0]) from None
        return None if words is None else f"its operations went by {words}"
