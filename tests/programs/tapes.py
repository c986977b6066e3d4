"""Programs about gradients and the tape: flags, modes, hooks, losses kept for later."""

from __future__ import annotations

import types
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import nn

from .playing import Wrap, ones, program, ramp, tried


@program
def requires_grad_toggled(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()
    run = wrap(lambda x: x * w)
    out = []
    for flag in (True, False, True):
        w.requires_grad_(flag)
        x = ones(2).requires_grad_()
        y = run(x)
        y.sum().backward()
        out.append((y, x.grad, w.grad))
    return out


@program
def requires_grad_of_arguments(wrap: Wrap) -> Any:
    run = wrap(lambda x, y: (x * y, x + 1, y.detach() * 2))
    out = []
    for a, b in ((True, False), (False, True), (False, False), (True, True)):
        x, y = ones(2).requires_grad_(a), ones(2).requires_grad_(b)
        out.append([*run(x, y)])
    return out


@program
def requires_grad_set_inside(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        y = (x * 2).detach().requires_grad_()
        (y * y).sum().backward()
        return y, y.grad

    run = wrap(f)
    return [run(ones(2)) for _ in range(3)]


@program
def flag_of_state_set_inside(wrap: Wrap) -> Any:
    w = ones(2)

    def f(x: Any) -> Any:
        w.requires_grad_(True)
        return w * x

    run = wrap(f)
    out = [run(ones(2))]
    w.requires_grad_(False)
    return [*out, w.requires_grad, run(ones(2)), w.requires_grad]


@program
def modes_of_gradients(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()
    run = wrap(lambda x: x * w)
    out = [run(ones(2))]
    with ad.no_grad():
        out.append(run(ones(2)))
    with ad.inference_mode():
        y = run(ones(2))
        out += [y.is_inference(), y.requires_grad]
    with ad.set_grad_enabled(False), ad.enable_grad():
        out.append(run(ones(2)))
    return [*out, run(ones(2))]


@program
def modes_inside(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()
    s = types.SimpleNamespace(track=True)

    def f(x: Any) -> Any:
        with ad.set_grad_enabled(s.track):
            y = x * w
        with ad.no_grad():
            z = y * 2
        return y, z, ad.is_grad_enabled()

    run = wrap(f)
    out = [run(ones(2))]
    s.track = False
    return [*out, run(ones(2)), ad.is_grad_enabled()]


@program
def autocast_outside_and_inside(wrap: Wrap) -> Any:
    lin = nn.Linear(2, 2)
    run = wrap(lambda x: lin(x).dtype)

    def inner(x: Any, on: bool) -> Any:
        with ad.autocast("cpu", dtype=ad.bfloat16, enabled=on):
            return lin(x).dtype

    again = wrap(inner)
    out = [str(run(ones(1, 2)))]
    with ad.autocast("cpu", dtype=ad.bfloat16):
        out.append(str(run(ones(1, 2))))
    return [*out, str(run(ones(1, 2))), str(again(ones(1, 2), True)), str(again(ones(1, 2), False))]


@program
def default_dtype(wrap: Wrap) -> Any:
    run = wrap(lambda x: x + ad.zeros(2) + ad.tensor([0.5, 1.5]))
    out = [run(ones(2))]
    ad.set_default_dtype(ad.float64)
    try:
        out.append(run(ones(2)))
    finally:
        ad.set_default_dtype(ad.float32)
    return [*out, run(ones(2))]


@program
def gradient_none_or_zeros(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()
    other = ones(2).requires_grad_()

    def f(x: Any) -> Any:
        (w * x).sum().backward()
        return w.grad + 0, other.grad is None

    run = wrap(f)
    out = [run(ones(2)), run(ones(2))]
    w.grad = None
    out.append(run(ones(2)))
    w.grad = ad.zeros(2)
    kept = w.grad
    out.append(run(ones(2)))
    other.grad = ad.zeros(2)
    out.append(run(ones(2)))
    return out, w.grad is kept, kept


@program
def gradient_read_and_cleared(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()

    def f(x: Any) -> Any:
        if w.grad is not None:
            w.grad = None
        y = (w * x).sum()
        y.backward()
        norm = w.grad.norm()  # type: ignore[union-attr]
        w.grad.mul_(0.5)  # type: ignore[union-attr]
        return norm

    run = wrap(f)
    out = []
    for k in range(4):
        out.append((run(ones(2) * k), w.grad))
        if k == 1:
            w.grad = None
    return out


@program
def accumulated_over_calls(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()
    run = wrap(lambda x: (w * x).sum().backward())
    out = []
    for k in range(4):
        run(ones(2) * k)
        out.append(w.grad + 0)
        if k == 2:
            w.grad.zero_()
    return out


@program
def backward_outside(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()
    run = wrap(lambda x: ((w * x).sum(), (w * w).sum()))
    out = []
    for _ in range(2):
        a, b = run(ones(2))
        (a + b * 3).backward()
        out.append(w.grad + 0)
    return out


@program
def auxiliary_loss_kept(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(aux=[], total=0.0)
    w = ones(2).requires_grad_()

    def f(x: Any) -> Any:
        h = w * x
        s.aux.append((h * h).mean())
        s.last = h
        s.total = s.total + h.sum()
        return h.sum()

    run = wrap(f)
    loss = run(ones(2)) + run(ones(2) * 2)
    (loss + sum(s.aux) + s.total).backward()
    return w.grad, s.last, s.total, s.aux


@program
def old_graph_through_state(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()
    s = types.SimpleNamespace(h=ad.zeros(2))

    def f(x: Any) -> Any:
        s.h = s.h * w + x
        return s.h

    run = wrap(f)
    for _ in range(3):
        y = run(ones(2))
    y.sum().backward()
    return y, w.grad


@program
def truncated_state(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()
    s = types.SimpleNamespace(h=ad.zeros(2))

    def f(x: Any) -> Any:
        w.grad = None
        s.h = s.h.detach() * w + x
        s.h.sum().backward()
        return w.grad + 0

    run = wrap(f)
    return [run(ones(2)) for _ in range(4)], s.h


@program
def leaf_view_written(wrap: Wrap) -> Any:
    w = ramp(2, 2).requires_grad_()

    def f(x: Any) -> Any:
        with ad.no_grad():
            w[0].add_(x)
            w[:, 1] = 7
        return w[0] * 2

    run = wrap(f)
    out = [run(ones(2)) for _ in range(2)]
    out[-1].sum().backward()
    return out, w, w.grad


@program
def written_leaf_refused(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()

    def f(x: Any) -> Any:
        w.add_(x)
        return w

    result = tried(wrap(f), ones(2))
    return type(result).__name__, w


@program
def written_on_the_tape(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        y = x * 2
        y[0] = y[1] * 3
        y.mul_(x)
        v = y[1:]
        v.add_(x[:1])
        return y

    run = wrap(f)
    out = []
    for _ in range(2):
        x = ramp(2).add_(1).requires_grad_()
        y = run(x)
        y.sum().backward()
        out.append((y, x.grad))
    return out


@program
def argument_written_on_the_tape(wrap: Wrap) -> Any:
    def f(x: Any, w: Any) -> Any:
        x.mul_(w)
        return x.sum()

    run = wrap(f)
    out = []
    for _ in range(2):
        w = ones(2).mul_(3).requires_grad_()
        x = ones(2)
        run(x, w).backward()
        out.append((x, w.grad, x.requires_grad, x.grad_fn is None))
    return out


@program
def results_written_outside(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(h=ad.zeros(2))

    def f(x: Any) -> Any:
        s.h = s.h + x
        return s.h

    run = wrap(f)
    a = run(ones(2))
    a.mul_(10)
    b = run(ones(2))
    return a, b, s.h is b


@program
def list_of_states(wrap: Wrap) -> Any:
    hs = [ad.zeros(2), ones(2)]

    def f(x: Any) -> Any:
        hs[0], hs[1] = hs[1] * 2, hs[0] + x
        return hs[0] - hs[1]

    run = wrap(f)
    return [run(ones(2)) for _ in range(4)], hs


@program
def rolling_buffer(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(buffer=ad.zeros(3))

    def f(x: Any) -> Any:
        s.buffer = ad.cat([s.buffer[1:], x.sum().reshape(1)])
        return s.buffer.mean()

    run = wrap(f)
    return [run(ones(2) * k) for k in range(4)], s.buffer


@program
def growing_state(wrap: Wrap) -> Any:
    s: Any = types.SimpleNamespace(cache=None)

    def f(x: Any) -> Any:
        s.cache = x if s.cache is None else ad.cat([s.cache, x])
        return s.cache.sum(0)

    run = wrap(f)
    return [run(ones(1, 2) * k) for k in range(5)], s.cache


@program
def in_place_shapes(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        y = x * 2
        y.t_()
        y.unsqueeze_(0)
        z = y.squeeze_(0)
        return y, z is y, y.shape

    run = wrap(f)
    return [run(ramp(2, 3)) for _ in range(2)]


@program
def in_place_shape_of_argument(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        x.t_()
        return x.shape[0], x * 2

    run = wrap(f)
    out = []
    for _ in range(2):
        x = ramp(2, 3)
        out.append((run(x), x, tuple(x.shape), x.stride()))
    return out


@program
def in_place_shape_of_state(wrap: Wrap) -> Any:
    w = ramp(2, 3)

    def f() -> Any:
        w.transpose_(0, 1)
        return w.sum(0)

    run = wrap(f)
    return [run() for _ in range(3)], tuple(w.shape)


@program
def user_attributes_of_tensors(wrap: Wrap) -> Any:
    w = ones(2)
    w.scale = 2.0

    def f(x: Any) -> Any:
        w.seen = getattr(w, "seen", 0) + 1
        return x * w.scale * w.seen

    run = wrap(f)
    out = [run(ones(2)), run(ones(2))]
    w.scale = 5.0
    return [*out, run(ones(2)), w.seen]


@program
def numpy_views(wrap: Wrap) -> Any:
    a = np.arange(4.0, dtype=np.float32)
    t = ad.from_numpy(a)

    def f(x: Any) -> Any:
        t.add_(x)
        return t * 2

    run = wrap(f)
    out = [run(ones(4))]
    a[:] = 0
    return [*out, run(ones(4)), a]


@program
def dtype_and_device_of_arguments(wrap: Wrap) -> Any:
    run = wrap(lambda x: (x.dtype is ad.float32, x + 1, x / 2, x.to(ad.int64)))
    return [run(ones(2).to(d)) for d in (ad.float32, ad.float64, ad.int32, ad.float32, ad.bfloat16)]


@program
def hooks_added_and_removed(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()

    def f(x: Any) -> Any:
        w.grad = None
        (w * x).sum().backward()
        return w.grad + 0

    run = wrap(f)
    out = [run(ones(2))]
    handle = w.register_hook(lambda g: g * 10)
    out.append(run(ones(2)))
    handle.remove()
    return [*out, run(ones(2))]


@program
def hook_inside(wrap: Wrap) -> Any:
    log: list[Any] = []

    def f(x: Any) -> Any:
        y = x * 2
        y.register_hook(lambda g: log.append(g) or g * 3)  # type: ignore[func-returns-value]
        y.sum().backward()
        return x.grad + 0

    run = wrap(f)
    out = []
    for _ in range(2):
        x = ones(2).requires_grad_()
        out.append(run(x))
    return out, log


@program
def custom_function(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(scale=2.0, calls=0)

    class Scale(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.scale = s.scale
            s.calls += 1
            return x * s.scale

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.scale * 10

    run = wrap(lambda x: Scale.apply(x).sum())
    out = []
    for scale in (2.0, 2.0, 3.0):
        s.scale = scale
        x = ones(2).requires_grad_()
        run(x).backward()
        out.append(x.grad)
    return out, s.calls


@program
def transforms(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(k=2.0)
    run = wrap(lambda x: ad.func.grad(lambda v: (v * v * s.k).sum())(x))
    jac = wrap(ad.func.jacrev(lambda v: v * v * s.k))
    many = wrap(lambda x: ad.func.vmap(lambda v: v * s.k)(x))
    out = []
    for k in (2.0, 3.0, 4.0):
        s.k = k
        out.append((run(ones(2)), jac(ones(2)), many(ones(2, 2))))
    return out


@program
def checkpointed(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(k=2.0)
    w = ones(2).requires_grad_()

    def f(x: Any) -> Any:
        w.grad = None
        y = ad.utils.checkpoint.checkpoint(lambda v: (v * w * s.k).sin(), x, use_reentrant=False)
        y.sum().backward()
        return w.grad + 0

    run = wrap(f)
    out = [run(ones(2)), run(ones(2))]
    s.k = 0.5
    return [*out, run(ones(2))]


@program
def tensor_subscripts_that_change(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(i=0, j=slice(0, 2), mask=ad.tensor([True, False, True]))
    run = wrap(lambda x: (x[s.i], x[s.j], x[:, s.i], x.where(s.mask, ad.zeros(()))))
    out = [run(ramp(3, 3))]
    s.i = 2
    out.append(run(ramp(3, 3)))
    s.j = slice(1, None)
    s.mask = ~s.mask
    return [*out, run(ramp(3, 3))]


@program
def shared_storage_of_states(wrap: Wrap) -> Any:
    base = ramp(4)
    a, b = base[:3], base[1:]

    def f(x: Any) -> Any:
        a.add_(x)
        b.mul_(2)
        return a.sum() - b.sum()

    run = wrap(f)
    return [run(ones(1)) for _ in range(3)], base


@program
def scalar_tensors_as_state(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(step=ad.tensor(0), best=ad.tensor(100.0))

    def f(x: Any) -> Any:
        s.step += 1
        s.best = ad.minimum(s.best, x.sum())
        return x / s.step, s.best

    run = wrap(f)
    return [run(ones(2) * k) for k in (3, 1, 2)], s.step, s.best


@program
def identity_of_state(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(a=ones(2), b=None)
    s.b = s.a

    def f(x: Any) -> Any:
        return x * 2 if s.a is s.b else x * 3

    run = wrap(f)
    out = [run(ones(2))]
    s.b = s.a.clone()
    out.append(run(ones(2)))
    s.a = s.b
    return [*out, run(ones(2))]


@program
def arguments_that_are_one_tensor(wrap: Wrap) -> Any:
    run = wrap(lambda x, y: x * 2 if x is y else x + y)
    x = ones(2)
    return run(x, x), run(x, x.clone()), run(x, x)
