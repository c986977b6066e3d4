"""Programs with hooks of tensors, modules and optimizers, and of every kind of callable."""

# Written as a user would, who annotates little.
# mypy: disable-error-code="has-type, import-not-found, index, list-item, str-format, type-arg, var-annotated, func-returns-value"

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import adjoint as ad
from adjoint import nn

from .playing import Wrap, changed, ones, program, ramp, times, tried


def lin(*sizes: int, v: float = 0.5) -> Any:
    made = nn.Linear(*sizes)
    for p in made.parameters():
        nn.init.constant_(p, v)
    return made


@program
def hooks_of_many_kinds(wrap: Wrap) -> Any:

    class H:
        def __init__(s) -> None:
            s.n = 0

        def on(s, g: Any) -> Any:
            s.n += 1
            return g * s.n

        def __call__(s, g: Any) -> Any:
            s.n += 10
            return g

    h = H()
    o = H()
    log = []
    w = ones(2).requires_grad_()
    v = ones(2).requires_grad_()
    u = ones(2).requires_grad_()
    w.register_hook(h.on)
    v.register_hook(functools.partial(lambda k, g: log.append(k), "k"))
    u.register_hook(o)

    def f(x: Any) -> Any:
        (w * x + v * x + u * x).sum().backward()
        g = [t.grad for t in (w, v, u)]
        for t in (w, v, u):
            t.grad = None
        return g

    return (times(wrap(f)), h.n, o.n, log)


@program
def hooks_of_module_parameters(wrap: Wrap) -> Any:
    m = nn.Sequential(lin(2, 2), nn.ReLU(), lin(2, 1))
    norms = []
    k = {"s": 1.0}
    for n, p in m.named_parameters():
        p.register_hook(lambda g, n=n: (norms.append(n), g * k["s"])[1])
    o = ad.optim.SGD(m.parameters(), lr=0.1)

    def f(x: Any) -> Any:
        o.zero_grad()
        m(x).sum().backward()
        o.step()
        return m[0].weight.clone()

    return (changed(wrap, f, lambda: k.update(s=3.0), x=ramp(2, 2)), Counter(norms))


@program
def post_accumulate_of_modules(wrap: Wrap) -> Any:
    m = lin(2, 2)
    Counter()

    class Cl:
        def __init__(s) -> None:
            s.c = 0

        def clip(s, p: Any) -> None:
            s.c += 1
            p.grad.clamp_(-0.5, 0.5)

    c = Cl()
    for p in m.parameters():
        p.register_post_accumulate_grad_hook(c.clip)

    def f(x: Any) -> Any:
        m(x).sum().backward()
        g = [p.grad.clone() for p in m.parameters()]
        m.zero_grad()
        return g

    return (times(wrap(f), ramp(2, 2)), c.c)


@program
def hook_through_autograd_grad(wrap: Wrap) -> Any:
    log = []
    w = ones(2).requires_grad_()
    w.register_hook(lambda g: log.append("h"))

    def f(x: Any) -> Any:
        return ad.autograd.grad((w * x).sum(), w)[0]

    return (times(wrap(f)), log)


@program
def hook_when_backward_outside(wrap: Wrap) -> Any:
    log = []
    w = ones(2).requires_grad_()
    w.register_hook(lambda g: (log.append("h"), g * 2)[1])
    r = wrap(lambda x: (w * x).sum())
    out = []
    for _ in range(3):
        level = r(ones(2))
        level.backward()
        out.append(w.grad)
        w.grad = None
    return (out, log)


@program
def hook_on_intermediate_backward_outside(wrap: Wrap) -> Any:
    log = []
    w = ones(2).requires_grad_()

    def f(x: Any) -> Any:
        y = w * x
        y.register_hook(lambda g: (log.append("h"), g * 2)[1])
        return y.sum()

    r = wrap(f)
    out = []
    for _ in range(3):
        level = r(ones(2))
        level.backward()
        out.append(w.grad)
        w.grad = None
    return (out, log)


@program
def saved_hooks_count(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()
    n = Counter()

    def pack(t: Any) -> Any:
        n["p"] += 1
        return t * 2

    def unpack(t: Any) -> Any:
        n["u"] += 1
        return t / 2

    def f(x: Any) -> Any:
        with ad.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = (w * w * x).sum()
        y.backward()
        g = w.grad
        w.grad = None
        return g

    return (times(wrap(f), n=3), n["p"], n["u"])


@program
def optimizer_step_hooks(wrap: Wrap) -> Any:
    w = nn.Parameter(ones(2))
    o = ad.optim.SGD([w], lr=0.1)
    n = Counter()
    o.register_step_pre_hook(lambda *a: n.update(["pre"]))
    o.register_step_post_hook(lambda *a: n.update(["post"]))

    def f(x: Any) -> Any:
        o.zero_grad()
        (w * x).sum().backward()
        o.step()
        return w.clone()

    return (times(wrap(f)), n)


@program
def global_module_hooks(wrap: Wrap) -> Any:
    n = Counter()
    m = lin(2, 2)
    h = nn.modules.module.register_module_forward_hook(
        lambda mod, i, o: n.update([type(mod).__name__])
    )
    try:
        o = times(wrap(lambda x: m(x)), n=3)
    finally:
        h.remove()
    return (o, n)


@program
def hook_reads_state_backward_outside(wrap: Wrap) -> Any:
    S = {"k": 2.0}
    w = ones(2).requires_grad_()

    def f(x: Any) -> Any:
        y = w * x
        y.register_hook(lambda g: g * S["k"])
        return y.sum()

    r = wrap(f)
    out = []
    for k in (2.0, 3.0):
        level = r(ones(2))
        S["k"] = k + 1
        level.backward()
        out.append(w.grad)
        w.grad = None
    return out


@program
def hook_pure_backward_outside(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()

    def f(x: Any) -> Any:
        y = w * x
        y.register_hook(lambda g: ad.clamp(g * 3, max=2.0))
        return y.sum()

    r = wrap(f)
    out = []
    for _k in (2.0, 3.0):
        level = r(ones(2))
        level.backward()
        out.append(w.grad)
        w.grad = None
    return out


@program
def custom_function_backward_state(wrap: Wrap) -> Any:
    S = {"k": 2.0}
    n = Counter()

    class Fn(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            n["b"] += 1
            return g * S["k"]

    w = ones(2).requires_grad_()
    r = wrap(lambda x: Fn.apply(w * x).sum())
    out = []
    for k in (2.0, 3.0):
        level = tried(r, ones(2))
        S["k"] = k + 1
        out.append(tried(lambda: level.backward()))  # noqa: B023
        out.append(w.grad)
        w.grad = None
    return (out, n)


@program
def rule_of_a_function_replaced(wrap: Wrap) -> Any:
    class Fn(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    w = ones(2).requires_grad_()

    def f(x: Any) -> Any:
        w.grad = None
        (Fn.apply(w) * x).sum().backward()
        return w.grad.clone()

    run = wrap(f)
    out = [run(ones(2))]
    Fn.backward = staticmethod(lambda ctx, g: g * 7)
    out.append(run(ones(2)))
    Fn.forward = staticmethod(lambda ctx, x: x * x)
    return [*out, run(ones(2)), w.grad]


@program
def hooks_that_come_and_go(wrap: Wrap) -> Any:
    ad.manual_seed(0)
    m, w = nn.Linear(2, 2), ones(2).requires_grad_()
    seen: list[Any] = []
    first = w.register_hook(lambda g: g * 10)
    state = {"calls": 0}

    def f(x: Any) -> Any:
        state["calls"] += 1
        with m.register_forward_hook(lambda of, given, out: seen.append(out)):
            y = m(x)
        hook = w.register_hook(lambda g: g * 2)
        w.grad = None
        (w * x).sum().backward()
        hook.remove()
        if state["calls"] == 2:
            first.remove()
        return y, w.grad.clone()

    run = wrap(f)
    out = [tried(run, ones(2)) for _ in range(4)]
    return out, [y is kept for (y, _), kept in zip(out, seen, strict=True)]


@program
def hook_that_stays(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()

    def f(x: Any) -> Any:
        w.register_hook(lambda g: g * 2)
        w.grad = None
        (w * x).sum().backward()
        return w.grad.clone()

    run = wrap(f)
    return [tried(run, ones(2)) for _ in range(3)]
