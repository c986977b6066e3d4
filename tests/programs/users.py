"""Arguments that are objects of users' classes: known by what they hold, written to by calls."""

# Written as a user would, who annotates little.
# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc, type-arg, var-annotated"

from __future__ import annotations

import argparse
import collections
import dataclasses
import operator
import types
from collections import OrderedDict, UserDict
from typing import Any

import numpy as np

import adjoint as ad

from .playing import Wrap, ones, program, tried


@program
def namespace_given(wrap: Wrap) -> Any:
    r = wrap(lambda n: n.x * n.k)
    s = wrap(lambda x, a: x * a.rate if a.flag else x)
    out = [tried(r, types.SimpleNamespace(x=ones(2) * i, k=i % 2)) for i in range(4)]
    options = [argparse.Namespace(rate=0.1 * i, flag=i % 2) for i in range(4)]
    return out, [tried(s, ones(2), a) for a in options]


@program
def namespace_written_to(wrap: Wrap) -> Any:
    def f(b):
        b.meta.seen.append(b.x.shape[0])
        b.meta.k += 1
        b.y = b.x + 1
        return b.x * b.meta.k

    r, out = wrap(f), []
    for i in range(4):
        b = types.SimpleNamespace(x=ones(2) * i, meta=types.SimpleNamespace(seen=[], k=i % 2))
        out += [tried(r, b), b.meta.seen, b.meta.k, b.y]
    return out


class Grown(list):
    pass


class Reached(dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Turning(OrderedDict):
    pass


@program
def heirs_of_containers(wrap: Wrap) -> Any:
    def f(grown, reached, turning):
        grown.append(grown[0] + 1)
        reached["n"] = reached.x * 2
        turning.move_to_end("x")
        return (
            sum(grown[1:], grown[0]) * getattr(grown, "k", 1),
            reached["x"] + reached.k,
            [*turning],
        )

    r, out = wrap(f), []
    for i in range(4):
        grown, reached = Grown([ones(2) * i, ones(2)]), Reached(x=ones(2) * i, k=i % 2)
        turning = Turning(x=1, k=2)
        if i % 2:
            grown.k = i
        out += [tried(r, grown, reached, turning), list(grown), dict(reached), list(turning)]
    return out


class Defaults(collections.defaultdict):
    def __missing__(self, key):
        self[key] = value = [key]
        return value


class Window(collections.deque):
    pass


@program
def heirs_of_collections(wrap: Wrap) -> Any:
    def f(d, q, c, u):
        d["z"].append(1)
        q.append(q[0] + 1)
        c["n"] += 1
        u["n"] = u["x"] * 2
        return q[0] * len(d) * getattr(q, "k", 1) * c["n"] + len(u.data), d.default_factory is int

    r, out = wrap(f), []
    for i in range(3):
        d, q = Defaults(int, {"a": 1}), Window([ones(2) * i], 3)
        c, u = collections.Counter(n=i % 2), UserDict(x=ones(2) * i)
        q.k = i
        out += [tried(r, d, q, c, u), dict(d), list(q), q.maxlen, dict(c), u.data]
    return out


@program
def sets_given(wrap: Wrap) -> Any:
    def f(x, s):
        s.add(7)
        return x * len(s) * (2 if 1 in s else 1)

    r, out = wrap(f), []
    for s in ({1}, {2}, {1, 3}, {1}):  # of numbers: texts are at other places in every process
        out += [tried(r, ones(2), s), s]
    return out


@program
def sets_whose_elements_meet(wrap: Wrap) -> Any:
    def f(x, s):
        return [x * e for e in s]

    r, out = wrap(f), []
    for first, second in ((8, 16), (16, 8), (0, 24)):  # one place of a table of eight
        s = {first}
        s.add(second)
        out += [tried(r, ones(2), s), list(s)]
    return out


@dataclasses.dataclass
class Output(OrderedDict):
    """As libraries have it: a dataclass whose fields are items of a dict as well."""

    loss: Any = None
    logits: Any = None

    def __post_init__(self):
        for name, value in list(vars(self).items()):
            if value is not None:
                OrderedDict.__setitem__(self, name, value)

    def __getitem__(self, key):
        return dict(self.items())[key] if isinstance(key, str) else self.to_tuple()[key]

    def __setattr__(self, name, value):
        if name in self and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def to_tuple(self):
        return tuple(self[key] for key in self)


@program
def output_given(wrap: Wrap) -> Any:
    r = wrap(lambda o: o.logits if o.loss is None else o.logits * o.loss)
    s = wrap(lambda o: Output(o.loss + 1, o["logits"]))
    out = [tried(r, Output(ones(2) * i if i % 2 else None, ones(2))) for i in range(4)]
    for i in range(3):
        made = s(Output(ones(2) * i, ones(2)))
        out += [list(made), made.loss, made["logits"], made.logits, made[0]]
    return out


@program
def output_written_to(wrap: Wrap) -> Any:
    def f(o):
        o.loss = o.loss * 2
        o["logits"] = o["logits"] + 1
        return o[0], o.to_tuple()[1]

    r, out = wrap(f), []
    for i in range(3):
        o = Output(ones(2) * i, ones(2))
        out += [tried(r, o), list(o), o.loss, o["loss"], o.logits, o["logits"]]
    return out


class Slotted:
    __slots__ = ("__weakref__", "a")

    def __eq__(self, other):
        return self.a is other.a


class Mixed(Slotted):
    __slots__ = ("__dict__", "b")


class Shadowed:
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, v):
        self.__dict__["v"] = v
        self.w = 1.0

    @property
    def v(self):
        return self.__dict__["v"] * self.w

    @v.setter
    def v(self, k):
        self.w = k


@program
def objects_without_a_hash(wrap: Wrap) -> Any:
    def f(o, p):
        o.b = o.a * 2
        o.c = getattr(o, "c", 0) + 1
        p.v = 3.0
        return o.b * o.c, p.v

    r, out = wrap(f), []
    for i in range(4):
        o, p = Mixed(), Shadowed(ones(2) * i)
        o.a = ones(2) * i
        if i % 2:
            o.c = 5
        out += [tried(r, o, p), o.b, o.c, p.w, p.__dict__["v"]]
    return out


class Leaving:
    """Registered by functions that leave an attribute out."""

    def __init__(self, a, tag):
        self.a, self.tag = a, tag


ad.utils._pytree.register_pytree_node(
    Leaving, lambda box: ([box.a], None), lambda parts, context: Leaving(parts[0], "made")
)


@program
def registered_container_that_leaves_out(wrap: Wrap) -> Any:
    def f(box):
        scale = 2 if box.tag == "two" else 3
        box.tag += "!"
        return box.a * scale, Leaving(box.a, "kept")

    r, out = wrap(f), []
    for tag in ("two", "three", "two", "made"):
        box = Leaving(ones(2), tag)
        y, made = r(box)
        out += [y, box.tag, made.tag, made.a]
    return out


@program
def holding_itself(wrap: Wrap) -> Any:
    r, out = wrap(lambda b: b.x * (2 if b.me is b else 1)), []
    for i in range(3):
        b = types.SimpleNamespace(x=ones(2) * i)
        b.me = b
        out += [tried(r, b)]
    return out


@program
def identity_of_given(wrap: Wrap) -> Any:
    known = {"k": 2.0}
    r = wrap(lambda x, d: x * (5.0 if d is known else 1.0) * d["k"])
    return [tried(r, ones(2), d) for d in (known, dict(known), known)]


@program
def identity_of_given_by_operator(wrap: Wrap) -> Any:
    r = wrap(lambda a, b: a["x"] * (2 if operator.is_(a, b) else 3))
    d, e = {"x": ones(2)}, {"x": ones(2)}
    return [tried(r, d, e), tried(r, d, d), tried(r, e, d)]


@program
def equality_of_registered(wrap: Wrap) -> Any:
    known, other = Leaving(ones(2), "a"), Leaving(ones(2) * 2, "a")
    r = wrap(lambda b: b.a * (2 if b in [known] else 3))
    return [tried(r, b) for b in (known, other, known)]


@program
def identity_that_is_known(wrap: Wrap) -> Any:
    nothing = object()

    def f(x, d=None, e=nothing):
        mine = {} if d is None else dict(d)
        return x * (2 if d is None else 3) * (5 if e is nothing else 7) * (11 if mine is d else 13)

    r = wrap(f)
    return [tried(r, ones(2), *rest) for rest in ((), ({},), ({}, []), (None, nothing))]


# -- arrays ----------------------------------------------------------------------------------------


@program
def array_given_and_written_in_place(wrap: Wrap) -> Any:
    def f(x, a, b):
        a += 1
        a[0] = 9
        b *= 3
        return x * 2

    r, out = wrap(f), []
    for i in range(3):
        a, b = np.full(2, float(i)), np.full(2, float(i))
        out += [tried(r, ones(2), a, b), a, b]
    return out


@program
def part_of_an_array_written(wrap: Wrap) -> Any:
    def f(x, a):
        b = a[1:]
        b += 1
        return x * 2

    r, out = wrap(f), []
    for i in range(3):
        a = np.full(2, float(i))
        out += [tried(r, ones(2), a), a]
    return out


@program
def drawn_array_written_in_place(wrap: Wrap) -> Any:
    g = np.random.default_rng(0)

    def f(x):
        a = g.normal(size=2)
        b = a
        a += 1
        a *= 2
        return ad.from_numpy(b) * x, a.tolist()[0] * x

    r = wrap(f)
    return [tried(r, ones(2)) for _ in range(3)]


@program
def drawn_array_written_under_a_tensor(wrap: Wrap) -> Any:
    g = np.random.default_rng(0)

    def f(x):
        a = g.normal(size=2)
        t = ad.from_numpy(a)
        a[0] = 5
        return t * x

    r = wrap(f)
    return [tried(r, ones(2)) for _ in range(3)]
