"""Categories chosen by weights, again and again (`multinomial` with replacement).

What `graph.forms.searching.multinomial` says in operations, to the same bits: weights become whole
numbers, their sums edges, and a word becomes a place among these. The first launch looks at the
weights and finds the largest of each row; the second chooses. Where few are chosen of many, only
every so-manieth edge is kept, and those between are added up again where one is looked for.

Note [quotients by one divisor]
    A weight is divided by the largest of its row. With y, the nearest number to 1 / d, the quotient
    q = a * y is two units in its last place from a / d at most, and what is left of a, a - q * d,
    is a number that one fused multiply-add gives. So q + (a - q * d) * y is within one unit, and
    the same once more gives the nearest number to a / d (Markstein 1990): five operations of which
    a processor does many at a time, which it does not divide. Nothing may be too small or too
    large for that: divisors of doubles are looked at. Of single precision one step is enough: no
    quotient of two numbers of 24 bits is nearer to the middle between two doubles than 2**-78 of
    itself, which is far more than what is left of the error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.faults import store_fault
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.registers.distributions import below_any
from adjoint.engine.backends.registers.vector import V, fma, select
from adjoint.engine.compiler.lower.indexed import Fault
from adjoint.engine.compiler.memory.places import ARENA, Place, PlannedBuffer
from adjoint.engine.compiler.schedule.steps import (
    Address,
    Launch,
    Status,
    double_bits,
    sized,
    whole,
)
from adjoint.engine.compiler.target import LayoutOf, Setting, Template
from adjoint.engine.core.dtype import float64, int64
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.graph.sizes.extents import is_extent
from adjoint.engine.ops.random.tensor_parameters import NO_DISTRIBUTION, NO_WEIGHTS, room_of

KINDS = {"float32": "f32", "float64": "f64"}
LARGEST = {"f32": 3.4028234663852886e38, "f64": 1.7976931348623157e308}
LANES = 8
BLOCK = 128  # weights between edges that are kept, where not all are
TOGETHER = 8  # searches, of which each waits for memory
PIECES = 32  # in which rows are dealt out, each with edges of its own
STEPS = {"f32": 1, "f64": 2}  # towards the nearest quotient
ORDINARY = 2.0**800  # divisors of doubles up to this, and from one by this on


def quotient(x: V, divisor: V, inverse: V, steps: int) -> V:
    """x / divisor, rounded to nearest (Note [quotients by one divisor])."""
    out = x * inverse
    for _ in range(steps):
        out = fma(fma(out, -divisor, x), inverse, out)
    return out


@dataclass(slots=True)
class WeighedWords(LaunchWords):
    """Rows of `length` weights, of each of which `count` are chosen."""

    out: Any
    weights: Any
    noise: Any
    largest: Any
    edges: Any
    length: Any
    kept: Any  # edges of a row
    count: Any
    rows: Any
    pieces: Any
    scale: Any  # the bits of what weights, 1 at most, become whole numbers by
    status: Any
    fault: Any


@dataclass(frozen=True, slots=True)
class Weighed:
    """What decides the texts."""

    kind: str
    few: bool  # whether edges between blocks alone are kept

    @property
    def functions(self) -> tuple[str, str]:
        """The names of the kernels."""
        return f"heaviest_{self.kind}", f"weighed_{self.kind}{'_few' if self.few else ''}"

    def looking(self, name: str) -> Text:
        """The kernel that finds the largest."""
        return WeighedKernel(self).looking(name)

    def choosing(self, name: str) -> Text:
        """The kernel that chooses."""
        return WeighedKernel(self).choosing(name)


class WeighedKernel:
    """Writes the kernels."""

    def __init__(self, what: Weighed) -> None:
        self.what, self.w = what, CodeWriter()
        w, self.word = self.w, WeighedWords.read_by(self.w)
        self.largest = w.pointer(self.word.largest)
        self.nbytes = 4 if what.kind == "f32" else 8

    def row(self, number: V) -> str:
        """Where the weights of a row begin."""
        return self.w.pointer(self.word.weights + number * self.word.length * self.nbytes)

    def refuse_unless(self, fit: V) -> None:
        """Tell of the fault unless a condition holds."""
        status = self.w.pointer(self.word.status)
        self.w.when(~fit, lambda: store_fault(self.w.code, status, self.word.fault.ref))

    # -- the largest ----------------------------------------------------------------------------

    def looking(self, name: str) -> Text:
        w, word = self.w, self.word

        def one(number: V) -> None:
            weights = self.row(number)
            middle = word.length & -LANES
            vector = [w.code.const(0.0, self.what.kind, LANES) for _ in range(2)]
            look = partial(self.look, weights)
            most, wrong = w.loop(0, middle, look, vector, step=LANES)
            seen = [self.greatest(most), self.greatest(wrong)]
            most, wrong = w.loop(middle, word.length, look, seen)
            self.refuse_unless(wrong.eq(0.0))
            w.store(most.convert("f64"), self.largest, number)

        low, high = w.share(word.rows)
        w.loop(low, high, one)
        return w.finish(name)

    def look(self, weights: str, i: V, most: V, wrong: V) -> list[V]:
        """The largest up to here, and 1 where a weight is none."""
        x = self.w.load(weights, self.what.kind, i, most.lanes)
        fit = (x >= 0.0) & (x <= LARGEST[self.what.kind])
        return [select(x > most, x, most), select(fit, wrong, wrong.like(1.0))]

    def greatest(self, x: V) -> V:
        """Of all lanes."""
        best = self.w.lane(x, 0)
        for k in range(1, x.lanes):
            other = self.w.lane(x, k)
            best = select(other > best, other, best)
        return best

    # -- choosing -------------------------------------------------------------------------------

    def choosing(self, name: str) -> Text:
        w, word = self.w, self.word

        def piece(p: V) -> None:
            edges = w.pointer(word.edges + p * word.kept * 8)
            low = (word.rows * p).quotient(word.pieces)
            high = (word.rows * (p + 1)).quotient(word.pieces)
            w.loop(low, high, lambda number: self.choose(number, edges))

        w.pieces(word.pieces, piece)
        return w.finish(name)

    def choose(self, number: V, edges: str) -> None:
        """All that is chosen of one row."""
        w = self.w
        divisor = w.load(self.largest, "f64", number)
        self.refuse_unless(divisor > 0.0)
        weights = self.row(number)
        if self.what.kind == "f32" and w.code.features.fused:
            self.draw(number, edges, lambda i, lanes: self.quick(weights, i, lanes, divisor))
            return

        def slow() -> None:
            self.draw(number, edges, lambda i, lanes: self.exact(weights, i, lanes, divisor))

        if not w.code.features.fused:
            slow()
            return
        ordinary = (divisor <= ORDINARY) & (divisor >= 1.0 / ORDINARY)
        w.either(
            ordinary,
            lambda: self.draw(
                number, edges, lambda i, lanes: self.quick(weights, i, lanes, divisor)
            ),
            slow,
        )

    def exact(self, weights: str, i: V, lanes: int, divisor: V) -> V:
        """Weights as whole numbers."""
        x = self.w.load(weights, self.what.kind, i, lanes).convert("f64")
        scale = self.w.code.splat(self.word.scale.bitcast("f64"), lanes)
        return (x / self.w.code.splat(divisor, lanes) * scale).convert(
            "i64"
        )  # no sign: what is cut is rounded down

    def quick(self, weights: str, i: V, lanes: int, divisor: V) -> V:
        """The same (Note [quotients by one divisor])."""
        x = self.w.load(weights, self.what.kind, i, lanes).convert("f64")
        # Quotients by so much less are the whole numbers at once: a power of two rounds nothing.
        divisor = divisor / self.word.scale.bitcast("f64")
        inverse, divisor = (self.w.code.splat(y, lanes) for y in (1.0 / divisor, divisor))
        return quotient(x, divisor, inverse, STEPS[self.what.kind]).convert("i64")

    def draw(self, number: V, edges: str, whole: Callable[[V, int], V]) -> None:
        """Make edges and look for where words fall among them."""
        w, word = self.w, self.word
        total = self.every(edges, whole) if self.what.few else self.each(edges, whole)
        noise = w.pointer(word.noise + number * word.count * 8)
        out = w.pointer(word.out + number * word.count * 8)

        def some(k: V, searches: int) -> None:
            words = [w.load(noise, "u64", k + j) for j in range(searches)]
            chosen = [below_any(x, total.bitcast("u64")).bitcast("i64") for x in words]
            for j, found in enumerate(self.search(edges, chosen)):
                w.store(self.within(found, chosen[j], edges, whole), out, k + j)

        middle = word.count - word.count.modulo(TOGETHER)
        w.loop(0, middle, lambda k: some(k, TOGETHER), step=TOGETHER)
        w.loop(middle, word.count, lambda k: some(k, 1))

    def search(self, edges: str, chosen: list[V]) -> list[V]:
        """How many edges are not above each: by halves of one length, so that none waits."""
        w = self.w

        def beyond(place: V, x: V) -> V:
            return w.load(edges, "i64", place) <= x

        def halve(left: V, *places: V) -> list[V]:
            half = left >> 1
            steps = [
                select(beyond(p + half - 1, x), p + half, p)
                for p, x in zip(places, chosen, strict=True)
            ]
            return [left - half, *steps]

        start = [self.word.kept, *[w.whole(0) for _ in chosen]]
        _, *places = w.repeat(start, lambda left, *_: left > 1, halve)
        return [select(beyond(p, x), p + 1, p) for p, x in zip(places, chosen, strict=True)]

    def each(self, edges: str, whole: Callable[[V, int], V]) -> V:
        """Every edge of a row; the last of them."""
        w, length = self.w, self.word.length
        middle = length & -LANES
        w.loop(0, middle, lambda i: w.store(whole(i, LANES), edges, i), step=LANES)
        w.loop(middle, length, lambda i: w.store(whole(i, 1), edges, i))

        def add(i: V, before: V) -> list[V]:
            here = before + w.load(edges, "i64", i)
            w.store(here, edges, i)
            return [here]

        return w.loop(0, length, add, [w.whole(0)])[0]

    def every(self, edges: str, whole: Callable[[V, int], V]) -> V:
        """The edges after each block of a row; the last of them."""
        w, length = self.w, self.word.length
        blocks = length >> (BLOCK.bit_length() - 1)

        def block(k: V, before: V) -> list[V]:
            start = k * BLOCK
            none = w.code.const(0, "i64", LANES)
            (sums,) = w.loop(
                start, start + BLOCK, lambda i, sums: [sums + whole(i, LANES)], [none], step=LANES
            )
            here = before
            for lane in range(LANES):
                here = here + w.lane(sums, lane)
            w.store(here, edges, k)
            return [here]

        (before,) = w.loop(0, blocks, block, [w.whole(0)])
        (total,) = w.loop(blocks * BLOCK, length, lambda i, s: [s + whole(i, 1)], [before])
        w.when(blocks < self.word.kept, lambda: w.store(total, edges, blocks))
        return total

    def within(self, found: V, chosen: V, edges: str, whole: Callable[[V, int], V]) -> V:
        """The category in the block that was found, or the one found."""
        if not self.what.few:
            return found
        w, last = self.w, self.word.length - 1
        found = w.least(found, self.word.kept - 1)  # weights that are none have edges anywhere
        first = found * BLOCK
        before = select(found > 0, w.load(edges, "i64", w.most(found - 1, 0)), w.whole(0))
        at, _ = w.repeat(
            [first, before + whole(first, 1)],
            lambda at, edge: (edge <= chosen) & (at < last),
            lambda at, edge: [at + 1, edge + whole(at + 1, 1)],
        )
        return at


# -- the template ---------------------------------------------------------------------------------


def takes(node: Node) -> bool:
    """Whether a node is chosen by these kernels, and needs no form."""
    return node.record.name == "multinomial" and is_known(node, tuple(node.inputs))


def is_known(node: Node, inputs: tuple[Any, ...]) -> bool:
    """Weights in single or double precision on the CPU, of known sizes, and words."""
    return bool(node.params["replacement"]) and all(
        isinstance(x, Value)
        and not x.host
        and x.spec.device.type == "cpu"
        and not any(is_extent(n) or n == 0 for n in x.spec.shape)
        and x.spec.dtype.name in kinds
        for x, kinds in zip(inputs, (KINDS, ("int64",)), strict=True)
    )


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """What `takes` says."""
    return is_known(node, inputs)


def packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Operands are read in row-major order."""
    return {i for i, x in enumerate(inputs) if not layout(x).contiguous}


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """Two launches; rows are dealt out among the workers."""
    spec, count = node.inputs[0].spec, node.params["count"]
    length, rows = spec.shape[-1], prod(spec.shape[:-1])
    what = Weighed(KINDS[spec.dtype.name], few=count * BLOCK * 2 <= length)
    kept = -(-length // BLOCK) if what.few else length
    pieces = min(rows, PIECES)
    largest = PlannedBuffer(ARENA, float64, rows, name="largest")
    edges = PlannedBuffer(ARENA, int64, pieces * kept, name="edges")
    weights, noise, out = (
        Address(place.buffer, place.offset * place.buffer.dtype.itemsize)
        for place in (*operands, *results)
    )

    def words(message: str) -> list[Any]:
        return WeighedWords(
            out, weights, noise, Address(largest), Address(edges), length=length, kept=kept,
            count=count, rows=rows, pieces=pieces, scale=double_bits(2.0 ** room_of(length)),
            status=Status(), fault=Fault(RuntimeError, message),
        ).listed()  # fmt: skip

    given = tuple(whole(place.buffer) for place in operands)
    label = sized(node.record.name, rows, length, count)
    looking, choosing = what.functions
    return [
        Launch(
            function=looking, text=what.looking, words=words(NO_WEIGHTS), reads=given[:1],
            writes=(whole(largest),), pieces=rows, cost=rows * length, label=label,
        ),
        Launch(
            function=choosing, text=what.choosing, words=words(NO_DISTRIBUTION),
            reads=(*given, whole(largest)), writes=(whole(results[0].buffer), whole(edges)),
            pieces=pieces, cost=rows * (4 * length + 60 * count), label=label,
        ),
    ]  # fmt: skip


TEMPLATES = {"multinomial": Template(accepts, packed, steps)}
