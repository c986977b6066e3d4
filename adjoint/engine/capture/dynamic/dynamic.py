"""One recording for many sizes: families of programs that differ in dynamic dimensions only.

Which dimensions are dynamic: those marked with `mark_dynamic`, those seen to differ between calls
unless `dynamic=False` was said, and under `dynamic=True` the first ones of all tensors. A family is
recorded once with extents for sizes (Note [extents]) and once more at other sizes, to check that
the first says what the second does; from then on a call with new sizes gets its program by putting
them in, without running the function. Where there can be no family each size is recorded by itself;
that is remembered, and told.

Note [checked sizes]
    An extent that became a plain int unseen is found where a check at other sizes sees another
    number. `range(n // 16)` is empty for many n, so checks are made at sizes far off, above and
    below, and a family is for the sizes between them: what is the same at both ends, and grows or
    falls with the size, is the same in between. Of several sizes some are large and some small in
    further checks, in all ways, as far as the decisions made allow.

    Where a recording chooses by a size what is right at every size and quicker at some (causal
    attention by parts), the one with extents leaves the choice open, and so do its checks.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from adjoint.engine.capture.dynamic.done_again import done_again
from adjoint.engine.capture.dynamic.instances import difference, instance
from adjoint.engine.capture.dynamic.marks import HINTS, MARKS, STATIC, marked
from adjoint.engine.capture.program.numbers import differ_in_numbers_and_sizes
from adjoint.engine.capture.program.program import Program
from adjoint.engine.capture.python.errors import PlainCall, Raised
from adjoint.engine.capture.recordings.retracing import LOG
from adjoint.engine.capture.signature import ANY
from adjoint.engine.core.errors import warn_user
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.spec import Spec, contiguous_strides
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.sizes.extents import Extent, Sizes, SizeScope, evaluate
from adjoint.engine.graph.sizes.resizing import Describe, first_difference, resized
from adjoint.engine.graph.sizes.sizing import Sizing
from adjoint.engine.tensor.tensor import Tensor

_KEPT = 16  # families of one function
_MOST = 16  # families of the same dimensions: where each is for few sizes, these are by themselves
_STEPS = 64  # far sizes that are looked through for one that decisions allow, a remainder say
UP = (64, 16, 8, 4, 3, 2, 1)  # steps to sizes that a recording is checked at
NUMBER = -1  # in the place of a dimension: a whole number among the arguments
Dims = dict[tuple[int, int], str]  # (argument leaf, dimension) -> symbol
Places = set[tuple[int, int]]
# Records the function for specs in the place of tensors, its result as Python's or not.
Record = Callable[[list[Any], bool], Program]


class OnlyOnce(Exception):
    """A recording that stands for the present call alone, such as the one that makes state."""


@dataclass(eq=False)
class Family:
    """Programs alike but for sizes."""

    key: Any  # a signature of the family
    dims: Dims
    template: Program
    scope: SizeScope
    within: dict[str, tuple[int, int]] = field(default_factory=dict)  # Note [checked sizes]
    static: set[int] = field(default_factory=set)  # parts of the template without extents
    shared_plans: tuple[dict[Any, Any], dict[Any, Any]] = field(default_factory=lambda: ({}, {}))

    def member(self, sizes: Sizes) -> Program:
        """The program for some sizes."""
        known = self.scope.complete(sizes)
        program = instance(self.template, known, self.static)
        forward, backward = self.shared_plans
        sizing = Sizing(known, self.scope, self.template.graph, forward)
        program.origin = replace(program.origin, sizing=sizing)
        if program.derivative is not None and self.template.derivative is not None:
            graph = self.template.derivative.graph
            program.derivative.sizing = Sizing(known, self.scope, graph, backward)
            program.derivative.resized = partial(resized, sizes=known)
            program.derivative.partly = {}  # the template's own dict otherwise
        return program

    def sizes(self, key: Any) -> dict[str, int] | None:
        """What the symbols are in a call, if its signature is of this family."""
        if key[0] != self.key[0] or key[2] != self.key[2] or len(key[1]) != len(self.key[1]):
            return None
        sizes: dict[str, int] = {}
        for i, (mine, theirs) in enumerate(zip(self.key[1], key[1], strict=True)):
            if not isinstance(mine[0], Spec):
                symbol = self.dims.get((i, NUMBER))
                if mine != theirs if symbol is None else not _fill(sizes, symbol, theirs):
                    return None
                continue
            if not isinstance(theirs[0], Spec) or not self._fit(i, mine, theirs, sizes):
                return None
        return sizes

    def _fit(self, i: int, mine: Any, theirs: Any, sizes: dict[str, int]) -> bool:
        a, b = mine[0], theirs[0]
        if (a.dtype, a.device, len(a.shape), *mine[2:]) != (
            b.dtype,
            b.device,
            len(b.shape),
            *theirs[2:],
        ):
            return False
        if theirs[1] != contiguous_strides(b.shape):
            return False
        for d, (m, n) in enumerate(zip(a.shape, b.shape, strict=True)):
            symbol = self.dims.get((i, d))
            if symbol is None:
                if m != n:
                    return False
            elif n < 2 or sizes.setdefault(symbol, n) != n:
                return False
        return True

    def present(self, symbol: str) -> int:
        """The size of a symbol in the call that the family was made for."""
        i, d = next(at for at, s in self.dims.items() if s == symbol)
        return _size(self.key[1][i], d)

    def allows(self, sizes: Sizes) -> bool:
        """Whether the template holds at these sizes."""
        inside = all(low <= sizes[s] <= high for s, (low, high) in self.within.items())
        return inside and self.scope.allow(sizes)


class Families:
    """The families of one function."""

    def __init__(self, name: str, dynamic: bool | None) -> None:
        self.name = name
        # True: first dimensions are, and those seen to differ; None: the latter; False: none.
        self.dynamic = dynamic
        self.families: list[Family] = []
        self.refused: dict[Any, str] = {}  # why there is no family with such dimensions
        self.fixed: set[Any] = set()  # dimensions of which each size is by itself
        self.started: Counter[Any] = Counter()  # how many there were with such dimensions
        self.reasons: dict[str, bool] = {}  # why sizes are by themselves; whether it was warned

    def find(self, key: Any, leaves: Sequence[Any]) -> Program | None:
        """A program of a family there is, for a call that has none yet."""
        for family in reversed(self.families):
            sizes = family.sizes(key)
            guards = family.template.conditions.guards
            if sizes is not None and guards.holds() and family.allows(sizes):
                program = family.member(sizes)
                if not program.fits(leaves):
                    continue
                family.template.pending = None  # what it left behind is its first member's
                self.families.remove(family)
                self.families.append(family)  # used last
                return program
        return None

    def start(
        self, key: Any, known: Sequence[Any], leaves: Sequence[Any], record: Record
    ) -> Family | None:
        """A new family around a call, if some dimension of its arguments is dynamic."""
        if not _simple(key):
            return None
        asked, hoped = self._places(key, known, leaves)
        hoped -= {at for at in hoped if (key[0], at) in self.fixed}
        # What nobody asked for may be fixed by what the function does.
        sizes = {at for at in hoped if at[1] != NUMBER}
        tried = (asked | hoped, asked | sizes, asked, hoped)
        for places in dict.fromkeys(map(frozenset, tried)):
            dims = _symbols(places, key, known)
            if not dims:
                continue
            kind = (key[0], tuple(sorted(dims)), _unread(key))
            outcome: Family | str = self.refused.get(kind, "")
            try:
                outcome = outcome or self._record(key, dims, leaves, record, asked)
            except (OnlyOnce, PlainCall, Raised):
                return None
            except Exception as error:  # the ordinary way may still succeed, or say what is wrong
                outcome = f"recording it so failed: {type(error).__name__}: {error}"
            if isinstance(outcome, Family):
                self.started[kind] += 1
                if self.started[kind] == _MOST:
                    self.refused[kind] = "each recording with free sizes is for few of them"
                self.families.append(outcome)
                del self.families[:-_KEPT]
                return outcome
            self.refused[kind] = outcome
            if places in (asked, hoped):
                self._tell(outcome, warn=places == asked)
        return None

    def why_each(self) -> str:
        """Why sizes are recorded by themselves, as far as that is known."""
        if self.dynamic is False and not self.reasons:
            return "dynamic=False was asked for"
        return "; ".join(list(self.reasons)[-2:])

    def _tell(self, reason: str, *, warn: bool) -> None:
        note = f"compile: {self.name} is recorded for each size by itself: {reason}"
        if reason not in self.reasons:
            self.reasons[reason] = False
            LOG.info("%s", note)
        if warn and not self.reasons[reason]:
            self.reasons[reason] = True
            warn_user(note)

    def _record(
        self, key: Any, dims: Dims, leaves: Sequence[Any], record: Record, asked: Places
    ) -> Family | str:
        """The family, less what nobody asked for and is fixed; or why there is none."""
        present = {symbol: _size(key[1][i], d) for (i, d), symbol in dims.items()}
        scope = SizeScope()
        for sizes in _tried_sizes(present):
            tried = SizeScope()
            tried.narrows = True
            extents = {s: Extent.symbol(s, n, tried) for s, n in sizes.items()}
            try:
                template = record(_stand_ins(leaves, dims, extents), False)
            except Exception:
                if sizes == present:
                    raise
                continue  # no such sizes
            scope = tried if sizes == present else scope
            others = [] if tried.pinned() & sizes.keys() else _other_sizes(sizes, tried)
            if others:
                family = Family(key, dims, template, tried)
                mixed = _mixed_sizes(sizes, tried)
                return self._checked(family, others, mixed, leaves, record)
            template.take_back()
            fixed = scope.pinned() & tried.pinned()
            if sizes != present and fixed:  # not by what the present sizes happen to be
                self.fixed |= {(key[0], at) for at, s in dims.items() if s in fixed}
                break
        free = {at: s for at, s in dims.items() if s not in scope.pinned()}
        reason = f"its sizes are fixed by what it does: {_decisions(scope, dims)}"
        if free and len(free) < len(dims) and asked <= free.keys():
            if self.dynamic is None:  # others are guesses, which need not be right
                self._tell(reason, warn=False)
            return self._record(key, free, leaves, record, asked)
        return reason

    def _checked(
        self,
        family: Family,
        others: list[dict[str, int]],
        mixed: list[dict[str, int]],
        leaves: Sequence[Any],
        record: Record,
    ) -> Family | str:
        """The family, if it says what recordings at other sizes do; it is for those in between."""
        reason: str | None = "checking it at other sizes failed"
        try:
            reason = self._disagreement(family, [*others, *mixed], leaves, record)
        finally:
            if reason is not None:
                family.template.take_back()
        for s in others[0]:
            seen = [other[s] for other in others] + [family.present(s)]
            family.within[s] = (min(seen), max(seen))
        return family if reason is None else reason

    @staticmethod
    def _disagreement(
        family: Family, others: list[dict[str, int]], leaves: Sequence[Any], record: Record
    ) -> str | None:
        """Why a family does not stand for recordings at other sizes; None where it does."""
        template, effects = family.template, family.template.effects
        if effects.python is not None and effects.python.sized:
            return "it draws by a size, or keeps one that is known at its end"
        if any(ref.position is not None for ref, _ in effects.grads):
            return "it sets the gradient of an argument"
        for other in sorted(others, key=lambda sizes: sum(sizes.values())):  # quickest first
            sizes = family.scope.complete(other)
            left_open = frozenset([evaluate(poly, sizes) for poly in family.scope.left_open])
            with CONTEXT.having(open_sizes=left_open):
                check = record(_stand_ins(leaves, family.dims, other), effects.python is not None)
            reason = difference(instance(template, sizes, family.static), check)
            told, wanted = done_again(effects.python), done_again(check.effects.python)
            check.take_back()
            if reason is None:
                told = Describe()(resized(told, sizes))
                reason = first_difference(told, Describe()(wanted), "what it leaves behind")
            if reason is not None:
                return reason
        return None

    def _places(
        self, key: Any, known: Sequence[Any], leaves: Sequence[Any]
    ) -> tuple[Places, Places]:
        """The dimensions that somebody asked to be dynamic, and others that had better be."""
        asked, hints = marked(leaves, MARKS), marked(leaves, HINTS)
        if self.dynamic is False:
            return asked, hints
        differing = {
            (i, d)
            for (i, d), seen in _history(key, known).items()
            if seen[-1] >= 2 and len({n for n in seen if n >= 2}) > 1  # one is by itself
        } - marked(leaves, STATIC)
        if self.dynamic is None:
            return asked, hints | differing
        numbers = {at for at in differing if at[1] == NUMBER}
        guessed = _leading(key) - marked(leaves, STATIC)
        return asked | (differing - numbers), hints | guessed | numbers


def _history(key: Any, known: Sequence[Any]) -> dict[tuple[int, int], tuple[int, ...]]:
    """The sizes that each dimension had in comparable calls, the present one last."""
    alike = [k[1] for k in known if _comparable(k, key)] + [key[1]]
    numbers = {i for i, part in enumerate(key[1]) if part[0] is int and part[1] is not ANY}
    history = {
        (i, d): tuple([parts[i][0].shape[d] for parts in alike])
        for i, part in enumerate(key[1])
        if isinstance(part[0], Spec)
        for d in range(len(part[0].shape))
    }
    # Those of which some calls were recorded for any value are such numbers in all calls.
    seen = {i: tuple([parts[i][1] for parts in alike]) for i in numbers}
    return history | {(i, NUMBER): n for i, n in seen.items() if ANY not in n}


def _size(part: Any, d: int) -> int:
    """The size of a dimension, or a number, in a signature."""
    size: int = part[1] if d == NUMBER else part[0].shape[d]
    return size


def _fill(sizes: dict[str, int], symbol: str, part: Any) -> bool:
    """Put a number of a signature in the place of its symbol, if it may be there."""
    number = part[0] is int and part[1] is not ANY and part[1] >= 2
    return number and sizes.setdefault(symbol, part[1]) == part[1]


def _unread(key: Any) -> tuple[int, ...]:
    """The places of numbers that are read at each call."""
    return tuple([i for i, part in enumerate(key[1]) if part[1] is ANY])


def _leading(key: Any) -> Places:
    """The first dimensions of tensors: a batch's, more often than not."""
    return {
        (i, 0)
        for i, part in enumerate(key[1])
        if isinstance(part[0], Spec) and part[0].shape and part[0].shape[0] >= 2
    }


def _symbols(places: Collection[tuple[int, int]], key: Any, known: Sequence[Any]) -> Dims:
    """A symbol for each dimension; those that have always been equal are taken for one."""
    symbols: dict[Any, str] = {}
    history = _history(key, known)
    return {
        at: symbols.setdefault(seen, f"s{len(symbols)}")
        for at, seen in history.items()
        if at in places
    }


def _comparable(a: Any, b: Any) -> bool:
    """Whether two signatures differ in sizes and numbers only."""
    return a[0] == b[0] and a[2] == b[2] and differ_in_numbers_and_sizes(a[1], b[1])


def _simple(key: Any) -> bool:
    """Whether every tensor is an ordinary one, row-major and on memory of its own."""
    tensors = [p for p in key[1] if isinstance(p[0], Spec)]
    return len({p[3] for p in tensors}) == len(tensors) and all(
        p[1] == contiguous_strides(p[0].shape) and p[5] is Tensor for p in tensors
    )


def _stand_ins(leaves: Sequence[Any], dims: Dims, sizes: Sizes) -> list[Any]:
    """Specs in the place of tensors, with these sizes in dynamic dimensions."""
    specs: list[Any] = []
    for i, leaf in enumerate(leaves):
        if not is_tensor(leaf):
            specs.append(sizes[dims[i, NUMBER]] if (i, NUMBER) in dims else leaf)
            continue
        shape = tuple(sizes[dims[i, d]] if (i, d) in dims else n for d, n in enumerate(leaf.shape))
        specs.append((Spec(shape, leaf.dtype, leaf.device), leaf.requires_grad))
    return specs


def _other_sizes(present: Sizes, scope: SizeScope) -> list[dict[str, int]]:
    """Larger and smaller sizes that the decisions made so far allow, far off if that can be."""
    others = []
    far = {s: max(4 * n + 17, 140) + i for i, (s, n) in enumerate(present.items())}
    near = {s: 2 + i for i, s in enumerate(present)}
    lower = min(_STEPS, min(present.values()) - 1)
    for sizes in (
        [{s: n + step for s, n in far.items()} for step in range(_STEPS)]
        + [{s: n + step * (i + 1) for i, (s, n) in enumerate(present.items())} for step in UP],
        [near, {s: max(2, n // 4) for s, n in present.items()}]
        + [{s: n + step for s, n in near.items()} for step in range(1, lower)]
        + [{s: n - step for s, n in present.items()} for step in (4, 2, 1)],
    ):
        for other in sizes:
            possible = other != present and min(other.values()) >= 2 and scope.allow(other)
            if possible and scope.tell_apart(present, other):
                others.append(other)
                break
    return others


def _mixed_sizes(present: Sizes, scope: SizeScope) -> list[dict[str, int]]:
    """Sizes of which some are large and some small, as far apart as the decisions made allow."""
    far = {s: max(4 * n + 17, 140) + i for i, (s, n) in enumerate(present.items())}
    near = {s: 2 + i for i, s in enumerate(present)}
    found = []
    for larger in _some_larger(list(present)):
        sizes = [
            {s: far[s] + step if s in larger else near[s] + step for s in present}
            for step in range(_STEPS)
        ]
        sizes += [
            {s: n * by if s in larger else max(2, n // by) for s, n in present.items()}
            for by in (4, 3, 2)
        ]
        sizes += [
            {s: n + step if s in larger else max(2, n - step) for s, n in present.items()}
            for step in UP
        ]
        found += list(itertools.islice((o for o in sizes if scope.allow(o)), 1))
    return [other for other in found if other != present]


def _some_larger(symbols: list[str]) -> list[set[str]]:
    """Which sizes are large where the rest are small: all ways, or of many one and all but one.

    How many parts `x.split(n)` has is the same where both sizes are large and where both are small.

    >>> _some_larger(["s0", "s1"])
    [{'s0'}, {'s1'}]
    """
    counts = range(1, len(symbols))
    if len(symbols) > 3:
        counts = sorted({1, len(symbols) - 1})  # type: ignore[assignment]
    return [set(some) for k in counts for some in itertools.combinations(symbols, k)]


def _tried_sizes(present: dict[str, int]) -> Iterator[dict[str, int]]:
    """Sizes to record at, the present ones first; others where those equal fixed ones.

    Multiples come last: what divides the present sizes divides them too.

    >>> list(_tried_sizes({"s0": 8}))
    [{'s0': 8}, {'s0': 9}, {'s0': 11}, {'s0': 13}, {'s0': 16}, {'s0': 24}]
    """
    for step in (0, 1, 3, 5):
        yield {s: n + step * (i + 1) for i, (s, n) in enumerate(present.items())}
    for factor in (2, 3):
        yield {s: n * (factor + i) for i, (s, n) in enumerate(present.items())}


_SIGNS = {
    ("eq", True): "==", ("eq", False): "!=", ("ne", True): "!=", ("ne", False): "==",
    ("lt", True): "<", ("lt", False): ">=", ("le", True): "<=", ("le", False): ">",
    ("gt", True): ">", ("gt", False): "<=", ("ge", True): ">=", ("ge", False): "<",
}  # fmt: skip
_FUNCTIONS = {"floordiv": "//", "mod": "%"}


def _decisions(scope: SizeScope, dims: Dims) -> str:
    """The decisions in words, the first few equations before others, and what their names mean."""
    told = dict.fromkeys(
        f"{_sum(terms)} {_SIGNS.get((compare.__name__, held), compare.__name__)} 0"
        for terms, compare, held in scope.guards.values()
    )
    first = sorted(told, key=lambda text: " == " not in text)[:3]
    meant = {
        s: f"{s} is argument {i}" if d == NUMBER else f"{s} is dimension {d} of tensor {i}"
        for (i, d), s in reversed(dims.items())
    }
    for name, fn, parts in scope.derived.values():
        sign = _FUNCTIONS.get(fn.__name__, fn.__name__)
        meant[name] = f"{name} is " + f" {sign} ".join(f"({_sum(part)})" for part in parts)
    words = set(re.findall(r"\w+", " ".join([*first, *meant.values()])))
    return f"{' and '.join(first)}, where " + ", ".join(m for s, m in meant.items() if s in words)


def _sum(terms: Any) -> str:
    """A polynomial of sizes as it is written.

    >>> _sum({("s0",): 1, ("q0",): -2, (): 3})
    's0 - 2*q0 + 3'
    """
    text = ""
    for names, count in terms.items():
        size = abs(count)
        term = "*".join([str(size)] * (size != 1 or not names) + list(names))
        text += (
            (" - " if count < 0 else " + ") + term if text else ("-" if count < 0 else "") + term
        )
    return text or "0"
