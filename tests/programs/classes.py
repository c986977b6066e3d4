"""Programs on classes of one's own, generators, builtins, printing and logging."""

# Written as a user would, who annotates little.
# mypy: disable-error-code="has-type, import-not-found, index, list-item, str-format, type-arg, var-annotated"

from __future__ import annotations

import contextlib
import functools
import io
import logging
import math
import operator
import queue
import threading
import typing
from collections import Counter, defaultdict
from typing import Any

import adjoint.nn.functional as F
from adjoint import nn

from .playing import Wrap, changed, ones, program, ramp, times, tried


@program
def class_with_call_and_iter(wrap: Wrap) -> Any:

    class Chain:
        def __init__(s, *f: Any) -> None:
            s.f = list(f)

        def __iter__(s) -> Any:
            return iter(s.f)

        def __len__(s) -> Any:
            return len(s.f)

        def __contains__(s, g: Any) -> Any:
            return g in s.f

        def __call__(s, x: Any) -> Any:
            for g in s:
                x = g(x)
            return x

        def __matmul__(s, o: Any) -> Any:
            return Chain(*s.f, *o.f)

        def __bool__(s) -> Any:
            return len(s.f) > 1

    d = lambda x: x * 2
    c = Chain(d)
    e = Chain(lambda x: x + 1)

    def f(x: Any) -> Any:
        return (c @ e)(x) + len(c) + (d in c) * 10 + (100 if c else 0)

    return changed(wrap, f, lambda: c.f.append(d), lambda: c.f.clear())


@program
def getitem_slice_object(wrap: Wrap) -> Any:

    class Seq:
        def __init__(s) -> None:
            s.v = [1.0, 2.0, 3.0, 4.0]

        def __getitem__(s, i: Any) -> Any:
            return s.v[i] if isinstance(i, int) else sum(s.v[i])

        def __len__(s) -> Any:
            return 4

        def __reversed__(s) -> Any:
            return iter([9.0])

    q = Seq()

    def f(x: Any) -> Any:
        return x * q[1:3] + q[-1] + sum(q[i] for i in range(len(q))) + next(reversed(q))

    return changed(wrap, f, lambda: q.v.__setitem__(1, 7.0))


@program
def init_subclass_new(wrap: Wrap) -> Any:

    class Base:
        kinds = {}

        def __init_subclass__(c, name: Any = None, **k: Any) -> None:
            super().__init_subclass__(**k)
            Base.kinds[name] = c

        def __new__(c, *a: Any) -> Any:
            o = super().__new__(c)
            o.made = len(Base.kinds)
            return o

    class A(Base, name="a"):
        def __init__(s, k: Any) -> None:
            s.k = k

    h = ["a"]

    def f(x: Any) -> Any:
        o = Base.kinds[h[0]](3.0)
        return x * o.k + o.made

    def more() -> None:

        class B(Base, name="b"):
            def __init__(s, k: Any) -> None:
                s.k = -k

        h[0] = "b"

    return changed(wrap, f, more)


@program
def class_getitem_generic(wrap: Wrap) -> Any:
    T = typing.TypeVar("T")

    class Box(typing.Generic[T]):
        def __init__(s, v: Any) -> None:
            s.v = v

    def f(x: Any) -> Any:
        b = Box[int](x * 2)
        return (b.v, isinstance(b, Box))

    return times(wrap(f))


@program
def exception_chaining_custom(wrap: Wrap) -> Any:

    class E(Exception):
        def __init__(s, c: Any) -> None:
            super().__init__(f"code {c}")
            s.code = c

    class S:
        c = 1

    def f(x: Any) -> Any:
        try:
            if S.c > 1:
                raise E(S.c)
            return x
        except E as e:
            S.c = 0
            return x * e.code
        else:
            return x * 7
        finally:
            S.c += 1

    return (times(wrap(f), n=5), S.c)


@program
def raise_from_helper_after_tensor_effects(wrap: Wrap) -> Any:
    m = nn.BatchNorm1d(2)
    cnt = Counter()

    def check(x: Any) -> None:
        cnt["c"] += 1
        if x.shape[0] == 3:
            raise ValueError("three")

    def f(x: Any) -> Any:
        y = m(x)
        check(x)
        return y

    r = wrap(f)
    return (
        [tried(r, ramp(n, 2)) for n in (2, 3, 2, 3, 4)],
        cnt,
        m.running_mean,
        m.num_batches_tracked,
    )


@program
def stopiteration_and_return_value(wrap: Wrap) -> Any:

    def sub(n: Any) -> Any:
        t = 0
        for i in range(n):
            r = yield i
            t += r or 0
        return t

    def outer(n: Any) -> Any:
        v = yield from sub(n)
        yield ("total", v)

    S = {"n": 2}

    def f(x: Any) -> Any:
        g = outer(S["n"])
        out = [next(g)]
        try:
            while True:
                out.append(g.send(5))
        except StopIteration:
            pass
        return (x * len(out), out[-1])

    return changed(wrap, f, lambda: S.update(n=4))


@program
def generator_closed_early(wrap: Wrap) -> Any:
    log = []

    def g() -> Any:
        try:
            yield from range(5)
        finally:
            log.append("closed")

    def f(x: Any) -> Any:
        for i in g():
            x = x + i
            if i == 2:
                break
        return x

    return (times(wrap(f)), log)


@program
def list_iter_while_mutating(wrap: Wrap) -> Any:
    L = [1, 2, 3]

    def f(x: Any) -> Any:
        for v in L[:]:
            if v % 2:
                L.remove(v)
                L.append(v + 1)
            x = x + v
        return x

    return (times(wrap(f)), L)


@program
def zip_strict_error(wrap: Wrap) -> Any:
    A = [1, 2]
    B = [3, 4]

    def f(x: Any) -> Any:
        return sum((x * a * b for a, b in zip(A, B, strict=True)), x * 0)

    return changed(wrap, f, lambda: A.append(3), lambda: B.append(5))


@program
def dict_comp_over_params(wrap: Wrap) -> Any:
    m = nn.Linear(2, 2)
    for p in m.parameters():
        nn.init.constant_(p, 0.5)

    def f(x: Any) -> Any:
        n = {k: v.norm() for k, v in m.named_parameters() if v.requires_grad}
        return {**n, "out": m(x)}

    return changed(wrap, f, lambda: m.bias.requires_grad_(False), lambda: m.weight.data.add_(1.0))


@program
def starred_config_into_layer(wrap: Wrap) -> Any:
    cfg = {"kernel_size": 1, "stride": 1, "padding": 0}
    w = ones(1, 1, 1)

    def f(x: Any) -> Any:
        return F.conv1d(x, w, **{k: v for k, v in cfg.items() if k != "kernel_size"})

    return changed(
        wrap, f, lambda: cfg.update(padding=1), lambda: cfg.update(stride=2), x=ramp(1, 1, 4)
    )


@program
def vars_and_dir(wrap: Wrap) -> Any:

    class C:
        pass

    c = C()
    c.a = 1.0

    def f(x: Any) -> Any:
        return x * sum(vars(c).values()) + len([n for n in dir(c) if not n.startswith("_")])

    return changed(wrap, f, lambda: setattr(c, "b", 2.0), lambda: setattr(C, "z", 3.0))


@program
def setattr_loop(wrap: Wrap) -> Any:

    class C:
        pass

    c = C()

    def f(x: Any) -> Any:
        for i, n in enumerate("abc"):
            setattr(c, n, x * i)
        delattr(c, "a")
        return sum(vars(c).values())

    return (times(wrap(f)), vars(c))


@program
def id_based_dedupe(wrap: Wrap) -> Any:
    a = ones(2)
    L = [a, ones(2), a]

    def f(x: Any) -> Any:
        seen = set()
        t = x * 0
        for v in L:
            if id(v) in seen:
                continue
            seen.add(id(v))
            t = t + v
        return t

    return changed(wrap, f, lambda: L.append(L[1]), lambda: L.append(ones(2)))


@program
def tensor_as_dict_key(wrap: Wrap) -> Any:
    w = ones(2)
    st = {w: 1.0}

    def f(x: Any) -> Any:
        st[w] = st[w] + 1
        return x * st[w]

    return (times(wrap(f)), list(st.values()))


@program
def hash_of_objects(wrap: Wrap) -> Any:

    class K:
        def __init__(s, v: Any) -> None:
            s.v = v

        def __hash__(s) -> Any:
            return hash(s.v)

        def __eq__(s, o: Any) -> Any:
            return isinstance(o, K) and s.v == o.v

    d = {K(1): 2.0, K(2): 3.0}
    q = K(1)
    return changed(
        wrap, lambda x: x * d[q], lambda: setattr(q, "v", 2), lambda: d.__setitem__(K(2), 8.0)
    )


@program
def frozenset_keys_minmax(wrap: Wrap) -> Any:
    d = {frozenset("ab"): 1.0, frozenset("c"): 2.0}

    def f(x: Any) -> Any:
        return x * d[frozenset("ba")] + min(d.values()) + max(d, key=lambda k: d[k]).__len__()

    return changed(wrap, f, lambda: d.update({frozenset("ab"): 9.0}))


@program
def any_all_map_filter(wrap: Wrap) -> Any:
    L = [1, 2, 3]

    def f(x: Any) -> Any:
        if any(v > 5 for v in L):
            x = x * 10
        if all(map(bool, L)):
            x = x + 1
        return (
            x * sum(filter(lambda v: v % 2, L))
            + len(list(map(str, L)))
            + sum((i * v for i, v in enumerate(reversed(L))))
        )

    return changed(wrap, f, lambda: L.append(6), lambda: L.append(0))


@program
def reduce_with_tensors(wrap: Wrap) -> Any:
    ws = [ones(2) * 2, ones(2) * 3]

    def f(x: Any) -> Any:
        return functools.reduce(operator.mul, ws, x)

    return changed(wrap, f, lambda: ws.append(ones(2) * 4), lambda: ws[0].add_(1))


@program
def print_inside(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        print("shape", tuple(x.shape))
        return x * 2

    b = io.StringIO()
    with contextlib.redirect_stdout(b):
        o = times(wrap(f), n=3)
    return (o, b.getvalue())


@program
def logging_inside(wrap: Wrap) -> Any:
    log = logging.getLogger("t2")
    s = io.StringIO()
    h = logging.StreamHandler(s)
    log.addHandler(h)
    log.setLevel(10)
    log.propagate = False

    class S:
        n = 0

    def f(x: Any) -> Any:
        S.n += 1
        log.info("step %d of %s", S.n, tuple(x.shape))
        return x * S.n

    o = times(wrap(f), n=3)
    log.removeHandler(h)
    return (o, s.getvalue())


@program
def tqdm_like_progress(wrap: Wrap) -> Any:

    class Bar:
        def __init__(s, it: Any) -> None:
            s.it = it
            s.n = 0
            s.total = len(it)

        def __iter__(s) -> Any:
            for v in s.it:
                yield v
                s.n += 1

    b = Bar([1.0, 2.0, 3.0])

    def f(x: Any) -> Any:
        for v in b:
            x = x * v
        return x

    return (times(wrap(f), n=2), b.n)


@program
def event_bus(wrap: Wrap) -> Any:

    class Bus:
        def __init__(s) -> None:
            s.h = defaultdict(list)

        def on(s, e: Any, fn: Any) -> None:
            s.h[e].append(fn)

        def emit(s, e: Any, *a: Any) -> Any:
            return [fn(*a) for fn in s.h[e]]

    bus = Bus()
    log = []
    bus.on("out", lambda t: log.append(tuple(t.shape)))

    def f(x: Any) -> Any:
        y = x * 2
        bus.emit("out", y)
        bus.emit("none", y)
        return y * len(bus.h)

    return (changed(wrap, f, lambda: bus.on("out", lambda t: log.append("two"))), log)


@program
def undo_stack_inverse(wrap: Wrap) -> Any:
    stack = []

    class S:
        v = 1.0

    def f(x: Any, do: Any) -> Any:
        if do:
            stack.append(S.v)
            S.v = S.v * 2
        elif stack:
            S.v = stack.pop()
        return x * S.v

    r = wrap(f)
    return ([tried(r, ones(2), d) for d in (1, 1, 0, 1, 0, 0, 0)], stack, S.v)


@program
def state_machine(wrap: Wrap) -> Any:

    class S:
        st = "idle"
        n = 0

    tr = {"idle": "run", "run": "stop", "stop": "idle"}

    def f(x: Any) -> Any:
        S.st = tr[S.st]
        S.n += S.st == "run"
        return x * {"idle": 1, "run": 2, "stop": 3}[S.st]

    return (times(wrap(f), n=7), S.st, S.n)


@program
def lock_and_queue(wrap: Wrap) -> Any:
    q = queue.Queue()
    level = threading.Lock()
    for i in range(5):
        q.put(float(i))

    def f(x: Any) -> Any:
        with level:
            return x * q.get()

    return (times(wrap(f), n=3), q.qsize())


@program
def threading_local(wrap: Wrap) -> Any:
    t = threading.local()
    t.k = 2.0
    return changed(wrap, lambda x: x * t.k, lambda: setattr(t, "k", 5.0))


@program
def math_of_counter(wrap: Wrap) -> Any:

    class S:
        t = 0

    def f(x: Any) -> Any:
        S.t += 1
        return x * math.sqrt(1 - 0.9**S.t) / (1 - 0.5**S.t) * math.cos(math.pi * S.t / 10)

    return times(wrap(f), n=6)


@program
def cosine_lr_attribute(wrap: Wrap) -> Any:

    class Cfg:
        lr = 0.1
        warm = 2
        total = 6
        step = 0

    w = ones(2)

    def lr() -> Any:
        if Cfg.step < Cfg.warm:
            return Cfg.lr * (Cfg.step + 1) / Cfg.warm
        p = (Cfg.step - Cfg.warm) / (Cfg.total - Cfg.warm)
        return Cfg.lr * 0.5 * (1 + math.cos(math.pi * p))

    def f(x: Any) -> Any:
        w.sub_(x, alpha=lr())
        Cfg.step += 1
        return w.clone()

    return times(wrap(f), n=6)


@program
def early_stopping(wrap: Wrap) -> Any:

    class ES:
        def __init__(s) -> None:
            s.best = float("inf")
            s.bad = 0
            s.stop = False

        def __call__(s, v: Any) -> None:
            if v < s.best:
                s.best = v
                s.bad = 0
            else:
                s.bad += 1
                s.stop = s.bad >= 2

    es = ES()

    def f(x: Any, v: Any) -> Any:
        es(v)
        return x * (0 if es.stop else 1) + es.bad

    r = wrap(f)
    return ([tried(r, ones(2), v) for v in (3.0, 2.0, 2.5, 1.0, 4.0, 5.0, 6.0)], vars(es))


@program
def best_weights_kept(wrap: Wrap) -> Any:
    m = nn.Linear(2, 1)
    for p in m.parameters():
        nn.init.constant_(p, 0.5)

    class B:
        best = None

    def f(x: Any, keep: Any) -> Any:
        for p in m.parameters():
            p.data.mul_(0.5)
        if keep:
            B.best = {k: v.detach().clone() for k, v in m.state_dict().items()}
        return m(x)

    r = wrap(f)
    return ([tried(r, ones(1, 2), k) for k in (1, 0, 1, 0)], B.best)


@program
def attributes_set_as_items(wrap: Wrap) -> Any:
    class Settings(dict[str, Any]):
        __getattr__ = dict.__getitem__
        __setattr__ = dict.__setitem__  # type: ignore[assignment]
        __delattr__ = dict.__delitem__  # type: ignore[assignment]

    s: Any = Settings(scale=2.0, calls=0)

    def f(x: Any) -> Any:
        s.calls += 1
        s.last = s.calls * 2
        del s.last
        return x * s.scale + s.calls

    r = wrap(f)
    out = [r(ones(2)) for _ in range(3)]
    s.scale = 5.0
    return out, r(ones(2)), dict(s)
