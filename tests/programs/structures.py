"""Programs on arguments and results with a structure, exceptions, registries, sizes."""

# Written as a user would, who annotates little.
# mypy: disable-error-code="has-type, import-not-found, index, list-item, str-format, type-arg, var-annotated"

from __future__ import annotations

import contextlib
from collections import Counter, deque, namedtuple
from typing import Any

import adjoint as ad
import adjoint.nn.functional as F

from .playing import Wrap, changed, ones, program, ramp, times, tried


@program
def returned_list_is_state(wrap: Wrap) -> Any:
    L = [ones(2)]

    def f(x: Any) -> Any:
        L.append(x * 2)
        return L

    r = wrap(f)
    o = [r(ones(2)) for _ in range(3)]
    return ([v is L for v in o], L)


@program
def nested_results_identity(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        y = x * 2
        d = {"a": y}
        return (d, [d, y], y)

    r = wrap(f)
    d, level, y = r(ones(2))
    d, level, y = r(ones(2))
    return (level[0] is d, level[1] is y, d["a"] is y)


@program
def argument_dict_mutated(wrap: Wrap) -> Any:

    def f(b: Any) -> Any:
        b["y"] = b["x"] * 2
        b.pop("z", None)
        b.setdefault("n", 0)
        b["n"] += 1
        return b

    r = wrap(f)
    out = []
    for _ in range(3):
        b = {"x": ones(2), "z": 1}
        o = r(b)
        out.append((o is b, dict(b)))
    b = {"x": ones(2)}
    r(b)
    r(b)
    return (out, b)


@program
def argument_object_mutated(wrap: Wrap) -> Any:

    class B:
        def __init__(s, x: Any) -> None:
            s.x = x
            s.n = 0

    def f(b: Any) -> Any:
        b.x = b.x + 1
        b.n += 1
        b.hist = [*getattr(b, "hist", []), b.n]
        return b.x * b.n

    r = wrap(f)
    b = B(ones(2))
    o = [tried(r, b) for _ in range(3)]
    c = B(ones(2) * 5)
    o.append(tried(r, c))
    return (o, vars(b), vars(c))


@program
def argument_list_grows(wrap: Wrap) -> Any:

    def f(xs: Any) -> Any:
        xs.append(xs[-1] * 2)
        return sum(xs)

    r = wrap(f)
    L = [ones(2)]
    return ([tried(r, L) for _ in range(4)], L)


@program
def kwargs_order_and_defaults(wrap: Wrap) -> Any:

    def f(x: Any, *args: Any, scale: Any = 1.0, **kw: Any) -> Any:
        return (x * scale + sum(args) + sum((i * v for i, v in enumerate(kw.values()))), list(kw))

    r = wrap(f)
    return [
        tried(r, ones(2)),
        tried(r, ones(2), 1.0, 2.0),
        tried(r, ones(2), scale=3.0),
        tried(r, ones(2), a=1, b=2),
        tried(r, ones(2), b=2, a=1),
    ]


@program
def namedtuple_state_rebuilt(wrap: Wrap) -> Any:
    St = namedtuple("St", "h c n")

    class M:
        s = St(ad.zeros(2), ad.zeros(2), 0)

    def f(x: Any) -> Any:
        h, c, n = M.s
        M.s = M.s._replace(h=h + x, c=c * 0.5 + h, n=n + 1)
        return M.s.h * M.s.n

    return (times(wrap(f)), M.s)


@program
def tree_recursion_over_dicts(wrap: Wrap) -> Any:
    cfg = {"a": {"w": 1.0, "b": {"w": 2.0}}, "w": 3.0}

    def walk(d: Any, x: Any) -> Any:
        t = x * d["w"]
        for k in sorted(d):
            if isinstance(d[k], dict):
                t = t + walk(d[k], x)
        return t

    return changed(
        wrap,
        lambda x: walk(cfg, x),
        lambda: cfg["a"].update(w=5.0),
        lambda: cfg["a"]["b"].update(c={"w": 7.0}),
        lambda: cfg.pop("a"),
    )


@program
def class_variable_counter_instances(wrap: Wrap) -> Any:

    class L:
        count = 0

        def __init__(s, k: Any) -> None:
            type(s).count += 1
            s.id = type(s).count
            s.k = k

        def __call__(s, x: Any) -> Any:
            return x * s.k + s.id

    def f(x: Any) -> Any:
        return L(2.0)(x)

    return (times(wrap(f)), L.count)


@program
def context_class_with_state(wrap: Wrap) -> Any:

    class Timer:
        def __init__(s) -> None:
            s.n = 0
            s.open = False

        def __enter__(s) -> Any:
            s.n += 1
            s.open = True
            return s

        def __exit__(s, *e: Any) -> Any:
            s.open = False
            return e[0] is KeyError

    t = Timer()

    def f(x: Any, k: Any) -> Any:
        with t as q:
            if k:
                raise KeyError("x")
            return x * q.n
        return x - q.n

    r = wrap(f)
    return ([tried(r, ones(2), k) for k in (0, 1, 0, 1)], t.n, t.open)


@program
def exception_in_with_propagates(wrap: Wrap) -> Any:
    log = []

    @contextlib.contextmanager
    def sec(n: Any) -> None:
        log.append(f"+{n}")
        try:
            yield
        except ValueError:
            log.append(f"!{n}")
            raise
        finally:
            log.append(f"-{n}")

    def f(x: Any, b: Any) -> Any:
        with sec("a"), sec("b"):
            if b:
                raise ValueError("v")
            return x * len(log)

    r = wrap(f)
    return ([tried(r, ones(2), b) for b in (0, 1, 0)], log)


@program
def retry_loop(wrap: Wrap) -> Any:

    class S:
        fails = 2
        tries = 0

    def flaky(x: Any) -> Any:
        S.tries += 1
        if S.fails > 0:
            S.fails -= 1
            raise ConnectionError("no")
        return x * 3

    def f(x: Any) -> Any:
        for i in range(5):
            try:
                return flaky(x) * (i + 1)
            except ConnectionError as e:
                last = e
        raise last

    r = wrap(f)
    o = [tried(r, ones(2))]
    o.append(tried(r, ones(2)))
    S.fails = 1
    o.append(tried(r, ones(2)))
    S.fails = 9
    o.append(tried(r, ones(2)))
    return (o, S.tries, S.fails)


@program
def plugin_registry_decorator(wrap: Wrap) -> Any:
    REG = {}

    def register(n: Any) -> Any:

        def d(fn: Any) -> Any:
            REG[n] = fn
            return fn

        return d

    @register("double")
    def dbl(x: Any) -> Any:
        return x * 2

    class C:
        op = "double"

    def f(x: Any) -> Any:
        return REG[C.op](x) if C.op in REG else x

    def more() -> Any:

        @register("neg")
        def neg(x: Any) -> Any:
            return -x

        C.op = "neg"

    return changed(
        wrap, f, more, lambda: setattr(C, "op", "none"), lambda: REG.update(none=lambda x: x * 9)
    )


@program
def slots_with_tensor(wrap: Wrap) -> Any:

    class N:
        __slots__ = ("nxt", "v")

        def __init__(s, v: Any, n: Any = None) -> None:
            s.v = v
            s.nxt = n

    head = [N(ones(2), N(ones(2) * 2))]

    def f(x: Any) -> Any:
        t = x * 0
        n = head[0]
        while n is not None:
            t = t + n.v
            n = n.nxt
        head[0] = N(x, head[0])
        return t

    return times(wrap(f), n=4)


@program
def bool_of_objects_and_none(wrap: Wrap) -> Any:

    class C:
        mask = None
        extra = []

    def f(x: Any) -> Any:
        if C.mask is not None:
            x = x * C.mask
        if C.extra:
            x = x + len(C.extra)
        return x if C.mask is None or not C.extra else x * 10

    return changed(
        wrap,
        f,
        lambda: setattr(C, "mask", ones(2) * 2),
        lambda: C.extra.append(1),
        lambda: setattr(C, "mask", None),
    )


@program
def string_switch_building(wrap: Wrap) -> Any:

    class C:
        name = "relu"

    def f(x: Any) -> Any:
        return (
            getattr(F, C.name)(x - 0.5),
            getattr(ad, "s" + "in")(x),
            x.__getattribute__("ab" + "s")(),
        )

    return changed(
        wrap, f, lambda: setattr(C, "name", "gelu"), lambda: setattr(C, "name", "nosuch")
    )


@program
def monkeypatched_function(wrap: Wrap) -> Any:
    import types as _t

    mod = _t.ModuleType("mm")
    mod.act = lambda x: x * 2

    def f(x: Any) -> Any:
        return mod.act(x)

    def g(x: Any) -> Any:
        return F.relu(x)

    o = changed(wrap, f, lambda: setattr(mod, "act", lambda x: x * 3))
    return o


@program
def tensor_in_set_and_index(wrap: Wrap) -> Any:
    a, b = (ones(2), ones(2) * 2)
    S = [a, b]

    def f(x: Any) -> Any:
        u = set(S)
        return (x * len(u), any(a is s for s in S), [i for i, s in enumerate(S) if s is b])

    return changed(
        wrap,
        f,
        lambda: S.append(a),
        lambda: S.append(ones(2)),
        lambda: S.remove(S[0]) if False else S.pop(0),
    )


@program
def deque_rotation_schedule(wrap: Wrap) -> Any:
    d = deque([1.0, 2.0, 3.0])

    def f(x: Any) -> Any:
        d.rotate(1)
        d.appendleft(d.pop() + 1)
        return (x * d[0], list(d))

    return (times(wrap(f), n=4), d)


@program
def sizes_as_dict_keys(wrap: Wrap) -> Any:
    seen = Counter()

    def f(x: Any) -> Any:
        seen[x.shape] += 1
        seen[tuple(x.shape)] += 1
        return x * seen[x.shape]

    r = wrap(f)
    return (
        [tried(r, ones(*s)) for s in ((2,), (3,), (2,), (2, 2), (2,))],
        {tuple(k): v for k, v in seen.items()},
    )


@program
def shape_arith_and_views(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        b, c, *_rest = x.shape
        h = x.reshape(b, -1)
        return (h.view(b * c, -1).t().contiguous(), h.numel() // b, x.size(), x.ndim, list(x.shape))

    r = wrap(f)
    return [tried(r, ramp(*s)) for s in ((2, 3, 4), (2, 3, 2, 2), (1, 2, 3), (2, 3, 4))]


@program
def dynamic_padding_collate(wrap: Wrap) -> Any:

    def f(seqs: Any) -> Any:
        n = max(len(s) for s in seqs)
        out = ad.zeros(len(seqs), n)
        m = ad.zeros(len(seqs), n, dtype=ad.bool)
        for i, s in enumerate(seqs):
            out[i, : len(s)] = s
            m[i, : len(s)] = True
        return (out, m)

    r = wrap(f)
    return [tried(r, [ramp(a), ramp(b)]) for a, b in ((2, 3), (1, 4), (2, 3))]
