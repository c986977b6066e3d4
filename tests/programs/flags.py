"""Programs whose names, flags, arguments and counters change between calls."""

from __future__ import annotations

import builtins
import collections
import copy
import functools
import itertools
import math
import types
from typing import Any

import adjoint as ad
from adjoint import nn
from adjoint.nn import functional as F

from .playing import Wrap, changed, ones, program, ramp, times, tried

RATE = 2.0
NET: Any = None


def _delete(scope: Any, name: str) -> Any:
    return functools.partial(scope.pop, name, None)


@program
def builtin_shadowed_later(wrap: Wrap) -> Any:
    v = [1.0, 2.0]
    scope = globals()

    def f(x: Any) -> Any:
        return x * len(v) + max(v)

    try:
        return changed(wrap, f, lambda: scope.update(len=lambda v: 10), _delete(scope, "len"),
                       lambda: scope.update(max=min), _delete(scope, "max"))  # fmt: skip
    finally:
        scope.pop("len", None)
        scope.pop("max", None)


@program
def global_deleted_and_back(wrap: Wrap) -> Any:
    scope = globals()
    try:
        return changed(wrap, lambda x: x * RATE, lambda: scope.pop("RATE"),
                       lambda: scope.update(RATE=3.0))  # fmt: skip
    finally:
        scope["RATE"] = 2.0


@program
def function_of_a_module_replaced(wrap: Wrap) -> Any:
    kept = F.relu
    try:
        return changed(
            wrap, lambda x: F.relu(x), lambda: setattr(F, "relu", lambda x: x * 7), x=ones(2)
        )
    finally:
        F.relu = kept


@program
def attribute_of_builtins(wrap: Wrap) -> Any:
    try:
        return changed(wrap, lambda x: x * getattr(builtins, "adjoint_test_rate", 1.0),
                       lambda: setattr(builtins, "adjoint_test_rate", 4.0))  # fmt: skip
    finally:
        if hasattr(builtins, "adjoint_test_rate"):
            del builtins.adjoint_test_rate


@program
def global_module_rebound_inside(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        global NET
        if NET is None:
            NET = nn.Identity()
        else:
            NET = nn.Sequential(nn.Identity(), nn.ReLU())
        return NET(x), len(list(NET.modules()))

    globals()["NET"] = None
    out = times(wrap(f))
    return out, type(NET).__name__


@program
def numbers_as_arguments(wrap: Wrap) -> Any:
    def f(x: Any, k: Any, flag: Any = False) -> Any:
        y = x * k
        return (y + 1 if flag else y), type(k).__name__, math.copysign(1.0, k)

    run = wrap(f)
    given = [
        (1,),
        (1.0,),
        (True,),
        (0.0,),
        (-0.0,),
        (2, True),
        (2, 1),
        (1.5,),
        (2.5,),
        (3,),
        (float("inf"),),
    ]
    return [run(ones(1), *a) for a in given]


@program
def whole_numbers_as_loops(wrap: Wrap) -> Any:
    def f(x: Any, n: int, *, step: int = 1) -> Any:
        for i in range(0, n, step):
            x = x + i
        return x

    run = wrap(f)
    return [run(ones(1), n) for n in (0, 1, 3, 5)], [run(ones(1), n=4, step=s) for s in (1, 2, 3)]


@program
def texts_and_nothing_as_arguments(wrap: Wrap) -> Any:
    def f(x: Any, mode: str | None = None, *rest: Any, **options: Any) -> Any:
        if mode is None:
            return x
        fns = {"double": lambda t: t * 2, "neg": lambda t: -t}
        return fns.get(mode, lambda t: t * 0)(x) + len(rest) + sum(options.values()), list(options)

    run = wrap(f)
    calls = [((), {}), (("double",), {}), (("neg", 1, 2), {"a": 1}), (("neg",), {"b": 1, "a": 2}),
             (("neg",), {"a": 2, "b": 1}), (("what",), {})]  # fmt: skip
    return [run(ones(1), *a, **k) for a, k in calls]


@program
def lists_of_the_caller_grow(wrap: Wrap) -> Any:
    def f(x: Any, log: list[Any], table: dict[str, Any]) -> Any:
        log.append(len(log))
        table["n"] = table.get("n", 0) + 1
        table.setdefault("seen", []).append(x.shape[0])
        return x * len(log) + table["n"]

    run = wrap(f)
    log: list[Any] = []
    table: dict[str, Any] = {}
    return [run(ones(1), log, table) for _ in range(3)], log, table, run(ones(1), [], {})


@program
def objects_as_arguments(wrap: Wrap) -> Any:
    class Options:
        def __init__(self, k: float) -> None:
            self.k = k
            self.uses = 0

    def f(x: Any, o: Any) -> Any:
        o.uses += 1
        return x * o.k + o.uses

    run = wrap(f)
    a, b = Options(2.0), Options(3.0)
    out = [run(ones(1), o) for o in (a, a, b, a, b)]
    a.k = 10.0
    return out, run(ones(1), a), run(ones(1), b), a.uses, b.uses


@program
def functions_as_arguments(wrap: Wrap) -> Any:
    k = [2.0]

    def scaled(t: Any) -> Any:
        return t * k[0]

    run = wrap(lambda x, fn: fn(x))
    out = [run(ones(1), fn) for fn in (scaled, ad.neg, F.relu, scaled, lambda t: t + 5)]
    k[0] = 9.0
    return out, run(ones(1), scaled), run(ones(1), functools.partial(ad.mul, other=3.0))


@program
def order_of_a_dict(wrap: Wrap) -> Any:
    d = {"a": 2.0, "b": 3.0}

    def f(x: Any) -> Any:
        for k, v in d.items():
            x = x * v if k == "a" else x + v
        return x, next(iter(d)), [*reversed(d)]

    def turn() -> None:
        d["a"] = d.pop("a")

    return changed(wrap, f, turn, lambda: d.update(b=d.pop("b")), lambda: d.update(c=1.0))


@program
def counters_in_conditions(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(step=0, every=2, log=[])

    def f(x: Any) -> Any:
        s.step += 1
        if s.step % s.every == 0:
            s.log.append(s.step)
            return x * 10
        if s.step > 5 or (s.step == 3 and not s.log):
            return -x
        return x * (s.step >= 2) + (s.step if s.step < 100 else 0)

    run = wrap(f)
    out = times(run, n=5)
    s.every = 3
    return out, times(run, n=5), s.log, s.step


@program
def averages_that_run(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(mean=0.0, count=0, best=None)

    def f(x: Any, v: float) -> Any:
        s.count += 1
        s.mean += (v - s.mean) / s.count
        if s.best is None or v < s.best:
            s.best = v
        return x * s.mean, s.best

    run = wrap(f)
    return [run(ones(1), v) for v in (3.0, 1.0, 2.0, 0.5, 7.0)], s


@program
def grad_modes_and_flags(wrap: Wrap) -> Any:
    w = ad.ones(2, requires_grad=True)
    run = wrap(lambda x: (x * w, ad.is_grad_enabled(), w.requires_grad))
    out = [run(ones(2))]
    with ad.no_grad():
        out.append(run(ones(2)))
    w.requires_grad_(False)
    out.append(run(ones(2)))
    w.requires_grad_(True)
    with ad.inference_mode():
        out.append(run(ones(2)))
    return [*out, run(ones(2))]


@program
def modes_set_inside(wrap: Wrap) -> Any:
    w = ad.ones(2, requires_grad=True)
    s = {"grad": True}

    def f(x: Any) -> Any:
        with ad.set_grad_enabled(s["grad"]):
            y = x * w
        with ad.no_grad():
            z = y * 2
        return y, z, z.requires_grad, ad.is_grad_enabled()

    return changed(wrap, f, lambda: s.update(grad=False), lambda: s.update(grad=True))


@program
def default_dtype_changes(wrap: Wrap) -> Any:
    kept = ad.get_default_dtype()
    try:
        return changed(wrap, lambda x: x + ad.ones(2) * 0.5, lambda: ad.set_default_dtype(ad.float64),
                       lambda: ad.set_default_dtype(kept))  # fmt: skip
    finally:
        ad.set_default_dtype(kept)


@program
def training_flags(wrap: Wrap) -> Any:
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout(0.0))
    with ad.no_grad():
        net[0].weight.fill_(0.5)
        net[0].bias.fill_(0.1)

    def f(x: Any) -> Any:
        return net(x), net.training

    out = changed(wrap, f, net.eval, net.train, lambda: net[1].eval(), x=ramp(3, 2))
    return out, net[1].running_mean, net[1].num_batches_tracked


@program
def layers_added_and_replaced(wrap: Wrap) -> Any:
    net = nn.Sequential(nn.Linear(2, 2, bias=False))
    layers = nn.ModuleList([net[0]])
    with ad.no_grad():
        net[0].weight.fill_(0.5)

    def f(x: Any) -> Any:
        for layer in layers:
            x = layer(x)
        return net(x)

    def weight() -> None:
        net[0].weight = nn.Parameter(ones(2, 2) * 3)

    return changed(
        wrap, f, lambda: net.append(nn.ReLU()), lambda: layers.append(nn.Identity()), weight,
        lambda: net.__delitem__(1), lambda: net[0].register_parameter("bias", nn.Parameter(ones(2))),
        x=ramp(1, 2),
    )  # fmt: skip


@program
def buffers_replaced(wrap: Wrap) -> Any:
    net = nn.Module()
    net.register_buffer("b", ones(2))
    net.extra = 2.0

    def f(x: Any) -> Any:
        return x * net.b * net.extra

    return changed(
        wrap,
        f,
        lambda: setattr(net, "b", ones(2) * 5),
        lambda: setattr(net, "extra", 3.0),
        lambda: setattr(net, "b", ones(1) * 7),
        lambda: net.b.mul_(2),
    )


@program
def compiled_inside_compiled(wrap: Wrap) -> Any:
    k = [2.0]
    n = [0]

    @wrap
    def inner(x: Any) -> Any:
        n[0] += 1
        return x * k[0]

    def outer(x: Any) -> Any:
        return inner(x) + inner(x * 2) + n[0]

    out = changed(wrap, outer, lambda: k.__setitem__(0, 5.0))
    return out, inner(ones(1)), n


@program
def recursion_by_name(wrap: Wrap) -> Any:
    depth = [3]

    def f(x: Any, n: int = 0) -> Any:
        return x if n >= depth[0] else f(x * 2, n + 1) + n

    return changed(wrap, f, lambda: depth.__setitem__(0, 5))


@program
def methods_of_two_objects(wrap: Wrap) -> Any:
    class A:
        shared: list[int] = []

        def __init__(self, k: float) -> None:
            self.k = k

        def go(self, x: Any) -> Any:
            self.shared.append(len(self.shared))
            self.k += 1
            return x * self.k + len(self.shared)

    a, b = A(1.0), A(10.0)
    fa, fb = wrap(a.go), wrap(b.go)
    return [fa(ones(1)), fb(ones(1)), fa(ones(1)), fb(ones(1)), fa(ones(1))], a.k, b.k, A.shared


@program
def copies_do_not_follow(wrap: Wrap) -> Any:
    cfg = {"v": [1.0, 2.0]}
    frozen = copy.deepcopy(cfg)
    run = wrap(lambda x: x * sum(cfg["v"]) + sum(frozen["v"]))
    out = [run(ones(1))]
    cfg["v"].append(3.0)
    out.append(run(ones(1)))
    cfg["v"] = frozen["v"]
    out.append(run(ones(1)))
    frozen["v"].append(10.0)
    return [*out, run(ones(1))]


@program
def lists_aliased_and_split(wrap: Wrap) -> Any:
    a = [1.0]
    s = types.SimpleNamespace(p=a, q=a)

    def f(x: Any) -> Any:
        s.p.append(2.0)
        return x * len(s.q)

    run = wrap(f)
    out = times(run, n=2)
    s.q = [0.0]
    return out, times(run, n=2), s.p, s.q


@program
def state_reached_by_two_names(wrap: Wrap) -> Any:
    w = ones(2)
    s = types.SimpleNamespace(a=w, b=w)

    def f(x: Any) -> Any:
        s.a.add_(1)
        return x * s.b

    run = wrap(f)
    out = times(run, n=2)
    s.b = ones(2) * 10
    return out, times(run, n=2), s.a, s.b


@program
def tensors_swapped_in_a_list(wrap: Wrap) -> Any:
    a, b = ones(2), ones(2) * 2
    v = [a, b]

    def f(x: Any) -> Any:
        v.reverse()
        v[0], v[1] = v[1], v[0] + x
        return v[0] * 2, v[1] - 1

    run = wrap(f)
    out = times(run, n=3)
    return out, v, v[0] is a, v[0] is b


@program
def tensor_of_another_dtype(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(t=ones(2))
    return changed(
        wrap, lambda x: (x * s.t, s.t.dtype, s.t.shape),
        lambda: setattr(s, "t", s.t.double()), lambda: setattr(s, "t", ones(2, 2)),
        lambda: setattr(s, "t", 3), lambda: setattr(s, "t", None),
    )  # fmt: skip


@program
def iterators_and_views_kept(wrap: Wrap) -> Any:
    d = {"a": 1.0}
    keys, values = d.keys(), d.values()
    ring = itertools.cycle("xy")

    def f(x: Any) -> Any:
        return x * sum(values) + len(keys) + (next(ring) == "x")

    return changed(wrap, f, lambda: d.update(b=2.0), d.clear)


@program
def accumulated_over_calls(wrap: Wrap) -> Any:
    log: Any = collections.defaultdict(list)

    def f(x: Any) -> Any:
        y = x * 2
        log["sum"].append(y.sum())
        log["n"].append(len(log["sum"]))
        return sum(log["sum"][-2:])

    return times(wrap(f)), dict(log)


@program
def early_returns_by_state(wrap: Wrap) -> Any:
    s = {"ready": False, "cache": None}

    def f(x: Any) -> Any:
        if s["cache"] is not None and s["ready"]:
            return s["cache"] + x
        s["cache"] = x * 3
        return s["cache"]

    run = wrap(f)
    out = times(run, n=2)
    s["ready"] = True
    out += [run(ones(2) * 10), run(ones(2))]
    s["cache"] = None
    return out, times(run, n=2)


@program
def truth_of_containers(wrap: Wrap) -> Any:
    s: Any = types.SimpleNamespace(v=[], d={}, t="", n=0)

    def f(x: Any) -> Any:
        if s.v:
            x = x * 2
        if not s.d:
            x = x + 1
        return x * 3 if s.t or s.n else x

    return changed(
        wrap,
        f,
        lambda: s.v.append(0),
        lambda: s.d.update(a=1),
        lambda: setattr(s, "t", "a"),
        lambda: setattr(s, "t", ""),
        lambda: setattr(s, "n", 5),
        lambda: setattr(s, "n", 6),
    )


@program
def identity_tests(wrap: Wrap) -> Any:
    a: Any = object()
    s = types.SimpleNamespace(x=a, y=a)
    t = ones(2)

    def f(x: Any) -> Any:
        return (x * 2 if s.x is s.y else x), x is t, s.x in (a, None)

    run = wrap(f)
    out = [run(t), run(ones(2)), run(t)]
    s.y = object()
    return out, run(t), run(ones(2))


@program
def sizes_grow_and_shrink(wrap: Wrap) -> Any:
    seen: list[int] = []

    def f(x: Any) -> Any:
        n = x.size(0)
        seen.append(n)
        half = n // 2
        y = x[:half] if n > 3 else x
        return y.sum() / max(n, 1) + (n**2) % 7, [n, half], n == 4, f"{n}"

    run = wrap(f, dynamic=True)
    return [run(ramp(n)) for n in (2, 3, 4, 5, 8, 4, 3, 9)], seen


@program
def sizes_in_loops(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        total = x.new_zeros(())
        for row in x:
            total = total + row.sum() * 2
        for i in range(x.shape[1]):
            total = total + x[:, i].max() * i
        return total, [tuple(c.shape) for c in x.chunk(2)]

    run = wrap(f, dynamic=True)
    return [run(ramp(b, t)) for b, t in ((2, 3), (3, 3), (4, 2), (5, 4), (2, 3))]


@program
def marked_sizes(wrap: Wrap) -> Any:
    def f(x: Any, y: Any) -> Any:
        assert x.shape[0] == y.shape[0], "sizes differ"
        return (x @ y.transpose(0, 1)).sum() * x.shape[1] + y.numel()

    run = wrap(f, dynamic=True)
    out = [run(ramp(n, k), ramp(n, k)) for n, k in ((2, 3), (3, 4), (4, 3))]
    return out, tried(run, ramp(2, 3), ramp(3, 3)), run(ramp(5, 2), ramp(5, 2))
