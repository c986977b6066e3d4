"""Programs that use the standard library: functools, itertools, collections, contextlib, match."""

from __future__ import annotations

import bisect
import collections
import contextlib
import contextvars
import datetime
import decimal
import fractions
import functools
import heapq
import io
import itertools
import json
import math
import operator
import os
import re
import statistics
import string
import sys
import textwrap
import types
from typing import Any

import adjoint as ad

from .playing import Wrap, changed, ones, program, ramp, times, tried

LEVEL = contextvars.ContextVar("LEVEL", default=1.0)
SCALE = 2.0
TOTAL = 0


@program
def lru_cache_inside_and_outside(wrap: Wrap) -> Any:
    calls: list[int] = []
    k = [2.0]

    @functools.cache
    def rate(n: int) -> float:
        calls.append(n)
        return n * k[0]

    out = changed(
        wrap, lambda x: x * rate(3) + rate(2), lambda: k.__setitem__(0, 5.0), rate.cache_clear
    )
    return out


@program
def partials_that_change(wrap: Wrap) -> Any:
    def scaled(x: Any, a: float, *, b: float = 0.0) -> Any:
        return x * a + b

    s = types.SimpleNamespace(fn=functools.partial(scaled, a=2.0, b=1.0))
    method = functools.partialmethod

    class A:
        def go(self, x: Any, k: float) -> Any:
            return x * k

        two = method(go, k=2.0)

    a = A()
    return changed(
        wrap, lambda x: s.fn(x) + a.two(x), lambda: s.fn.keywords.update(b=9.0),
        lambda: setattr(s, "fn", functools.partial(s.fn, a=4.0)),
    )  # fmt: skip


@program
def single_dispatch(wrap: Wrap) -> Any:
    @functools.singledispatch
    def scale(v: Any) -> float:
        return 1.0

    @scale.register
    def _(v: int) -> float:
        return v * 2.0

    s = types.SimpleNamespace(v=3)
    return changed(
        wrap, lambda x: x * scale(s.v), lambda: setattr(s, "v", "text"),
        lambda: scale.register(str, lambda v: 7.0), lambda: setattr(s, "v", True),
    )  # fmt: skip


@program
def reduce_and_accumulate(wrap: Wrap) -> Any:
    v = [1.0, 2.0, 3.0]

    def f(x: Any) -> Any:
        total = functools.reduce(operator.mul, v, 1.0)
        running = list(itertools.accumulate(v, lambda a, b: a + b))
        v.append(running[-1])
        return x * total + running[1]

    return times(wrap(f)), v


@program
def itertools_of_state(wrap: Wrap) -> Any:
    a, b = [1, 2, 3], ["p", "q"]

    def f(x: Any) -> Any:
        n = sum(i * len(s) for i, s in itertools.product(a, b))
        n += sum(1 for _ in itertools.combinations(a, 2)) + len(list(itertools.permutations(b)))
        groups = [(k, len(list(g))) for k, g in itertools.groupby(sorted(a), key=lambda i: i % 2)]
        chained = list(
            itertools.chain(a, itertools.repeat(7, 2), itertools.islice(itertools.count(5, 5), 2))
        )
        pairs = list(itertools.pairwise(a))
        taken = list(itertools.takewhile(lambda i: i < 3, a)) + list(
            itertools.dropwhile(lambda i: i < 2, a)
        )
        starred = list(itertools.starmap(pow, [(2, 3), (a[0], 2)]))
        longest = list(itertools.zip_longest(a, b, fillvalue="-"))
        t1, t2 = itertools.tee(a)
        return x * n, groups, chained, pairs, taken, starred, longest, sum(t1) + sum(t2)

    return changed(wrap, f, lambda: a.append(4), lambda: b.clear(), lambda: a.__setitem__(0, 6))


@program
def counters_and_defaults(wrap: Wrap) -> Any:
    c: Any = collections.Counter()
    d: Any = collections.defaultdict(list)
    od: Any = collections.OrderedDict(a=1, b=2)

    def f(x: Any) -> Any:
        c.update("abca")
        c["z"] += 1
        c.subtract(["b"])
        d[len(d)].append(x.shape[0])
        od.move_to_end("a")
        od[f"k{len(od)}"] = len(od)
        return x * c["a"] + len(d), c.most_common(1), list(od), c.total()

    return times(wrap(f)), dict(c), dict(d), list(od.items())


@program
def chain_map_layers(wrap: Wrap) -> Any:
    low, high = {"a": 1.0, "b": 2.0}, {}  # type: ignore[var-annotated]
    m = collections.ChainMap(high, low)

    def f(x: Any) -> Any:
        m["n"] = m.get("n", 0.0) + 1.0
        child = m.new_child({"b": 10.0})
        return x * m["a"] + m["n"] + child["b"] + len(child)

    return changed(wrap, f, lambda: low.update(a=5.0), lambda: high.update(a=7.0)), high


@program
def deque_as_window(wrap: Wrap) -> Any:
    d: Any = collections.deque(maxlen=3)

    def f(x: Any) -> Any:
        d.append(len(d) + 1.0)
        d.rotate(1)
        if len(d) == 3 and d[0] > 2:
            d.popleft()
        return x * sum(d) + max(d)

    return times(wrap(f), n=7), list(d)


@program
def deque_of_tensors(wrap: Wrap) -> Any:
    d: Any = collections.deque([ones(2)], maxlen=2)

    def f(x: Any) -> Any:
        y = x + d[-1]
        d.append(y)
        return sum(d)

    return times(wrap(f)), list(d)


@program
def heap_of_numbers(wrap: Wrap) -> Any:
    h = [5, 3, 8]
    heapq.heapify(h)

    def f(x: Any) -> Any:
        heapq.heappush(h, len(h))
        low = heapq.heappop(h)
        return x * low, heapq.nsmallest(2, h), heapq.nlargest(1, h)

    return times(wrap(f)), h


@program
def bisect_in_a_table(wrap: Wrap) -> Any:
    steps, rates = [0, 2, 4], [1.0, 0.5, 0.1]
    s = types.SimpleNamespace(n=0)

    def f(x: Any) -> Any:
        rate = rates[bisect.bisect_right(steps, s.n) - 1]
        bisect.insort(steps, s.n + 10)
        s.n += 1
        return x * rate

    return times(wrap(f), n=6), steps


@contextlib.contextmanager
def scaled_by(k: float, log: list[str]) -> Any:
    """Scale within a block."""
    global SCALE
    before, SCALE = SCALE, k
    log.append("in")
    try:
        yield k * 2
    finally:
        SCALE = before
        log.append("out")


@program
def context_manager_over_a_global(wrap: Wrap) -> Any:
    log: list[str] = []

    def f(x: Any) -> Any:
        with scaled_by(5.0, log) as twice:
            y = x * SCALE + twice
        return y * SCALE

    def change() -> None:
        global SCALE
        SCALE = 3.0

    out = changed(wrap, f, change)
    globals()["SCALE"] = 2.0
    return out, log


@program
def context_manager_that_swallows(wrap: Wrap) -> Any:
    log: list[Any] = []

    class Quiet:
        def __enter__(self) -> Any:
            log.append("enter")
            return self

        def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
            log.append(None if kind is None else (kind.__name__, str(error)))
            return kind is KeyError

    d: dict[str, float] = {}

    def f(x: Any) -> Any:
        with Quiet():
            x = x * d["k"]
        with contextlib.suppress(ZeroDivisionError):
            x = x * (1 / len(d))
        return x

    return changed(wrap, f, lambda: d.update(k=3.0), lambda: d.clear()), log


@program
def exit_stack_of_blocks(wrap: Wrap) -> Any:
    log: list[str] = []

    def f(x: Any) -> Any:
        with contextlib.ExitStack() as stack:
            twice = [stack.enter_context(scaled_by(k, log)) for k in (3.0, 4.0)]
            stack.callback(log.append, "called")
            y = x * SCALE * sum(twice)
        return y * SCALE

    return times(wrap(f), n=3), log


@program
def redirected_prints(wrap: Wrap) -> Any:
    told = io.StringIO()
    n = [0]

    def f(x: Any) -> Any:
        n[0] += 1
        print("call", n[0], end=";")
        return x

    with contextlib.redirect_stdout(told):
        times(wrap(f), n=3)
    return told.getvalue()


@program
def context_variables(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        return x * LEVEL.get()

    run = wrap(f)
    out = [run(ones(1)), run(ones(1))]
    token = LEVEL.set(4.0)
    out += [run(ones(1))]
    LEVEL.reset(token)
    other = contextvars.copy_context()
    other.run(LEVEL.set, 9.0)
    return out, run(ones(1)), other.run(run, ones(1))


@program
def context_variable_set_inside(wrap: Wrap) -> Any:
    var: Any = contextvars.ContextVar("var", default=1)

    def f(x: Any) -> Any:
        token = var.set(var.get() + 1)
        y = x * var.get()
        if var.get() % 2:
            var.reset(token)
        return y

    return times(wrap(f)), var.get()


@program
def match_on_shapes_of_data(wrap: Wrap) -> Any:
    class P:
        __match_args__ = ("a", "b")

        def __init__(self, a: Any, b: Any) -> None:
            self.a, self.b = a, b

    s: Any = types.SimpleNamespace(v=0)

    def f(x: Any) -> Any:
        match s.v:
            case 0 | 1:
                return x
            case int(n) if n > 100:
                return x * n
            case [first, *rest]:
                return x * first + len(rest)
            case {"k": k, **more}:
                return x * k + len(more)
            case P(a, b=2):
                return x * a
            case str() as text:
                return x * len(text)
            case _:
                return x * -1

    values = [200, [3, 4, 5], (2,), {"k": 2.0, "z": 1}, P(4, 2), P(4, 3), "abc", None, 1]
    return changed(wrap, f, *[functools.partial(setattr, s, "v", v) for v in values])


@program
def exception_groups(wrap: Wrap) -> Any:
    s: Any = types.SimpleNamespace(v=[ValueError("a"), TypeError("b")], seen=[])

    def f(x: Any) -> Any:
        try:
            if s.v:
                raise ExceptionGroup("many", s.v)
        except* ValueError as group:
            s.seen.append(len(group.exceptions))
            x = x * 2
        except* TypeError:
            x = x * 3
        else:
            x = x + 100
        finally:
            s.seen.append("done")
        return x

    return changed(
        wrap, f, lambda: s.v.pop(), lambda: s.v.append(KeyError("c")), lambda: s.v.clear()
    ), s.seen


@program
def exceptions_as_control_flow(wrap: Wrap) -> Any:
    class Stop(Exception):
        def __init__(self, n: int) -> None:
            super().__init__(f"stop at {n}")
            self.n = n

    limit = [2]
    log: list[str] = []

    def inner(i: int) -> None:
        if i >= limit[0]:
            raise Stop(i)

    def f(x: Any) -> Any:
        try:
            for i in range(10):
                inner(i)
                x = x * 2
        except Stop as stop:
            log.append(str(stop))
            return x + stop.n
        finally:
            log.append("end")
        return x

    return changed(wrap, f, lambda: limit.__setitem__(0, 4), lambda: limit.__setitem__(0, 0)), log


@program
def exception_that_leaves(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(n=0, log=[])

    def f(x: Any) -> Any:
        s.n += 1
        s.log.append(s.n)
        if s.n % 2 == 0:
            raise RuntimeError(f"call {s.n}")
        return x * s.n

    return times(wrap(f), n=6), s.n, s.log


@program
def generator_with_finally(wrap: Wrap) -> Any:
    log: list[str] = []

    def gen(n: int) -> Any:
        try:
            for i in range(n):
                got = yield i
                if got:
                    log.append(f"got {got}")
        finally:
            log.append("closed")
        return n * 10

    def whole(n: int) -> Any:
        result = yield from gen(n)
        yield result

    def f(x: Any) -> Any:
        g = gen(5)
        x = x * (next(g) + 1) + g.send("a") + next(g)
        g.close()
        return x, list(whole(2))

    return times(wrap(f), n=3), log


@program
def json_text_and_patterns(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(text='{"a": 2.0, "b": [1, 2]}', name="layer12.w")
    pattern = re.compile(r"(\w+?)(\d+)")

    def f(x: Any) -> Any:
        d = json.loads(s.text)
        m = pattern.match(s.name)
        n = int(m.group(2)) if m else 0
        return x * d["a"] + n, json.dumps({"n": n}), re.sub(r"\d", "#", s.name), s.name.split(".")

    return changed(
        wrap,
        f,
        lambda: setattr(s, "text", '{"a": 3.5, "b": []}'),
        lambda: setattr(s, "name", "none"),
    )


@program
def mathematics_of_numbers(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(n=6, v=[1.0, 2.0, 4.0])

    def f(x: Any) -> Any:
        k = math.gcd(s.n, 4) + math.isqrt(s.n) + math.comb(s.n, 2) + math.prod(s.v)
        k += statistics.mean(s.v) + statistics.median(s.v) + float(fractions.Fraction(1, s.n))
        k += float(decimal.Decimal("1.5") * s.n) + divmod(s.n, 4)[1] + round(2.567, 1)
        return x * k

    return changed(wrap, f, lambda: setattr(s, "n", 9), lambda: s.v.append(8.0))


@program
def text_of_numbers(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(n=3, log=[])

    def f(x: Any) -> Any:
        s.n += 1
        s.log.append(f"{s.n:03d} {'a' * s.n!r:>8} {x.shape[0]}")
        s.log.append("%d-%s" % (s.n, "z"))  # noqa: UP031
        s.log.append(string.Template("$a+b").substitute(a=s.n) + textwrap.dedent("  q"))
        return x * len(s.log[-1])

    return times(wrap(f), n=3), s.log


@program
def dates_and_spans(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(day=datetime.date(2020, 1, 30))

    def f(x: Any) -> Any:
        s.day += datetime.timedelta(days=1)
        return x * s.day.day + s.day.month

    return times(wrap(f)), s.day


@program
def environment_and_modules(wrap: Wrap) -> Any:
    os.environ["ADJOINT_TEST_SCALE"] = "2"
    module = types.ModuleType("adjoint_test_module")
    module.k = 3.0  # type: ignore[attr-defined]
    sys.modules["adjoint_test_module"] = module

    def f(x: Any) -> Any:
        import adjoint_test_module  # type: ignore[import-not-found]

        return x * int(os.environ.get("ADJOINT_TEST_SCALE", "1")) + adjoint_test_module.k

    out = changed(
        wrap,
        f,
        lambda: os.environ.update(ADJOINT_TEST_SCALE="7"),
        lambda: setattr(module, "k", 9.0),
        lambda: os.environ.pop("ADJOINT_TEST_SCALE"),
    )
    del sys.modules["adjoint_test_module"]
    return out


@program
def globals_written_through_a_dict(wrap: Wrap) -> Any:
    globals()["TOTAL"] = 0

    def f(x: Any) -> Any:
        globals()["TOTAL"] += 1
        return x * TOTAL

    return times(wrap(f)), TOTAL


@program
def recursion_over_a_tree(wrap: Wrap) -> Any:
    tree: Any = {"v": 1.0, "kids": [{"v": 2.0, "kids": []}, {"v": 3.0, "kids": []}]}

    def total(node: Any) -> float:
        node["seen"] = node.get("seen", 0) + 1
        return float(node["v"] + sum(map(total, node["kids"])))

    run_changes = changed(
        wrap, lambda x: x * total(tree), lambda: tree["kids"].append({"v": 4.0, "kids": []}),
        lambda: tree["kids"][0].update(v=9.0),
    )  # fmt: skip
    return run_changes, tree


@program
def decorators_with_state(wrap: Wrap) -> Any:
    def counted(fn: Any) -> Any:
        @functools.wraps(fn)
        def inner(*args: Any, **kwargs: Any) -> Any:
            inner.calls += 1  # type: ignore[attr-defined]
            return fn(*args, **kwargs) * inner.calls  # type: ignore[attr-defined]

        inner.calls = 0  # type: ignore[attr-defined]
        return inner

    @counted
    def double(x: Any) -> Any:
        return x * 2

    return times(wrap(lambda x: double(x) + double(x))), double.calls


@program
def defaults_that_grow(wrap: Wrap) -> Any:
    def f(x: Any, seen: list[int] = [], *, by: dict[str, float] = {}) -> Any:  # noqa: B006
        seen.append(len(seen))
        by["k"] = by.get("k", 0.0) + 0.5
        return x * len(seen) + by["k"]

    return times(wrap(f)), f.__defaults__, f.__kwdefaults__


@program
def defaults_replaced(wrap: Wrap) -> Any:
    def inner(x: Any, k: float = 2.0, *, b: float = 1.0) -> Any:
        return x * k + b

    return changed(
        wrap,
        lambda x: inner(x),
        lambda: setattr(inner, "__defaults__", (5.0,)),
        lambda: setattr(inner, "__kwdefaults__", {"b": 7.0}),
        lambda: setattr(inner, "__code__", (lambda x, k=0, *, b=0: x - k - b).__code__),
    )


@program
def closures_made_in_loops(wrap: Wrap) -> Any:
    fns = [lambda x, k=k: x * k for k in range(3)]
    late = [lambda x: x + k for k in range(3)]  # noqa: B023

    def f(x: Any) -> Any:
        for fn in fns:
            x = x + fn(x)
        return late[0](x)

    return changed(wrap, f, lambda: fns.append(lambda x: x * 10), lambda: fns.pop(0))


@program
def closures_that_share_a_variable(wrap: Wrap) -> Any:
    def pair() -> Any:
        n = 0

        def up(x: Any) -> Any:
            nonlocal n
            n += 1
            return x * n

        def reset() -> None:
            nonlocal n
            n = 0

        return up, reset

    up, reset = pair()
    run = wrap(up)
    out = times(run, n=3)
    reset()
    return out, times(run, n=2), up(ones(1))


@program
def functions_kept_from_a_call(wrap: Wrap) -> Any:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        y = x * 2
        kept.append(lambda z: z + y)
        return y

    run = wrap(f)
    run(ones(2))
    run(ones(2) * 3)
    return [fn(ones(2)) for fn in kept]


@program
def star_arguments_and_unpacking(wrap: Wrap) -> Any:
    args, kwargs = [2.0, 3.0], {"c": 4.0}

    def inner(x: Any, *rest: float, c: float = 0.0, **more: float) -> Any:
        return x * sum(rest) + c + len(more)

    def f(x: Any) -> Any:
        first, *middle, last = [*args, *range(3)]
        (a, b), c = (first, last), {**kwargs, "d": 1.0}
        return inner(x, *args, **c) + a + b + len(middle)

    return changed(
        wrap, f, lambda: args.append(5.0), lambda: kwargs.update(e=1.0), lambda: kwargs.pop("c")
    )


@program
def sorting_with_keys(wrap: Wrap) -> Any:
    items = [("b", 2), ("a", 3), ("c", 1)]
    order = {"a": 0, "b": 1, "c": 2}

    def f(x: Any) -> Any:
        items.sort(key=lambda p: order[p[0]])
        top = max(items, key=lambda p: p[1])
        ranks = sorted(range(3), key=functools.cmp_to_key(lambda i, j: items[j][1] - items[i][1]))
        return x * top[1] + ranks[0]

    return changed(
        wrap, f, lambda: order.update(a=9), lambda: items.__setitem__(0, ("b", 50))
    ), items


@program
def slices_of_lists(wrap: Wrap) -> Any:
    v = [1.0, 2.0, 3.0, 4.0]

    def f(x: Any) -> Any:
        v[1:3] = [v[1] + 1]
        v[len(v) :] = [v[0], 9.0]
        del v[-1]
        return x * sum(v[::2]) + v[-1], v[::-1]

    return times(wrap(f)), v


@program
def sets_and_their_order(wrap: Wrap) -> Any:
    a, b = {1, 2, 3}, {3, 4}

    def f(x: Any) -> Any:
        c = (a | b) - {2} ^ {9}
        a.add(len(a) + 10)
        b.discard(4)
        b.update(a & {11, 1})
        return x * len(c) + sum(sorted(c)) + (a >= b)

    return times(wrap(f)), a, b


@program
def walrus_and_comprehensions(wrap: Wrap) -> Any:
    v = [1, 2, 3, 4]

    def f(x: Any) -> Any:
        big = [y for i in v if (y := i * 2) > 3]
        d = {k: i for i, k in enumerate(map(str, v)) if i % 2}
        s = {i % 3 for i in v}
        return x * sum(big) + len(d) + len(s) + y

    return changed(wrap, f, lambda: v.append(7), lambda: v.__delitem__(slice(0, 3)))


@program
def bytes_and_buffers(wrap: Wrap) -> Any:
    b = bytearray(b"\x01\x02\x03")
    m = memoryview(b)

    def f(x: Any) -> Any:
        b[0] = (b[0] + 1) % 256
        return x * b[0] + m[1] + len(bytes(b))

    return changed(wrap, f, lambda: b.__setitem__(1, 9)), bytes(b)


@program
def iteration_by_getitem_and_len(wrap: Wrap) -> Any:
    class Old:
        def __init__(self) -> None:
            self.v = [1.0, 2.0]

        def __getitem__(self, i: int) -> float:
            return self.v[i]

        def __len__(self) -> int:
            return len(self.v)

    o = Old()
    return changed(
        wrap,
        lambda x: x * sum(o) + sum(reversed(o)) + (2.0 in o),
        lambda: o.v.append(5.0),
        lambda: o.v.clear(),
    )


@program
def while_with_else_and_flags(wrap: Wrap) -> Any:
    flags = {"stop": 2, "skip": {1}}

    def f(x: Any) -> Any:
        i = 0
        while i < 4:
            i += 1
            if i in flags["skip"]:
                continue
            if i > flags["stop"]:
                break
            x = x + i
        else:
            x = x * 100
        return x

    return changed(
        wrap,
        f,
        lambda: flags.update(stop=9),
        lambda: flags["skip"].add(3),
        lambda: flags.update(stop=0),
    )


@program
def assertions_and_types(wrap: Wrap) -> Any:
    s: Any = types.SimpleNamespace(k=2)

    def f(x: Any) -> Any:
        assert isinstance(s.k, (int, float)), f"not a number: {s.k!r}"
        assert type(s.k) is not bool
        return x * s.k

    return changed(
        wrap,
        f,
        lambda: setattr(s, "k", "two"),
        lambda: setattr(s, "k", True),
        lambda: setattr(s, "k", 2.5),
    )


@program
def attributes_of_functions(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        f.calls = getattr(f, "calls", 0) + 1  # type: ignore[attr-defined]
        return x * f.calls  # type: ignore[attr-defined]

    return times(wrap(f)), f.calls  # type: ignore[attr-defined]


@program
def sizes_in_containers(wrap: Wrap) -> Any:
    seen: dict[Any, int] = {}
    log: list[Any] = []

    def f(x: Any) -> Any:
        n = x.shape[0]
        seen[n] = seen.get(n, 0) + 1
        log.append((n, tuple(x.shape), x.numel() // 2))
        return x.sum() * seen[n] + len(seen)

    run = wrap(f, dynamic=True)
    return [run(ones(n)) for n in (2, 3, 5, 2, 7, 3)], seen, log


@program
def sizes_that_decide(wrap: Wrap) -> Any:
    table = {2: 10.0, 3: 20.0}

    def f(x: Any) -> Any:
        n = x.shape[0]
        y = x * table.get(n, 1.0)
        if n % 2 == 0 and n in {4, 6}:
            y = y + 100
        if n & 1:
            y = y * 2
        return y.sum() + len(str(n)) + math.gcd(n, 6) + n.bit_length() + [*range(n)][-1]

    run = wrap(f, dynamic=True)
    out = [run(ones(n)) for n in (2, 3, 4, 5, 6, 12, 2)]
    table[12] = 7.0
    return out, [run(ones(n)) for n in (12, 3, 4)]


@program
def sizes_as_arguments_of_operations(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        b, t = x.shape
        mask = ad.arange(t)[None, :] < ad.arange(b)[:, None]
        y = x.reshape(b * t).view(t, b) * (t / b) + ad.zeros(t, b)
        return (
            ad.cat([y, ad.full((1, b), float(t))]).sum(0)[: b // 2 + 1],
            mask.sum(),
            x.split(max(1, b // 2))[0],
        )

    run = wrap(f, dynamic=True)
    return [run(ramp(b, t)) for b, t in ((2, 3), (4, 5), (3, 2), (6, 7), (1, 4))]


@program
def numbers_that_become_symbols(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(step=0, total=0.0, kinds=[])

    def f(x: Any) -> Any:
        s.step += 1
        s.total += s.step * 0.5
        s.kinds.append("warm" if s.step < 4 else "cold")
        lr = min(1.0, s.step / 3) * (0.5 ** (s.step // 2))
        return (
            x * lr + s.total,
            max(s.step, 3),
            abs(-s.step),
            int(s.total),
            float(s.step),
            round(s.total, 1),
        )

    return times(wrap(f), n=7), s


@program
def numbers_in_text_and_keys(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(step=0, names={})

    def f(x: Any) -> Any:
        s.step += 1
        s.names[f"step{s.step}"] = s.step
        s.names[s.step] = str(s.step / 2)
        return x * len(s.names)

    return times(wrap(f), n=5), s.names


@program
def tried_and_given_up(wrap: Wrap) -> Any:
    d: dict[str, Any] = {}

    def f(x: Any) -> Any:
        try:
            return x * d["k"]
        except KeyError as error:
            d["missed"] = d.get("missed", 0) + 1
            return x - d["missed"] + len(error.args)

    return changed(wrap, f, lambda: d.update(k=2.0), lambda: d.pop("k")), d


@program
def tensors_in_many_containers(wrap: Wrap) -> Any:
    s: Any = types.SimpleNamespace(by={}, seen=[], last=None)

    def f(x: Any) -> Any:
        y = x * (len(s.seen) + 1)
        s.by["y"] = y
        s.seen.append(y)
        s.last, old = y, s.last
        return y if old is None else y + old

    run = wrap(f)
    out = times(run)
    s.by["y"] += 100.0
    return out, run(ones(2)), s.seen, s.by, s.last is s.by["y"], s.seen[-1] is s.last


@program
def results_that_are_state(wrap: Wrap) -> Any:
    w = ones(2)
    s = types.SimpleNamespace(w=w, l=[w])

    def f(x: Any) -> Any:
        return s.w, s.l, (x, s.l[0])

    run = wrap(f)
    x = ones(2)
    a = run(x)
    b = run(x)
    return a[0] is w, a[1] is s.l, a[2][0] is x, b[0] is w, b[2][1] is w, tried(run, x)
