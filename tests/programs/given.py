"""Containers of users' own classes among the arguments and results of compiled functions."""

# Written as a user would, who annotates little.
# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc, type-arg, var-annotated"

from __future__ import annotations

import dataclasses
import enum
import functools
from collections import OrderedDict, namedtuple
from typing import Any

import adjoint as ad

from .playing import Wrap, ones, program, ramp, tried

Pair = namedtuple("Pair", "a b")


class Tagged(Pair):
    pass


class Doubling(Pair):
    __slots__ = ()

    def __new__(cls, a, b):
        return super().__new__(cls, a * 2, b)


class Turned(Pair):
    __slots__ = ()

    def __iter__(self):
        return iter((self[1], self[0]))


class Row(tuple):
    pass


def tagged(k, **attributes):
    made = Tagged(ramp(2) + k, ones(2))
    made.__dict__.update(attributes)
    return made


@program
def named_tuple_with_attributes(wrap: Wrap) -> Any:
    r = wrap(lambda p: p.a * getattr(p, "k", 5.0))
    given = [tagged(1, k=2.0), tagged(1), tagged(1, k=3.0), tagged(1, k=ones(2) * 7), tagged(2)]
    return [tried(r, p) for p in given]


@program
def named_tuple_given_attributes(wrap: Wrap) -> Any:
    def f(p):
        p.k = p.a + 1
        p.seen.append(p.b * 2)
        return p.b

    r, out = wrap(f), []
    for k in range(4):
        p = tagged(k, seen=[])
        out += [tried(r, p), p.__dict__]
    return out


@program
def tuples_with_attributes_returned(wrap: Wrap) -> Any:
    def f(x):
        p, q = Tagged(x + 1, x), Row((x, x * 3))
        p.k, q.k = x * 2, "row"
        return p, q

    r, out = wrap(f), []
    for k in range(4):
        p, q = r(ones(2) * k)
        out += [tuple(p), p.k, tuple(q), q.k]
    return out


@program
def named_tuples_made_in_their_own_way(wrap: Wrap) -> Any:
    r = wrap(lambda p, x: (p.a + x, p.b, type(p)(x, x * 3)))
    out = []
    for k in range(4):
        for kind in (Doubling, Turned):
            a, b, made = r(kind(ramp(2) + k, ones(2)), ones(2) * k)
            out += [a, b, made.a, made.b]
    return out


# -- dataclasses ----------------------------------------------------------------------------------


@dataclasses.dataclass
class Output(OrderedDict):
    loss: Any = None
    logits: Any = None

    def __post_init__(self):
        for name, value in list(vars(self).items()):
            OrderedDict.__setitem__(self, name, value)


@program
def output_that_is_a_dict_as_well(wrap: Wrap) -> Any:
    r = wrap(lambda x: Output(x.sum(), x * 2))
    made = [r(ones(2) * k) for k in range(4)]
    return [(list(o), o["loss"], o["logits"], o.logits) for o in made]


class Noted:
    __slots__ = ("note",)


@dataclasses.dataclass(slots=True)
class Slotted(Noted):
    a: Any
    held: Any


@program
def slots_that_are_no_fields(wrap: Wrap) -> Any:
    def f(v):
        v.held["made"] = v.a * v.note
        return Slotted(v.a + 1, v.note)

    r, out = wrap(f), []
    for k in range(4):
        v = Slotted(ramp(2) + k, {})
        v.note = k % 2 + 1
        made = r(v)
        out += [v.held, made.a, made.held]
    return out


@dataclasses.dataclass
class Doubled:
    a: Any

    def __getattribute__(self, name):
        found = object.__getattribute__(self, name)
        return found * 2 if name == "a" else found


@dataclasses.dataclass(frozen=True)
class Setting:
    k: int


class Mode(Setting, enum.Enum):
    LOW = 2
    HIGH = 3


@program
def dataclasses_that_answer_otherwise(wrap: Wrap) -> Any:
    r = wrap(lambda v: v.a)
    s = wrap(lambda x, mode: x * mode.k if mode is not Mode.LOW else x)
    modes = (Mode.LOW, Mode.HIGH, Mode.LOW, Mode.HIGH)
    return [tried(r, Doubled(ones(2) * k)) for k in range(4)], [tried(s, ones(2), m) for m in modes]


# -- registered containers ------------------------------------------------------------------------


class Box:
    def __init__(self, a, k):
        self.a, self.k = a, k


ad.utils._pytree.register_pytree_node(
    Box, lambda box: ([box.a], box.k), lambda parts, k: Box(parts[0], k)
)


@program
def registered_container_written_to(wrap: Wrap) -> Any:
    def f(box):
        box.a = box.a + 1
        box.k += 1
        return box.a * box.k

    r, out = wrap(f), []
    for k in range(4):
        box = Box(ramp(2) + k, k)
        out += [r(box), box.a, box.k]
    return out


@program
def cached_tensor(wrap: Wrap) -> Any:
    made = functools.lru_cache(lambda n: ones(2) * n)
    r = wrap(lambda x: made(3).add_(1) * x)
    out = [r(ones(2)), r(ones(2) * 2)]
    made(3).zero_()
    out += [r(ones(2)), made(3).clone(), r(ones(2))]
    made.cache_clear()
    return [*out, r(ones(2)), r(ones(2)), made(3)]


@program
def cached_after_writes(wrap: Wrap) -> Any:
    held, count = ones(2), [1.0]
    of_tensor = functools.lru_cache(lambda n: held * n)
    of_list = functools.lru_cache(lambda n: count[0] * n)

    def f(x):
        held.add_(1)
        return of_tensor(3) * x

    def g(x):
        count[0] += 1
        return of_list(3) * x

    r, s, out = wrap(f), wrap(g), []
    for _ in range(4):
        out += [tried(r, ones(2)), tried(s, ones(2))]
        of_tensor.cache_clear()
        of_list.cache_clear()
    return out
