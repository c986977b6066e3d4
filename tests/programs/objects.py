"""Programs that look at objects of many kinds: properties, slots, metaclasses, enums, proxies."""

from __future__ import annotations

import abc
import copy
import dataclasses
import enum
import functools
import operator
import types
import typing
import weakref
from collections import UserDict, UserList, UserString, namedtuple
from collections.abc import Mapping, MutableMapping, MutableSequence
from typing import Any

import adjoint as ad
from adjoint import nn

from .playing import Wrap, changed, ones, program, ramp, times, tried


@program
def property_of_private_state(wrap: Wrap) -> Any:
    class Rate:
        def __init__(self) -> None:
            self._rate = 2.0
            self.reads = 0

        @property
        def rate(self) -> float:
            self.reads += 1
            return self._rate

        @rate.setter
        def rate(self, value: float) -> None:
            self._rate = value * 2

    r = Rate()

    def f(x: Any) -> Any:
        y = x * r.rate
        r.rate = r.rate + 1
        return y

    return times(wrap(f)), r._rate, r.reads


@program
def attributes_of_bound_methods(wrap: Wrap) -> Any:
    class Rate:
        def rate(self) -> float:
            """Two."""
            return 2.0

    Rate.rate.scale = 3.0  # type: ignore[attr-defined]
    r = Rate()

    def f(x: Any) -> Any:
        found = getattr(r.rate, "scale", None), hasattr(r.rate, "other"), r.rate.__name__
        return x * r.rate.scale, found, r.rate.__doc__  # type: ignore[attr-defined]

    return changed(wrap, f, lambda: setattr(Rate.rate, "scale", 5.0))


@program
def property_replaced_on_the_class(wrap: Wrap) -> Any:
    class A:
        @property
        def p(self) -> float:
            return 2.0

    a = A()
    return changed(
        wrap, lambda x: x * a.p,
        lambda: setattr(A, "p", property(lambda self: 5.0)),
        lambda: setattr(A, "p", 7.0), lambda: setattr(a, "p", 9.0),
    )  # fmt: skip


@program
def data_descriptor_with_memory(wrap: Wrap) -> Any:
    class Counted:
        def __set_name__(self, owner: Any, name: str) -> None:
            self.name = "_" + name

        def __get__(self, obj: Any, owner: Any = None) -> Any:
            obj.gets = getattr(obj, "gets", 0) + 1
            return getattr(obj, self.name, 1.0)

        def __set__(self, obj: Any, value: Any) -> None:
            setattr(obj, self.name, value)

    class A:
        v = Counted()

    a = A()

    def f(x: Any) -> Any:
        a.v = a.v * 2
        return x * a.v

    return times(wrap(f)), vars(a)


@program
def cached_property_of_an_object(wrap: Wrap) -> Any:
    class A:
        made = 0

        @functools.cached_property
        def v(self) -> float:
            A.made += 1
            return A.made * 2.0

    a = A()
    return changed(
        wrap, lambda x: x * a.v, lambda: delattr(a, "v"), lambda: setattr(a, "v", 9.0)
    ), A.made


@program
def slots_set_and_deleted(wrap: Wrap) -> Any:
    class A:
        __slots__ = ("k", "n")

    a = A()
    a.n = 1

    def f(x: Any) -> Any:
        a.n += 1
        if hasattr(a, "k"):
            del a.k
        else:
            a.k = a.n
        return x * a.n

    return times(wrap(f)), a.n, hasattr(a, "k")


@program
def metaclass_attributes_and_calls(wrap: Wrap) -> Any:
    class Meta(type):
        scale = 2.0
        made: int = 0

        def __call__(cls, *args: Any) -> Any:
            Meta.made += 1
            return super().__call__(*args)

    class A(metaclass=Meta):
        def __init__(self, v: float) -> None:
            self.v = v

    run_changes = changed(wrap, lambda x: x * A.scale + A(3.0).v, lambda: setattr(Meta, "scale", 4.0),
                          lambda: setattr(A, "scale", 6.0))  # fmt: skip
    return run_changes, Meta.made


@program
def singleton_by_new(wrap: Wrap) -> Any:
    class One:
        held: Any = None
        hits = 0

        def __new__(cls) -> Any:
            if cls.held is None:
                cls.held = super().__new__(cls)
            cls.hits += 1
            return cls.held

    return times(wrap(lambda x: x * One().hits)), One.hits


@program
def enum_members_that_change(wrap: Wrap) -> Any:
    class Mode(enum.Enum):
        A = 1
        B = 2

    class Flags(enum.IntFlag):
        U = 1
        V = 2

    s = types.SimpleNamespace(mode=Mode.A, flags=Flags.U)

    def f(x: Any) -> Any:
        if s.mode is Mode.B:
            x = x * 10
        if s.flags & Flags.V:
            x = x + 1
        return x * s.mode.value * int(s.flags), s.mode.name

    return changed(wrap, f, lambda: setattr(s, "mode", Mode.B), lambda: setattr(s, "flags", Flags.U | Flags.V),
                   lambda: setattr(s, "mode", Mode["A"]), lambda: setattr(s, "mode", Mode(2)))  # fmt: skip


@program
def enum_made_argument(wrap: Wrap) -> Any:
    class Act(enum.StrEnum):
        relu = "relu"
        tanh = "tanh"

    run = wrap(lambda x, a: getattr(ad, a.value)(x) if a == "relu" else ad.tanh(x))
    return [run(ones(2) * -1, a) for a in (Act.relu, Act.tanh, Act("relu"))]


@dataclasses.dataclass
class Options:
    """Options that change."""

    rate: float = 1.0
    names: list[str] = dataclasses.field(default_factory=list)
    inner: Any = None


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Fixed:
    """Options that do not change."""

    a: int = 1
    b: float = 2.0


@program
def dataclass_replaced_and_compared(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(o=Options(), want=Options())

    def f(x: Any) -> Any:
        y = x * s.o.rate
        if s.o == s.want:
            y = y + 100
        s.o = dataclasses.replace(s.o, rate=s.o.rate + 1)
        s.o.names.append("n")
        return y, dataclasses.asdict(s.o)["rate"], dataclasses.astuple(s.o)[0]

    out = times(wrap(f))
    s.want = Options(5.0, list(s.o.names))
    return out, times(wrap(f), n=2), s.o.names


@program
def frozen_dataclass_ordered(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(o=Fixed())

    def f(x: Any) -> Any:
        limit = Fixed(1, 3.0)
        return (x * s.o.b if s.o < limit else x), limit, hash(limit) == hash(Fixed(1, 3.0))

    return changed(
        wrap, f, lambda: setattr(s, "o", Fixed(2)), lambda: setattr(s, "o", Fixed(0, 9.0))
    )


@program
def dataclass_made_inside(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        o = Options(rate=2.0, inner=x * 2)
        o.names.extend(["a", "b"])
        return o

    out = times(wrap(f), n=3)
    out[0].names.append("c")
    return out


@program
def proxy_by_getattr(wrap: Wrap) -> Any:
    class Proxy:
        def __init__(self, held: Any) -> None:
            object.__setattr__(self, "_held", held)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._held, name)

        def __setattr__(self, name: str, value: Any) -> None:
            setattr(self._held, name, value)

    held = types.SimpleNamespace(a=1.0, n=0)
    p = Proxy(held)

    def f(x: Any) -> Any:
        p.n += 1
        return x * p.a + p.n

    out = changed(
        wrap,
        f,
        lambda: setattr(held, "a", 4.0),
        lambda: object.__setattr__(p, "_held", types.SimpleNamespace(a=7.0, n=100)),
    )
    return out, held.n, p.n


@program
def proxy_by_getattribute(wrap: Wrap) -> Any:
    class Loud:
        seen: list[str] = []

        def __init__(self) -> None:
            self.v = 2.0

        def __getattribute__(self, name: str) -> Any:
            Loud.seen.append(name)
            return object.__getattribute__(self, name)

    p = Loud()
    out = changed(wrap, lambda x: x * p.v, lambda: setattr(p, "v", 3.0))
    return out, Loud.seen


@program
def operators_of_a_wrapper(wrap: Wrap) -> Any:
    class Val:
        count = 0

        def __init__(self, t: Any) -> None:
            self.t = t

        def __add__(self, o: Any) -> Any:
            Val.count += 1
            return Val(self.t + (o.t if isinstance(o, Val) else o))

        __radd__ = __add__

        def __matmul__(self, o: Any) -> Any:
            return Val(self.t * o.t)

        def __neg__(self) -> Any:
            return Val(-self.t)

        def __getitem__(self, i: Any) -> Any:
            return self.t[i]

        def __bool__(self) -> bool:
            return Val.count % 2 == 0

        def __iadd__(self, o: Any) -> Any:
            self.t = self.t + o
            return self

        def __call__(self, k: float) -> Any:
            return self.t * k

        def __len__(self) -> int:
            return 3

        def __contains__(self, k: Any) -> bool:
            return bool(k == Val.count)

    def f(x: Any) -> Any:
        v = 1 + (Val(x) + 2) @ -Val(x)
        v += 5
        return v.t if v else v[0], v(2.0), len(v), 3 in v

    return times(wrap(f)), Val.count


@program
def comparison_chain_of_objects(wrap: Wrap) -> Any:
    @functools.total_ordering
    class V:
        def __init__(self, n: int) -> None:
            self.n = n

        def __eq__(self, o: object) -> bool:
            return isinstance(o, V) and self.n == o.n

        def __hash__(self) -> int:
            return hash(self.n)

        def __lt__(self, o: Any) -> bool:
            return bool(self.n < o.n)

    a, b, c = V(1), V(2), V(3)
    seen = {V(2): 10.0}

    def f(x: Any) -> Any:
        y = x * 2 if a < b <= c else x
        return y * seen.get(b, 1.0), max([a, b, c]).n, sorted([c, a, b])[0].n

    return changed(
        wrap, f, lambda: setattr(b, "n", 5), lambda: setattr(c, "n", 9), lambda: setattr(b, "n", 2)
    )


@program
def class_attribute_shadowed(wrap: Wrap) -> Any:
    class Base:
        k = 1.0

    class Derived(Base):
        pass

    d = Derived()

    def bump(x: Any) -> Any:
        Derived.k = Derived.k + 1
        return x * d.k

    return times(wrap(bump)), Base.k, Derived.k, tried(delattr, Derived, "k")


@program
def methods_swapped(wrap: Wrap) -> Any:
    class A:
        def go(self, x: Any) -> Any:
            return x * 2

    a = A()
    return changed(
        wrap, lambda x: a.go(x),
        lambda: setattr(A, "go", lambda self, x: x * 3),
        lambda: setattr(a, "go", lambda x: x * 4),
        lambda: setattr(a, "__class__", type("B", (A,), {})),
        lambda: delattr(a, "go"),
    )  # fmt: skip


@program
def bases_rearranged(wrap: Wrap) -> Any:
    class P:
        def v(self) -> float:
            return 2.0

    class Q:
        def v(self) -> float:
            return 3.0

    class A(P):
        pass

    a = A()
    return changed(
        wrap,
        lambda x: x * a.v(),
        lambda: setattr(A, "__bases__", (Q,)),
        lambda: setattr(A, "__bases__", (P, Q)),
    )


@program
def super_with_mixins(wrap: Wrap) -> Any:
    log: list[str] = []

    class Base:
        def f(self, x: Any) -> Any:
            log.append("base")
            return x

    class M1(Base):
        def f(self, x: Any) -> Any:
            log.append("m1")
            return super().f(x) * 2

    class M2(Base):
        def f(self, x: Any) -> Any:
            log.append("m2")
            return super().f(x) + 3

    class A(M1, M2):
        pass

    return times(wrap(A().f)), log


@program
def user_containers(wrap: Wrap) -> Any:
    d, li, s = UserDict({"a": 1.0}), UserList([1.0, 2.0]), UserString("ab")

    def f(x: Any) -> Any:
        d["n"] = d.get("n", 0) + 1
        li.append(float(len(li)))
        return x * d["a"] + sum(li) + len(s) + d["n"]

    return times(wrap(f)), dict(d), list(li)


@program
def own_mapping_and_sequence(wrap: Wrap) -> Any:
    class Store(MutableMapping[str, Any]):
        def __init__(self) -> None:
            self.rows: list[tuple[str, Any]] = []

        def __getitem__(self, k: str) -> Any:
            for key, v in self.rows:
                if key == k:
                    return v
            raise KeyError(k)

        def __setitem__(self, k: str, v: Any) -> None:
            self.rows = [r for r in self.rows if r[0] != k] + [(k, v)]

        def __delitem__(self, k: str) -> None:
            self[k]
            self.rows = [r for r in self.rows if r[0] != k]

        def __iter__(self) -> Any:
            return iter([k for k, _ in self.rows])

        def __len__(self) -> int:
            return len(self.rows)

    s = Store()

    def f(x: Any) -> Any:
        s["n"] = s.get("n", 0) + 1
        s.setdefault("first", s["n"])
        s.update(b=2.0)
        if "gone" in s:
            s.pop("gone")
            x = x + 100
        return x * s["n"] + s["b"] + len(s), sorted(s)

    run = wrap(f)
    out = times(run, n=2)
    s["gone"] = 1
    return out, times(run, n=3), s.rows


@program
def own_sequence_abc(wrap: Wrap) -> Any:
    class Seq(MutableSequence[Any]):
        def __init__(self) -> None:
            self.v: list[Any] = []

        def __getitem__(self, i: Any) -> Any:
            return self.v[i]

        def __setitem__(self, i: Any, x: Any) -> None:
            self.v[i] = x

        def __delitem__(self, i: Any) -> None:
            del self.v[i]

        def __len__(self) -> int:
            return len(self.v)

        def insert(self, i: int, x: Any) -> None:
            self.v.insert(i, x)

    s = Seq()

    def f(x: Any) -> Any:
        s.append(len(s) * 1.0)
        if len(s) > 3:
            s.pop(0)
        s.reverse()
        return x * sum(s) + (2.0 in s)

    return times(wrap(f), n=6), s.v


@program
def abstract_class_registered_later(wrap: Wrap) -> Any:
    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self) -> float: ...

    class Other:
        def area(self) -> float:
            return 3.0

    o = Other()
    return changed(
        wrap, lambda x: x * o.area() if isinstance(o, Shape) else x, lambda: Shape.register(Other)
    )


@typing.runtime_checkable
class HasScale(typing.Protocol):
    """Something with a scale."""

    scale: float


@program
def protocol_checked(wrap: Wrap) -> Any:
    o = types.SimpleNamespace()
    return changed(
        wrap,
        lambda x: x * o.scale if isinstance(o, HasScale) else x,
        lambda: setattr(o, "scale", 3.0),
        lambda: delattr(o, "scale"),
    )


@program
def typed_dicts_and_named_tuples(wrap: Wrap) -> Any:
    P = namedtuple("P", "x y")

    class Q(typing.NamedTuple):
        a: Any
        b: float = 2.0

    s = types.SimpleNamespace(p=P(1.0, 2.0))

    def f(x: Any) -> Any:
        q = Q(x * s.p.x)
        return q._replace(b=s.p.y), q._asdict()["b"], P._make([x, 1]).x, P._fields

    return changed(wrap, f, lambda: setattr(s, "p", P(5.0, 6.0)))


@program
def weak_references_that_die(wrap: Wrap) -> Any:
    class A:
        v = 2.0

    held = [A()]
    ref = weakref.ref(held[0])
    cache: Any = weakref.WeakValueDictionary()
    cache["a"] = held[0]

    def f(x: Any) -> Any:
        a = ref()
        return x * a.v if a is not None else x * 100

    def g(x: Any) -> Any:
        return x * cache["a"].v if "a" in cache else x * 50

    run, other = wrap(f), wrap(g)
    out = [run(ones(1)), other(ones(1)), run(ones(1)), other(ones(1))]
    held.clear()
    return out, run(ones(1)), other(ones(1))


@program
def getattr_with_computed_names(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(a=1.0, b=2.0, which="a")

    def f(x: Any) -> Any:
        y = x * getattr(s, s.which, 0.0)
        setattr(s, f"seen_{s.which}", True)
        return y, sorted(vars(s))

    return changed(
        wrap,
        f,
        lambda: setattr(s, "which", "b"),
        lambda: delattr(s, "b"),
        lambda: setattr(s, "c", 1),
    )


@program
def operator_getters(wrap: Wrap) -> Any:
    cfg = types.SimpleNamespace(a=types.SimpleNamespace(b=2.0), d={"k": [1.0, 2.0]})
    get, item, method = (
        operator.attrgetter("a.b"),
        operator.itemgetter("k"),
        operator.methodcaller("get", "k"),
    )

    def f(x: Any) -> Any:
        return x * get(cfg) + item(cfg.d)[1] + method(cfg.d)[0]

    return changed(
        wrap,
        f,
        lambda: setattr(cfg.a, "b", 5.0),
        lambda: cfg.d["k"].insert(0, 9.0),
        lambda: cfg.d.update(k=[3.0, 4.0]),
    )


@program
def copies_of_objects(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(cfg={"a": [1.0, 2.0]}, o=Options(2.0, ["z"]))

    def f(x: Any) -> Any:
        mine = copy.copy(s.cfg)
        deep = copy.deepcopy(s.cfg)
        deep["a"][0] = 100.0
        mine["b"] = 1
        o = copy.deepcopy(s.o)
        o.names.append("y")
        return x * s.cfg["a"][0], deep["a"], sorted(mine), o.names, len(s.o.names)

    return changed(wrap, f, lambda: s.cfg["a"].__setitem__(0, 7.0), lambda: s.o.names.append("q"))


@program
def class_defined_inside(wrap: Wrap) -> Any:
    k = [2.0]

    def f(x: Any) -> Any:
        class Scale:
            by = k[0]

            def __init__(self, t: Any) -> None:
                self.t = t

            def out(self) -> Any:
                return self.t * self.by

        return Scale(x).out()

    return changed(wrap, f, lambda: k.__setitem__(0, 5.0))


@program
def init_subclass_registry(wrap: Wrap) -> Any:
    registry: dict[str, Any] = {}

    class Base:
        def __init_subclass__(cls, **kwargs: Any) -> None:
            super().__init_subclass__(**kwargs)
            registry[cls.__name__] = cls

    class A(Base):
        k = 2.0

    def more() -> None:
        type("B", (Base,), {"k": 5.0})

    return changed(wrap, lambda x: x * sum(c.k for c in registry.values()), more)


@program
def module_hooks_added_and_removed(wrap: Wrap) -> Any:
    net = nn.Linear(2, 2, bias=False)
    with ad.no_grad():
        net.weight.fill_(1.0)
    seen: list[int] = []
    handles: list[Any] = []

    def hook(m: Any, args: Any, out: Any) -> Any:
        seen.append(len(seen))
        return out * 2

    out = changed(
        wrap, lambda x: net(x),
        lambda: handles.append(net.register_forward_hook(hook)),
        lambda: handles.append(net.register_forward_pre_hook(lambda m, a: (a[0] + 1,))),
        lambda: handles[0].remove(), x=ramp(1, 2),
    )  # fmt: skip
    return out, seen


@program
def buffers_that_count_calls(wrap: Wrap) -> Any:
    class Net(nn.Module):
        n: Any

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("n", ad.zeros(()))
            self.calls = 0
            self.history: list[float] = []

        def forward(self, x: Any) -> Any:
            self.n += 1
            self.calls += 1
            self.history.append(self.calls * 0.5)
            return x * self.n + self.calls

    net = Net()
    return times(wrap(net)), net.n, net.calls, net.history


@program
def mapping_views_of_state(wrap: Wrap) -> Any:
    d = {"a": 1.0, "b": 2.0}
    view, proxy = d.keys(), types.MappingProxyType(d)

    def f(x: Any) -> Any:
        return x * len(view) + proxy["a"] + sum(proxy.values()) + ("c" in view)

    return changed(wrap, f, lambda: d.update(c=3.0), lambda: d.update(a=9.0), lambda: d.pop("b"))


@program
def objects_in_sets_and_as_keys(wrap: Wrap) -> Any:
    class K:
        def __init__(self, n: int) -> None:
            self.n = n

        def __hash__(self) -> int:
            return self.n

        def __eq__(self, o: object) -> bool:
            return isinstance(o, K) and o.n == self.n

    s = {K(1), K(2)}
    d = {K(1): 5.0}

    def f(x: Any) -> Any:
        s.add(K(len(s)))
        d[K(len(s))] = float(len(d))
        return x * len(s) + sum(d.values()) + (K(1) in s)

    return times(wrap(f)), len(s), len(d)


@program
def object_that_counts_its_uses_in_dunder(wrap: Wrap) -> Any:
    class N:
        uses = 0

        def __index__(self) -> int:
            self.uses += 1
            return self.uses % 2

        def __float__(self) -> float:
            self.uses += 1
            return float(self.uses)

        def __str__(self) -> str:
            self.uses += 1
            return f"n{self.uses}"

    n = N()
    names: list[str] = []

    def f(x: Any) -> Any:
        names.append(f"{n}")
        return x[n] * float(n), [10, 20][n]

    return times(wrap(f), ramp(3)), n.uses, names


@program
def mapping_subclass_with_missing(wrap: Wrap) -> Any:
    class D(dict[str, Any]):
        def __missing__(self, k: str) -> Any:
            self[k] = len(self) * 1.0
            return self[k]

    d = D()
    names = iter("abab")

    def f(x: Any) -> Any:
        return x * d[next(names)] + len(d)

    return times(wrap(f)), dict(d)


@program
def generic_mapping_argument(wrap: Wrap) -> Any:
    class M(Mapping[str, Any]):
        def __init__(self, d: Any) -> None:
            self.d = d

        def __getitem__(self, k: str) -> Any:
            return self.d[k]

        def __iter__(self) -> Any:
            return iter(self.d)

        def __len__(self) -> int:
            return len(self.d)

    m = M({"a": 1.0})

    def f(x: Any) -> Any:
        def inner(a: float = 0.0, b: float = 0.0) -> Any:
            return x * a + b

        return inner(**m)

    return changed(wrap, f, lambda: m.d.update(b=3.0), lambda: m.d.update(a=4.0))
