"""Programs that ask tensors about themselves: views, versions, memory, values."""

# Written as a user would, who annotates little.
# mypy: disable-error-code="has-type, import-not-found, index, list-item, str-format, type-arg, var-annotated"

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint import nn

from .playing import Wrap, changed, ones, program, ramp, times, tried


@program
def arg_is_view_read(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        return x * 2 if x._is_view() else x * 3

    r = wrap(f)
    b = ramp(4)
    return [tried(r, a) for a in (ones(2), b[:2], ones(2), b[1:3], b.clone()[:2].clone())]


@program
def arg_base_read(wrap: Wrap) -> Any:
    b = ramp(4)

    def f(x: Any) -> Any:
        return (x * 2, x._base is b, x._base is None)

    r = wrap(f)
    c = ramp(4)
    return [tried(r, a) for a in (b[:2], c[:2], ones(2), b[2:])]


@program
def arg_is_leaf_read(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        return (x * 2 if x.is_leaf else x * 3, x.is_leaf)

    r = wrap(f)
    w = ones(2).requires_grad_()
    return [tried(r, a) for a in (ones(2), w, w * 1, (w * 1).detach(), w[:])]


@program
def data_ptr_equality(wrap: Wrap) -> Any:

    def f(x: Any, y: Any) -> Any:
        return x * 2 if x.data_ptr() == y.data_ptr() else x * 3

    r = wrap(f)
    a = ones(2)
    b = ones(2)
    c = ramp(4)
    return [
        tried(r, *p)
        for p in ((a, a), (a, b), (a, a.view(2)), (c[:2], c[2:]), (c[:2], c[:2]), (a, a.detach()))
    ]


@program
def version_read(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        return x * x._version

    r = wrap(f)
    a = ones(2)
    out = [r(a)]
    a.add_(1)
    out.append(r(a))
    a.add_(1)
    out.append(r(a))
    out.append(r(ones(2)))
    return out


@program
def version_counted_inside(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        v = x._version
        x.add_(1)
        return (x * 2, x._version - v)

    r = wrap(f)
    a = ones(2)
    return ([tried(r, a) for _ in range(3)], a._version)


@program
def version_of_state(wrap: Wrap) -> Any:
    s = ones(2)

    def f(x: Any) -> Any:
        return x * s._version

    return changed(wrap, f, lambda: s.add_(1), lambda: s.mul_(2))


@program
def stride_read(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        return (x * x.stride(0) + x.stride()[1], x.is_contiguous(), x.storage_offset())

    r = wrap(f)
    b = ramp(3, 4)
    return [
        tried(r, a)
        for a in (
            ramp(2, 2),
            ramp(2, 2).t(),
            b[:2, :2],
            b[1:, 2:],
            b.t()[:2, :2],
            ramp(1, 2).expand(2, 2),
        )
    ]


@program
def untyped_storage_identity(wrap: Wrap) -> Any:

    def f(x: Any, y: Any) -> Any:
        return x * 2 if x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr() else x * 5

    r = wrap(f)
    c = ramp(4)
    return [tried(r, *p) for p in ((c[:2], c[2:]), (c[:2], ones(2)), (c[:2], c[2:]))]


@program
def is_shared_is_pinned(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        return (
            x * 2,
            x.is_pinned(),
            x.is_cuda,
            x.is_sparse,
            x.layout == ad.strided,
            x.is_quantized,
        )

    return times(wrap(f))


@program
def data_written_inside(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()

    def f(x: Any) -> Any:
        w.data.mul_(2)
        w.data[0] = 5
        y = (w * x).sum()
        return (y, w.data)

    return (times(wrap(f)), w)


@program
def data_assigned_inside(wrap: Wrap) -> Any:
    w = nn.Parameter(ones(2))

    def f(x: Any) -> Any:
        w.data = w.data * 0.5 + x
        return w * 2

    return (times(wrap(f)), w)


@program
def data_swap_ema(wrap: Wrap) -> Any:
    m = nn.Linear(2, 2)
    for p in m.parameters():
        nn.init.constant_(p, 1.0)
    ema = {k: v.clone() for k, v in m.state_dict().items()}

    def f(x: Any) -> Any:
        for k, p in m.named_parameters():
            ema[k].mul_(0.9).add_(p.data, alpha=0.1)
            p.data.copy_(p.data + 1)
        return m(x)

    return (times(wrap(f), ones(1, 2)), ema)


@program
def numpy_of_traced(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        y = x * 2
        return float(y.numpy().sum()) * x

    return times(wrap(f))


@program
def numpy_of_result_returned(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        y = (x * 2).numpy()
        return y

    r = wrap(f)
    return [tried(r, ones(2) * k) for k in range(3)]


@program
def numpy_of_argument(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        a = x.numpy()
        return x * float(a.mean())

    r = wrap(f)
    return [tried(r, ones(2) * k) for k in range(3)]


@program
def numpy_of_state_const(wrap: Wrap) -> Any:
    s = ramp(3)

    def f(x: Any) -> Any:
        return x * float(s.numpy()[1])

    return changed(wrap, f, lambda: s.add_(1))


@program
def item_logged(wrap: Wrap) -> Any:
    log = []

    def f(x: Any) -> Any:
        level = (x * x).mean()
        log.append(level.item())
        return level

    r = wrap(f)
    return ([tried(r, ones(2) * k) for k in range(3)], log)


@program
def tolist_returned(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        return ((x * 2).tolist(), x.sum().item())

    r = wrap(f)
    return [tried(r, ones(2) * k) for k in range(3)]


@program
def user_generator_outside(wrap: Wrap) -> Any:

    def g() -> Any:
        k = 0.0
        while True:
            k += 1
            yield k

    it = g()

    def f(x: Any) -> Any:
        return x * next(it)

    return times(wrap(f))


@program
def user_generator_of_batches(wrap: Wrap) -> Any:

    def batches() -> Any:
        for i in range(6):
            yield (ones(2) * i)

    it = batches()

    def f(x: Any) -> Any:
        return x + next(it)

    return times(wrap(f), n=7)


@program
def requires_grad_of_result(wrap: Wrap) -> Any:
    w = ones(2)

    def f(x: Any) -> Any:
        return x * w

    return (
        changed(wrap, f, lambda: w.requires_grad_(), lambda: w.requires_grad_(False), x=ones(2)),
        changed(wrap, f, lambda: w.requires_grad_(), x=ones(2).requires_grad_()),
    )


@program
def grad_fn_name(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()

    def f(x: Any) -> Any:
        y = w * x
        return (y, type(y.grad_fn).__name__, y.grad_fn is not None)

    return times(wrap(f))


@program
def grad_fn_next_functions(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()

    def f(x: Any) -> Any:
        y = (w * x).sum()
        return (y, len(y.grad_fn.next_functions))

    return times(wrap(f))


@program
def aux_loss_outside(wrap: Wrap) -> Any:

    class N(nn.Module):
        def __init__(s) -> None:
            super().__init__()
            s.l = nn.Linear(2, 2)
            for p in s.parameters():
                nn.init.constant_(p, 0.5)

        def forward(s, x: Any) -> Any:
            h = s.l(x)
            s.aux = (h * h).mean()
            return h

    n = N()
    r = wrap(n)
    out = []
    for _ in range(3):
        o = r(ramp(2, 2))
        (o.sum() + n.aux).backward()
        out.append([p.grad.clone() for p in n.parameters()])
        n.zero_grad()
    return out


@program
def tensors_list_with_graph(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()
    losses = []

    def f(x: Any) -> Any:
        level = (w * x).sum()
        losses.append(level)
        return level * 2

    r = wrap(f)
    for k in range(1, 4):
        r(ones(2) * k)
    sum(losses).backward()
    return (w.grad, losses)


@program
def detach_vs_graph_state(wrap: Wrap) -> Any:

    class S:
        h = ad.zeros(2)

    w = ones(2).requires_grad_()

    def f(x: Any, keep: Any) -> Any:
        h = S.h * w + x
        S.h = h if keep else h.detach()
        return h

    r = wrap(f)
    o = []
    for k in (0, 1, 0, 1, 1):
        o.append(r(ones(2), k))  # noqa: PERF401
    o[-1].sum().backward()
    return (o, w.grad, S.h)


@program
def no_grad_decorated(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()

    @ad.no_grad()
    def ev(x: Any) -> Any:
        return w * x

    def f(x: Any) -> Any:
        return (ev(x), w * x)

    return times(wrap(f))


@program
def set_grad_enabled_flag(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()

    class S:
        train = True

    def f(x: Any) -> Any:
        with ad.set_grad_enabled(S.train):
            y = w * x
        return y

    return changed(wrap, f, lambda: setattr(S, "train", False))


@program
def inplace_on_view_of_arg(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        v = x[:, 0]
        v.mul_(3)
        x.t()[1].add_(1)
        return (x.sum(), v)

    r = wrap(f)
    a = ramp(2, 2)
    return ([r(a) for _ in range(3)], a)


@program
def inplace_noncontiguous_arg(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        x.add_(1)
        x[0] = 7
        return x * 2

    r = wrap(f)
    a = ramp(3, 2)
    return ([tried(r, a.t()), tried(r, a.t()), tried(r, a[:2]), tried(r, a[1:])], a)


@program
def out_kwarg(wrap: Wrap) -> Any:
    o = ad.zeros(2)

    def f(x: Any) -> Any:
        ad.add(x, 1, out=o)
        return o

    r = wrap(f)
    q = [r(ones(2)) is o for _ in range(3)]
    return (q, o)


@program
def index_put_state(wrap: Wrap) -> Any:
    mem = ad.zeros(4, 2)

    class S:
        p = 0

    def f(x: Any) -> Any:
        mem[S.p % 4] = x
        S.p += 1
        return mem.mean(0)

    return (times(wrap(f), n=6), mem, S.p)
