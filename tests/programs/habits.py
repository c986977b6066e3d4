"""More of them: caches, draws, NumPy, exceptions midway, hooks, what results share."""

# Written as a user would, who annotates little.
# mypy: disable-error-code="has-type, import-not-found, index, list-item, str-format, type-arg, var-annotated"

from __future__ import annotations

import itertools
import operator
import random
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import nn

from .playing import Wrap, changed, ones, program, ramp, times, tried


@program
def operator_accessors(wrap: Wrap) -> Any:

    class S:
        a = {"k": [1.0, 2.0]}

    get = operator.attrgetter("a")
    it = operator.itemgetter("k")
    mc = operator.methodcaller("index", 2.0)

    def f(x: Any) -> Any:
        level = it(get(S))
        return x * level[0] + mc(level) + operator.length_hint(level)

    return changed(
        wrap, f, lambda: S.a["k"].insert(0, 7.0), lambda: S.a.__setitem__("k", [2.0, 2.0, 2.0])
    )


@program
def accumulate_product(wrap: Wrap) -> Any:
    L = [1.0, 2.0, 3.0]

    def f(x: Any) -> Any:
        return (
            x * list(itertools.accumulate(L, operator.mul))[-1]
            + sum((a * b for a, b in itertools.product(L, repeat=2)))
            + len(list(itertools.combinations(L, 2)))
        )

    return changed(wrap, f, lambda: L.append(2.0))


@program
def groupby_pairwise(wrap: Wrap) -> Any:
    L = [("a", 1.0), ("a", 2.0), ("b", 3.0)]

    def f(x: Any) -> Any:
        out = {k: sum((v for _, v in g)) for k, g in itertools.groupby(L, key=lambda t: t[0])}
        return (x * sum(out.values()), list(out), [b[1] - a[1] for a, b in itertools.pairwise(L)])

    return changed(wrap, f, lambda: L.append(("a", 5.0)))


@program
def random_choice_layer(wrap: Wrap) -> Any:
    ls = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
    for i, level in enumerate(ls):
        nn.init.constant_(level.weight, i + 1.0)
        nn.init.zeros_(level.bias)

    def f(x: Any) -> Any:
        return random.choice(ls)(x)

    random.seed(5)
    return (times(wrap(f), n=6), random.random())


@program
def random_sample_and_gauss(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        idx = random.sample(range(4), 2)
        return x[idx] * random.gauss(0, 1) + random.uniform(1, 2)

    random.seed(3)
    return (times(wrap(f), ramp(4), n=4), random.random())


@program
def numpy_rng_mixup(wrap: Wrap) -> Any:
    rng = np.random.default_rng(0)

    def f(x: Any) -> Any:
        lam = float(rng.beta(0.2, 0.2))
        perm = rng.permutation(4)
        return x * lam + x[perm] * (1 - lam)

    return (times(wrap(f), ramp(4), n=4), rng.random())


@program
def numpy_legacy_mask(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        m = (np.random.rand(4) > 0.5).astype(np.float32)
        return x * ad.from_numpy(m)

    np.random.seed(2)
    return (times(wrap(f), ramp(4), n=5), np.random.rand())


@program
def numpy_table_lookup(wrap: Wrap) -> Any:
    tab = np.linspace(0, 1, 5)

    class S:
        i = 0

    def f(x: Any) -> Any:
        S.i = (S.i + 1) % 5
        return x * float(tab[S.i])

    return (changed(wrap, f, lambda: tab.__setitem__(3, 9.0), lambda: tab.fill(2.0)), S.i)


@program
def numpy_running_stats(wrap: Wrap) -> Any:
    hist = np.zeros(4)

    class S:
        n = 0

    def f(x: Any) -> Any:
        hist[S.n % 4] = x.shape[0]
        S.n += 1
        return x * float(hist.mean())

    r = wrap(f)
    return ([tried(r, ones(n)) for n in (2, 3, 2, 5, 2)], hist)


@program
def exception_midway_state(wrap: Wrap) -> Any:
    log = []
    buf = ad.zeros(2)

    class S:
        n = 0

    def f(x: Any, bad: Any) -> Any:
        log.append("in")
        S.n += 1
        buf.add_(x)
        if bad:
            raise RuntimeError(f"bad at {S.n}")
        log.append("out")
        buf.mul_(2)
        return buf.clone()

    r = wrap(f)
    return ([tried(r, ones(2), b) for b in (False, True, False, True, True)], log, buf, S.n)


@program
def exception_finally_restore(wrap: Wrap) -> Any:

    class S:
        mode = "a"

    def f(x: Any, bad: Any) -> Any:
        old = S.mode
        S.mode = "b"
        try:
            if bad:
                raise KeyError(S.mode)
            return x * 2
        finally:
            S.mode = old
            S.last = bad

    r = wrap(f)
    return ([tried(r, ones(2), b) for b in (0, 1, 0)], S.mode, S.last)


@program
def assert_shape(wrap: Wrap) -> Any:

    class S:
        d = 2

    def f(x: Any) -> Any:
        assert x.shape[-1] == S.d, f"wanted {S.d}, got {x.shape[-1]}"
        return x * S.d

    r = wrap(f)
    o = [tried(r, ones(2)), tried(r, ones(3))]
    S.d = 3
    return [*o, tried(r, ones(2)), tried(r, ones(3))]


@program
def optimizer_made_lazily(wrap: Wrap) -> Any:
    m = nn.Linear(2, 1)
    nn.init.ones_(m.weight)
    nn.init.zeros_(m.bias)

    class T:
        opt = None

    def step(x: Any) -> Any:
        if T.opt is None:
            T.opt = ad.optim.Adam(m.parameters(), lr=0.1)
        level = m(x).pow(2).mean()
        T.opt.zero_grad()
        level.backward()
        T.opt.step()
        return level.detach()

    return (times(wrap(step), ramp(3, 2), n=4), list(m.parameters()))


@program
def lazily_made_submodule(wrap: Wrap) -> Any:

    class N(nn.Module):
        def __init__(s) -> None:
            super().__init__()
            s.head = None

        def forward(s, x: Any) -> Any:
            if s.head is None:
                s.head = nn.Linear(x.shape[-1], 1)
                nn.init.ones_(s.head.weight)
                nn.init.zeros_(s.head.bias)
            return s.head(x)

    n = N()
    out = times(wrap(n), ramp(3, 2), n=3)
    return (out, [k for k, _ in n.named_parameters()])


@program
def hooks_capture_activations(wrap: Wrap) -> Any:
    m = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    for p in m.parameters():
        nn.init.constant_(p, 0.5)
    acts = {}
    hs = [
        level.register_forward_hook(lambda mod, i, o, n=n: acts.__setitem__(n, o.detach()))
        for n, level in m.named_children()
    ]
    r = wrap(lambda x: m(x))
    o = [tried(r, ramp(2, 2)), tried(r, ramp(2, 2) * 2)]
    got = dict(acts)
    hs[0].remove()
    acts.clear()
    return (o, got, tried(r, ramp(2, 2)), acts)


@program
def pre_hook_modifies_input(wrap: Wrap) -> Any:
    m = nn.Linear(2, 2)
    for p in m.parameters():
        nn.init.constant_(p, 0.5)

    class S:
        k = 2.0

    h = m.register_forward_pre_hook(lambda mod, a: (a[0] * S.k,))
    return changed(wrap, lambda x: m(x), lambda: setattr(S, "k", 5.0), lambda: h.remove())


@program
def tensor_hook_scales_grad(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()
    S = {"k": 2.0}

    def f(x: Any) -> Any:
        y = w * x
        y.register_hook(lambda g: g * S["k"])
        y.sum().backward()
        g = w.grad.clone()
        w.grad = None
        return g

    return changed(wrap, f, lambda: S.update(k=7.0))


@program
def retain_grad_inside(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()

    def f(x: Any) -> Any:
        y = w * x
        y.retain_grad()
        (y * y).sum().backward()
        g = y.grad
        w.grad = None
        return (g, y)

    return times(wrap(f))


@program
def results_alias_args(wrap: Wrap) -> Any:

    def f(x: Any, y: Any) -> Any:
        return (x, [y, x], {"a": x[0], "b": y.view(-1)})

    r = wrap(f)
    a, b = (ones(2), ramp(2))
    out = []
    for _ in range(3):
        o = r(a, b)
        out.append((o[0] is a, o[1][0] is b, o[1][1] is a))
        o[2]["a"].add_(1)
        o[2]["b"].mul_(2)
    return (out, a, b)


@program
def state_alias_results(wrap: Wrap) -> Any:

    class S:
        h = ad.zeros(2)

    def f(x: Any) -> Any:
        S.prev = S.h
        S.h = S.h + x
        return (S.h, S.prev)

    r = wrap(f)
    o = [r(ones(2)) for _ in range(3)]
    return (o, o[-1][0] is S.h, o[-1][1] is S.prev, o[1][0] is o[2][1])


@program
def same_tensor_two_args(wrap: Wrap) -> Any:

    def f(a: Any, b: Any) -> Any:
        a.add_(1)
        return (a * b, a is b)

    r = wrap(f)
    x, y = (ones(2), ones(2))
    return ([r(x, x), r(x, y), r(y, y), r(x, x)], x, y)
