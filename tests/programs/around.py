"""What lies around a function: the environment, streams, layered mappings, classes made inside."""

# Written as a user would, who annotates little.
# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc, type-arg, var-annotated"

from __future__ import annotations

import contextvars
import functools
import io
import itertools
import json
import math
import os
import threading
import typing
import weakref
from collections import ChainMap, namedtuple
from typing import Any

import numpy as np

import adjoint as ad

from .playing import Wrap, ones, program, ramp, times, tried


@program
def environment_written(wrap: Wrap) -> Any:
    name = "ADJOINT_TEST_AROUND"
    os.environ[name] = "1"

    def f(x):
        os.environ[name] = str(int(os.environ[name]) + 1)
        return x * int(os.environ.get(name, "0"))

    r = wrap(f)
    out = times(r)
    os.environ[name] = "10"
    return out + times(r), os.environ.pop(name), os.getenv(name)


@program
def streams_written(wrap: Wrap) -> Any:
    stream = io.StringIO()

    def f(x):
        count = stream.write(f"{x.shape[0]},")
        stream.flush()
        return x * count

    return times(wrap(f)), stream.getvalue()


@program
def context_variable_left_set(wrap: Wrap) -> Any:
    scale = contextvars.ContextVar("scale", default=1.0)

    def f(x):
        scale.set(scale.get() * 2)
        return x * scale.get()

    r, out = wrap(f), []
    for _ in range(4):
        out += [tried(r, ones(2)), scale.get()]
    return out


@program
def layers_of_settings(wrap: Wrap) -> Any:
    base = {"rate": 1.0}
    layers: Any = ChainMap({}, base)

    def f(x):
        layers["seen"] = layers.get("seen", 0) + 1
        inner = layers.new_child({"rate": 3.0})
        return x * layers["rate"] * layers["seen"] * inner["rate"]

    r = wrap(f)
    out = times(r)
    base["rate"] = 2.0
    out += times(r)
    layers.maps.insert(0, {"rate": 5.0})
    return out + times(r), [dict(m) for m in layers.maps]


@program
def finalizer_detached(wrap: Wrap) -> Any:
    class Thing:
        pass

    thing = Thing()
    end = weakref.finalize(thing, print)
    r = wrap(lambda x: x * (2.0 if end.alive else 3.0))
    out = times(r, n=2)
    end.detach()
    return out + times(r, n=2)


@program
def partial_given_another_state(wrap: Wrap) -> Any:
    def g(x, k=1.0, *, s=1.0):
        return x * k * s

    p: Any = functools.partial(g, s=2.0)
    r = wrap(lambda x: p(x, k=3.0))
    out = times(r, n=2)
    p.keywords["s"] = 5.0
    out += times(r, n=2)
    p.__setstate__((g, (), {"s": 7.0}, {}))
    return out + times(r, n=2)


@program
def classes_of_typing_made_inside(wrap: Wrap) -> Any:
    def f(x):
        class Options(typing.TypedDict):
            a: int

        class Pair(typing.NamedTuple):
            a: int
            b: int = 2

        other = namedtuple("other", "c d", defaults=[4])
        pair = Pair(1)
        return x * Options(a=3)["a"] * pair.b + pair.a + other(4).d, pair._asdict(), Pair.__module__

    return times(wrap(f))


@program
def metaclass_that_answers(wrap: Wrap) -> Any:
    class Meta(type):
        made = 0

        def __call__(cls, *args):
            Meta.made += 1
            return super().__call__(*args)

        def __contains__(cls, key):
            return key in cls.keys

        def __len__(cls):
            return len(cls.keys)

    class Thing(metaclass=Meta):
        keys: typing.ClassVar = ["a"]

    def f(x):
        Thing()
        return x * (3 if "a" in Thing else 5) * len(Thing)

    r = wrap(f)
    out = times(r, n=2)
    Thing.keys.append("b")
    out += times(r, n=2)
    Thing.keys.remove("a")
    return out + times(r, n=2), Meta.made


@program
def sizes_in_texts_and_tables(wrap: Wrap) -> Any:
    def f(x):
        n = x.shape[0]
        whole = math.prod(x.shape) + math.isqrt(n) + math.comb(n, 2) + n.bit_length()
        texts = f"{n:>4}|{x.shape}", bin(n), "a" * n, json.dumps({"n": n})
        return x * whole, texts, slice(n).indices(4), np.zeros(x.shape).size, [*reversed(range(n))]

    r = wrap(f, dynamic=True)
    return [tried(r, ones(k)) for k in (2, 3, 4, 2, 5)]


@program
def layouts_of_what_is_made(wrap: Wrap) -> Any:
    def f(x):
        y = x.t()
        made = (
            ad.empty_like(y).fill_(1), ad.zeros_like(y), ad.full_like(y, 2), ad.zeros_like(y).add_(y),
            ad.empty_like(y).copy_(y), ad.zeros_like(y).fill_(3) + 0, y.new_empty(4, 3).fill_(2),
        )  # fmt: skip
        return (*made, ad.rand_like(y) * 0)

    r = wrap(f)
    return [tried(r, x) for x in (ramp(3, 4), ramp(4, 3).t(), ramp(3, 8)[:, ::2])]


@program
def locks_and_thread_state(wrap: Wrap) -> Any:
    lock, again, own = threading.Lock(), threading.RLock(), threading.local()
    own.k = 1.0

    def f(x):
        with lock, again, again:
            own.k += 1
        return x * own.k

    r = wrap(f)
    out = times(r)
    own.k = 10.0
    return out + times(r), own.k, lock.locked()


@program
def objects_made_and_linked(wrap: Wrap) -> Any:
    class Record:
        made = 0

        def __init__(self, x):
            Record.made += 1
            self.number, self.x, self.parent = Record.made, x, None

    chain: list[Any] = []

    def f(x):
        record = Record(x * 2)
        record.parent = chain[-1] if chain else None
        chain.append(record)
        return record.x * record.number if record.parent is None else record.x + record.parent.x

    out = times(wrap(f))
    linked = all(b.parent is a for a, b in itertools.pairwise(chain))
    return out, [c.number for c in chain], [c.x for c in chain], linked


@program
def parts_of_groups_handled(wrap: Wrap) -> Any:
    def f(x, k):
        try:
            if k:
                raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
        except* ValueError:
            x = x * 2
        except* TypeError:
            x = x * 3
        return x

    r = wrap(f)
    return [tried(r, ones(2), k) for k in (0, 1, 0, 1)]
