"""Programs with what C keeps for the whole process or thread, and with C that calls Python."""

# Written as a user would, who annotates little.
# mypy: disable-error-code="attr-defined, type-abstract, no-untyped-def"

from __future__ import annotations

import abc
import decimal
import locale
import operator
import random
import struct
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from .playing import Wrap, changed, ones, program, times


@program
def precision_of_decimals(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        return x * float(decimal.Decimal(1) / decimal.Decimal(3))

    with decimal.localcontext() as context:
        return changed(
            wrap, f, lambda: setattr(context, "prec", 2), lambda: setattr(context, "prec", 28)
        )


@program
def rounding_of_decimals(wrap: Wrap) -> Any:
    price = decimal.Decimal("2.675")

    def f(x: Any) -> Any:
        return x * float(price.quantize(decimal.Decimal("0.01")))

    with decimal.localcontext() as context:
        return changed(wrap, f, lambda: setattr(context, "rounding", decimal.ROUND_DOWN))


@program
def flags_of_decimals(wrap: Wrap) -> Any:
    run = wrap(lambda x: x * float(decimal.Decimal(1) / decimal.Decimal(3)))
    out = []
    with decimal.localcontext() as context:
        for _ in range(3):
            context.clear_flags()
            out += [run(ones(2)), context.flags[decimal.Inexact], context.flags[decimal.Clamped]]
    return out


@program
def hook_for_subclasses(wrap: Wrap) -> Any:
    class Wide(metaclass=abc.ABCMeta):  # noqa: B024
        everything = False

        @classmethod
        def __subclasshook__(cls, other: type) -> Any:
            return cls.everything or NotImplemented

    def widen() -> None:
        Wide.everything = True
        Wide._abc_caches_clear()

    value = SimpleNamespace()
    return changed(wrap, lambda x: x * (3.0 if isinstance(value, Wide) else 1.0), widen)


@program
def called_by_operator(wrap: Wrap) -> Any:
    count = [0]

    def scaled(x: Any) -> Any:
        count[0] += 1
        return x * count[0]

    return times(wrap(lambda x: operator.call(scaled, x)), n=3), count


@program
def packed_into_bytes(wrap: Wrap) -> Any:
    data = bytearray(4)

    def f(x: Any) -> Any:
        struct.pack_into("<i", data, 0, struct.unpack_from("<i", data)[0] + 1)
        return x * data[0]

    return changed(wrap, f, lambda: data.__setitem__(0, 50)), bytes(data)


@program
def number_in_a_new_key(wrap: Wrap) -> Any:
    @dataclass(frozen=True)
    class Key:
        number: int

    table, at = {Key(1): 2.0, Key(2): 9.0}, SimpleNamespace(number=1)

    def f(x: Any) -> Any:
        return x * table.get(Key(at.number), 0.5)

    changes = [lambda n=n: setattr(at, "number", n) for n in (2, 3, 1)]
    return changed(wrap, f, *changes)


@program
def number_in_a_slot_of_a_key(wrap: Wrap) -> Any:
    class Key:
        __slots__ = ("number",)

        def __init__(self, number: int) -> None:
            self.number = number

        def __hash__(self) -> int:
            return hash(self.number)

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Key) and self.number == other.number

    seen, at = {Key(1)}, SimpleNamespace(number=1)

    def f(x: Any) -> Any:
        return x * (2.0 if Key(at.number) in seen else 3.0)

    changes = [lambda n=n: setattr(at, "number", n) for n in (2, 3, 1)]
    return changed(wrap, f, *changes)


@program
def locale_asked(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        return x * len(locale.setlocale(locale.LC_NUMERIC)) + len(locale.localeconv())

    return times(wrap(f), n=2)


@program
def state_of_random_put_back(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        state = random.getstate()
        first = random.random()
        random.setstate(state)
        return x * (first + random.random())

    random.seed(3)
    return times(wrap(f), n=3), random.random()


@program
def state_of_random_kept(wrap: Wrap) -> Any:
    states: list[Any] = []

    def f(x: Any) -> Any:
        states.append(random.getstate())
        return x * random.random()

    run = wrap(f)
    random.seed(3)
    out = times(run, n=3)
    random.setstate(states[1])
    return out, random.random(), [len(state[1]) for state in states]


@program
def state_of_random_looked_into(wrap: Wrap) -> Any:
    random.seed(3)
    return times(wrap(lambda x: x * (random.getstate()[1][0] % 7)), n=2)


@program
def letters_translated(wrap: Wrap) -> Any:
    words = SimpleNamespace(text="abc")

    def f(x: Any) -> Any:
        return x * words.text.translate(str.maketrans("a", "z")).index("z")

    return changed(wrap, f, lambda: setattr(words, "text", "cba"))
