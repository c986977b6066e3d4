"""Small programs around the tape, run under both frameworks: same values, same kind of error."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.compare, pytest.mark.filterwarnings("ignore")]

Program = Callable[[Any], Any]
PROGRAMS: list[Program] = []


def program(fn: Program) -> Program:
    PROGRAMS.append(fn)
    return fn


def leaf(t: Any, *values: float) -> Any:
    return t.tensor(list(values) or [1.0, 2.0, 3.0], dtype=t.float64, requires_grad=True)


# -- in-place and views ---------------------------------------------------------------------------


@program
def write_through_view(t: Any) -> Any:
    x = leaf(t)
    y = x * 2
    y[0] = x[1] * 3
    v = y[1:]
    v.mul_(x[:2])
    y.sum().backward()
    return x.grad, y, v.grad_fn is not None


@program
def view_of_view(t: Any) -> Any:
    x = leaf(t, 1, 2, 3, 4)
    y = (x * 1).view(2, 2)
    row = y[0]
    cell = row[1]
    cell.mul_(5)
    row.add_(x[:2])
    (y * y).sum().backward()
    return x.grad, y, row, cell


@program
def view_read_after_base_write(t: Any) -> Any:
    x = leaf(t)
    y = x.clone()
    v = y[:2]
    y.mul_(x)
    (v * v).sum().backward()
    return x.grad, v


@program
def untracked_base_becomes_tracked(t: Any) -> Any:
    x = leaf(t)
    z = t.zeros(3, dtype=t.float64)
    v = z[1:]
    v.copy_(x[1:] * 2)
    assert z.requires_grad
    (z * z).sum().backward()
    return x.grad, z.requires_grad, v.requires_grad, v.is_leaf


@program
def overwritten_by_constant(t: Any) -> Any:
    x = leaf(t)
    y = x * 2
    y.zero_()
    (y + x).sum().backward()
    return x.grad, y.requires_grad


@program
def part_overwritten_by_constant(t: Any) -> Any:
    x = leaf(t)
    y = x * 2
    y[0] = 7.0
    y.fill_(3.0) if False else None
    (y * y).sum().backward()
    return x.grad


@program
def leaf_write(t: Any) -> Any:
    leaf(t).add_(1)


@program
def leaf_view_write(t: Any) -> Any:
    leaf(t)[0].add_(1)


@program
def leaf_setitem(t: Any) -> Any:
    x = leaf(t)
    x[0] = 2.0


@program
def leaf_write_no_grad(t: Any) -> Any:
    x = leaf(t)
    with t.no_grad():
        x.add_(1)
        x[0] = 5
    (x * x).sum().backward()
    return x, x.grad, x._version


@program
def no_grad_view_write(t: Any) -> Any:
    x = leaf(t) * 1
    with t.no_grad():
        v = x[0]
    v.mul_(2)


@program
def detached_view_write(t: Any) -> Any:
    x = leaf(t)
    y = x * 2
    y.detach()[0].fill_(9.0)
    y.sum().backward()
    return x.grad, y


@program
def stale_saved(t: Any) -> Any:
    x = leaf(t)
    y = x.exp()
    y.add_(1)
    y.sum().backward()


@program
def stale_operand(t: Any) -> Any:
    x = leaf(t)
    a = x * 1
    y = a * a
    a.add_(1)
    y.sum().backward()


@program
def stale_by_detached_write(t: Any) -> Any:
    x = leaf(t)
    y = x.exp()
    y.detach().add_(1)
    y.sum().backward()


@program
def data_write_unseen(t: Any) -> Any:
    x = leaf(t)
    y = x.exp()
    y.data.zero_()
    y.sum().backward()
    return x.grad, y._version


@program
def not_stale_when_unneeded(t: Any) -> Any:
    x = leaf(t)
    a = x * 1
    y = a + 2
    a.mul_(3)
    (y * a.detach()).sum().backward()
    return x.grad


@program
def inplace_keeps_needed_operand(t: Any) -> Any:
    x, w = leaf(t), leaf(t, 4, 5, 6)
    y = x * 1
    y.mul_(w)
    y.sum().backward()
    return x.grad, w.grad


@program
def versions(t: Any) -> Any:
    x = t.ones(3)
    v = x[1:]
    out = [x._version]
    v.add_(1)
    out += [x._version, v._version]
    x[0] = 4
    x.data.add_(1)
    x.detach().add_(1)
    return [*out, x._version, v._version]


@program
def index_put_gradient(t: Any) -> Any:
    x = leaf(t)
    i = t.tensor([0, 2])
    y = x * 1
    y[i] = x[i] * x[1]
    y[y > 100] = 0
    (y * y).sum().backward()
    return x.grad


@program
def expand_write_refused(t: Any) -> Any:
    t.ones(1).expand(3).add_(1)


# -- leaves, flags --------------------------------------------------------------------------------


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


# -- backward and grad ----------------------------------------------------------------------------


@program
def second_backward(t: Any) -> Any:
    y = (leaf(t) ** 2).sum()
    y.backward()
    y.backward()


@program
def second_backward_of_add(t: Any) -> Any:
    x = leaf(t)
    y = (x + 1).sum()
    y.backward()
    y.backward()
    return x.grad


@program
def retained(t: Any) -> Any:
    x = leaf(t)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    return x.grad


@program
def nonscalar_backward(t: Any) -> Any:
    (leaf(t) * 2).backward()


@program
def untracked_backward(t: Any) -> Any:
    t.ones(()).backward()


@program
def one_element_backward(t: Any) -> Any:
    x = leaf(t, 3.0)
    (x * x).backward()
    return x.grad


@program
def seed_shape(t: Any) -> Any:
    (leaf(t) * 2).backward(t.ones(2, dtype=t.float64))


@program
def seed_dtype(t: Any) -> Any:
    x = leaf(t)
    (x * 2).backward(t.ones(3, dtype=t.float32))
    return x.grad, x.grad.dtype is t.float64


@program
def chosen_inputs(t: Any) -> Any:
    x, y = leaf(t), leaf(t)
    h = x * y
    (h * h).sum().backward(inputs=[x])
    return x.grad, y.grad


@program
def chosen_inner_input(t: Any) -> Any:
    x = leaf(t)
    h = x * 2
    (h * h).sum().backward(inputs=[h])
    return h.grad, x.grad


@program
def empty_inputs(t: Any) -> Any:
    leaf(t).sum().backward(inputs=[])


@program
def unused(t: Any) -> Any:
    x, y = leaf(t), leaf(t)
    return t.autograd.grad((x * 2).sum(), [x, y])


@program
def unused_allowed(t: Any) -> Any:
    x, y = leaf(t), leaf(t)
    return t.autograd.grad((x * 2).sum(), [x, y], allow_unused=True)


@program
def unused_materialized(t: Any) -> Any:
    x, y = leaf(t), leaf(t)
    return t.autograd.grad((x * 2).sum(), [x, y], materialize_grads=True)


@program
def materialized_conflict(t: Any) -> Any:
    x = leaf(t)
    t.autograd.grad((x * 2).sum(), [x], materialize_grads=True, allow_unused=False)


@program
def no_inputs(t: Any) -> Any:
    t.autograd.grad(leaf(t).sum(), [])


@program
def untracked_input(t: Any) -> Any:
    t.autograd.grad(leaf(t).sum(), t.ones(3))


@program
def grad_of_itself(t: Any) -> Any:
    x = leaf(t)
    y = x * 2
    return t.autograd.grad(y.sum(), [y, x]), t.autograd.grad(x, x, t.ones(3, dtype=t.float64))


@program
def grad_leaves_leaves_alone(t: Any) -> Any:
    x = leaf(t)
    t.autograd.grad((x * x).sum(), x)
    return x.grad


@program
def third_order(t: Any) -> Any:
    x = leaf(t)
    y = (x**4).sum()
    out = []
    for _ in range(3):
        (y,) = t.autograd.grad(y, x, create_graph=True)
        out.append(y)
        y = y.sum()
    return out


@program
def create_graph_backward(t: Any) -> Any:
    x = leaf(t)
    (x**3).sum().backward(create_graph=True)
    g = x.grad
    (g * g).sum().backward()
    return x.grad


@program
def mixed_partials(t: Any) -> Any:
    x, w = leaf(t), leaf(t, 4, 5, 6)
    y = ((x * w).sin() @ w).exp() / 100
    gx, gw = t.autograd.grad(y, [x, w], create_graph=True)
    return t.autograd.grad(gx.sum() * gw.sum(), [x, w])


@program
def batched_grads(t: Any) -> Any:
    x = leaf(t)
    y = x * x * x
    return t.autograd.grad(y, x, t.eye(3, dtype=t.float64), is_grads_batched=True)


@program
def several_roots(t: Any) -> Any:
    x = leaf(t)
    a, b = x * 2, (x * x).sum()
    t.autograd.backward([a, b], [t.ones(3, dtype=t.float64), None])
    return x.grad


@program
def backward_in_no_grad(t: Any) -> Any:
    x = leaf(t)
    y = (x * x).sum()
    with t.no_grad():
        y.backward()
    return x.grad, x.grad.requires_grad


@program
def multi_output_partial(t: Any) -> Any:
    x = leaf(t, 3, 1, 2)
    values, indices = x.sort()
    (values[0] * 2).backward()
    a, b = x.split([1, 2])
    (b * b).sum().backward()
    return x.grad, indices, indices.requires_grad


@program
def complex_gradient(t: Any) -> Any:
    z = t.tensor([1 + 2j, 3 - 1j], dtype=t.complex128, requires_grad=True)
    (z * z.conj()).real.sum().backward()
    g = z.grad.clone()
    z.grad = None
    (z * z).abs().sum().backward()
    return g, z.grad


@program
def complex_implicit(t: Any) -> Any:
    z = t.tensor(1 + 2j, dtype=t.complex128, requires_grad=True)
    (z * z).backward()


@program
def real_into_complex(t: Any) -> Any:
    x = leaf(t)
    z = t.tensor([1 + 2j, 3 - 1j, 2j], dtype=t.complex128)
    (x * z).abs().sum().backward()
    return x.grad


@program
def promoted(t: Any) -> Any:
    x = t.tensor([1.0, 2.0], requires_grad=True)
    y = t.tensor([3.0, 4.0], dtype=t.float64, requires_grad=True)
    (x * y).sum().backward()
    return x.grad, y.grad, x.grad.dtype is t.float32


@program
def broadcast(t: Any) -> Any:
    x = leaf(t)
    y = t.tensor(2.0, dtype=t.float64, requires_grad=True)
    z = t.ones(4, 1, dtype=t.float64, requires_grad=True)
    (x * y + z).sum().backward()
    return x.grad, y.grad, z.grad


@program
def diamond(t: Any) -> Any:
    x = leaf(t)
    a = x.sin()
    b = a * a + a.exp()
    (b * a).sum().backward()
    return x.grad


# -- hooks ----------------------------------------------------------------------------------------


@program
def hook_order(t: Any) -> Any:
    x = leaf(t)
    seen = []
    y = x * 2
    y.register_hook(lambda g: seen.append("y1"))
    y.retain_grad()
    y.register_hook(lambda g: seen.append("y2"))
    y.grad_fn.register_prehook(lambda g: seen.append("node pre"))
    y.grad_fn.register_hook(lambda a, b: seen.append("node post"))
    x.register_hook(lambda g: seen.append("x"))
    x.register_post_accumulate_grad_hook(lambda p: seen.append(f"acc {p.grad is not None}"))
    z = y.sum()
    z.register_hook(lambda g: seen.append("z"))
    z.backward()
    return seen, y.grad


@program
def hook_replaces(t: Any) -> Any:
    x = leaf(t)
    y = x * 2
    y.register_hook(lambda g: g * 10)
    handle = y.register_hook(lambda g: g + 1)
    y.retain_grad()
    x.register_hook(lambda g: -g)
    y.sum().backward(retain_graph=True)
    first = x.grad.clone()
    handle.remove()
    x.grad = None
    y.sum().backward()
    return first, x.grad, y.grad


@program
def hook_on_grad_call(t: Any) -> Any:
    x = leaf(t)
    x.register_hook(lambda g: g * 3)
    y = x * 2
    y.register_hook(lambda g: g * 5)
    return t.autograd.grad(y.sum(), [x, y])


@program
def hook_on_untracked(t: Any) -> Any:
    t.ones(2).register_hook(lambda g: g)


@program
def accumulate_hook_on_nonleaf(t: Any) -> Any:
    (leaf(t) * 2).register_post_accumulate_grad_hook(lambda p: None)


@program
def retain_untracked(t: Any) -> Any:
    t.ones(2).retain_grad()


@program
def retain_leaf(t: Any) -> Any:
    x = leaf(t)
    x.retain_grad()
    return x.retains_grad


@program
def retain_twice(t: Any) -> Any:
    x = leaf(t)
    y = x * 2
    y.retain_grad()
    y.retain_grad()
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    return y.grad


@program
def retain_then_write(t: Any) -> Any:
    x = leaf(t)
    y = x * 2
    y.retain_grad()
    y.mul_(3)
    (y * y).sum().backward()
    return y.grad, x.grad


@program
def optimizer_in_backward(t: Any) -> Any:
    x = leaf(t)

    def step(p: Any) -> None:
        with t.no_grad():
            p -= 0.1 * p.grad
        p.grad = None

    x.register_post_accumulate_grad_hook(step)
    for _ in range(2):
        (x * x).sum().backward()
    return x, x.grad


@program
def node_hook_replaces(t: Any) -> Any:
    x = leaf(t)
    y = x.exp()
    y.grad_fn.register_hook(lambda gi, go: (gi[0] * 2,))
    y.sum().backward()
    return x.grad


@program
def multi_hook(t: Any) -> Any:
    x, y = leaf(t), leaf(t)
    seen = []
    t.autograd.graph.register_multi_grad_hook(
        [x, y], lambda gs: seen.append([g is None for g in gs])
    )
    (x * y).sum().backward()
    return seen


@program
def names(t: Any) -> Any:
    x = leaf(t)
    y = x * 2
    node = (y.exp()).grad_fn
    return [
        type(y.grad_fn).__name__,
        node.name(),
        node.next_functions[0][0] is y.grad_fn,
        type(y.grad_fn.next_functions[0][0]).__name__,
        y.grad_fn.next_functions[0][0].variable is x,
        len(y.grad_fn.next_functions),
        isinstance(node, t.autograd.graph.Node),
        str((x + 1).grad_fn.name()),
    ]


# -- modes ----------------------------------------------------------------------------------------


@program
def modes(t: Any) -> Any:
    x = leaf(t)
    out = []
    with t.no_grad():
        out.append((x * 2).requires_grad)
        with t.enable_grad():
            out.append((x * 2).requires_grad)
        out.append(t.ones(2, requires_grad=True).requires_grad)
    t.set_grad_enabled(False)
    out.append(t.is_grad_enabled())
    t.set_grad_enabled(True)
    with t.set_grad_enabled(False):
        out.append(t.is_grad_enabled())
    out.append(t.is_grad_enabled())

    @t.no_grad()
    def f() -> Any:
        return t.is_grad_enabled()

    @t.no_grad
    def g() -> Any:
        return t.is_grad_enabled()

    @t.no_grad()
    def gen() -> Any:
        yield t.is_grad_enabled()
        yield t.is_grad_enabled()

    inside = []
    for value in gen():
        inside += [value, t.is_grad_enabled()]
    return [*out, f(), g(), inside]


@program
def inference(t: Any) -> Any:
    x = leaf(t)
    out = []
    with t.inference_mode():
        y = x * 2
        out += [y.is_inference(), y.requires_grad, t.is_inference_mode_enabled()]
        out += [x.view(3).is_inference(), t.ones(2).is_inference(), t.is_grad_enabled()]
        with t.inference_mode(False):
            out += [t.is_grad_enabled(), t.ones(2).is_inference()]
        with t.enable_grad():
            out += [(x * 2).requires_grad]
        y.add_(1)
    return [*out, (y + 1).is_inference(), y.clone().is_inference()]


@program
def inference_saved(t: Any) -> Any:
    x = leaf(t)
    with t.inference_mode():
        y = t.ones(3, dtype=t.float64)
    return x * y


@program
def inference_unsaved(t: Any) -> Any:
    x = leaf(t)
    with t.inference_mode():
        y = t.ones(3, dtype=t.float64)
    (x + y).sum().backward()
    return x.grad


@program
def inference_written(t: Any) -> Any:
    with t.inference_mode():
        y = t.ones(3)
    y.add_(1)


@program
def inference_version(t: Any) -> Any:
    with t.inference_mode():
        y = t.ones(3)
    return y._version


@program
def inference_flag(t: Any) -> Any:
    with t.inference_mode():
        y = t.ones(3)
    y.requires_grad_()


# -- saved tensors, functions, checkpoints, forward mode --------------------------------------------


@program
def packed(t: Any) -> Any:
    x = leaf(t)
    seen = []

    def pack(s: Any) -> Any:
        seen.append(tuple(s.shape))
        return s * 1

    with t.autograd.graph.saved_tensors_hooks(pack, lambda s: s * 2):
        y = x.exp() * x
    y.sum().backward()
    return x.grad, seen


@program
def hooks_refused(t: Any) -> Any:
    g = t.autograd.graph
    with g.disable_saved_tensors_hooks("no hooks"), g.saved_tensors_hooks(lambda s: s, lambda s: s):
        pass


def _function(t: Any, body: dict[str, Any]) -> Any:
    statics = {k: staticmethod(v) if callable(v) else v for k, v in body.items()}
    return type("Custom", (t.autograd.Function,), statics)


def square_forward(ctx: Any, x: Any) -> Any:
    ctx.save_for_backward(x)
    return x * x


def square_backward(ctx: Any, g: Any) -> Any:
    (x,) = ctx.saved_tensors
    return g * 2 * x


@program
def custom_double(t: Any) -> Any:
    F = _function(t, {"forward": square_forward, "backward": square_backward})
    x = leaf(t)
    y = F.apply(x)
    (g,) = t.autograd.grad(y.sum(), x, create_graph=True)
    return y, g, t.autograd.grad((g * x).sum(), x), type(y.grad_fn).__name__


@program
def custom_stale(t: Any) -> Any:
    F = _function(t, {"forward": square_forward, "backward": square_backward})
    x = leaf(t) * 1
    y = F.apply(x)
    x.add_(1)
    y.sum().backward()


@program
def custom_second_backward(t: Any) -> Any:
    F = _function(t, {"forward": square_forward, "backward": square_backward})
    y = F.apply(leaf(t)).sum()
    y.backward()
    y.backward()


@program
def custom_many(t: Any) -> Any:
    seen: list[Any] = []

    def forward(ctx: Any, x: Any, k: Any, y: Any) -> Any:
        ctx.k = k
        ctx.save_for_backward(x, y)
        i = (x > 1).to(t.int64)
        ctx.mark_non_differentiable(i)
        return x * y * k, i, x + y

    def backward(ctx: Any, a: Any, b: Any, c: Any) -> Any:
        x, y = ctx.saved_tensors
        seen.append((ctx.needs_input_grad, b.dtype is t.int64, c.abs().sum()))
        return a * y * ctx.k + c, None, None

    F = _function(t, {"forward": forward, "backward": backward})
    x = leaf(t)
    y = t.ones(3, dtype=t.float64)
    a, i, _ = F.apply(x, 3, y)
    a.sum().backward()
    return x.grad, a, i, i.requires_grad, seen


@program
def custom_unmaterialized(t: Any) -> Any:
    seen = []

    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(False)
        return x * 1, x * 2

    def backward(ctx: Any, a: Any, b: Any) -> Any:
        seen.append((a is None, b is None))
        return b * 2

    F = _function(t, {"forward": forward, "backward": backward})
    x = leaf(t)
    F.apply(x)[1].sum().backward()
    return x.grad, seen


@program
def custom_dirty(t: Any) -> Any:
    def forward(ctx: Any, x: Any) -> Any:
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    F = _function(t, {"forward": forward, "backward": lambda ctx, g: g * 2})
    x = leaf(t)
    y = x * 1
    z = F.apply(y)
    b = x * 1
    F.apply(b[0])
    (y * y + b).sum().backward()
    return x.grad, z is y, type(y.grad_fn).__name__


@program
def custom_dirty_leaf(t: Any) -> Any:
    def forward(ctx: Any, x: Any) -> Any:
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    _function(t, {"forward": forward, "backward": lambda ctx, g: g}).apply(leaf(t))


@program
def custom_identity(t: Any) -> Any:
    F = _function(t, {"forward": lambda ctx, x: x, "backward": lambda ctx, g: g * 7})
    x = leaf(t)
    y = F.apply(x)
    y.sum().backward()
    return x.grad, y is x


@program
def custom_wrong_count(t: Any) -> Any:
    F = _function(t, {"forward": lambda ctx, x, y: x * y, "backward": lambda ctx, g: g})
    F.apply(leaf(t), leaf(t)).sum().backward()


@program
def custom_wrong_shape(t: Any) -> Any:
    F = _function(t, {"forward": lambda ctx, x: x * 2, "backward": lambda ctx, g: g[:2]})
    F.apply(leaf(t)).sum().backward()


@program
def custom_expandable(t: Any) -> Any:
    F = _function(
        t,
        {
            "forward": lambda ctx, x: x * 2,
            "backward": lambda ctx, g: g.sum() * t.ones(2, 3, dtype=t.float64),
        },
    )
    x = leaf(t)
    F.apply(x).sum().backward()
    return x.grad


@program
def custom_grad_for_number(t: Any) -> Any:
    F = _function(t, {"forward": lambda ctx, x, k: x * k, "backward": lambda ctx, g: (g, g)})
    F.apply(leaf(t), 2).sum().backward()


@program
def custom_no_backward(t: Any) -> Any:
    F = _function(t, {"forward": lambda ctx, x: x * 2})
    F.apply(leaf(t)).sum().backward()


@program
def custom_save_number(t: Any) -> Any:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(3)
        return x * 2

    _function(t, {"forward": forward, "backward": lambda ctx, g: g}).apply(leaf(t))


@program
def custom_once(t: Any) -> Any:
    once = t.autograd.function.once_differentiable
    F = _function(t, {"forward": square_forward, "backward": once(square_backward)})
    x = leaf(t)
    seed = t.ones(3, dtype=t.float64, requires_grad=True)
    (g,) = t.autograd.grad(F.apply(x), x, seed, create_graph=True)
    t.autograd.grad(g.sum(), x)


@program
def custom_jvp(t: Any) -> Any:
    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    F = _function(
        t,
        {
            "forward": lambda x: x * x,
            "setup_context": setup,
            "backward": square_backward,
            "jvp": lambda ctx, v: 2 * ctx.saved_tensors[0] * v,
            "generate_vmap_rule": True,
        },
    )
    F.generate_vmap_rule = True
    x = leaf(t).detach()
    v = t.ones(3, dtype=t.float64)
    f = lambda x: F.apply(x).sum()
    T = t.func
    return [
        T.jvp(F.apply, (x,), (v,)),
        T.grad(f)(x),
        T.jacrev(F.apply)(x),
        T.jacfwd(F.apply)(x),
        T.vmap(F.apply)(x),
        T.vmap(T.grad(lambda x: F.apply(x)))(x),
        T.grad(lambda x: T.vmap(F.apply)(x).sum())(x),
        T.hessian(f)(x),
        T.grad(lambda x: T.grad(f)(x).sum())(x),
    ]


@program
def custom_vmap(t: Any) -> Any:
    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    holder: dict[str, Any] = {}

    def batched(info: Any, in_dims: Any, x: Any, k: Any) -> Any:
        return holder["F"].apply(x.movedim(in_dims[0], 0), k) + info.batch_size, 0

    F = holder["F"] = _function(
        t,
        {"forward": lambda x, k: x * k, "setup_context": setup, "vmap": batched,
         "backward": lambda ctx, g: (g, None)},
    )  # fmt: skip
    return t.func.vmap(lambda x: F.apply(x, 2))(t.ones(3, 2))


@program
def custom_vmap_missing(t: Any) -> Any:
    F = _function(
        t,
        {"forward": lambda x: x * 2, "setup_context": lambda ctx, i, o: None,
         "backward": lambda ctx, g: g},
    )  # fmt: skip
    t.func.vmap(F.apply)(t.ones(3))


def _checkpoint(t: Any) -> Any:
    if t is torch:
        from torch.utils.checkpoint import checkpoint

        return checkpoint
    from adjoint.utils.checkpoint import checkpoint as ours

    return ours


@program
def checkpointed(t: Any) -> Any:
    checkpoint = _checkpoint(t)
    out = []
    for reentrant in (True, False):
        x, w = leaf(t), leaf(t, 3, 4, 5)
        calls = []

        def block(x: Any, w: Any = w, calls: Any = calls) -> Any:
            calls.append(1)
            h = (x * w).sin()
            return h * h, h.exp()

        a, b = checkpoint(block, x, use_reentrant=reentrant)
        (a.sum() * b.sum()).backward()
        out += [x.grad, w.grad, len(calls)]
    return out


@program
def checkpoint_grad_reentrant(t: Any) -> Any:
    x = leaf(t)
    y = _checkpoint(t)(lambda x: x * x, x, use_reentrant=True)
    t.autograd.grad(y.sum(), x)


@program
def checkpoint_grad(t: Any) -> Any:
    x = leaf(t)
    y = _checkpoint(t)(lambda x, k: (x * x * k).exp() / 1e6, x, k=0.5, use_reentrant=False)
    (g,) = t.autograd.grad(y.sum(), x, create_graph=True)
    return g, t.autograd.grad(g.sum(), x)


@program
def forward_mode(t: Any) -> Any:
    if t is torch:
        import torch.autograd.forward_ad as fw
    else:
        fw = t.autograd.forward_ad
    x = leaf(t)
    v = t.ones(3, dtype=t.float64)
    with fw.dual_level():
        d = fw.make_dual(x, v)
        y = (d * d).sin()
        y[0] = d[1] * 2
        p, tangent = fw.unpack_dual(y)
        none = fw.unpack_dual(x.detach() * 2).tangent
        gone = fw.unpack_dual(d.detach()).tangent
        (g,) = t.autograd.grad(tangent.sum(), x)
    return p, tangent, none is None, gone is None, g


@program
def forward_mode_outside(t: Any) -> Any:
    if t is torch:
        import torch.autograd.forward_ad as fw
    else:
        fw = t.autograd.forward_ad
    fw.make_dual(t.ones(2), t.ones(2))


@program
def gradchecks(t: Any) -> Any:
    x, y = leaf(t), leaf(t, 4, 5, 6)
    check, twice = t.autograd.gradcheck, t.autograd.gradgradcheck
    F = _function(t, {"forward": square_forward, "backward": lambda ctx, g: g * 3})
    z = t.tensor([1 + 2j, 3 - 1j], dtype=t.complex128, requires_grad=True)
    return [
        check(lambda x, y: (x * y).sin(), (x, y), check_forward_ad=True),
        twice(lambda x, y: (x * y).sin(), (x, y)),
        check(F.apply, (x,), raise_exception=False),
        check(lambda z: (z * z).exp() / 1e3, (z,)),
    ]


@program
def gradcheck_fails(t: Any) -> Any:
    F = _function(t, {"forward": square_forward, "backward": lambda ctx, g: g * 3})
    t.autograd.gradcheck(F.apply, (leaf(t),))


@program
def gradcheck_untracked(t: Any) -> Any:
    t.autograd.gradcheck(lambda x: x * 2, (t.ones(2, dtype=t.float64),))


@program
def anomaly_nan(t: Any) -> Any:
    with t.autograd.detect_anomaly():
        x = leaf(t, 0.0)
        (x / x * x).sum().backward()


@program
def set_data(t: Any) -> Any:
    x = leaf(t)
    x.data = t.ones(2, dtype=t.float64) * 4
    (x * x).sum().backward()
    y = t.zeros(2)
    z = t.ones(2)
    y.data = z
    z.add_(1)
    return x, x.grad, x.is_leaf, y


@program
def autograd_functional_strict(t: Any) -> Any:
    t.autograd.functional.jacobian(lambda x: t.ones(2), leaf(t), strict=True)


def simple(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [simple(v) for v in value]
    if hasattr(value, "detach"):
        return value.detach().numpy()
    return value


def same(ours: Any, theirs: Any) -> None:
    assert type(ours) is type(theirs), (ours, theirs)
    if isinstance(ours, list):
        assert len(ours) == len(theirs), (ours, theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b)
    elif isinstance(ours, np.ndarray):
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
    else:
        assert ours == theirs


def outcome(fn: Program, lib: Any) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return simple(fn(lib))
    except Exception as error:
        return error


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda f: f.__name__)
def test_program(fn: Program) -> None:
    theirs = outcome(fn, torch)
    if isinstance(theirs, Exception):
        with pytest.raises(Exception) as caught:
            fn(adjoint)
        kinds = [k.__name__ for k in type(caught.value).__mro__]
        assert type(theirs).__name__ in kinds, (theirs, caught.value)
        return
    same(simple(fn(adjoint)), theirs)
