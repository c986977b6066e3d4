"""Programs about memory: what shares it with what, what is a view of what, who gets gradients."""

from __future__ import annotations

import collections
import dataclasses
import types
from typing import Any

import adjoint as ad
from adjoint import nn

from .playing import Wrap, ones, program, ramp


@program
def copied_from_a_result(wrap: Wrap) -> Any:
    h = ad.zeros(2)

    def f(x: Any) -> Any:
        h.copy_(x)
        return (h * 2).sum()

    leaf = ones(2).requires_grad_()
    wrap(f)(leaf * 3).backward()
    return leaf.grad, h


@program
def copied_into_a_fresh_tensor_that_is_kept_too(wrap: Wrap) -> Any:
    s = types.SimpleNamespace()

    def f(x: Any) -> Any:
        s.a = x * 2
        s.b = ad.zeros(2).copy_(s.a)
        first, second = ad.zeros(2), ad.zeros(2)
        ad._foreach_copy_([first, second], [x, x])
        return s.b, first, second

    out = list(wrap(f)(ones(2)))
    s.a.zero_()
    out[1].mul_(3)
    return out, s


@program
def momentum_copied_into_gradients(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()
    momentum: dict[str, Any] = {}

    def step(x: Any) -> None:
        if w.grad is not None:
            w.grad.zero_()
        (w * x).sum().backward()
        m = momentum.setdefault("w", ad.zeros_like(w))
        m.mul_(0.5).add_(w.grad)
        w.grad.copy_(m)

    run = wrap(step)
    out = []
    for k in range(4):
        run(ramp(2) + k)
        out += [w.grad.clone(), momentum["w"].clone()]
    return out


@program
def view_of_an_argument_that_is_a_view(wrap: Wrap) -> Any:
    run = wrap(lambda x: x[0])
    out = []
    for k in range(3):
        base = (ones(3, 2) * k).requires_grad_()
        y = run(base[1:])
        y.sum().backward()
        out += [y, base.grad]
    return out


@program
def view_of_an_argument_written_on_the_tape_later(wrap: Wrap) -> Any:
    run = wrap(lambda x: x[0])
    w = ones(2).requires_grad_()
    out = []
    for k in range(3):
        base = ones(3, 2) * k
        run(base[1:]).mul_(w)
        out.append(base)
    return out


@program
def view_of_a_result_written_on_the_tape_later(wrap: Wrap) -> Any:
    w = ones(3).requires_grad_()

    def f(x: Any) -> Any:
        y = x * 2
        return y, y[0], y.detach()

    run = wrap(f)
    out = []
    for _ in range(2):
        y, v, d = run(ones(2, 3))
        v.mul_(w)
        w.grad = None
        y.sum().backward()
        out += [y, v, d, w.grad]
    return out


@program
def kept_view_written_on_the_tape_later(wrap: Wrap) -> Any:
    s: Any = types.SimpleNamespace()
    w = ones(3).requires_grad_()

    def f(x: Any) -> Any:
        s.h = x * 2
        s.v = s.h[0]
        s.n = s.h.t().detach()
        return s.h.sum()

    run = wrap(f)
    out = []
    for _ in range(2):
        run(ones(2, 3))
        s.v.mul_(w)
        out += [s.h, s.v, s.n, s.n._is_view()]
    return out


@program
def kept_view_written_in_the_next_call(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(h=ones(2, 3))
    w = ones(3).requires_grad_()

    def f(x: Any) -> Any:
        s.h.mul_(w)
        s.h = x.t().t()

    run = wrap(f)
    given = [ones(2, 3) * k for k in range(3)]
    for x in given:
        run(x)
    return given, s.h


@program
def alias_written_on_the_tape(wrap: Wrap) -> Any:
    w = ones(3).requires_grad_()
    s: Any = types.SimpleNamespace(h=ramp(2, 3))

    def f(x: Any) -> Any:
        d = s.h.detach()
        d.mul_(w * x)
        s.d, s.v = d, d[0]
        return d.sum()

    run = wrap(f)
    out = []
    for _ in range(2):
        run(ones(3) * 2)
        w.grad = None
        s.v.sum().backward()
        out += [s.h, s.d, s.v, w.grad]
    return out


@program
def part_of_a_result_detached_and_written_on_the_tape(wrap: Wrap) -> Any:
    w = ones(3).requires_grad_()

    def f(x: Any) -> Any:
        y = x * 2
        d = y[0].detach()
        d.mul_(w)
        return y, d

    y, d = wrap(f)(ramp(2, 3))
    d.detach().add_(1)
    return y, d


@program
def view_of_a_leaf_made_inside(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        y = x * 2
        leaf = y[0].requires_grad_()
        v = leaf[1:]
        return y, leaf, v, (v * v).sum()

    run = wrap(f)
    out = []
    for _ in range(2):
        y, leaf, v, z = run(ones(2, 3))
        z.backward()
        out += [y, leaf, v, leaf.grad, v.is_leaf]
    return out


@program
def detached_in_place(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()
    s = types.SimpleNamespace(h=w * 2)

    def f(x: Any) -> Any:
        s.h.detach_()
        return s.h * x, s.h[0]

    run = wrap(f)
    out = [run(ones(2)), s.h, run(ones(2)), s.h]
    s.h = w * 3
    return [*out, run(ones(2)), s.h]


@program
def data_assigned_while_others_look(wrap: Wrap) -> Any:
    w = ones(3).requires_grad_()
    old, view = w.detach(), w.data[1:]

    def f(x: Any) -> Any:
        w.data = w.data - 0.5 * x
        return (w * w).sum()

    run = wrap(f)
    out = []
    for _ in range(4):
        z = run(ones(3))
        z.backward()
        out += [z, w.grad + 0]
    return out, old, view, w, old.data_ptr() == w.data_ptr()


@program
def data_of_an_argument_assigned(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        before = x[0]
        x.data = x.data * 2
        return before, x[0], x.detach()

    run = wrap(f)
    out = []
    for k in range(3):
        x = ones(2, 2) * k
        other = x.detach()
        found = run(x)
        x.add_(1)
        out += [x, other, *found]
    return out


@program
def data_of_another_type_assigned(wrap: Wrap) -> Any:
    w = ones(3).requires_grad_()

    def f() -> Any:
        w.data = w.data.double() * 2
        return w.dtype is ad.float64, w.sum()

    run = wrap(f)
    return [run() for _ in range(3)], w


@program
def data_of_another_shape_assigned(wrap: Wrap) -> Any:
    w = ones(1, 2)

    def f() -> Any:
        w.data = ad.cat([w.data, w.data])
        return w.sum(0), w.shape[0]

    run = wrap(f)
    return [run() for _ in range(4)], w


@program
def data_exchanged(wrap: Wrap) -> Any:
    a, b = ones(2), ones(2) * 2

    def f() -> Any:
        a.data, b.data = b.data, a.data
        return a - b

    run = wrap(f)
    return [run() for _ in range(3)], a, b


@program
def data_assigned_in_a_module(wrap: Wrap) -> Any:
    layer = nn.Linear(2, 2)
    with ad.no_grad():
        layer.weight.fill_(1.0)
        layer.bias.fill_(0.5)
    kept = layer.weight.detach()

    def f(x: Any) -> Any:
        layer.zero_grad()
        layer(x).sum().backward()
        for p in layer.parameters():
            p.data = p.data - 0.1 * p.grad
        return layer(x).sum()

    run = wrap(f)
    return [run(ones(1, 2)) for _ in range(4)], kept, layer.weight, layer.bias


@program
def shape_of_state_changed_and_back(wrap: Wrap) -> Any:
    w = ramp(2, 3)

    def f() -> Any:
        w.t_()
        first = w[0]
        w.unsqueeze_(0)
        return first, w.squeeze(0) * 2, tuple(w.shape)

    run = wrap(f)
    out = []
    for _ in range(3):
        out.append(run())
        w.squeeze_(0)
    return out, tuple(w.shape), w.stride()


@program
def shape_changed_while_others_look(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        v = x[0]
        x.t_()
        x[0].add_(10)
        return v, x[1]

    run = wrap(f)
    out = []
    for _ in range(2):
        x = ramp(2, 3)
        other = x[:]
        out += [run(x), x, other, x.stride()]
    return out


@program
def set_to_another(wrap: Wrap) -> Any:
    h, other = ramp(3), ones(3)

    def f(x: Any) -> Any:
        h.set_(other)
        h.add_(x)
        return h[1:]

    run = wrap(f)
    v = run(ones(3))
    v.mul_(5)
    return v, h, other, run(ones(3)), h, other


@program
def resized(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        x.resize_(2)
        return x * 2

    run = wrap(f)
    out = []
    for _ in range(2):
        x = ramp(4)
        out += [run(x), x]
    return out


@program
def swapped_axes_of_a_batch(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        x.swapaxes_(0, 1)
        return x.sum(0)

    run = wrap(f)
    out = []
    for n in (2, 3, 2):
        x = ramp(n, 4)
        out += [run(x), x]
    return out


@program
def window_of_state_at_another_place(wrap: Wrap) -> Any:
    b = ramp(3, 2)

    def f(x: Any) -> Any:
        b.mul_(2)
        return x + 1

    run = wrap(f)
    return [run(b[k]) for k in (0, 1, 2, 1)], b


@program
def window_of_state_written_at_another_place(wrap: Wrap) -> Any:
    b = ramp(4)

    def f(x: Any) -> Any:
        x.add_(b.sum())

    run = wrap(f)
    for k in (0, 1, 2):
        run(b[k : k + 2])
    return b


@program
def state_and_view_of_it_parted(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(b=ramp(2, 3))
    s.t = s.b.t()

    def f() -> Any:
        s.t[..., 1:].add_(1)
        s.b = s.b + 0
        return s.t.t()

    run = wrap(f)
    out = [run() + 0 for _ in range(3)]
    last = run()
    last.fill_(7.0)
    return out, s.b, s.t


@program
def buffer_bound_anew(wrap: Wrap) -> Any:
    layer: Any = nn.BatchNorm1d(2, affine=False)
    kept = layer.running_mean

    def f(x: Any) -> Any:
        layer.running_mean = layer.running_mean.clone()
        return layer(x)

    run = wrap(f)
    return [run(ramp(3, 2)) for _ in range(3)], kept, dict(layer.named_buffers())


@program
def attributes_of_results(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        y = x * 2
        y.name_of_mine = "y"
        y.made_of = x
        y.parts = [x, y]
        return y

    run = wrap(f)
    out = []
    for _ in range(2):
        x = ones(2)
        y = run(x)
        out += [y.name_of_mine, y.made_of is x, y.parts[0] is x, y.parts[1] is y]
    return out


@program
def results_in_containers_of_all_kinds(wrap: Wrap) -> Any:
    Two = collections.namedtuple("Two", "a b")

    @dataclasses.dataclass
    class Kept:
        t: Any
        n: int

    s: Any = types.SimpleNamespace(kept=Kept(ones(2), 0), two=Two(ones(2), ones(2)), all=[])

    def f(x: Any) -> Any:
        s.kept = Kept(s.kept.t + x, s.kept.n + 1)
        s.two = Two(s.kept.t, s.two.a)
        s.all.append({"view": s.kept.t[:1], "n": s.kept.n})
        return s.two.b

    run = wrap(f)
    out = [run(ones(2)) for _ in range(4)]
    s.kept.t.mul_(10)
    return out, s.kept.t, s.two, s.all, s.two.a is s.kept.t


@program
def old_values_after_rebinding(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(a=ones(2), b=ones(2) * 2)

    def f() -> Any:
        old, view = s.a, s.a[:1]
        s.a, s.b = s.b, s.a * 3
        return old, view, s.a

    run = wrap(f)
    out = []
    for _ in range(4):
        old, view, now = run()
        out += [old + 0, view + 0, now is s.a]
        view.add_(1)
    return out, s.a, s.b


@program
def one_tensor_as_argument_and_state(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(h=ones(2))

    def f(x: Any) -> Any:
        x.add_(1)
        return s.h * 2, x is s.h

    run = wrap(f)
    out = [run(s.h), run(ones(2)), run(s.h[:]), run(s.h)]
    s.h = ones(2) * 5
    return [*out, run(s.h), run(ones(2)), s.h]


@program
def written_through_an_expanded_argument(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        x[0].add_(1)
        return x.sum(0)

    run = wrap(f)
    out = []
    for rows in (2, 3, 2):
        base = ramp(3)
        out += [run(base.expand(rows, 3)), base]
    return out


@program
def tensors_in_a_named_tuple_on_the_tape(wrap: Wrap) -> Any:
    Two = collections.namedtuple("Two", "a b")
    base = ramp(2, 3)
    w = ones(3).requires_grad_()
    s = types.SimpleNamespace(two=Two(ones(3), (base[0],)))

    def f() -> Any:
        s.two.b[0].add_(w)

    run = wrap(f)
    out = []
    for _ in range(3):
        run()
        out.append(ad.autograd.grad(base.sum(), [w], retain_graph=True)[0])
    return out, base
