"""Programs in which something that a function reads changes between calls."""

from __future__ import annotations

import contextvars
import dataclasses
import enum
import functools
import operator
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import adjoint as ad

from .playing import Wrap, changed, ones, program

RATE = 1.0
NAMES = ["a", "b"]
DEPTH: contextvars.ContextVar[int] = contextvars.ContextVar("depth", default=1)


def global_(name: str, value: Any) -> Callable[[], Any]:
    return functools.partial(operator.setitem, globals(), name, value)


@program
def globals_(wrap: Wrap) -> Any:
    global RATE
    RATE = 1.0
    return changed(wrap, lambda x: x * RATE, global_("RATE", 2.0), global_("RATE", 3))


@program
def deleted_global(wrap: Wrap) -> Any:
    globals()["GONE"] = 2.0
    return changed(wrap, lambda x: x * GONE, lambda: globals().pop("GONE"))  # type: ignore[name-defined] # noqa: F821


@program
def global_shadowing_builtin(wrap: Wrap) -> Any:
    out = changed(wrap, lambda x: x * max(1, 2), global_("max", lambda a, b: 7))
    del globals()["max"]
    return out


@program
def closure(wrap: Wrap) -> Any:
    rate = 1.0

    def change() -> None:
        nonlocal rate
        rate += 1

    return changed(wrap, lambda x: x * rate, change, change, change)


@program
def closure_type(wrap: Wrap) -> Any:
    rate: Any = 1

    def change(value: Any) -> None:
        nonlocal rate
        rate = value

    changes = [functools.partial(change, v) for v in (True, 1.0, ad.tensor(2.0), None, "a")]
    return changed(wrap, lambda x: x * 2 if rate is None else x * rate, *changes)


@program
def default_arguments(wrap: Wrap) -> Any:
    def helper(x: Any, by: float = 2.0, *, plus: float = 1.0) -> Any:
        return x * by + plus

    return changed(
        wrap, lambda x: helper(x),
        lambda: setattr(helper, "__defaults__", (3.0,)),
        lambda: setattr(helper, "__kwdefaults__", {"plus": 5.0}),
    )  # fmt: skip


@program
def own_defaults(wrap: Wrap) -> Any:
    def f(x: Any, by: Any = [2.0]) -> Any:  # noqa: B006
        return x * by[0]

    return changed(wrap, f, lambda: operator.setitem(f.__defaults__[0], 0, 3.0))  # type: ignore[index]


@program
def replaced_code(wrap: Wrap) -> Any:
    def helper(x: Any) -> Any:
        return x * 2

    return changed(
        wrap, lambda x: helper(x), lambda: setattr(helper, "__code__", (lambda x: x * 9).__code__)
    )


@program
def function_attribute(wrap: Wrap) -> Any:
    def helper(x: Any) -> Any:
        return x * helper.scale  # type: ignore[attr-defined]

    helper.scale = 2.0  # type: ignore[attr-defined]
    return changed(wrap, helper, lambda: setattr(helper, "scale", 4.0))


@program
def attribute_chain(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(a=types.SimpleNamespace(b=types.SimpleNamespace(c=2.0)))
    return changed(
        wrap, lambda x: x * s.a.b.c,
        lambda: setattr(s.a.b, "c", 3.0),
        lambda: setattr(s.a, "b", types.SimpleNamespace(c=4.0)),
        lambda: setattr(s, "a", types.SimpleNamespace(b=types.SimpleNamespace(c=5.0))),
    )  # fmt: skip


@program
def attribute_added(wrap: Wrap) -> Any:
    s = types.SimpleNamespace()
    return changed(
        wrap, lambda x: x * getattr(s, "scale", 1.0) + hasattr(s, "other"),
        lambda: setattr(s, "scale", 3.0), lambda: setattr(s, "other", 0), lambda: delattr(s, "scale"),
    )  # fmt: skip


class Base:
    scale = 1.0

    def apply(self, x: Any) -> Any:
        return x * self.scale


@program
def class_attribute_shadowed(wrap: Wrap) -> Any:
    class Child(Base):
        pass

    c = Child()
    return changed(
        wrap, lambda x: c.apply(x),
        lambda: setattr(Child, "scale", 2.0), lambda: setattr(c, "scale", 3.0),
        lambda: delattr(c, "scale"), lambda: delattr(Child, "scale"),
    )  # fmt: skip


@program
def class_replaced(wrap: Wrap) -> Any:
    class A:
        def apply(self, x: Any) -> Any:
            return x * 2

    class B:
        def apply(self, x: Any) -> Any:
            return x * 3

    a = A()
    return changed(wrap, lambda x: a.apply(x), lambda: setattr(a, "__class__", B))


@program
def bases_replaced(wrap: Wrap) -> Any:
    class P:
        k = 2.0

    class Q:
        k = 3.0

    class R(P):
        pass

    r = R()
    return changed(wrap, lambda x: x * r.k, lambda: setattr(R, "__bases__", (Q,)))


@program
def method_patched_on_instance(wrap: Wrap) -> Any:
    b = Base()
    return changed(wrap, lambda x: b.apply(x), lambda: setattr(b, "apply", lambda x: x * 8))


@program
def bound_method_kept(wrap: Wrap) -> Any:
    b = Base()
    b.scale = 2.0
    method = b.apply
    return changed(wrap, lambda x: method(x), lambda: setattr(b, "scale", 5.0))


@program
def property_over_private(wrap: Wrap) -> Any:
    class Held:
        def __init__(self) -> None:
            self._n = 1

        @property
        def n(self) -> int:
            return self._n + 1

        @n.setter
        def n(self, value: int) -> None:
            self._n = value * 10

    h = Held()
    return changed(wrap, lambda x: x * h.n, lambda: setattr(h, "n", 3), lambda: setattr(h, "_n", 1))


@program
def cached_property(wrap: Wrap) -> Any:
    class Held:
        n = 2.0

        @functools.cached_property
        def twice(self) -> float:
            return self.n * 2

    h = Held()
    return [
        *changed(wrap, lambda x: x * h.twice, lambda: setattr(h, "n", 5.0),
                 lambda: vars(h).pop("twice")),
        vars(h),
    ]  # fmt: skip


@program
def slots(wrap: Wrap) -> Any:
    class Held:
        __slots__ = ("a", "b")

    h = Held()
    h.a = 2.0
    return changed(
        wrap, lambda x: x * h.a + getattr(h, "b", 0.0),
        lambda: setattr(h, "a", 3.0), lambda: setattr(h, "b", 1.0), lambda: delattr(h, "b"),
    )  # fmt: skip


@program
def descriptor(wrap: Wrap) -> Any:
    class Scaled:
        factor = 2.0

        def __set_name__(self, owner: Any, name: str) -> None:
            self.name = "_" + name

        def __get__(self, obj: Any, kind: Any = None) -> Any:
            return getattr(obj, self.name, 1.0) * self.factor

        def __set__(self, obj: Any, value: Any) -> None:
            setattr(obj, self.name, value)

    class Held:
        rate = Scaled()

    h = Held()
    return changed(
        wrap, lambda x: x * h.rate,
        lambda: setattr(h, "rate", 3.0), lambda: setattr(Scaled, "factor", 5.0),
    )  # fmt: skip


@dataclasses.dataclass
class Settings:
    rate: float = 1.0
    layers: list[int] = dataclasses.field(default_factory=lambda: [1, 2])
    mode: str = "sum"


@program
def dataclass_fields(wrap: Wrap) -> Any:
    s = Settings()
    return changed(
        wrap, lambda x: x * s.rate * sum(s.layers) if s.mode == "sum" else x,
        lambda: setattr(s, "rate", 2.0), lambda: s.layers.append(4),
        lambda: setattr(s, "mode", "none"),
    )  # fmt: skip


@program
def dataclass_replaced_and_compared(wrap: Wrap) -> Any:
    s = [Settings(), Settings()]
    return changed(
        wrap, lambda x: x * 2 if s[0] == s[1] else x * dataclasses.replace(s[0], rate=7.0).rate,
        lambda: setattr(s[1], "rate", 4.0), lambda: operator.setitem(s, 0, Settings(rate=4.0)),
    )  # fmt: skip


@program
def dataclass_argument(wrap: Wrap) -> Any:
    run = wrap(lambda s, x: x * s.rate + len(s.layers))
    s = Settings()
    out = [run(s, ones(2))]
    s.rate = 3.0
    out.append(run(s, ones(2)))
    s.layers.append(1)
    return [*out, run(s, ones(2))]


@program
def frozen_dataclass_and_astuple(wrap: Wrap) -> Any:
    kind = dataclasses.make_dataclass("Kind", [("a", float), ("b", float)], frozen=True)
    s = [kind(1.0, 2.0)]
    return changed(
        wrap, lambda x: x * sum(dataclasses.astuple(s[0])), lambda: s.__setitem__(0, kind(3.0, 2.0))
    )


class Mode(enum.Enum):
    FAST = 1
    SLOW = 2

    @property
    def scale(self) -> float:
        return self.value * 10.0


class Flags(enum.Flag):
    A = enum.auto()
    B = enum.auto()


@program
def enums(wrap: Wrap) -> Any:
    s: Any = types.SimpleNamespace(mode=Mode.FAST, flags=Flags.A, level=1)
    return changed(
        wrap,
        lambda x: x * s.mode.scale + (Flags.B in s.flags) + (Mode(s.level) is Mode.SLOW) * 5,
        lambda: setattr(s, "mode", Mode.SLOW), lambda: setattr(s, "flags", Flags.A | Flags.B),
        lambda: setattr(s, "level", 2),
    )  # fmt: skip


class Pair(NamedTuple):
    a: float
    b: float


@program
def named_tuples(wrap: Wrap) -> Any:
    s = [Pair(1.0, 2.0)]
    return changed(
        wrap, lambda x: x * s[0].a + s[0]._replace(a=5.0).a,
        lambda: operator.setitem(s, 0, Pair(3.0, 4.0)),
    )  # fmt: skip
