"""Programs about leaves that a function makes or finds, their gradients, parameters, optimizers."""

from __future__ import annotations

import types
from typing import Any

import adjoint as ad
from adjoint import nn

from .playing import Wrap, ones, program, ramp, tried


@program
def leaf_made_inside(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        y = (x * 2).detach().requires_grad_()
        return y, (y * y).sum()

    run = wrap(f)
    out = []
    for _ in range(2):
        y, z = run(ones(2))
        z.backward()
        out += [y, y.grad]
    return out


@program
def leaf_made_inside_of_state(wrap: Wrap) -> Any:
    w = ones(2)
    s: Any = types.SimpleNamespace()

    def f(x: Any) -> Any:
        s.leaf = w.detach().requires_grad_()
        return (s.leaf * x).sum()

    run = wrap(f)
    out = []
    for k in range(3):
        run(ones(2) * k).backward()
        out += [s.leaf.grad, s.leaf.data_ptr() == w.data_ptr()]
    return out


@program
def leaf_made_inside_twice_differentiated(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        y = (x * 2).detach().requires_grad_()
        return y, (y * y * y).sum()

    y, z = wrap(f)(ones(2))
    (g,) = ad.autograd.grad(z, [y], create_graph=True)
    g.sum().backward()
    return g, y.grad


@program
def gradient_of_a_detached_leaf(wrap: Wrap) -> Any:
    w = ramp(3)

    def f(x: Any) -> Any:
        d = w.detach().requires_grad_()
        (d * d * x).sum().backward()
        return d, d.grad

    run = wrap(f)
    out = [run(ones(3)), run(ones(3) * 2)]
    return out, w.grad, out[0][0] is out[1][0], out[0][0].grad


@program
def asked_for_a_gradient_inside(wrap: Wrap) -> Any:
    h = ones(3)

    def f(x: Any) -> Any:
        h.requires_grad_()
        return (h * x).sum()

    run = wrap(f)
    out = []
    for _ in range(2):
        run(ones(3) * 2).backward()
        out.append(h.grad)
        h.requires_grad_(False)
    return out


@program
def no_gradient_wanted_any_more(wrap: Wrap) -> Any:
    w = ones(3).requires_grad_()

    def f(x: Any) -> Any:
        y = w * x
        before = w[0]
        w.requires_grad_(False)
        return y.sum(), before, w[1], w * 2

    run = wrap(f)
    out = []
    for _ in range(2):
        w.requires_grad_()
        found = run(ones(3) * 2)
        out.append((found, w.requires_grad))
    return out


@program
def gradient_handed_out(wrap: Wrap) -> Any:
    w = ones(2, 3).requires_grad_()
    run = wrap(lambda: (w.grad, w.grad[0], w.grad.t(), w.grad * 1))
    out = []
    for k in range(3):
        w.grad = ones(2, 3) * k
        g, row, turned, copy = run()
        row.add_(1)
        out += [g is w.grad, w.grad, turned, copy]
    return out


@program
def gradient_that_is_state_too(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()
    w.grad = ones(2)
    s = types.SimpleNamespace(g=w.grad)

    def f() -> Any:
        s.g.add_(1)
        return w.grad * 1

    run = wrap(f)
    out = [run(), run()]
    w.grad = ones(2) * 10
    out += [run(), s.g, w.grad]
    s.g = w.grad
    return [*out, run(), s.g, w.grad]


@program
def gradient_compared(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()
    w.grad = ones(2)
    s = types.SimpleNamespace(g=w.grad)
    run = wrap(lambda x: (x, w.grad is s.g))
    out = [run(ones(1))]
    w.grad = ones(2)
    return [*out, run(ones(1))]


@program
def gradient_kept_from_call_to_call(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()
    s: Any = types.SimpleNamespace(last=None)

    def f(x: Any) -> Any:
        before, s.last = s.last, w.grad
        w.grad = None
        (w * x).sum().backward()
        return before

    run = wrap(f)
    return [run(ones(2) * k) for k in range(5)], s.last, w.grad


@program
def gradient_assigned_and_scaled(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()

    def f(x: Any) -> Any:
        if w.grad is None:
            w.grad = x * 1
        else:
            w.grad.mul_(2)
        return w.grad

    run = wrap(f)
    out = []
    for k in range(4):
        g = run(ones(2) * (k + 1))
        out += [g + 0, g is w.grad]
        if k == 2:
            w.grad = None
    return out


@program
def gradient_given_to_backward(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()

    def f(x: Any) -> Any:
        w.grad = None
        w.backward(x)
        return w.grad

    run = wrap(f)
    out = []
    for k in range(3):
        x = ones(2) * k
        g = run(x)
        out += [g + 0, g is x, g.data_ptr() == x.data_ptr()]
    return out


@program
def gradient_of_a_view_kept(wrap: Wrap) -> Any:
    w = ramp(2, 2).requires_grad_()
    s: Any = types.SimpleNamespace()

    def f(x: Any) -> Any:
        s.row = w[0]
        return (s.row * x).sum()

    run = wrap(f)
    out = []
    for _ in range(2):
        (run(ones(2)) + s.row.sum()).backward()
        out.append(w.grad + 0)
    return out, s.row


@program
def gradient_retained(wrap: Wrap) -> Any:
    w = ones(3).requires_grad_()

    def f(x: Any) -> Any:
        y = w * x
        y.retain_grad()
        return y, (y * y).sum()

    run = wrap(f)
    out = []
    for _ in range(2):
        y, z = run(ones(3) * 2)
        z.backward()
        out += [y.grad, w.grad + 0]
    return out


@program
def loss_of_a_result_and_of_what_it_is_of(wrap: Wrap) -> Any:
    w = ones(3).requires_grad_()
    s: Any = types.SimpleNamespace()

    def f(x: Any) -> Any:
        s.h = w * x
        s.aux = (s.h * s.h).mean()
        return s.h.sum()

    run = wrap(f)
    out = []
    for k in range(1, 3):
        w.grad = None
        (run(ones(3) * k) + s.aux).backward()
        out.append(w.grad)
    return out


@program
def parameter_made_inside(wrap: Wrap) -> Any:
    s: Any = types.SimpleNamespace()

    def f(x: Any) -> Any:
        s.p = nn.Parameter(x * 2)
        return (s.p * x).sum()

    run = wrap(f)
    out = []
    for _ in range(2):
        run(ones(2)).backward()
        out += [type(s.p) is nn.Parameter, s.p, s.p.grad]
    return out


@program
def parameter_made_of_state(wrap: Wrap) -> Any:
    t = ones(2)
    s: Any = types.SimpleNamespace()

    def f(x: Any) -> Any:
        s.p = nn.Parameter(t)
        return (s.p * x).sum()

    run = wrap(f)
    out, made = [], []
    for _ in range(3):
        run(ones(2)).backward()
        made.append(s.p)
        out += [s.p.grad, s.p.data_ptr() == t.data_ptr()]
    return out, made[0] is made[1]


@program
def parameter_exchanged_in_a_module(wrap: Wrap) -> Any:
    layer = nn.Linear(2, 1, bias=False)
    layer.weight.data.fill_(1.0)

    def f(x: Any) -> Any:
        before = layer(x)
        layer.weight = nn.Parameter(layer.weight.detach() * 2)
        return before, layer(x).sum()

    run = wrap(f)
    out = []
    for _ in range(3):
        before, loss = run(ones(1, 2))
        loss.backward()
        out += [before, layer.weight, layer.weight.grad, [n for n, _ in layer.named_parameters()]]
    return out


@program
def made_for_inference(wrap: Wrap) -> Any:
    s: Any = types.SimpleNamespace()
    w = ones(3).requires_grad_()

    def f(x: Any) -> Any:
        with ad.inference_mode():
            s.h = x * 2
        return (w * x).sum(), s.h.is_inference()

    run = wrap(f)
    return [run(ones(3)) for _ in range(2)], s.h.is_inference(), type(tried(s.h.mul_, 2)).__name__


@program
def state_of_an_optimizer(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()
    opt = ad.optim.Adam([w], lr=0.1)

    def f(x: Any) -> Any:
        opt.zero_grad()
        (w * x).sum().backward()
        opt.step()
        return opt.state[w]["exp_avg"]

    run = wrap(f)
    out = []
    for k in range(4):
        average = run(ones(2))
        out += [average + 0, average is opt.state[w]["exp_avg"]]
        if k == 1:
            opt.state[w]["exp_avg"] = ad.zeros(2)
    return out, w


@program
def optimizer_after_data_was_assigned(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()
    opt = ad.optim.SGD([w], lr=0.5)

    def f(x: Any) -> Any:
        opt.zero_grad()
        (w * x).sum().backward()
        opt.step()
        return w * 1

    run = wrap(f)
    out = [run(ones(2)), run(ones(2))]
    w.data = ones(2) * 10
    return [*out, run(ones(2)), w, run(ones(2))]


@program
def backward_through_what_an_earlier_call_made(wrap: Wrap) -> Any:
    w = ones(3).requires_grad_()

    def f(x: Any, y: Any) -> Any:
        w.grad = None
        (y.sum() + (x * w).sum()).backward()
        return x * w

    run = wrap(f)
    first = run(ramp(3, 2).t(), ones(2, 3))
    return first, run(ramp(2, 3), first), w.grad


@program
def result_that_is_a_leaf_on_state(wrap: Wrap) -> Any:
    base = ramp(4)
    leaf = base[1:].requires_grad_()

    def f(x: Any) -> Any:
        y = leaf.view(3)
        return y, (y * x).sum(), base[:2]

    run = wrap(f)
    out = []
    for _ in range(2):
        y, z, plain = run(ones(3) * 2)
        z.backward()
        out += [y, leaf.grad + 0, plain]
    return out
