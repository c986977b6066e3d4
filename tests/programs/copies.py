"""Programs on which object is which, and on copies of tensors, containers and modules."""

# Written as a user would, who annotates little.
# mypy: disable-error-code="has-type, import-not-found, index, list-item, str-format, type-arg, var-annotated"

from __future__ import annotations

import copy
from typing import Any

from adjoint import nn

from .playing import Wrap, changed, ones, program, ramp, times, tried


@program
def id_seen_set(wrap: Wrap) -> Any:
    seen = set()

    def f(x: Any) -> Any:
        if id(x) in seen:
            return x * 3
        seen.add(id(x))
        return x * 2

    r = wrap(f)
    a, b = (ones(2), ones(2))
    return ([tried(r, v) for v in (a, a, b, b, a)], len(seen))


@program
def id_compared(wrap: Wrap) -> Any:
    a, b = (ones(2), ones(2))
    k = id(a)

    def f(x: Any) -> Any:
        return x * 2 if id(x) == k else x * 3

    r = wrap(f)
    return [tried(r, v) for v in (a, b, a, b)]


@program
def id_returned(wrap: Wrap) -> Any:

    def f(x: Any, y: Any) -> Any:
        z = x * 2
        return (z, id(x), id(z), id(x) == id(y))

    r = wrap(f)
    out = []
    for p in ((ones(2), ones(2)), (ones(2), ones(2))):
        z, i, j, e = r(*p)
        out.append((i == id(p[0]), j == id(z), e))
    a = ones(2)
    out.append(r(a, a)[3])
    return out


@program
def id_memo_local(wrap: Wrap) -> Any:

    def f(ts: Any) -> Any:
        seen = {}
        t = 0
        for x in ts:
            if id(x) in seen:
                continue
            seen[id(x)] = x
            t = t + x
        return (t, len(seen))

    r = wrap(f)
    a, b = (ones(2), ones(2))
    return [tried(r, list(v)) for v in ((a, b), (a, a), (b, a), (b, b))]


@program
def grad_fn_of_argument(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()

    def f(x: Any) -> Any:
        return x * 2 if "Mul" in x.grad_fn.name() else x * 3

    r = wrap(f)
    return [tried(r, v) for v in (w * 2, w + 1, w * 3, w - 1)]


@program
def next_functions_of_argument(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()

    def f(x: Any) -> Any:
        return x * len(x.grad_fn.next_functions)

    r = wrap(f)
    return [tried(r, v) for v in (w * 2, w + w)]


@program
def versions_after(wrap: Wrap) -> Any:
    s = ones(2)

    def f(x: Any) -> Any:
        s.add_(x)
        s.mul_(2)
        x.add_(1)
        x[0] = 3
        return s * 1

    r = wrap(f)
    a = ones(2)
    r(a)
    r(a)
    return (s._version, a._version)


@program
def deepcopy_shared_views(wrap: Wrap) -> Any:
    base = ramp(4)
    box = [base, base[1:3], base.view(2, 2)]

    def f(x: Any) -> Any:
        c = copy.deepcopy(box)
        c[1].add_(10)
        return (c[0] + x.sum(), c[2], box[0] * 1)

    return (changed(wrap, f, lambda: base.mul_(2)), base)


@program
def deepcopy_argument(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        c = copy.deepcopy(x)
        c.add_(1)
        return (c, x * 2)

    r = wrap(f)
    a = ones(2)
    return ([tried(r, v) for v in (a, ones(2) * 3, a, ramp(4)[1:3], ramp(2, 2).t())], a)


@program
def deepcopy_of_inner(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        y = x * 2
        c = copy.deepcopy(y)
        c.add_(1)
        d = copy.deepcopy(y[1:])
        d.mul_(0)
        return (c, y, d)

    return times(wrap(f), ramp(3))


@program
def deepcopy_leaf_trains(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()

    def f(x: Any) -> Any:
        c = copy.deepcopy(w)
        (c * x).sum().backward()
        return (c.grad, w.grad is None, c.requires_grad)

    return changed(wrap, f, lambda: w.data.add_(1), x=ramp(2))


@program
def deepcopy_nonleaf_raises(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()

    def f(x: Any) -> Any:
        return copy.deepcopy(w * x)

    return times(wrap(f), n=2)


@program
def copy_copy_tensor_and_list(wrap: Wrap) -> Any:
    box = {"a": [ones(2)], "k": 1.0}

    def f(x: Any) -> Any:
        c = copy.copy(box)
        c["k"] = 5.0
        c["a"].append(x)
        t = copy.copy(box["a"][0])
        t.add_(1)
        return (len(box["a"]), box["k"], t)

    return (changed(wrap, f), box)


@program
def copy_dict_subclass(wrap: Wrap) -> Any:

    class D(dict):
        def __init__(s, *a: Any, **k: Any) -> None:
            super().__init__(*a, **k)
            s.tag = 1

    d = D(a=[1.0], b=2.0)

    def f(x: Any) -> Any:
        c = copy.deepcopy(d)
        c["a"].append(3.0)
        return (x * sum(c["a"]) + c["b"] + c.tag, type(c).__name__)

    return changed(
        wrap, f, lambda: d["a"].append(7.0), lambda: setattr(d, "tag", 4), lambda: d.update(b=9.0)
    )


@program
def copy_list_subclass(wrap: Wrap) -> Any:

    class L(list):
        pass

    level = L([1.0, [2.0]])
    level.k = 3.0

    def f(x: Any) -> Any:
        c = copy.deepcopy(level)
        c[1].append(1.0)
        d = copy.copy(level)
        d.append(1)
        return x * c[0] + len(c[1]) + c.k + len(d)

    return changed(wrap, f, lambda: level.append(1.0), lambda: level[1].append(7.0))


@program
def deepcopy_module_train_copy(wrap: Wrap) -> Any:
    m = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    for p in m.parameters():
        nn.init.constant_(p, 0.5)

    def f(x: Any) -> Any:
        c = copy.deepcopy(m)
        c.train()
        y = c(x)
        return (y, c[1].running_mean, m[1].running_mean * 1)

    return changed(
        wrap, f, lambda: m[0].weight.data.mul_(2), lambda: m.append(nn.ReLU()), x=ramp(4, 2)
    )


@program
def target_network_sync(wrap: Wrap) -> Any:
    m = nn.Linear(2, 1)
    for p in m.parameters():
        nn.init.constant_(p, 0.5)

    class A:
        target = None
        n = 0

    def f(x: Any) -> Any:
        if A.n % 3 == 0:
            A.target = copy.deepcopy(m)
        A.n += 1
        for p in m.parameters():
            p.data.add_(1.0)
        return (A.target(x), m(x))

    return (times(wrap(f), ones(1, 2), n=8), list(A.target.parameters()))
