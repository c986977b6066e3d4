"""Programs in which containers, functions and classes that a function reads change between calls."""

from __future__ import annotations

import collections
import contextlib
import contextvars
import functools
import heapq
import itertools
import operator
import types
import weakref
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import nn

from .playing import Wrap, changed, ones, program, tried
from .reads import Settings

RATE = 1.0
NAMES = ["a", "b"]
DEPTH: contextvars.ContextVar[int] = contextvars.ContextVar("depth", default=1)


@program
def dict_reads(wrap: Wrap) -> Any:
    d = {"a": 1.0, "b": 2.0}
    return changed(
        wrap, lambda x: x * sum(d.values()) + len(d) + ("c" in d) + d.get("z", 0.5),
        lambda: d.update(a=3.0), lambda: d.update(c=1.0), lambda: d.pop("b"),
        lambda: d.update(z=4.0),
    )  # fmt: skip


@program
def dict_order(wrap: Wrap) -> Any:
    d = {"a": 2.0, "b": 3.0}

    def reorder() -> None:
        d["a"] = d.pop("a")

    def f(x: Any) -> Any:
        for v in d.values():
            x = x * v + 1
        return x

    return changed(wrap, f, reorder, reorder)


@program
def dict_keys_of_kinds(wrap: Wrap) -> Any:
    d: dict[Any, float] = {1: 1.0, (1, 2): 2.0, None: 3.0}
    return changed(
        wrap, lambda x: x * d[1] * d[(1, 2)] * d[None] + d.get(True, 0.0),
        lambda: d.update({1.0: 5.0}), lambda: d.update({(1, 2): 6.0}), lambda: d.pop(1),
    )  # fmt: skip


@program
def list_reads(wrap: Wrap) -> Any:
    s = [1.0, 2.0, 3.0]
    return changed(
        wrap, lambda x: x * s[-1] + len(s) + s.index(s[0]) + (9.0 in s),
        lambda: s.append(4.0), lambda: s.insert(0, 9.0), lambda: s.reverse(), s.clear,
    )  # fmt: skip


@program
def list_slices_and_sort(wrap: Wrap) -> Any:
    s = [3, 1, 2]
    return changed(
        wrap, lambda x: x * sum(s[1:]) + sorted(s)[0] + max(s) * 10 + s.count(1),
        lambda: s.append(7), lambda: s.__setitem__(slice(0, 2), [5]), s.sort,
    )  # fmt: skip


@program
def sets(wrap: Wrap) -> Any:
    s = {1, 2}
    return changed(
        wrap, lambda x: x * len(s) + (3 in s) + sum(s | {10}) + (s <= {1, 2, 3}),
        lambda: s.add(3), lambda: s.discard(1), s.clear,
    )  # fmt: skip


@program
def deques(wrap: Wrap) -> Any:
    d = collections.deque([1.0, 2.0], maxlen=3)
    return changed(
        wrap, lambda x: x * d[0] + d[-1] * 10 + len(d) * 100 + sum(d),
        lambda: d.append(5.0), lambda: d.append(6.0), lambda: d.rotate(), d.popleft,
    )  # fmt: skip


@program
def counters_and_defaults(wrap: Wrap) -> Any:
    c = collections.Counter("aab")
    d: Any = collections.defaultdict(lambda: 2.0)
    out = changed(
        wrap, lambda x: x * c["a"] + c["z"] + d["new"] + c.most_common(1)[0][1],
        lambda: c.update("bbb"), lambda: d.update(new=5.0), lambda: d.pop("new"),
    )  # fmt: skip
    return [*out, d, c]


@program
def ordered_dict(wrap: Wrap) -> Any:
    d = collections.OrderedDict(a=1.0, b=2.0)

    def f(x: Any) -> Any:
        for k, v in d.items():
            x = x * v + len(k)
        return x + next(reversed(d.values()))

    return changed(wrap, f, lambda: d.move_to_end("a"), lambda: d.update(c=3.0), d.popitem)


@program
def chain_map(wrap: Wrap) -> Any:
    a: dict[str, float] = {}
    b = {"k": 1.0}
    m = collections.ChainMap(a, b)
    return changed(wrap, lambda x: x * m["k"], lambda: b.update(k=2.0), lambda: a.update(k=3.0))


@program
def nested_containers(wrap: Wrap) -> Any:
    s: Any = {"a": [{"b": (1.0, [2.0])}]}
    return changed(
        wrap, lambda x: x * s["a"][0]["b"][1][0],
        lambda: operator.setitem(s["a"][0]["b"][1], 0, 3.0),
        lambda: operator.setitem(s["a"], 0, {"b": (1.0, [7.0])}),
    )  # fmt: skip


@program
def container_argument(wrap: Wrap) -> Any:
    run = wrap(lambda d: d["x"] * d["scale"][0] + len(d))
    d: Any = {"x": ones(2), "scale": [2.0]}
    out = [run(d)]
    d["scale"][0] = 3.0
    out.append(run(d))
    d["more"] = 1
    return [*out, run(d), run(dict(reversed(d.items())))]


@program
def dispatch_table(wrap: Wrap) -> Any:
    table: dict[str, Any] = {"relu": ad.relu, "twice": lambda x: x * 2}
    which = ["relu"]
    return changed(
        wrap, lambda x: table[which[0]](x - 2),
        lambda: operator.setitem(which, 0, "twice"),
        lambda: operator.setitem(table, "twice", lambda x: x * 5), lambda: which.__setitem__(0, "?"),
    )  # fmt: skip


@program
def partials(wrap: Wrap) -> Any:
    s = [2.0]
    p = functools.partial(lambda s, x, by: x * s[0] * by, s, by=3.0)
    return changed(wrap, p, lambda: operator.setitem(s, 0, 4.0), lambda: p.keywords.update(by=7.0))


@program
def lru_cache(wrap: Wrap) -> Any:
    calls = []

    @functools.cache
    def table(n: int) -> float:
        calls.append(n)
        return n * 2.0

    n = [3]
    out = changed(
        wrap, lambda x: x * table(n[0]), lambda: operator.setitem(n, 0, 4), table.cache_clear
    )
    return out, sorted(set(calls))


@program
def single_dispatch(wrap: Wrap) -> Any:
    @functools.singledispatch
    def scaled(k: Any, x: Any) -> Any:
        return x

    @scaled.register
    def _(k: int, x: Any) -> Any:
        return x * k

    @scaled.register
    def _(k: str, x: Any) -> Any:
        return x + len(k)

    k: list[Any] = [3]
    return changed(
        wrap, lambda x: scaled(k[0], x),
        lambda: operator.setitem(k, 0, "four"), lambda: operator.setitem(k, 0, 2.5),
        lambda: scaled.register(float, lambda k, x: x * k * 100),
    )  # fmt: skip


@program
def weak_references(wrap: Wrap) -> Any:
    class Held:
        scale = 2.0

    h: Any = Held()
    ref = weakref.ref(h)
    table: Any = weakref.WeakValueDictionary(a=h)

    def drop() -> None:
        nonlocal h
        h = None

    return changed(
        wrap, lambda x: x * ref().scale if ref() is not None else x + len(table),  # type: ignore[union-attr]
        lambda: setattr(h, "scale", 3.0), drop,
    )  # fmt: skip


@program
def context_variables(wrap: Wrap) -> Any:
    token = DEPTH.set(2)
    out = changed(wrap, lambda x: x * DEPTH.get(), lambda: DEPTH.set(3), lambda: DEPTH.reset(token))
    return out


@program
def proxies(wrap: Wrap) -> Any:
    class Proxy:
        def __init__(self, inner: Any) -> None:
            object.__setattr__(self, "_inner", inner)

        def __getattr__(self, name: str) -> Any:
            return getattr(object.__getattribute__(self, "_inner"), name)

        def __setattr__(self, name: str, value: Any) -> None:
            setattr(self._inner, name, value)

    inner = types.SimpleNamespace(scale=2.0, count=0)
    p = Proxy(inner)

    def f(x: Any) -> Any:
        p.count += 1
        return x * p.scale * p.count

    return changed(wrap, f, lambda: setattr(inner, "scale", 3.0)), inner.count


@program
def getattribute(wrap: Wrap) -> Any:
    class Logged:
        seen: list[str] = []
        scale = 2.0

        def __getattribute__(self, name: str) -> Any:
            if name != "seen" and not name.startswith("__"):
                self.seen.append(name)
            return super().__getattribute__(name)

    h = Logged()
    return changed(wrap, lambda x: x * h.scale, lambda: setattr(h, "scale", 3.0)), h.seen


@program
def metaclass_attribute(wrap: Wrap) -> Any:
    class Meta(type):
        rate = 2.0

        @property
        def twice(cls) -> float:
            return cls.rate * 2

        def __len__(cls) -> int:
            return 3

    class Held(metaclass=Meta):
        pass

    return changed(
        wrap, lambda x: x * Held.twice + len(Held),
        lambda: setattr(Meta, "rate", 5.0), lambda: setattr(Meta, "__len__", lambda cls: 7),
    )  # fmt: skip


@program
def operators_on_objects(wrap: Wrap) -> Any:
    class Money:
        unit = 2.0

        def __init__(self, n: float) -> None:
            self.n = n

        def __mul__(self, x: Any) -> Any:
            return x * self.n * self.unit

        def __bool__(self) -> bool:
            return self.n > 0

        def __call__(self, x: Any) -> Any:
            return x + self.n

        def __getitem__(self, i: int) -> float:
            return self.n + i

        def __contains__(self, i: object) -> bool:
            return i == self.n

    m = Money(3.0)
    return changed(
        wrap, lambda x: (m * x if m else m(x)) + m[2] + (4.0 in m),
        lambda: setattr(m, "n", 4.0), lambda: setattr(Money, "unit", 1.0),
        lambda: setattr(m, "n", -1.0),
    )  # fmt: skip


@program
def numpy_elements(wrap: Wrap) -> Any:
    a = np.array([1.0, 2.0, 3.0])
    return changed(
        wrap, lambda x: x * float(a[1]) + int(a.argmax()) + a.shape[0] + float(a[:2].mean()),
        lambda: a.__setitem__(1, 5.0), lambda: a.fill(2.0),
    )  # fmt: skip


@program
def numpy_scalars(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(k=np.float32(2.0), n=np.int64(3))
    return changed(
        wrap, lambda x: x * float(s.k) + int(s.n) + x * s.k,
        lambda: setattr(s, "k", np.float32(4.0)), lambda: setattr(s, "n", np.int64(5)),
    )  # fmt: skip


@program
def numpy_array_as_tensor(wrap: Wrap) -> Any:
    a = np.array([1.0, 2.0], dtype=np.float32)
    return changed(
        wrap, lambda x: x + ad.from_numpy(a) + ad.tensor(a) * 10 + ad.as_tensor(a) * 100,
        lambda: a.__setitem__(0, 5.0), lambda: a.__imul__(2),
    )  # fmt: skip


@program
def numpy_argument(wrap: Wrap) -> Any:
    run = wrap(lambda x, a: x * ad.from_numpy(a) + float(a[0]))
    a = np.array([1.0, 2.0], dtype=np.float32)
    out = [tried(run, ones(2), a)]
    a[0] = 7.0
    return [*out, tried(run, ones(2), a)]


@program
def modules_swapped_and_rebound(wrap: Wrap) -> Any:
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU())
    with ad.no_grad():
        net[0].weight.fill_(1.0)

    def other() -> None:
        net[0] = nn.Linear(2, 2, bias=False)
        with ad.no_grad():
            net[0].weight.fill_(3.0)

    return changed(
        wrap, net, other, lambda: net.append(nn.Tanh()),
        lambda: setattr(net[0], "weight", nn.Parameter(ad.full((2, 2), 0.5))), x=ones(1, 2),
    )  # fmt: skip


@program
def wrapped_decorators(wrap: Wrap) -> Any:
    depth = [1]

    def repeated(fn: Any) -> Any:
        @functools.wraps(fn)
        def inner(*args: Any, **kwargs: Any) -> Any:
            out = fn(*args, **kwargs)
            for _ in range(depth[0]):
                out = out * 2
            return out

        return inner

    @repeated
    def f(x: Any, *, plus: float = 1.0) -> Any:
        return x + plus

    return changed(
        wrap, f, lambda: operator.setitem(depth, 0, 3),
        lambda: f.__wrapped__.__kwdefaults__.update(plus=2.0),  # type: ignore[attr-defined]
    )  # fmt: skip


@program
def star_arguments(wrap: Wrap) -> Any:
    given: Any = {"a": 1.0, "b": 2.0}
    rest = [3.0]

    def helper(x: Any, *args: float, **kwargs: float) -> Any:
        for i, (k, v) in enumerate(kwargs.items()):
            x = x * v + i + len(k)
        return x + sum(args)

    return changed(
        wrap, lambda x: helper(x, *rest, **given),
        lambda: rest.append(4.0), lambda: given.update(c=0.5), lambda: given.update(a=given.pop("a")),
    )  # fmt: skip


@program
def keyword_order(wrap: Wrap) -> Any:
    def f(x: Any, **kwargs: float) -> Any:
        for v in kwargs.values():
            x = x * v + 1
        return x

    run = wrap(f)
    return [run(ones(1), a=2.0, b=3.0), run(ones(1), b=3.0, a=2.0), run(ones(1), a=2.0, b=3.0)]


@program
def patterns(wrap: Wrap) -> Any:
    s: list[Any] = [{"kind": "scale", "by": 2.0}]

    def f(x: Any) -> Any:
        match s[0]:
            case {"kind": "scale", "by": by}:
                return x * by
            case [first, *rest]:
                return x + first + len(rest)
            case Settings(rate=rate, mode="sum"):
                return x * rate * 100
            case str() as text if len(text) > 2:
                return x - len(text)
            case int(n) | float(n):
                return x - n
            case _:
                return x

    values: list[Any] = [
        {"kind": "scale", "by": 3.0}, [1.0, 2, 3], Settings(rate=4.0), "abc", "a", 5, 2.5, None,
    ]  # fmt: skip
    return changed(wrap, f, *[functools.partial(operator.setitem, s, 0, v) for v in values])


@program
def walrus_and_comprehensions(wrap: Wrap) -> Any:
    s = [1, 2, 3, 4]

    def f(x: Any) -> Any:
        even = [y for v in s if (y := v * 2) > 4]
        table = {k: v for k, v in zip("abcd", s, strict=False) if v != 2}
        if (n := len(even)) > 1:
            return x * n + sum(table.values()) + len({v % 2 for v in s})
        return x

    return changed(wrap, f, lambda: s.append(5), lambda: s.__setitem__(slice(None), [1]))


@program
def context_managers(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(scale=1.0, entered=0)

    @contextlib.contextmanager
    def scaled(by: float) -> Any:
        before = s.scale
        s.scale = before * by
        s.entered += 1
        try:
            yield s
        finally:
            s.scale = before

    def f(x: Any) -> Any:
        with scaled(2.0) as held, scaled(3.0), contextlib.suppress(KeyError):
            x = x * held.scale
            {}["nothing"]  # type: ignore[index]
        return x * s.scale

    return changed(wrap, f, lambda: setattr(s, "scale", 5.0)), s.entered, s.scale


@program
def exit_stack(wrap: Wrap) -> Any:
    log: list[Any] = []

    def f(x: Any) -> Any:
        with contextlib.ExitStack() as stack:
            stack.callback(log.append, "done")
            stack.enter_context(contextlib.nullcontext())
            return x * (len(log) + 1)

    return changed(wrap, f, log.clear), log


@program
def recursion(wrap: Wrap) -> Any:
    n = [3]

    def power(x: Any, k: int) -> Any:
        return x if k == 0 else power(x * 2, k - 1)

    return changed(wrap, lambda x: power(x, n[0]), lambda: operator.setitem(n, 0, 5))


@program
def strings(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(name="conv1", fmt="{}_{:>3}")
    return changed(
        wrap,
        lambda x: x * int(s.name[-1]) + len(s.fmt.format(s.name, 1)) + s.name.startswith("conv")
        + len(f"{s.name!r:>10}") + len("%s-%d" % (s.name, 2)),  # noqa: UP031
        lambda: setattr(s, "name", "linear22"), lambda: setattr(s, "fmt", "{}"),
    )  # fmt: skip


@program
def isinstance_and_subclasses(wrap: Wrap) -> Any:
    held: list[Any] = [nn.Linear(1, 1)]
    kinds: list[Any] = [nn.Linear]
    return changed(
        wrap, lambda x: x * 2 if isinstance(held[0], tuple(kinds)) else x * len(type(held[0]).__mro__),
        lambda: operator.setitem(held, 0, nn.ReLU()), lambda: kinds.append(nn.ReLU),
    )  # fmt: skip


@program
def itertools_inside(wrap: Wrap) -> Any:
    s = [1, 2, 3]
    return changed(
        wrap,
        lambda x: x * sum(a * b for a, b in itertools.product(s, s))
        + sum(itertools.accumulate(s)) + len(list(itertools.chain(s, s)))
        + sum(v for _, g in itertools.groupby(s, key=lambda v: v % 2) for v in g)
        + sum(itertools.islice(itertools.count(1), len(s)))
        + sum(x * y for x, y in itertools.pairwise(s)),
        lambda: s.append(4),
    )  # fmt: skip


@program
def module_of_settings(wrap: Wrap) -> Any:
    m = types.ModuleType("settings")
    m.scale = 2.0  # type: ignore[attr-defined]
    return changed(
        wrap, lambda x: x * m.scale + getattr(m, "plus", 0.0),
        lambda: setattr(m, "scale", 3.0), lambda: setattr(m, "plus", 1.0),
    )  # fmt: skip


@program
def views_kept_from_outside(wrap: Wrap) -> Any:
    d = {"a": 1.0, "b": 2.0}
    keys, values, pairs = d.keys(), d.values(), d.items()

    def f(x: Any) -> Any:
        scaled = x * sum(values) + len(keys) + sum(v for _, v in pairs)
        d[f"n{len(d)}"] = float(len(d))
        return scaled, list(keys), ("a", 1.0) in pairs, sorted(keys & {"a", "z"}), "b" in keys

    return changed(wrap, f, lambda: d.pop("a"), lambda: d.update(b=5.0)), d


@program
def merged(wrap: Wrap) -> Any:
    a, b = [1, 4], [2, 3]
    merge = heapq.merge
    return changed(wrap, lambda x: (x * sum(merge(a, b)), list(merge(a, b))), lambda: a.append(9))


@program
def sorted_by_what_looks_at_the_list(wrap: Wrap) -> Any:
    values, seen = [3, 1, 2], []

    def key(value: int) -> int:
        seen.append(len(values))
        return value

    def f(x: Any) -> Any:
        values.sort(key=key)
        try:
            values.sort(key=lambda v: (values.append(v), -v)[1])  # type: ignore[func-returns-value]
        except ValueError as error:
            return x * values[0], str(error)

    return changed(wrap, f, lambda: values.append(0)), values, seen
