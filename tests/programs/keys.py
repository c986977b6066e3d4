"""Tensors as keys, ordered dicts, weak proxies, protocols, lists of numbers as indices."""

# Written as a user would, who annotates little.
# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc, var-annotated"

from __future__ import annotations

import collections.abc
import gc
import heapq
import random
import typing
import weakref
from collections import Counter, OrderedDict, defaultdict
from typing import Any

import adjoint as ad
from adjoint import nn

from .playing import Wrap, changed, ones, program, ramp, tried


def two() -> tuple[Any, Any]:
    return ones(2), ones(2) * 2


@program
def tensor_as_key(wrap: Wrap) -> Any:
    a, b = two()
    d = {a: 1.0, b: 5.0}

    def f(x, t):
        d[t] += 1
        return x * d[t] + t

    r = wrap(f)
    return [tried(r, ones(2), t) for t in (a, b, a, b)], list(d.values())


@program
def tensor_in_set(wrap: Wrap) -> Any:
    a, b = two()
    c, s = ones(2) * 3, {a, b}
    r = wrap(lambda x, t: x * 2 if t in s else x)
    return [tried(r, ones(2), t) for t in (a, c, b, c, a)]


@program
def tensor_asked_for_with_default(wrap: Wrap) -> Any:
    a, b = two()
    c, d = ones(2) * 3, {a: 2.0}
    r = wrap(lambda x, t: x * d.get(t, 7.0))
    out = [tried(r, ones(2), t) for t in (a, c, b, a, c)]
    d[b] = 9.0
    return out + [tried(r, ones(2), t) for t in (a, b, c)]


@program
def tensor_in_a_tuple_as_key(wrap: Wrap) -> Any:
    a, b = two()
    d = {(a, 1): 2.0, (b, 1): 3.0}
    r = wrap(lambda x, t: x * d[t, 1])
    return [tried(r, ones(2), t) for t in (a, b, a, b)]


@program
def hash_of_tensor(wrap: Wrap) -> Any:
    a, b = two()
    d = {hash(a): 1.0, hash(b): 2.0}
    r = wrap(lambda x, t: x * d[hash(t)])
    return [tried(r, ones(2), t) for t in (a, b, a, b)]


@program
def counter_of_tensors(wrap: Wrap) -> Any:
    a, b = two()
    c = Counter()

    def f(x, t):
        c[t] += 1
        return x * c[t]

    r = wrap(f)
    return [tried(r, ones(2), t) for t in (a, b, a, b, a)], sorted(c.values())


@program
def weak_keys_of_tensors(wrap: Wrap) -> Any:
    a, b = two()
    d = weakref.WeakKeyDictionary({a: 1.0, b: 2.0})
    r = wrap(lambda x, t: x * d[t])
    return [tried(r, ones(2), t) for t in (a, b, a, b)]


@program
def state_by_tensor(wrap: Wrap) -> Any:
    a, b = two()
    state = defaultdict(dict)

    def f(t):
        own = state[t]
        if "mean" not in own:
            own["mean"] = ad.zeros_like(t)
        own["mean"] = own["mean"] * 0.5 + t
        return own["mean"]

    r = wrap(f)
    return [tried(r, t) for t in (a, b, a, b, a)]


@program
def tensors_seen(wrap: Wrap) -> Any:
    a, b = two()
    seen = set()

    def f(x, t):
        new = t not in seen
        seen.add(t)
        return x * len(seen) + new

    r = wrap(f)
    return [tried(r, ones(2), t) for t in (a, b, a, b, ones(2))], len(seen)


@program
def module_as_key(wrap: Wrap) -> Any:
    m, n = nn.Identity(), nn.Identity()
    d = {m: 1.0, n: 2.0}
    r = wrap(lambda x, k: x * d[k])
    return [tried(r, ones(2), k) for k in (m, n, m, n)]


# -- ordered dicts ------------------------------------------------------------------------------


@program
def first_of_an_ordered_dict(wrap: Wrap) -> Any:
    d = OrderedDict(a=1.0, b=2.0, c=3.0)

    def f(x):
        d.move_to_end("a")
        k, v = d.popitem(last=False)
        d[k] = v + 1
        return x * v, k

    r = wrap(f)
    return [tried(r, ones(2)) for _ in range(5)], dict(d)


@program
def moved_to_the_front(wrap: Wrap) -> Any:
    d = OrderedDict(a=1.0, b=2.0, c=3.0)

    def f(x):
        d.move_to_end("c", last=False)
        k, v = d.popitem()
        d[k] = v * 2
        d.move_to_end(key="a")
        return x * v, k, next(iter(d))

    r = wrap(f)
    return [tried(r, ones(2)) for _ in range(5)], dict(d)


@program
def keywords_that_methods_do_not_take(wrap: Wrap) -> Any:
    d, kept = OrderedDict(a=1.0), [1]

    def kind(fn):
        return type(tried(fn)).__name__

    def f(x):
        return (
            x,
            kind(lambda: d.popitem(first=True)),  # type: ignore[call-arg]
            kind(lambda: kept.append(object=2)),  # type: ignore[call-arg]
            kind(lambda: kept.insert(0)),  # type: ignore[call-arg]
        )

    r = wrap(f)
    return [tried(r, ones(2)) for _ in range(2)], dict(d), kept


@program
def least_recently_used(wrap: Wrap) -> Any:
    d, made = OrderedDict(), [0]

    def get(k):
        if k in d:
            d.move_to_end(k)
            return d[k]
        made[0] += 1
        d[k] = ad.full((2,), float(made[0]))
        if len(d) > 2:
            d.popitem(last=False)
        return d[k]

    r = wrap(lambda x, k: x + get(k))
    return [tried(r, ones(2), k) for k in "abacbdab"], list(d), made


# -- weak proxies -------------------------------------------------------------------------------


class Held:
    n = 3

    def bump(self, x):
        self.n += 1
        return x * self.n

    def __len__(self):
        return self.n

    def __call__(self, x):
        return x * self.n

    def __iter__(self):
        return iter([1.0, float(self.n)])

    def __add__(self, other):
        return other + self.n

    def __bool__(self):
        return self.n > 2

    def __eq__(self, other):
        return self.n == other

    def __getitem__(self, key):
        return key * 2.0 + self.n


USES: dict[str, Any] = {
    "length": lambda x, p: x * len(p),
    "call": lambda x, p: p(x),
    "item": lambda x, p: x * p[2],
    "sum": lambda x, p: x * sum(p),
    "addition": lambda x, p: p + x,
    "truth": lambda x, p: x if p else -x,
    "equality": lambda x, p: x * (p == 3),
    "class": lambda x, p: x * isinstance(p, Held) + (type(p) is Held) + (p.__class__ is Held),
    "attribute": lambda x, p: x * p.n,
    "method": lambda x, p: p.bump(x),
}


@program
def uses_of_a_proxy(wrap: Wrap) -> Any:
    out = []
    for use in USES.values():
        held = Held()
        proxy = weakref.proxy(held)
        r = wrap(lambda x, use=use, proxy=proxy: use(x, proxy))
        out += [tried(r, ones(2)), tried(r, ones(2))]
        held.n = 2
        out += [tried(r, ones(2)), tried(r, ones(2)), held.n]
    return out


@program
def proxy_written_through_and_dead(wrap: Wrap) -> Any:
    box = [Held()]
    proxy = weakref.proxy(box[0])

    def f(x):
        proxy.n = proxy.n + 1
        return x * proxy.n

    r = wrap(f)
    out = [tried(r, ones(2)) for _ in range(3)] + [box[0].n]
    box.clear()
    gc.collect()
    return [*out, type(tried(r, ones(2))).__name__]


# -- protocols ----------------------------------------------------------------------------------


@typing.runtime_checkable
class Scales(typing.Protocol):
    scale: float


@typing.runtime_checkable
class Runs(typing.Protocol):
    def run(self) -> float: ...


@program
def protocol_of_attributes(wrap: Wrap) -> Any:
    class Plain:
        pass

    a: Any = Plain()
    return changed(
        wrap,
        lambda x: x * a.scale if isinstance(a, Scales) else x,
        lambda: setattr(a, "scale", 4.0),
        lambda: delattr(a, "scale"),
    )


@program
def protocol_of_methods(wrap: Wrap) -> Any:
    class Plain:
        pass

    class Runner:
        def run(self):
            return 2.0

    box: list[Any] = [Runner()]
    return changed(
        wrap,
        lambda x: x * box[0].run() if isinstance(box[0], Runs) else x,
        lambda: box.__setitem__(0, Plain()),
        lambda: box.__setitem__(0, Runner()),
    )


@program
def abstract_collections(wrap: Wrap) -> Any:
    kinds = collections.abc.Sequence, collections.abc.Mapping, collections.abc.Callable
    v: list[Any] = [[1]]
    return changed(
        wrap,
        lambda x: (x, [isinstance(v[0], kind) for kind in kinds]),
        lambda: v.__setitem__(0, {}),
        lambda: v.__setitem__(0, len),
        lambda: v.__setitem__(0, 3),
    )


# -- indices ------------------------------------------------------------------------------------


@program
def shuffled_indices(wrap: Wrap) -> Any:
    random.seed(1)
    order = [0, 1, 2]

    def f(x):
        random.shuffle(order)
        return x[order]

    r = wrap(f)
    return [tried(r, ramp(3) * k) for k in range(5)], order, random.random()


@program
def indices_that_change(wrap: Wrap) -> Any:
    at = [0, 1]

    def f(x):
        at[0] = (at[0] + 1) % 3
        y = x.clone()
        y[[at[0], 0]] += 1
        return x[at[0], at[1]], x[[at[0], 0]], x[at[0] :], x[[[at[0]], [0]], [[1, 0]]], y

    r = wrap(f)
    return [tried(r, ramp(3, 2) * k) for k in range(5)], at


# -- arguments that are equal to others -----------------------------------------------------------


class Alike:
    def __init__(self, k):
        self.k = k

    def __eq__(self, other):
        return isinstance(other, Alike)

    def __hash__(self):
        return 1

    def scaled(self, x):
        return x * self.k


class Named(str):
    k = 0.0


class Counted(int):
    k = 0.0


class Measured(float):
    k = 0.0


@program
def objects_that_say_they_are_equal(wrap: Wrap) -> Any:
    a, b = Alike(2.0), Alike(3.0)
    r = wrap(lambda x, of: x * of.k)
    run = wrap(lambda x, fn: fn(x))
    return (
        [tried(r, ones(2), of) for of in (a, b, a)],
        [tried(run, ones(2), of.scaled) for of in (a, b, a)],
    )


@program
def equal_values_with_attributes(wrap: Wrap) -> Any:
    out = []
    for kind, value in ((Named, "a"), (Counted, 1), (Measured, 1.0)):
        a, b = kind(value), kind(value)
        a.k, b.k = 2.0, 3.0
        r = wrap(lambda x, of: x * of.k)
        out += [tried(r, ones(2), of) for of in (a, b, a)]
    return out


@program
def slices_as_arguments(wrap: Wrap) -> Any:
    r = wrap(lambda x, at: x[at])
    given = (slice(1, 3), slice(None, None, 2), slice(1, 3), slice(-2, None), 2, None)
    return [tried(r, ramp(5), at) for at in given]


# -- what keys are asked by C ---------------------------------------------------------------------


class Asked:
    """A key that counts how often it is asked."""

    def __init__(self, value: int, counts: Counter[str]) -> None:
        self.value, self.counts = value, counts

    def __hash__(self):
        self.counts["hash"] += 1
        return 1

    def __eq__(self, other):
        self.counts["eq"] += 1
        return self.value == other.value

    def __lt__(self, other):
        self.counts["lt"] += 1
        return self.value < other.value


class Remembering(Alike):
    """A key that keeps its hash, and is compared by what may change."""

    kept: int | None = None

    def __hash__(self):
        if self.kept is None:
            self.kept = 7
        return self.kept

    def __eq__(self, other):
        return self.k == other.k


def asking(name: str, ask: Any) -> None:
    """Have a program on the table that asks keys, and says how often they were asked."""

    def play(wrap: Wrap) -> Any:
        counts = Counter()
        keys = [Asked(value, counts) for value in (5, 2, 2, 8, 1)]
        run = wrap(lambda x: x * ask(keys))
        return [(tried(run, ones(2)), dict(counts)) for _ in range(3)]

    play.__name__, play.__module__ = name, __name__
    program(play)


asking("counting_in_a_set_display", lambda keys: len({keys[0], keys[1], keys[2]}))
asking("counting_in_a_set", lambda keys: len(set(keys)))
asking("counting_in_fromkeys", lambda keys: len(dict.fromkeys(keys)))
asking("counting_in_tuples", lambda keys: len({(keys[1], 0): 1, (keys[2], 0): 2}))
asking("counting_in_nsmallest", lambda keys: heapq.nsmallest(2, keys)[1].value)
asking("counting_in_nlargest", lambda keys: heapq.nlargest(2, keys)[1].value)


@program
def keys_that_become_equal(wrap: Wrap) -> Any:
    a, b = Remembering(1.0), Remembering(2.0)

    def f(x):
        taken = {a: 0}
        taken.update({b: 1})
        return x * len({a, b}), x * len({(a, 0), (b, 0)}), len(taken), len({**taken, b: 2})

    return changed(wrap, f, lambda: setattr(b, "k", 1.0), lambda: setattr(a, "k", 3.0))


@program
def callback_at_the_end_of_what_is_let_go(wrap: Wrap) -> Any:
    log: list[str] = []
    held = [Alike(1.0)]
    waiting = [weakref.ref(held[0], lambda gone: log.append("gone"))]

    def f(x):
        held.clear()
        return x * (1 + len(log))

    return changed(wrap, f, lambda: held.append(Alike(2.0))), log, len(waiting)
