"""Kernels that serve many sizes: numbers of a text that differ from shape to shape are its words.

Note [open numbers]
    Sizes and strides are numbers in a kernel's text (Note [kernel table]), which makes it fast: a
    division by a known number is a multiplication. But Triton takes a tenth of a second for each
    text, and in eager mode shapes may differ from call to call: sentences, sounds, what a detector
    found. So of the kernels of an operation the first `AS_WRITTEN` are compiled as they are. From
    then on numbers that not all of its texts have in common are words of the launch, and few
    kernels serve all the shapes to come; a width that is the same in all of them stays in the text.

    Equal numbers are one word, so that a quotient and its remainder are still one division. What
    Triton makes of a number besides is how wide loads are, and with that the order in which threads
    add: 16 bytes hold so many elements, and a number is said to be the multiple of a power of two
    that it is, up to them. So nearly every kernel computes the same bits whichever numbers are
    open. One that sums whole rows after other sums (gradients of norms under a softmax) may add in
    another order: there a result depends in its last bits on what shapes came before.

    A number may be open where Triton takes any integer of 32 bits: beside an operator whose other
    side is not a number itself, as the end of a range, as an integer of a given type; or as a float
    of a given type, such as the divisor of a mean. How many elements a tile has is never open: its
    text is for that number, and would be another one where a size happens to be the same.

    Of a plan for many sizes (Note [open plans]) a text has marks where a number depends on sizes.
    Those are the numbers that are open then, each as the word that its expression is; what Triton
    is told of one is decided for all sizes, and one that cannot be open is the same at all of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

from adjoint.engine.backends.triton.launch_words import TABLE, Written
from adjoint.engine.compiler.schedule.steps import double_bits
from adjoint.engine.graph.sizes.extents import Extent, SizeScope, common_divisor
from adjoint.engine.graph.sizes.marked import Marked, Span, pin
from adjoint.engine.graph.sizes.marked import written as plain_text

AS_WRITTEN = 2  # texts of an operation that are compiled as they are
LEAST, LIMIT = 2, 1 << 31  # what an open number is between: 0 and 1 say more than how many
WIDEST = 16  # bytes that one instruction loads
_OPERAND = re.compile(r" (//|<=|>=|[-+*%<>]) (\d+)(?![\w.])(?=( [-+*/%])?)")
_BESIDE = re.compile(
    r"(?:\(|= )(\d+) [-+*] (?=[A-Za-z])"
    r"|tl\.m[ai][xn]imum\((\d+), (?=[A-Za-z(])|tl\.m[ai][xn]imum\([^(),]*[A-Za-z][^(),]*, (\d+)\)"
)
_RANGE = re.compile(r"(?<!a)range\((\d+|[a-z]+), (\d+)[,)]")
_TYPED = re.compile(r"tl\.full\(\(\), (\d+(\.\d+)?), (tl\.(?:int|float)\d+)\)")
_LOADED = re.compile(r"pointer_type\(tl\.[a-z]+(\d+)\w*\)")
_NAMED = re.compile(r"(?<![\w.])[A-Za-z_]")  # a name begins
_OPERATOR = re.compile(r" (//|[-+*%]) \Z")
_TOKEN = re.compile(r"[\w.]+\Z")
_PRODUCTS, _SUMS = ("*", "//", "%"), ("+", "-")
_NEAR = 40  # characters that hold any token


@dataclass(frozen=True, slots=True)
class Hole:
    """A number in a text that may be open."""

    start: int
    end: int
    value: int | float
    type: str  # that it has in the text
    of_rows: bool = False  # whether it is what lies between rows
    marked: Marked | None = None  # what it is at other sizes


def holes(source: str) -> list[Hole]:
    """The numbers of a text that may be open, in order.

    >>> [hole.value for hole in holes("    x1 = x % 29\\n    at = w + 3 + x1 * 464 + 1")]
    [29, 464]
    """
    found = [
        Hole(*number.span(2), int(number[2]), "tl.int32", source[number.start() - 1] == "]")
        for number in _OPERAND.finditer(source)
        if _is_free(source, number)
    ]
    for number in _BESIDE.finditer(source):
        which = number.lastindex or 0
        found.append(Hole(*number.span(which), int(number[which]), "tl.int32"))
    for ends in _RANGE.finditer(source):
        known = [k for k in (1, 2) if ends[k].isdigit()]
        found += [Hole(*ends.span(k), int(ends[k]), "tl.int32") for k in known]
    for typed in _TYPED.finditer(source):
        value = float(typed[1]) if typed[2] else int(typed[1])
        found.append(Hole(*typed.span(), value, typed[3]))
    found = [h for h in found if h.value.__class__ is float or LEAST <= h.value < LIMIT]
    return sorted(found, key=lambda hole: hole.start)


def _is_free(source: str, found: re.Match[str]) -> bool:
    """Whether a number is the right side of an operator whose left side Triton does not know.

    What it knows of both it computes in integers of any size.
    """
    sign, then = found[1], (found[3] or "").strip()
    if sign == "*" and source.startswith(f" + tl.arange(0, {found[2]})", found.end(2)):
        return False  # how many elements a tile has, which the text says in any case
    if then and sign not in _PRODUCTS and not (sign in _SUMS and then in _SUMS):
        return False  # part of a product
    end = found.start()
    while True:
        left = operand_before(source, end)
        if _NAMED.search(left) or left == "(0)":
            return left != "w"  # which word it is
        end -= len(left)
        before = _OPERATOR.search(source, max(0, end - _NEAR), end)
        if before is None or (sign in _PRODUCTS and before[1] in _SUMS):
            return False  # numbers alone
        end = before.start()


def operand_before(source: str, end: int) -> str:
    """The name, number, call or bracketed text that ends at a place.

    >>> operand_before("x + f(y, (2))[:, None] * 29", 22)
    'f(y, (2))[:, None]'
    """
    start = end
    while start and source[start - 1] in ")]":
        depth = 0
        while start:
            start -= 1
            depth += (source[start] in ")]") - (source[start] in "([")
            if not depth:
                break
    name = _TOKEN.search(source, max(0, start - _NEAR), start)
    return source[name.start() if name else start : end]


@dataclass(slots=True)
class KnownTexts:
    """The texts of an operation's kernels that were met."""

    written: set[str] = field(default_factory=set)  # those that are compiled as they are
    common: frozenset[int | float] | None = None  # numbers that all of them have

    def is_open(self, source: str, values: frozenset[int | float]) -> bool:
        """Whether a text's numbers are words, but for those that all texts have."""
        if source in self.written:
            return False
        self.common = values if self.common is None else self.common & values
        if len(self.written) < AS_WRITTEN:
            self.written.add(source)
            return False
        return True


class OpenNumbers:
    """The kernels that a process has met."""

    def __init__(self) -> None:
        self.known: dict[str, KnownTexts] = {}
        self.lock = Lock()

    def kernel(self, written: Written, count: int) -> tuple[Written, list[int]]:
        """A kernel of `count` words with its open numbers as words behind them, and these."""
        ways: list[Written] = []
        more: list[int] = []
        for number, way in enumerate((written, *written.others)):
            origin = f"{way.origin} {number}"
            source, values = self.source(way, origin, count + len(more))
            ways.append(replace(way, source=source, others=()))
            more += values
        return (ways[0].beside(ways[1:]), more) if more else (written, [])

    def source(self, way: Written, origin: str, count: int) -> tuple[str, list[int]]:
        """A text with its open numbers as words from `count` on, and these."""
        source = way.source
        if TABLE not in source:  # one of many that find their words by their number
            return source, []
        found = holes(source)
        with self.lock:
            known = self.known.setdefault(origin, KnownTexts())
            is_open = known.is_open(source, frozenset([hole.value for hole in found]))
            common = known.common or frozenset()
        found = [hole for hole in found if hole.value not in common]
        return opened(source, found, count, way.by_rows) if is_open else (source, [])

    def marked_kernel(
        self, written: Written, count: int, scope: SizeScope
    ) -> tuple[Written, list[Any]]:
        """The same of a kernel for many sizes; words that depend on them are marks."""
        ways: list[Written] = []
        more: list[Any] = []
        for way in (written, *written.others):
            source, values = marked_source(way, count + len(more), scope)
            ways.append(replace(way, source=source, others=()))
            more += values
        return ways[0].beside(ways[1:]), more


def marked_source(way: Written, count: int, scope: SizeScope) -> tuple[str, list[Any]]:
    """A text with marked numbers as words from `count` on, and these."""
    source, spans = plain_text(way.source, scope, int_or_float)
    found = marked_holes(holes(source), spans, source) if TABLE in source else {}
    for span in spans:
        if span.start not in found:
            pin(span.marked.number)
    return opened(source, [*found.values()], count, way.by_rows)


def marked_holes(found: list[Hole], spans: list[Span], source: str) -> dict[int, Hole]:
    """Those of the holes that are marks and nothing but them, by where the marks begin."""
    starts = {span.start: span for span in spans}
    marked: dict[int, Hole] = {}
    for hole in found:
        inside = [starts[at] for at in range(hole.start, hole.end) if at in starts]
        if len(inside) != 1 or inside[0].end > hole.end:
            continue
        (span,) = inside
        told = source[span.start : span.end]
        around = source[hole.start : span.start] + source[span.end : hole.end]
        if around and (around != f"tl.full((), , {hole.type})" or float(told) != hole.value):
            continue
        number = span.marked.number
        if isinstance(number, Extent) and not LEAST <= number < LIMIT:
            continue
        marked[span.start] = replace(hole, marked=span.marked)
    return marked


def int_or_float(x: Any) -> Any:
    """The plain number that one of sizes is now."""
    return int(x) if isinstance(x, int) else float(x)


def opened(
    source: str, found: list[Hole], count: int, by_rows: bool = False
) -> tuple[str, list[Any]]:
    """A text with numbers as words from `count` on, and these words.

    >>> kernel = f"def kernel(words):\\n{TABLE}    x2 = x // 29 % 64\\n"
    >>> text, words = opened(kernel, holes(kernel)[:1], 3)
    >>> print(text, words)
    def kernel(words):
        w = words.to(tl.pointer_type(tl.int64))
        v0 = tl.load(w + 3).to(tl.int32)
        x2 = x // v0 % 64
     [29]
    """
    names: dict[tuple[Any, str], tuple[str, Hole]] = {}
    rows = {identity(hole) for hole in found if hole.of_rows}
    parts: list[str] = []
    done = 0
    for hole in found:
        name, _ = names.setdefault((identity(hole), hole.type), (f"v{len(names)}", hole))
        parts += [source[done : hole.start], name]
        done = hole.end
    wide = elements(source)
    lines = []
    for k, ((which, kind), (name, hole)) in enumerate(names.items()):
        known = wide if which in rows or not by_rows else 1
        lines.append(f"    {name} = {loaded(hole, kind, count + k, known)}\n")
    text = "".join([*parts, source[done:]]).replace(TABLE, TABLE + "".join(lines))
    return text, [hole.marked or word(hole.value) for _, hole in names.values()]


def identity(hole: Hole) -> Any:
    """What is the same of numbers that are one word."""
    return hole.value if hole.marked is None else hole.marked.key()


def elements(source: str) -> int:
    """How many elements one instruction loads, of the smallest that a kernel has."""
    return max([WIDEST * 8 // int(bits) for bits in _LOADED.findall(source)], default=1)


def loaded(hole: Hole, kind: str, at: int, wide: int) -> str:
    """A word as a number of a type."""
    if isinstance(hole.value, float):
        return f"tl.load((w + {at}).to(tl.pointer_type(tl.float64))).to({kind})"
    number: Any = hole.value if hole.marked is None else hole.marked.number
    known = common_divisor(number, wide)
    text = f"tl.load(w + {at}).to({kind})"
    if isinstance(known, Extent):
        known = known.pin()
    return text if known == 1 else f"tl.multiple_of({text}, {known})"


def word(value: int | float) -> int:
    """A number as a word."""
    return double_bits(value) if isinstance(value, float) else value


OPEN_NUMBERS = OpenNumbers()
