"""Leaves, flags and `.grad`."""

from __future__ import annotations

from typing import Any

from tests.compare.programs.registry import leaf, program


@program
def flags(t: Any) -> Any:
    x = leaf(t)
    y = x * 2
    z = y.detach()
    w = t.ones(2)
    return [
        (a.requires_grad, a.is_leaf, a.grad_fn is None, a.output_nr, a.retains_grad)
        for a in (x, y, z, w, x[0], w[0], z.requires_grad_())
    ]


@program
def int_requires_grad(t: Any) -> Any:
    t.ones(2, dtype=t.int64).requires_grad_()


@program
def nonleaf_flag(t: Any) -> Any:
    (leaf(t) * 2).requires_grad = False


@program
def nonleaf_flag_true(t: Any) -> Any:
    y = leaf(t) * 2
    y.requires_grad = True
    y.requires_grad_()
    return y.requires_grad


@program
def view_flag(t: Any) -> Any:
    x = t.ones(3, dtype=t.float64)
    v = x[1:]
    v.requires_grad_()
    (v * v).sum().backward()
    return v.grad, v.is_leaf, x.requires_grad


@program
def detach_in_place(t: Any) -> Any:
    y = leaf(t) * 2
    y.detach_()
    return y.requires_grad, y.is_leaf


@program
def detach_base_of_views(t: Any) -> Any:
    x = leaf(t)
    y = x * 2
    whole, part, first = y.view(-1), y[1:], y[:1]
    y.detach_()
    (whole * whole + x).sum().backward(retain_graph=True)
    (part[:1] * 3).sum().backward()
    return x.grad, [v.requires_grad for v in (y, whole, part, first, y[1:])]


@program
def detach_base_then_write(t: Any) -> Any:
    x = leaf(t)
    y = x * 2
    part = y[1:]
    y.detach_()
    y.mul_(3)
    ((part * part).sum() + x.sum()).backward()
    return x.grad


@program
def detach_base_then_write_view(t: Any) -> Any:
    y = leaf(t) * 2
    part = y[1:]
    y.detach_()
    part.mul_(3)


@program
def detach_view_in_place(t: Any) -> Any:
    (leaf(t) * 2)[0].detach_()


@program
def wrong_grad_shape(t: Any) -> Any:
    leaf(t).grad = t.ones(2, dtype=t.float64)


@program
def wrong_grad_dtype(t: Any) -> Any:
    leaf(t).grad = t.ones(3, dtype=t.float32)


@program
def wrong_grad_type(t: Any) -> Any:
    leaf(t).grad = 3


@program
def grad_accumulates(t: Any) -> Any:
    x = leaf(t)
    (x * 2).sum().backward()
    g = x.grad
    (x * 3).sum().backward()
    return g, x.grad, g is x.grad


@program
def grads_of_two_leaves_are_apart(t: Any) -> Any:
    x, y = leaf(t), leaf(t)
    (x + y).sum().backward()
    x.grad.mul_(10)
    return x.grad, y.grad


@program
def seed_is_not_taken(t: Any) -> Any:
    x = leaf(t)
    g = t.ones(3, dtype=t.float64)
    (x + 0).backward(g)
    x.grad.mul_(5)
    return g, x.grad


@program
def grad_layout(t: Any) -> Any:
    x = t.ones(2, 3, dtype=t.float64).t().requires_grad_()
    (x * 2).sum().backward()
    y = t.ones(4, 6, dtype=t.float64)[::2, ::2].requires_grad_()
    (y * y).sum().backward()
    z = t.ones(2, 3, dtype=t.float64, requires_grad=True)
    z.t().backward(t.ones(3, 2, dtype=t.float64))
    return x.grad.stride(), y.grad.stride(), z.grad.stride()


@program
def zeroed_and_reused(t: Any) -> Any:
    x = leaf(t)
    for _ in range(3):
        x.grad = None
        (x * x).sum().backward()
    x.grad.zero_()
    (x * x).sum().backward()
    return x.grad
