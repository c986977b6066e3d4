"""Programs on the standard library: mappings, text, numbers, records."""

# Written as a user would, who annotates little.
# mypy: disable-error-code="has-type, import-not-found, index, list-item, str-format, type-arg, var-annotated"

from __future__ import annotations

import array
import bisect
import contextvars
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import hashlib
import heapq
import inspect
import json
import os
import re
import statistics
import string
import struct
import sys
import textwrap
import types
import typing
from collections import ChainMap, OrderedDict, UserDict
from typing import Any

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn

from .playing import Wrap, changed, ones, program, ramp, times, tried


@program
def userdict_and_chainmap(wrap: Wrap) -> Any:
    base = UserDict(scale=2.0)
    over = {}
    cm = ChainMap(over, base)
    return changed(
        wrap,
        lambda x: x * cm["scale"] + len(cm),
        lambda: over.update(scale=5.0),
        lambda: over.clear(),
        lambda: base.update(z=1),
    )


@program
def mappingproxy(wrap: Wrap) -> Any:
    d = {"a": 1.0}
    mp = types.MappingProxyType(d)
    return changed(
        wrap, lambda x: x * mp["a"] + len(mp), lambda: d.update(a=4.0), lambda: d.update(b=4.0)
    )


@program
def simplenamespace_eq(wrap: Wrap) -> Any:
    a = types.SimpleNamespace(k=1.0, l=[1])
    b = types.SimpleNamespace(k=1.0, l=[1])
    return changed(
        wrap,
        lambda x: x * (2 if a == b else 3) * a.k,
        lambda: setattr(a, "k", 2.0),
        lambda: setattr(b, "k", 2.0),
        lambda: a.l.append(2),
    )


@program
def environ_read(wrap: Wrap) -> Any:
    os.environ["ADX"] = "2"

    def f(x: Any) -> Any:
        return x * int(os.environ.get("ADX", "1")) + ("ADY" in os.environ)

    o = changed(
        wrap,
        f,
        lambda: os.environ.__setitem__("ADX", "5"),
        lambda: os.environ.__setitem__("ADY", "1"),
        lambda: os.environ.__delitem__("ADX"),
    )
    os.environ.pop("ADY", None)
    return o


@program
def bytearray_memoryview(wrap: Wrap) -> Any:
    b = bytearray(b"abc")
    m = memoryview(b)

    def f(x: Any) -> Any:
        return x * b[0] + m[1] + len(b)

    return changed(wrap, f, lambda: b.__setitem__(0, 1), lambda: m.__setitem__(1, 2))


@program
def array_array(wrap: Wrap) -> Any:
    a = array.array("d", [1.0, 2.0])

    def f(x: Any) -> Any:
        return x * a[0] + sum(a)

    return changed(wrap, f, lambda: a.__setitem__(0, 5.0))


@program
def contextvar_read(wrap: Wrap) -> Any:
    v = contextvars.ContextVar("v", default=1.0)
    return changed(wrap, lambda x: x * v.get(), lambda: v.set(3.0))


@program
def globals_item(wrap: Wrap) -> Any:
    globals()["GG"] = 2.0

    def f(x: Any) -> Any:
        return x * globals()["GG"] + ("HH" in globals())

    o = changed(
        wrap, f, lambda: globals().__setitem__("GG", 3.0), lambda: globals().__setitem__("HH", 3.0)
    )
    globals().pop("HH")
    return o


@program
def wraps_of_library(wrap: Wrap) -> Any:
    s = [2.0]

    @functools.wraps(F.relu)
    def act(x: Any) -> Any:
        return F.relu(x) * s[0]

    return changed(wrap, lambda x: act(x), lambda: s.__setitem__(0, 5.0))


@program
def package_attribute(wrap: Wrap) -> Any:
    m = types.ModuleType("pkgx")
    m.SCALE = 2.0
    sys.modules["pkgx"] = m

    def f(x: Any) -> Any:
        import pkgx
        from pkgx import SCALE

        return x * pkgx.SCALE + SCALE

    return changed(wrap, f, lambda: setattr(m, "SCALE", 5.0))


@program
def module_getattr(wrap: Wrap) -> Any:
    m = types.ModuleType("pkgy")
    d = {"k": 2.0}
    m.__getattr__ = lambda n: d[n]
    return changed(wrap, lambda x: x * m.k, lambda: d.update(k=3.0), lambda: setattr(m, "k", 9.0))


@program
def uuid_hash_text(wrap: Wrap) -> Any:
    cfg = {"a": 1}

    def f(x: Any) -> Any:
        h = hashlib.md5(json.dumps(cfg, sort_keys=True).encode()).hexdigest()
        return (x * int(h[:2], 16), h)

    return changed(wrap, f, lambda: cfg.update(a=2))


@program
def regex_names(wrap: Wrap) -> Any:
    m = nn.Sequential(OrderedDict(l1=nn.Linear(2, 2), l2=nn.Linear(2, 2)))
    for p in m.parameters():
        nn.init.constant_(p, 0.5)
    pat = re.compile("l(\\d)\\.weight")

    def f(x: Any) -> Any:
        t = 0.0
        for n, p in m.named_parameters():
            mt = pat.match(n)
            if mt:
                t = t + int(mt.group(1)) * p.sum()
        return x * t

    return changed(
        wrap, f, lambda: m.add_module("l3", nn.Identity()), lambda: m.l1.weight.data.fill_(2.0)
    )


@program
def string_template_format(wrap: Wrap) -> Any:
    cfg = {"n": "a", "v": 1.5}

    def f(x: Any) -> Any:
        return (
            x * len("{n}-{v:.3f}".format(**cfg)),
            string.Template("$n").substitute(cfg),
            textwrap.dedent("  a"),
            "x".join([cfg["n"]] * 2),
            cfg["n"].upper().center(5, "*"),
        )

    return changed(wrap, f, lambda: cfg.update(n="bcd"))


@program
def decimal_fraction(wrap: Wrap) -> Any:
    r = {"a": fractions.Fraction(1, 3), "d": decimal.Decimal("0.5")}

    def f(x: Any) -> Any:
        return x * float(r["a"] + 1) + float(r["d"] * 2)

    return changed(
        wrap,
        f,
        lambda: r.update(a=fractions.Fraction(2, 3)),
        lambda: r.update(d=decimal.Decimal("2")),
    )


@program
def statistics_of_history(wrap: Wrap) -> Any:
    h = [1.0, 2.0]

    def f(x: Any) -> Any:
        h.append(float(len(h)))
        return x * statistics.mean(h)

    return (times(wrap(f), n=3), h)


@program
def heap_of_tuples(wrap: Wrap) -> Any:
    h = [(3.0, "a"), (1.0, "b")]
    heapq.heapify(h)

    def f(x: Any, p: Any) -> Any:
        heapq.heappush(h, (p, str(p)))
        top = heapq.heappop(h)
        return (x * top[0], top, heapq.nlargest(1, h))

    r = wrap(f)
    return ([tried(r, ones(2), p) for p in (2.0, 0.0, 5.0, 2.0)], h)


@program
def bisect_schedule(wrap: Wrap) -> Any:
    b = [2, 4]
    v = [1.0, 0.5, 0.1]

    class S:
        n = 0

    def f(x: Any) -> Any:
        S.n += 1
        return x * v[bisect.bisect_right(b, S.n)]

    return (times(wrap(f), n=6), changed(wrap, f, lambda: b.append(100), lambda: b.clear()))


@program
def struct_pack(wrap: Wrap) -> Any:
    s = {"v": 3}
    return changed(
        wrap, lambda x: x * struct.unpack("<i", struct.pack("<i", s["v"]))[0], lambda: s.update(v=9)
    )


@program
def datetime_delta(wrap: Wrap) -> Any:
    d = {"a": datetime.timedelta(days=1), "t": datetime.date(2020, 1, 1)}
    return changed(
        wrap,
        lambda x: x * (d["a"].total_seconds() / 3600) + d["t"].year + d["t"].weekday(),
        lambda: d.update(a=datetime.timedelta(hours=1)),
        lambda: d.update(t=datetime.date(2021, 1, 2)),
    )


@program
def inspect_signature(wrap: Wrap) -> Any:

    def g(a: Any, b: Any = 2, *, c: Any = 3) -> None:
        pass

    h = [g]

    def f(x: Any) -> Any:
        return x * len(inspect.signature(h[0]).parameters)

    return changed(wrap, f, lambda: h.__setitem__(0, lambda q: q))


@program
def callable_dispatch_singledispatchmethod(wrap: Wrap) -> Any:

    class A:
        @functools.singledispatchmethod
        def g(s, v: Any) -> Any:
            return 1.0

        @g.register
        def _(s, v: int) -> Any:
            return 2.0

        @g.register
        def _(s, v: str) -> Any:
            return 3.0

    a = A()
    h = [1]
    return changed(
        wrap, lambda x: x * a.g(h[0]), lambda: h.__setitem__(0, "s"), lambda: h.__setitem__(0, None)
    )


@program
def partialmethod(wrap: Wrap) -> Any:

    class A:
        k = 2.0

        def g(s, a: Any, b: Any) -> Any:
            return s.k * a + b

        h = functools.partialmethod(g, 3.0)

    a = A()
    return changed(wrap, lambda x: x * a.h(1.0), lambda: setattr(a, "k", 5.0))


@program
def total_ordering(wrap: Wrap) -> Any:

    @functools.total_ordering
    class V:
        def __init__(s, v: Any) -> None:
            s.v = v

        def __eq__(s, o: Any) -> Any:
            return s.v == o.v

        def __lt__(s, o: Any) -> Any:
            return s.v < o.v

        __hash__ = None

    a, b = (V(1), V(2))

    def f(x: Any) -> Any:
        return x * (2 if a >= b else 3) + (a <= b) + max([a, b]).v

    return changed(wrap, f, lambda: setattr(a, "v", 5), lambda: setattr(b, "v", 5))


@program
def slots_dataclass_frozen(wrap: Wrap) -> Any:

    @dataclasses.dataclass(frozen=True, slots=True)
    class C:
        a: float
        b: tuple = (1, 2)

    h = [C(2.0)]

    def f(x: Any) -> Any:
        return (
            x * h[0].a + len(h[0].b),
            dataclasses.asdict(h[0]),
            h[0] == C(2.0),
            hash(h[0]) == hash(C(2.0)),
        )

    return changed(wrap, f, lambda: h.__setitem__(0, C(3.0)), lambda: h.__setitem__(0, C(2.0, ())))


@program
def typed_namedtuple_methods(wrap: Wrap) -> Any:

    class P(typing.NamedTuple):
        a: float
        b: float = 1.0

        @property
        def s(self) -> Any:
            return self.a + self.b

    h = [P(1.0)]

    def f(x: Any) -> Any:
        p = h[0]._replace(b=4.0)
        return (x * p.s, p, p._asdict(), P(x, x * 2))

    return changed(wrap, f, lambda: h.__setitem__(0, P(3.0)))


@program
def int_enum_index(wrap: Wrap) -> Any:

    class Kind(enum.IntEnum):
        A = 0
        B = 1

    class S:
        m = Kind.A

    def f(x: Any) -> Any:
        return (x[S.m] * {Kind.A: 2, Kind.B: 3}[S.m], Kind(S.m).name)

    return changed(wrap, f, lambda: setattr(S, "m", Kind.B), lambda: setattr(S, "m", 0))


@program
def str_enum_and_auto(wrap: Wrap) -> Any:

    class M(enum.StrEnum):
        MEAN = "mean"
        SUM = "sum"

        @classmethod
        def default(c) -> Any:
            return c.MEAN

    class S:
        m = M.default()

    def f(x: Any) -> Any:
        return (getattr(x, S.m.value)() * 2, F.mse_loss(x, x * 2, reduction=S.m.value))

    return changed(wrap, f, lambda: setattr(S, "m", M.SUM))


@program
def call_counting_decorator(wrap: Wrap) -> Any:

    def counted(fn: Any) -> Any:

        @functools.wraps(fn)
        def w(*a: Any, **k: Any) -> Any:
            w.calls += 1
            return fn(*a, **k)

        w.calls = 0
        return w

    @counted
    def g(x: Any) -> Any:
        return x * g.calls

    def f(x: Any) -> Any:
        return g(x) + g(x)

    return (times(wrap(f)), g.calls)


@program
def memoize_by_shape(wrap: Wrap) -> Any:
    memo = {}

    def mask(n: Any, dt: Any) -> Any:
        if (n, dt) not in memo:
            memo[n, dt] = ad.triu(ad.ones(n, n, dtype=dt), 1)
        return memo[n, dt]

    def f(x: Any) -> Any:
        return x @ mask(x.shape[-1], x.dtype)

    r = wrap(f)
    o = [tried(r, ramp(1, n)) for n in (2, 3, 2, 3)]
    memo[2, ad.float32].fill_(7.0)
    return (o, tried(r, ramp(1, 2)), len(memo))


@program
def closure_list_of_lambdas(wrap: Wrap) -> Any:
    fs = [lambda x, i=i: x * i for i in range(3)]

    def f(x: Any) -> Any:
        for g in fs:
            x = g(x) + 1
        return x

    return changed(
        wrap,
        f,
        lambda: fs.reverse(),
        lambda: fs.append(lambda x: x - 1),
        lambda: fs.__setitem__(slice(None), []),
    )


@program
def nonlocal_toggle(wrap: Wrap) -> Any:

    def make() -> Any:
        on = False

        def f(x: Any) -> Any:
            nonlocal on
            on = not on
            return x * 2 if on else x * 3

        return f

    return times(wrap(make()), n=5)


@program
def default_mutable_arg(wrap: Wrap) -> Any:

    def f(x: Any, acc: Any = None) -> Any:
        if acc is None:
            acc = []
        acc.append(x.shape[0])
        return x * sum(acc)

    return (times(wrap(f)), f.__defaults__[0])


@program
def kwonly_defaults_changed(wrap: Wrap) -> Any:

    def g(x: Any, *, k: Any = 2.0) -> Any:
        return x * k

    def ch() -> None:
        g.__kwdefaults__ = {"k": 5.0}

    return changed(wrap, lambda x: g(x), ch)
