"""The stages of a Fourier transform: lines side by side, of each element both parts as vectors.

Stockham's way needs no reordering: a stage of radix r takes the r elements that are n / r apart,
transforms them and puts the results next to each other, between two places in turns. As many
lines as a vector has lanes are transformed at once, so that every step is the same for all lanes.
A stage's first group is multiplied by no roots; where no elements are neighbours, as in the first
stage, groups are one loop.

Roots of unity are products of two from tables of doubles among the words, each of the order of the
square root of their number, rounded once; each worker writes down all of them before it begins.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import cos, pi, sin, sqrt

from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.registers.vector import V, mad, select
from adjoint.engine.compiler.schedule.steps import double_bits

# Words of a table of roots, and of a stage: its radix, how many groups there are, how many
# elements are neighbours, and how far apart roots of its order are.
LOW_BITS, LOW, HIGH, TABLE = range(4)
RADIX, GROUPS, NEIGHBOURS, APART, STAGE = range(5)
FIRST = (8, 4)  # the radices that most lengths begin with
Pair = tuple[V, V]


def root(k: int, order: int) -> complex:
    """exp(-2 pi i k / order), exact in the quarters of the circle."""
    quarter, rest = divmod(4 * (k % order), order)
    angle = 2 * pi * (rest / 4) / order
    x, y = cos(angle), -sin(angle)
    for _ in range(quarter):
        x, y = y, -x
    return complex(x, y)


def table_of(order: int) -> tuple[int, list[complex], list[complex]]:
    """Roots of an order as products: bits of the lower part of a number, then both tables."""
    bits = max((order - 1).bit_length(), 1)
    bits = bits if bits <= 7 else -(-bits // 2)
    low = [root(k, order) for k in range(min(1 << bits, order))]
    return bits, low, [root(k << bits, order) for k in range(-(-order >> bits) + 1)]


def words_of(numbers: list[complex]) -> list[int]:
    """Pairs of doubles."""
    return [double_bits(x) for z in numbers for x in (z.real, z.imag)]


def radices_of(n: int) -> list[int]:
    """The radices of a length's stages."""
    radices: list[int] = []
    twos = (n & -n).bit_length() - 1
    eights = twos // 3 - (twos % 3 == 1 and twos > 1)  # two fours are less work than 8 and 2
    for radix in (8, 4, 2, 3, 5):
        while n % radix == 0 and (radix != 8 or len(radices) < eights):
            radices.append(radix)
            n //= radix
    radix = 7
    while n > 1:
        while n % radix == 0:
            radices.append(radix)
            n //= radix
        radix += 2
    return radices


def times(a: Pair, b: Pair) -> Pair:
    """The product of two complex numbers."""
    return mad(-a[1], b[1], a[0] * b[0]), mad(a[0], b[1], a[1] * b[0])


def add(a: Pair, b: Pair) -> Pair:
    """The sum."""
    return a[0] + b[0], a[1] + b[1]


def sub(a: Pair, b: Pair) -> Pair:
    """The difference."""
    return a[0] - b[0], a[1] - b[1]


def scaled(a: Pair, by: float) -> Pair:
    """A multiple."""
    return a[0] * by, a[1] * by


def turned(a: Pair) -> Pair:
    """The product with -i."""
    return a[1], -a[0]


def of_two(x: list[Pair]) -> list[Pair]:
    """A transform of two elements."""
    return [add(x[0], x[1]), sub(x[0], x[1])]


def of_three(x: list[Pair]) -> list[Pair]:
    """A transform of three elements."""
    both, apart = add(x[1], x[2]), turned(scaled(sub(x[1], x[2]), sqrt(3) / 2))
    middle = add(x[0], scaled(both, -0.5))
    return [add(x[0], both), add(middle, apart), sub(middle, apart)]


def of_four(x: list[Pair]) -> list[Pair]:
    """A transform of four elements."""
    even, odd = add(x[0], x[2]), add(x[1], x[3])
    middle, apart = sub(x[0], x[2]), turned(sub(x[1], x[3]))
    return [add(even, odd), add(middle, apart), sub(even, odd), sub(middle, apart)]


def of_eight(x: list[Pair]) -> list[Pair]:
    """A transform of eight elements, of those of four even and four odd ones."""
    even, odd = of_four(x[::2]), of_four(x[1::2])
    (a, b), (c, d) = odd[1], odd[3]
    odd[1] = scaled((a + b, b - a), sqrt(0.5))
    odd[2] = turned(odd[2])
    odd[3] = scaled((d - c, -c - d), sqrt(0.5))
    sums = [add(p, q) for p, q in zip(even, odd, strict=True)]
    return [*sums, *[sub(p, q) for p, q in zip(even, odd, strict=True)]]


def of_five(x: list[Pair]) -> list[Pair]:
    """A transform of five elements."""
    c, d = cos(0.4 * pi), cos(0.8 * pi)
    s, t = sin(0.4 * pi), sin(0.8 * pi)
    one, two = add(x[1], x[4]), add(x[2], x[3])
    three, four = sub(x[1], x[4]), sub(x[2], x[3])
    first = add(x[0], add(scaled(one, c), scaled(two, d)))
    second = add(x[0], add(scaled(one, d), scaled(two, c)))
    near = turned(add(scaled(three, s), scaled(four, t)))
    far = turned(sub(scaled(three, t), scaled(four, s)))
    return [
        add(x[0], add(one, two)),
        add(first, near),
        add(second, far),
        sub(second, far),
        sub(first, near),
    ]


OF_FEW: dict[int, Callable[[list[Pair]], list[Pair]]] = {
    2: of_two,
    3: of_three,
    4: of_four,
    5: of_five,
    8: of_eight,
}


class Roots:
    """Reads roots of unity of one order from its two tables among the words."""

    def __init__(self, w: CodeWriter, words: str, at: V) -> None:
        self.w, self.words = w, words
        self.bits, self.low, self.high = (
            w.load(words, "i64", at + k) for k in (LOW_BITS, LOW, HIGH)
        )

    def __call__(self, k: V, kind: str) -> Pair:
        """The k-th."""
        upper = k >> self.bits
        low = loaded_pair(self.w, self.words, "f64", self.low + (k - (upper << self.bits)) * 2)
        high = loaded_pair(self.w, self.words, "f64", self.high + upper * 2)
        x, y = (part.convert(kind) for part in times(low, high))
        return x, y


def loaded_pair(w: CodeWriter, place: str, kind: str, at: V, lanes: int = 1) -> Pair:
    """Two neighbours, each in every lane."""
    pair = w.load(place, kind, at), w.load(place, kind, at + 1)
    return pair if lanes == 1 else (w.code.splat(pair[0], lanes), w.code.splat(pair[1], lanes))


def both_parts(w: CodeWriter, place: str, kind: str, index: V, lanes: int) -> Pair:
    """An element of the lines that lie side by side."""
    at = index * (2 * lanes)
    return w.load(place, kind, at, lanes), w.load(place, kind, at + lanes, lanes)


def put_parts(w: CodeWriter, place: str, value: Pair, index: V, lanes: int) -> None:
    """Write one."""
    at = index * (2 * lanes)
    w.store(value[0], place, at)
    w.store(value[1], place, at + lanes)


def stages_name(kind: str, lanes: int) -> str:
    """The name of the routine."""
    return f"spectrum_stages_{kind}_{lanes}"


def write_stages(outer: CodeWriter, kind: str, lanes: int) -> None:
    """The routine of words, where stages begin, how many, all roots, and the two places."""

    def body(w: CodeWriter, numbers: list[V]) -> None:
        TransformStages(w, kind, lanes, numbers).all()

    outer.routine(stages_name(kind, lanes), 6, body)


class TransformStages:
    """Writes the stages of one transform."""

    def __init__(self, w: CodeWriter, kind: str, lanes: int, numbers: list[V]) -> None:
        self.w, self.kind, self.lanes = w, kind, lanes
        words, self.first, self.count, roots, *self.places = numbers
        self.words, self.roots = w.pointer(words), w.pointer(roots)

    def all(self) -> None:
        """Every stage, from one place to the other and back."""

        def stage(t: V, source: V, target: V) -> list[V]:
            self.stage(t, source, target)
            return [target, source]

        self.w.loop(0, self.count, stage, self.places)

    def stage(self, t: V, source: V, target: V) -> None:
        """One stage."""
        w = self.w
        at = self.first + t * STAGE
        self.radix, self.groups, self.near, self.apart = (
            w.load(self.words, "i64", at + k) for k in (RADIX, GROUPS, NEIGHBOURS, APART)
        )
        self.source, self.target = w.pointer(source), w.pointer(target)
        known = self.radix.eq(-1)
        for radix in OF_FEW:
            is_this = self.radix.eq(radix)
            known = known | is_this
            w.when(is_this, partial(self.groups_of_few, radix))
        w.when(~known, lambda: w.loop(0, self.groups, self.many))

    def turn(self, k: V) -> Pair:
        """A root of unity of the order of this stage."""
        at = k * self.apart * 2
        return loaded_pair(self.w, self.roots, self.kind, at, self.lanes)

    def element(self, index: V) -> Pair:
        return both_parts(self.w, self.source, self.kind, index, self.lanes)

    def put(self, value: Pair, index: V) -> None:
        put_parts(self.w, self.target, value, index, self.lanes)

    def groups_of_few(self, radix: int) -> None:
        """All groups of a radix whose transform is written out."""
        w = self.w
        w.loop(0, self.near, lambda q: self.few(radix, w.whole(0), q, None))
        if radix in FIRST:
            alone = partial(self.without_neighbours, radix)
            w.either(self.near.eq(1), alone, partial(self.with_neighbours, radix))
        else:
            self.with_neighbours(radix)

    def with_neighbours(self, radix: int) -> None:
        """All groups but the first, of many elements each."""
        self.w.loop(1, self.groups, partial(self.neighbours, radix))

    def without_neighbours(self, radix: int) -> None:
        """All groups but the first, where each has as many elements as it transforms."""
        one = lambda p: self.few(radix, p, None, self.turns(radix, p))
        self.w.loop(1, self.groups, one)

    def turns(self, radix: int, p: V) -> list[Pair]:
        """What results of a group are multiplied with."""
        return [self.turn(p * j) for j in range(1, radix)]

    def neighbours(self, radix: int, p: V) -> None:
        """A group's elements, all of which have the same roots."""
        turns = self.turns(radix, p)
        self.w.loop(0, self.near, lambda q: self.few(radix, p, q, turns))

    def few(self, radix: int, p: V, q: V | None, turns: list[Pair] | None) -> None:
        """A transform of few elements; q: the neighbour, if there are several."""

        def at(which: V) -> V:
            return which if q is None else q + self.near * which

        given = [self.element(at(p + self.groups * k)) for k in range(radix)]
        for j, value in enumerate(OF_FEW[radix](given)):
            turned = times(value, turns[j - 1]) if turns is not None and j else value
            self.put(turned, at(p * radix + j))

    def many(self, p: V) -> None:
        """Groups of any other radix, which is odd: two results at a time, of pairs of elements.

        With f = exp(-it), f x + conj(f) y is Re(f) (x + y) + i Im(f) (x - y), and the result as far
        from the end has conj(f) in the place of f: of four products two results have their share.
        """
        w, code = self.w, self.w.code
        zero = code.const(0, self.kind, self.lanes)
        half = (self.radix + 1).quotient(w.whole(2))

        def given(q: V, k: V) -> Pair:
            return self.element(q + self.near * (p + self.groups * k))

        def first(q: V) -> None:
            more = lambda k, x, y: add((x, y), given(q, k))
            x, y = w.loop(0, self.radix, more, [zero, zero])
            self.put((x, y), q + self.near * p * self.radix)

        def two(j: V) -> None:
            other = self.radix - j
            turns = self.turn(p * j), self.turn(p * other)

            def one(q: V) -> None:
                def term(k: V, a: V, b: V, c: V, d: V, which: V) -> list[V]:
                    real, imaginary = self.turn(which * self.groups)
                    x, y = given(q, k), given(q, self.radix - k)
                    plus, minus = add(x, y), sub(x, y)
                    later = which + j
                    return [
                        mad(real, plus[0], a), mad(real, plus[1], b),
                        mad(imaginary, minus[0], c), mad(imaginary, minus[1], d),
                        select(later >= self.radix, later - self.radix, later),
                    ]  # fmt: skip

                a, b, c, d, _ = w.loop(1, half, term, [zero, zero, zero, zero, j])
                x, y = given(q, w.whole(0))
                a, b = a + x, b + y
                for place, turn, value in (
                    (j, turns[0], (a - d, b + c)),
                    (other, turns[1], (a + d, b - c)),
                ):
                    self.put(times(value, turn), q + self.near * (p * self.radix + place))

            w.loop(0, self.near, one)

        w.loop(0, self.near, first)
        w.loop(1, half, two)
