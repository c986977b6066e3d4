"""Programs about tensors that outlive calls: aliases, views, flags, gradients, what is on the tape."""

from __future__ import annotations

import types
from typing import Any

import adjoint as ad
from adjoint import nn

from .playing import Wrap, ones, program, ramp, tried


@program
def argument_returned(wrap: Wrap) -> Any:
    run = wrap(lambda x: (x, x + 1, [x]))
    out = []
    for _ in range(2):
        x = ones(2)
        y = run(x)
        out.append((y[0] is x, y[2][0] is x, y[1]))
    return out


@program
def same_result_twice(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        y = x * 2
        return y, y, y[:1], {"y": y}

    run = wrap(f)
    out = []
    for _ in range(3):
        a, b, c, d = run(ones(2))
        a.add_(1)
        out.append((a is b, d["y"] is a, c, b))
    return out


@program
def view_of_argument_returned(wrap: Wrap) -> Any:
    run = wrap(lambda x: (x[1:], x.t(), x.view(-1), x.unsqueeze(0)))
    out = []
    for _ in range(2):
        x = ramp(2, 3)
        views = run(x)
        views[0].fill_(9.0)
        out.append((x, [v + 0 for v in views], [v._is_view() for v in views]))
    return out


@program
def view_of_state_returned(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(h=ramp(2, 2))
    run = wrap(lambda: s.h[0])
    out = []
    for k in range(3):
        run().add_(1.0)
        out.append(s.h + 0)
        if k == 1:
            s.h = ramp(2, 2) * 10
    return out, s.h


@program
def indexed_by_a_tensor(wrap: Wrap) -> Any:
    x = ramp(3, 2)
    i = ad.tensor(1)
    run = wrap(lambda: x[i])
    v = run()
    v.add_(100.0)
    w = run()
    i.add_(1)
    u = run()
    u.mul_(2)
    return x, v, w, u, v._is_view()


@program
def indexed_argument_by_a_tensor(wrap: Wrap) -> Any:
    run = wrap(lambda x, i: x[i])
    out = []
    for k in range(3):
        x = ramp(3, 2)
        v = run(x, ad.tensor(k))
        v.add_(100.0)
        out.append((x, v))
    return out


@program
def argument_written(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        x.add_(1)
        x[0] = 5
        x[1:].mul_(2)
        return x.sum()

    run = wrap(f)
    x = ramp(3)
    return [run(x) for _ in range(3)], x


@program
def aliased_arguments(wrap: Wrap) -> Any:
    def f(x: Any, y: Any) -> Any:
        x.add_(1)
        return y * 2

    run = wrap(f)
    x = ramp(3)
    out = [run(x, x), run(x, x.clone()), run(x, x[:]), run(x, x.flip(0)), run(x[:2], x[1:])]
    return out, x


@program
def argument_that_is_state(wrap: Wrap) -> Any:
    w = ramp(3)

    def f(x: Any) -> Any:
        w.mul_(2)
        return x + 1

    run = wrap(f)
    return run(ones(3)), run(w), run(w[1:]), w


@program
def expanded_argument(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        x.add_(1)
        return x * 2

    run = wrap(f)
    base = ad.zeros(1, 3)
    x = base.expand(2, 3)
    return tried(run, x), tried(run, x), base


@program
def expanded_argument_read(wrap: Wrap) -> Any:
    run = wrap(lambda x: (x.sum(), x[0], x.contiguous()))
    base = ramp(3)
    return run(base.expand(2, 3)), run(base.expand(4, 3)), run(ramp(2, 3))


@program
def strides_of_arguments(wrap: Wrap) -> Any:
    run = wrap(lambda x: (x.stride(), x.is_contiguous(), x.t().contiguous(), x.reshape(-1)))
    x = ramp(2, 3)
    return run(x), run(x.t()), run(x.t().contiguous()), run(ramp(4, 3)[::2])


@program
def strides_of_results(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        y = x * 2
        return y, y.t(), (x + 1).transpose(0, 1), x.permute(1, 0) * 3, y.expand(2, *y.shape)

    run = wrap(f)
    return [[(t.stride(), t + 0) for t in run(x)] for x in (ramp(2, 3), ramp(3, 2).t())]


@program
def reshape_of_transposed_then_written(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        a = nn.functional.gelu(x)
        b = a.reshape(-1)
        a.mul_(2)
        return b

    run = wrap(f)
    return run(ramp(2, 3).t()), run(ramp(2, 3)), run(ramp(2, 3).t())


@program
def reshape_of_argument_then_written(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        b = x.reshape(-1)
        b.mul_(2)
        return x + 0, b

    run = wrap(f)
    return [(run(x), x) for x in (ramp(2, 3), ramp(2, 3).t(), ramp(4, 3)[::2])]


@program
def contiguous_then_written(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        y = x.contiguous()
        y.add_(1)
        return y, y is x

    run = wrap(f)
    return [(run(x), x) for x in (ramp(2, 3), ramp(2, 3).t())]


@program
def data_and_detach(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()

    def f(x: Any) -> Any:
        w.data.mul_(2)
        d = w.detach()
        d.add_(1)
        return (w * x).sum(), d

    run = wrap(f)
    out = [run(ones(2)) for _ in range(3)]
    return out, w


@program
def data_replaced(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()

    def f(x: Any) -> Any:
        w.data = w.data * 2 + x
        return w * 1

    run = wrap(f)
    return [run(ones(2)) for _ in range(3)], w, w.is_leaf


@program
def state_replaced_outside(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(w=ones(2))
    run = wrap(lambda x: x * s.w)
    out = [run(ones(2))]
    s.w = ones(2) * 3
    out.append(run(ones(2)))
    s.w = ones(2, 1) * 4
    out.append(run(ones(2)))
    s.w = ad.tensor([1, 2])
    out.append(run(ones(2)))
    s.w = s.w.to(ad.float64)
    return [*out, run(ones(2))]


@program
def view_turned_and_given_its_data(wrap: Wrap) -> Any:
    b = ramp(2, 3)
    s = types.SimpleNamespace(h=b[:])

    def f(x: Any) -> Any:
        s.h.swapaxes_(0, -1)
        out = s.h.sum() + x
        s.h.data = s.h.detach()
        return out

    run = wrap(f)
    out = []
    for _ in range(4):
        out += [tried(run, ones(1)), s.h.clone()]
        s.h.add_(1)
    return out, b
