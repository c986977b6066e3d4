"""Programs as people write them: counters, windows, schedules, sorting, classes."""

# Written as a user would, who annotates little.
# mypy: disable-error-code="has-type, import-not-found, index, list-item, str-format, type-arg, var-annotated"

from __future__ import annotations

import abc
import contextlib
import copy
import dataclasses
import enum
import functools
import io
import itertools
import logging
import pickle
import warnings
import weakref
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn

from .playing import Wrap, changed, ones, program, ramp, times, tried


@program
def ema_tracker(wrap: Wrap) -> Any:

    class Ema:
        def __init__(s) -> None:
            s.mean = None
            s.n = 0

        def update(s, x: Any) -> Any:
            s.n += 1
            s.mean = x.detach().clone() if s.mean is None else s.mean * 0.9 + x.detach() * 0.1
            return s.mean

    e = Ema()

    def f(x: Any) -> Any:
        return x - e.update(x)

    r = wrap(f)
    return ([tried(r, ramp(3) * k) for k in range(4)], e.mean, e.n)


@program
def warmup_by_step_property(wrap: Wrap) -> Any:

    class Sched:
        def __init__(s) -> None:
            s.step = 0

        @property
        def lr(s) -> Any:
            return 0.1 * min(1.0, s.step / 3) if s.step < 5 else 0.01

    s = Sched()
    w = ones(2)

    def f(x: Any) -> Any:
        s.step += 1
        w.sub_(x * s.lr)
        return w.clone()

    return (times(wrap(f), n=8), s.step)


@program
def logger_levels(wrap: Wrap) -> Any:
    log = logging.getLogger("t1")
    stream = io.StringIO()
    h = logging.StreamHandler(stream)
    log.addHandler(h)
    log.propagate = False

    def f(x: Any) -> Any:
        if log.isEnabledFor(logging.DEBUG):
            return x * 10
        return x * 2

    try:
        out = changed(
            wrap, f, lambda: log.setLevel(logging.DEBUG), lambda: log.setLevel(logging.ERROR)
        )
    finally:
        log.removeHandler(h)
        log.setLevel(0)
    return out


@program
def warnings_inside(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        warnings.warn("careful", stacklevel=2)
        return x * 2

    r = wrap(f)
    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter("always")
        out = times(r, n=3)
    return (out, [str(i.message) for i in w if "careful" in str(i.message)])


@program
def counter_most_common(wrap: Wrap) -> Any:
    c = Counter()

    def f(x: Any, tok: Any) -> Any:
        c.update(tok)
        top = c.most_common(2)
        return (x * top[0][1], [t for t, _ in top])

    r = wrap(f)
    return ([tried(r, ones(2), t) for t in ("ab", "bb", "ccccc", "ab")], c)


@program
def defaultdict_groups(wrap: Wrap) -> Any:
    g = defaultdict(list)

    def f(x: Any, k: Any) -> Any:
        g[k].append(x.sum())
        return sum(g[k])

    r = wrap(f)
    return ([tried(r, ones(2) * i, k) for i, k in enumerate("aabba")], dict(g))


@program
def deque_window_mean(wrap: Wrap) -> Any:
    d = deque(maxlen=3)

    def f(x: Any) -> Any:
        d.append(x)
        return ad.stack(list(d)).mean(0)

    r = wrap(f)
    return ([tried(r, ones(2) * i) for i in range(6)], list(d))


@program
def itertools_cycle_attr(wrap: Wrap) -> Any:

    class S:
        pass

    s = S()
    s.c = itertools.cycle([1.0, 2.0, 3.0])

    def f(x: Any) -> Any:
        return x * next(s.c)

    return (times(wrap(f), n=7), next(s.c))


@program
def generator_pipeline(wrap: Wrap) -> Any:

    def pairs(xs: Any) -> Any:
        it = iter(xs)
        for a in it:
            yield (a, next(it, None))

    L = [1.0, 2.0, 3.0]

    def f(x: Any) -> Any:
        t = x * 0
        for a, b in pairs(L):
            t = t + a * (b or 1)
        return t

    return changed(wrap, f, lambda: L.append(4.0), lambda: L.clear())


@program
def sort_objects(wrap: Wrap) -> Any:

    @dataclasses.dataclass(order=True)
    class T:
        p: float
        name: str = dataclasses.field(compare=False)

    L = [T(2.0, "a"), T(1.0, "b")]

    def f(x: Any) -> Any:
        o = sorted(L)
        return (x * o[0].p, o[0].name, [t.name for t in sorted(L, key=lambda t: -t.p)])

    return changed(
        wrap, f, lambda: setattr(L[0], "p", 0.5), lambda: L.append(T(0.1, "z")), lambda: L.reverse()
    )


@program
def sort_tensors_by_attr(wrap: Wrap) -> Any:
    ps = [ones(2), ones(3), ones(1)]

    def f(x: Any) -> Any:
        return sum((p.sum() * i for i, p in enumerate(sorted(ps, key=lambda p: p.numel())))) * x

    return changed(wrap, f, lambda: ps.append(ones(4)), lambda: ps.__setitem__(0, ones(9)))


@program
def enum_flags(wrap: Wrap) -> Any:

    class M(enum.Flag):
        A = 1
        B = 2
        C = 4

    class S:
        m = M.A

    def f(x: Any) -> Any:
        if M.A in S.m:
            x = x + 1
        if S.m & M.B:
            x = x * 2
        if M.C in S.m:
            x = x - 5
        return (x, S.m)

    return changed(
        wrap,
        f,
        lambda: setattr(S, "m", M.A | M.B),
        lambda: setattr(S, "m", ~M.A),
        lambda: setattr(S, "m", M(0)),
    )


@program
def match_class_patterns(wrap: Wrap) -> Any:

    @dataclasses.dataclass
    class Lin:
        k: float

    @dataclasses.dataclass
    class Aff:
        k: float
        b: float

    ops = [Lin(2.0), Aff(1.0, 3.0)]

    def f(x: Any) -> Any:
        for o in ops:
            match o:
                case Lin(k=0):
                    x = x * 0
                case Lin(k):
                    x = x * k
                case Aff(k, b) if b > 2:
                    x = x * k + b
                case Aff():
                    x = x - 1
                case {"k": k, **rest}:
                    x = x * k + len(rest)
                case [a, *more]:
                    x = x + a + len(more)
                case str() as s:
                    x = x + len(s)
                case _:
                    x = x * 100
        return x

    return changed(
        wrap,
        f,
        lambda: ops.append({"k": 2.0, "z": 1}),
        lambda: setattr(ops[1], "b", 1.0),
        lambda: ops.append([1, 2, 3]),
        lambda: ops.append("abc"),
        lambda: setattr(ops[0], "k", 0),
    )


@program
def nested_contextmanagers(wrap: Wrap) -> Any:
    st = []

    @contextlib.contextmanager
    def layer(n: Any) -> Any:
        st.append(n)
        try:
            yield len(st)
        finally:
            st.pop()

    def f(x: Any) -> Any:
        with layer("a") as d1, layer("b") as d2:
            x = x * d1 + d2 + len(st)
        return (x, tuple(st))

    return changed(wrap, f, lambda: st.append("q"))


@program
def contextlib_suppress_exitstack(wrap: Wrap) -> Any:
    calls = []

    def f(x: Any, n: Any) -> Any:
        with contextlib.ExitStack() as s:
            for i in range(n):
                s.callback(calls.append, i)
            s.enter_context(contextlib.suppress(ValueError))
            if n > 2:
                raise ValueError("x")
            return x * n
        return x - n

    r = wrap(f)
    return ([tried(r, ones(2), n) for n in (1, 3, 2, 3)], calls)


@program
def nullcontext_flag(wrap: Wrap) -> Any:

    class C:
        amp = False

    def f(x: Any) -> Any:
        ctx = ad.no_grad() if C.amp else contextlib.nullcontext()
        with ctx:
            return x * x

    x = ones(2).requires_grad_()
    return changed(wrap, f, lambda: setattr(C, "amp", True), lambda: setattr(C, "amp", False), x=x)


@program
def functools_cache_on_method(wrap: Wrap) -> Any:

    class A:
        def __init__(s, k: Any) -> None:
            s.k = k
            s.n = 0

        @functools.cache  # noqa: B019
        def coef(s, i: Any) -> Any:
            s.n += 1
            return s.k * i

    a = A(2.0)

    def f(x: Any) -> Any:
        return x * a.coef(3)

    out = changed(wrap, f, lambda: setattr(a, "k", 5.0), lambda: A.coef.cache_clear())
    return (out, a.n)


@program
def weakvalue_registry(wrap: Wrap) -> Any:

    class Thing:
        def __init__(s, v: Any) -> None:
            s.v = v

    reg = weakref.WeakValueDictionary()
    keep = [Thing(2.0), Thing(3.0)]
    for i, o in enumerate(keep):
        reg[i] = o

    def f(x: Any) -> Any:
        t = x * 0
        for k, o in sorted(reg.items()):
            t = t + x * o.v * (k + 1)
        return t

    return changed(wrap, f, lambda: keep.pop(), lambda: setattr(keep[0], "v", 7.0))


@program
def weakset_listeners(wrap: Wrap) -> Any:

    class L:
        def __init__(s) -> None:
            s.seen = 0

        def hit(s) -> None:
            s.seen += 1

    ws = weakref.WeakSet()
    a = L()
    ws.add(a)

    def f(x: Any) -> Any:
        for level in ws:
            level.hit()
        return x * len(ws)

    out = changed(wrap, f)
    return (out, a.seen)


@program
def weakkey_state(wrap: Wrap) -> Any:
    state = weakref.WeakKeyDictionary()
    m = nn.Linear(2, 2, bias=False)
    nn.init.ones_(m.weight)

    def f(x: Any) -> Any:
        s = state.setdefault(m, {"n": 0})
        s["n"] += 1
        return m(x) * s["n"]

    return (times(wrap(f)), state[m]["n"])


@program
def deepcopy_of_module_inside(wrap: Wrap) -> Any:
    m = nn.Linear(2, 2)
    nn.init.ones_(m.weight)
    nn.init.zeros_(m.bias)

    def f(x: Any) -> Any:
        c = copy.deepcopy(m)
        return c(x)

    return changed(wrap, f, lambda: m.weight.data.mul_(3.0))


@program
def deepcopy_of_config_and_tensor(wrap: Wrap) -> Any:
    cfg = {"a": [1.0, 2.0], "t": ones(2)}

    def f(x: Any) -> Any:
        c = copy.deepcopy(cfg)
        c["a"].append(3.0)
        c["t"].add_(1)
        return (x * sum(c["a"]) + c["t"], len(cfg["a"]))

    return (changed(wrap, f, lambda: cfg["a"].append(9.0), lambda: cfg["t"].mul_(4)), cfg)


@program
def pickle_roundtrip(wrap: Wrap) -> Any:
    cfg = {"a": 1.5, "b": [1, 2]}

    def f(x: Any) -> Any:
        c = pickle.loads(pickle.dumps(cfg))
        return x * c["a"] + len(c["b"])

    return changed(wrap, f, lambda: cfg.update(a=3.0), lambda: cfg["b"].append(1))


@program
def fstring_shape(wrap: Wrap) -> Any:
    names = []

    def f(x: Any) -> Any:
        names.append(f"act{tuple(x.shape)}_{x.dtype}")
        return {names[-1]: x * 2}

    r = wrap(f)
    return ([tried(r, ones(*s)) for s in ((2,), (2, 3), (2,))], names)


@program
def repr_of_shape_device(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        return (str(x.shape), repr(x.device), f"{x.ndim:03d}", x * 2, f"{x.size(0)}")

    r = wrap(f)
    return [tried(r, ones(*s)) for s in ((2,), (2, 3), (4,))]


@program
def hasattr_then_set(wrap: Wrap) -> Any:

    class S:
        pass

    s = S()

    def f(x: Any) -> Any:
        if not hasattr(s, "buf"):
            s.buf = ad.zeros_like(x)
        s.buf = s.buf + x
        return s.buf * 1

    out = times(wrap(f))
    return (out, s.buf)


@program
def getattr_default(wrap: Wrap) -> Any:

    class S:
        pass

    s = S()

    def f(x: Any) -> Any:
        return x * getattr(s, "scale", 1.0) * getattr(s, "bias", 2)

    return changed(
        wrap,
        f,
        lambda: setattr(s, "scale", 3.0),
        lambda: delattr(s, "scale"),
        lambda: setattr(S, "bias", 5),
    )


@program
def isinstance_registry(wrap: Wrap) -> Any:

    class A:
        pass

    class B(A):
        pass

    o = [A()]

    def f(x: Any) -> Any:
        return x * (3 if isinstance(o[0], B) else 2)

    def ch() -> None:
        o[0].__class__ = B

    return changed(wrap, f, ch, lambda: o.__setitem__(0, A()))


@program
def issubclass_virtual(wrap: Wrap) -> Any:

    class Kind(abc.ABC):  # noqa: B024
        pass

    class A:
        pass

    def f(x: Any) -> Any:
        return x * (3 if issubclass(A, Kind) else 2)

    return changed(wrap, f, lambda: Kind.register(A))


@program
def getattr_proxy_of_module(wrap: Wrap) -> Any:

    class Wrap:
        def __init__(s, m: Any) -> None:
            s.__dict__["m"] = m

        def __getattr__(s, k: Any) -> Any:
            return getattr(s.m, k)

        def __setattr__(s, k: Any, v: Any) -> None:
            setattr(s.m, k, v)

    m = nn.Linear(2, 2)
    nn.init.ones_(m.weight)
    nn.init.zeros_(m.bias)
    m.scale = 2.0
    p = Wrap(m)

    def f(x: Any) -> Any:
        p.scale = p.scale + 1
        return F.linear(x, p.weight, p.bias) * p.scale

    return (times(wrap(f)), m.scale)


@program
def metaclass_registry(wrap: Wrap) -> Any:

    class Reg(type):
        table = {}

        def __new__(m, n: Any, b: Any, d: Any) -> Any:
            c = super().__new__(m, n, b, d)
            m.table[n] = c
            return c

        def __getitem__(c, k: Any) -> Any:
            return c.table[k]

        def __len__(c) -> Any:
            return len(c.table)

    class Base(metaclass=Reg):
        k = 1.0

    class Two(Base):
        k = 2.0

    def f(x: Any) -> Any:
        return x * Base["Two"].k + len(Base)

    def more() -> None:

        class Three(Base):
            k = 3.0

    return changed(wrap, f, more, lambda: setattr(Two, "k", 9.0))


@program
def descriptor_validated(wrap: Wrap) -> Any:

    class Pos:
        def __set_name__(s, o: Any, n: Any) -> None:
            s.n = "_" + n

        def __get__(s, i: Any, o: Any = None) -> Any:
            return s if i is None else getattr(i, s.n)

        def __set__(s, i: Any, v: Any) -> None:
            if v <= 0:
                raise ValueError("not positive")
            setattr(i, s.n, v)

    class C:
        a = Pos()

        def __init__(s) -> None:
            s.a = 3.0

    c = C()

    def f(x: Any) -> Any:
        try:
            c.a = c.a - 1
        except ValueError:
            return x * -1
        return x * c.a

    return (times(wrap(f), n=5), c.a)


@program
def dataclass_post_init_field_factory(wrap: Wrap) -> Any:
    made = [0]

    @dataclasses.dataclass
    class Batch:
        x: object
        n: int = 0
        tags: list = dataclasses.field(default_factory=list)

        def __post_init__(s) -> None:
            made[0] += 1
            s.n = s.x.shape[0]

    def f(x: Any) -> Any:
        b = Batch(x)
        b.tags.append(b.n)
        return dataclasses.replace(b, x=b.x * 2)

    r = wrap(f)
    return ([tried(r, ones(n)) for n in (2, 3, 2)], made)


@program
def set_ops(wrap: Wrap) -> Any:
    A = {"a", "b"}
    B = {"b", "c"}

    def f(x: Any) -> Any:
        A.add("d")
        return x * len(A & B) + len(A | B) * 2 + len(A ^ B) * 3 + ("z" in A)

    return (changed(wrap, f, lambda: B.add("d"), lambda: A.add("z"), lambda: B.clear()), A)


@program
def dict_order_move(wrap: Wrap) -> Any:
    d = OrderedDict(a=1.0, b=2.0, c=3.0)

    def f(x: Any) -> Any:
        d.move_to_end(next(iter(d)))
        return x * sum((i * v for i, v in enumerate(d.values())))

    return (times(wrap(f), n=5), d)


@program
def dict_popitem_lru(wrap: Wrap) -> Any:
    cache = {}

    def f(x: Any, k: Any) -> Any:
        if k in cache:
            cache[k] = cache.pop(k)
        else:
            if len(cache) >= 2:
                cache.pop(next(iter(cache)))
            cache[k] = x * k
        return cache[k]

    r = wrap(f)
    return ([tried(r, ones(2), k) for k in (1, 2, 1, 3, 2, 1)], cache)
