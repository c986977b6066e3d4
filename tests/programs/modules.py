"""Programs on modules and tapes: hooks, state dicts, parametrizations, gradients, views."""

# Written as a user would, who annotates little.
# mypy: disable-error-code="has-type, import-not-found, index, list-item, str-format, type-arg, var-annotated"

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import nn

from .playing import Wrap, changed, ones, program, ramp, times, tried


def lin(*sizes: int, v: float = 0.5) -> Any:
    made = nn.Linear(*sizes)
    for p in made.parameters():
        nn.init.constant_(p, v)
    return made


@program
def post_accumulate_hook(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()
    log = []
    w.register_post_accumulate_grad_hook(
        lambda p: log.append(float(p.grad.sum().detach()) if False else tuple(p.shape))
    )

    def f(x: Any) -> Any:
        (w * x).sum().backward()
        g = w.grad.clone()
        w.grad = None
        return g

    return (times(wrap(f)), log)


@program
def optimizer_in_backward(wrap: Wrap) -> Any:
    w = nn.Parameter(ones(2))
    o = ad.optim.SGD([w], lr=0.1)

    def hook(p: Any) -> None:
        o.step()
        o.zero_grad()

    w.register_post_accumulate_grad_hook(hook)

    def f(x: Any) -> Any:
        (w * x).sum().backward()
        return w.clone()

    return (times(wrap(f)), w)


@program
def full_backward_hook(wrap: Wrap) -> Any:
    m = lin(2, 2)
    seen = []
    m.register_full_backward_hook(lambda mod, gi, go: seen.append(go[0].shape))

    def f(x: Any) -> Any:
        m(x).sum().backward()
        m.zero_grad()
        return x

    return (times(wrap(f), ramp(3, 2)), seen)


@program
def full_backward_hooks_between_layers(wrap: Wrap) -> Any:
    net = nn.Sequential(lin(2, 3), nn.ReLU(), lin(3, 2))
    seen = []
    net[2].register_full_backward_pre_hook(lambda mod, go: (go[0] * 2,))
    net[2].register_full_backward_hook(lambda mod, gi, go: (gi[0] * 0.5 + go[0].sum(),))
    net[1].register_full_backward_hook(lambda mod, gi, go: seen.append(gi[0].sum()))

    def f(x: Any) -> Any:
        net.zero_grad()
        net(x).pow(2).sum().backward()
        return [p.grad.clone() for p in net.parameters()]

    return (times(wrap(f), ramp(3, 2)), seen)


@program
def forward_hook_with_kwargs_always(wrap: Wrap) -> Any:
    m = lin(2, 2)
    cnt = Counter()
    h = m.register_forward_hook(
        lambda mod, a, k, o: (cnt.update(["c"]), o * 2)[1], with_kwargs=True
    )
    r = wrap(lambda x: m(x))
    o = [tried(r, ones(2)), tried(r, ones(2))]
    h.remove()
    o.append(tried(r, ones(2)))
    return (o, cnt)


@program
def hook_order_prepend(wrap: Wrap) -> Any:
    m = lin(2, 2)
    m.register_forward_hook(lambda *a: a[-1] + 1)
    return changed(
        wrap,
        lambda x: m(x),
        lambda: m.register_forward_hook(lambda *a: a[-1] * 2),
        lambda: m.register_forward_hook(lambda *a: a[-1] - 3, prepend=True),
    )


@program
def state_dict_inside(wrap: Wrap) -> Any:
    m = lin(2, 2)

    def f(x: Any) -> Any:
        sd = m.state_dict()
        return ({k: v.sum() for k, v in sd.items()}, list(sd), m(x))

    return changed(wrap, f, lambda: m.weight.data.add_(1), lambda: m.register_buffer("b", ones(1)))


@program
def load_state_dict_inside(wrap: Wrap) -> Any:
    m = lin(2, 2)
    t = lin(2, 2, v=0.0)

    def f(x: Any) -> Any:
        m.weight.data.add_(1.0)
        t.load_state_dict(m.state_dict())
        return t(x)

    return (times(wrap(f)), list(t.parameters()))


@program
def soft_update_target(wrap: Wrap) -> Any:
    m = lin(2, 2)
    t = lin(2, 2, v=0.0)

    def f(x: Any) -> Any:
        with ad.no_grad():
            for p, q in zip(t.parameters(), m.parameters(), strict=False):
                p.mul_(0.9).add_(q, alpha=0.1)
        return t(x).detach()

    return (times(wrap(f)), list(t.parameters()))


@program
def parametrize_changes(wrap: Wrap) -> Any:

    class Sym(nn.Module):
        k = 1.0

        def forward(s, w: Any) -> Any:
            return (w + w.T) * s.k

    m = lin(2, 2)
    return changed(
        wrap,
        lambda x: m(x),
        lambda: nn.utils.parametrize.register_parametrization(m, "weight", Sym()),
        lambda: setattr(Sym, "k", 2.0),
        lambda: nn.utils.parametrize.remove_parametrizations(m, "weight"),
    )


@program
def weight_norm_train(wrap: Wrap) -> Any:
    m = nn.utils.parametrizations.weight_norm(lin(2, 2))
    o = ad.optim.SGD(m.parameters(), lr=0.1)

    def f(x: Any) -> Any:
        o.zero_grad()
        m(x).pow(2).sum().backward()
        o.step()
        return m.weight

    return times(wrap(f), ramp(2, 2))


@program
def parameter_list_dict(wrap: Wrap) -> Any:
    pl = nn.ParameterList([ones(2)])
    pd = nn.ParameterDict({"a": ones(2)})

    def f(x: Any) -> Any:
        for p in pl:
            x = x * p
        for k, p in pd.items():
            x = x + p * len(k)
        return x

    return changed(
        wrap,
        f,
        lambda: pl.append(nn.Parameter(ones(2) * 2)),
        lambda: pd.update({"bb": nn.Parameter(ones(2) * 3)}),
        lambda: pd.pop("a"),
    )


@program
def module_delattr_setattr(wrap: Wrap) -> Any:

    class N(nn.Module):
        def __init__(s) -> None:
            super().__init__()
            s.l = lin(2, 2)
            s.act = nn.ReLU()

        def forward(s, x: Any) -> Any:
            x = s.l(x) if hasattr(s, "l") else x
            return s.act(x) if s.act is not None else x

    n = N()
    return changed(
        wrap,
        n,
        lambda: delattr(n, "l"),
        lambda: setattr(n, "act", None),
        lambda: setattr(n, "l", lin(2, 2, v=2.0)),
    )


@program
def forward_replaced_on_instance(wrap: Wrap) -> Any:
    m = lin(2, 2)
    r = wrap(lambda x: m(x))
    o = [tried(r, ones(2))]
    m.forward = lambda x: x * 9
    o.append(tried(r, ones(2)))
    del m.forward
    o.append(tried(r, ones(2)))
    return o


@program
def extra_repr_and_names(wrap: Wrap) -> Any:
    m = nn.Sequential(OrderedDict(a=lin(2, 2), b=nn.ReLU()))

    def f(x: Any) -> Any:
        return (m(x), repr(m.b), [n for n, _ in m.named_modules()], m._get_name(), str(m.a))

    return changed(wrap, f, lambda: m.add_module("c", nn.Identity()))


@program
def lbfgs_closure(wrap: Wrap) -> Any:
    w = nn.Parameter(ones(2) * 2)
    o = ad.optim.LBFGS([w], lr=0.5, max_iter=2)

    def f(x: Any) -> Any:

        def c() -> Any:
            o.zero_grad()
            level = ((w * x - 1) ** 2).sum()
            level.backward()
            return level

        return o.step(c).detach()

    return (times(wrap(f), n=3), w)


@program
def sgd_closure(wrap: Wrap) -> Any:
    w = nn.Parameter(ones(2) * 2)
    o = ad.optim.SGD([w], lr=0.1)
    n = [0]

    def f(x: Any) -> Any:

        def c() -> Any:
            n[0] += 1
            o.zero_grad()
            level = ((w * x - 1) ** 2).sum()
            level.backward()
            return level

        return o.step(c).detach()

    return (times(wrap(f), n=3), w, n)


@program
def backward_twice_error(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()

    def f(x: Any) -> Any:
        level = (w * w * x).sum()
        level.backward()
        level.backward()
        return level

    return (times(wrap(f), n=2), w.grad)


@program
def retain_graph_accumulates(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()

    def f(x: Any) -> Any:
        level = (w * w * x).sum()
        level.backward(retain_graph=True)
        level.backward()
        g = w.grad
        w.grad = None
        return g

    return times(wrap(f), n=3)


@program
def autograd_grad_unused(wrap: Wrap) -> Any:
    w, v = (ones(2).requires_grad_(), ones(2).requires_grad_())

    def f(x: Any, use: Any) -> Any:
        y = (w * x).sum() + ((v * x).sum() if use else 0)
        return ad.autograd.grad(y, [w, v], allow_unused=True)

    r = wrap(f)
    return [tried(r, ones(2), u) for u in (True, False, True)]


@program
def inplace_leaf_error_then_ok(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()

    class C:
        bad = True

    def f(x: Any) -> Any:
        if C.bad:
            w.add_(x)
        else:
            with ad.no_grad():
                w.add_(x)
        return w * 1

    return (changed(wrap, f, lambda: setattr(C, "bad", False)), w)


@program
def saved_tensor_modified_error(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        w = x.clone().requires_grad_()
        y = w * 2
        z = (y * y).sum()
        y.add_(1)
        z.backward()
        return w.grad

    return times(wrap(f), n=2)


@program
def detach_inplace_share(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()

    def f(x: Any) -> Any:
        d = w.detach()
        d.add_(x)
        return (w * 2, d)

    return (times(wrap(f), n=3), w)


@program
def requires_grad_toggle_inside(wrap: Wrap) -> Any:
    m = lin(2, 2)

    class C:
        frozen = False

    def f(x: Any) -> Any:
        m.requires_grad_(not C.frozen)
        y = m(x)
        return (y, y.requires_grad, [p.requires_grad for p in m.parameters()])

    return changed(wrap, f, lambda: setattr(C, "frozen", True), lambda: setattr(C, "frozen", False))


@program
def zero_grad_modes(wrap: Wrap) -> Any:
    w = nn.Parameter(ones(2))
    o = ad.optim.SGD([w], lr=0.1)

    class C:
        none = True

    def f(x: Any) -> Any:
        o.zero_grad(set_to_none=C.none)
        a = w.grad
        (w * x).sum().backward()
        return (a is None, w.grad.clone())

    return changed(wrap, f, lambda: setattr(C, "none", False), lambda: setattr(C, "none", True))


@program
def grad_shared_between(wrap: Wrap) -> Any:
    a, b = (ones(2).requires_grad_(), ones(2).requires_grad_())

    def f(x: Any) -> Any:
        (a * x).sum().backward()
        b.grad = a.grad
        a.grad = None
        return b.grad

    return (times(wrap(f), n=3), a.grad, b.grad)


@program
def saved_tensors_hooks(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()
    n = Counter()

    def pack(t: Any) -> Any:
        n["p"] += 1
        return t

    def unpack(t: Any) -> Any:
        n["u"] += 1
        return t

    def f(x: Any) -> Any:
        with ad.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = (w * w * x).sum()
        y.backward()
        g = w.grad
        w.grad = None
        return g

    return (times(wrap(f), n=3), n)


@program
def jvp_and_hessian_state(wrap: Wrap) -> Any:
    S = {"p": 3}

    def f(x: Any) -> Any:
        return (
            ad.func.jvp(lambda t: t ** S["p"], (x,), (ones(2),)),
            ad.func.hessian(lambda t: (t ** S["p"]).sum())(x),
        )

    return changed(wrap, f, lambda: S.update(p=2))


@program
def vmap_randomness(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        return ad.func.vmap(lambda t: t + ad.randn(2), randomness="different")(x)

    ad.manual_seed(0)
    return times(wrap(f), ramp(2, 2))


@program
def einsum_and_named_strings(wrap: Wrap) -> Any:

    class C:
        eq = "ij,jk->ik"

    def f(x: Any) -> Any:
        return ad.einsum(C.eq, x, x)

    return changed(
        wrap,
        f,
        lambda: setattr(C, "eq", "ij,ij->i"),
        lambda: setattr(C, "eq", "ij,kj->ik"),
        x=ramp(2, 2),
    )


@program
def where_python_numbers_and_masks(wrap: Wrap) -> Any:

    class C:
        th = 1.0
        fill = -1

    def f(x: Any) -> Any:
        return (ad.where(x > C.th, x, C.fill), x.masked_fill(x < C.th, C.fill), x.clamp(max=C.th))

    return changed(
        wrap,
        f,
        lambda: setattr(C, "th", 2.0),
        lambda: setattr(C, "fill", 0.5),
        lambda: setattr(C, "fill", float("inf")),
        x=ramp(4),
    )


@program
def advanced_indexing_state(wrap: Wrap) -> Any:
    idx = [0, 2]
    t = ramp(4)

    def f(x: Any) -> Any:
        t[idx] += x.sum()
        return (t[idx], t[ad.tensor(idx)], t[[True, False, True, False]])

    return (changed(wrap, f, lambda: idx.append(1), lambda: idx.pop(0)), t)


@program
def slices_from_state(wrap: Wrap) -> Any:

    class C:
        sl = slice(0, 2)
        st = 1

    def f(x: Any) -> Any:
        return (x[C.sl], x[:: C.st], x[..., C.sl])

    return changed(
        wrap, f, lambda: setattr(C, "sl", slice(1, None)), lambda: setattr(C, "st", 2), x=ramp(4)
    )


@program
def split_sizes_list(wrap: Wrap) -> Any:
    sz = [1, 3]

    def f(x: Any) -> Any:
        return ([t.sum() for t in x.split(sz)], x.chunk(len(sz)))

    return changed(
        wrap,
        f,
        lambda: sz.__setitem__(slice(None), [2, 2]),
        lambda: sz.__setitem__(slice(None), [1, 1, 2]),
        x=ramp(4),
    )


@program
def dtype_from_config(wrap: Wrap) -> Any:

    class C:
        dt = ad.float32

    def f(x: Any) -> Any:
        return (x.to(C.dt) + ad.zeros(2, dtype=C.dt), ad.finfo(C.dt).eps)

    return changed(
        wrap, f, lambda: setattr(C, "dt", ad.float64), lambda: setattr(C, "dt", ad.bfloat16)
    )


@program
def tensor_constants_made_inside(wrap: Wrap) -> Any:
    L = [1.0, 2.0]

    def f(x: Any) -> Any:
        return (x * ad.tensor(L) + ad.as_tensor(np.array(L, dtype=np.float32)), ad.tensor([len(L)]))

    return changed(wrap, f, lambda: L.__setitem__(0, 5.0), lambda: L.append(3.0))


@program
def bool_tensor_known_branch(wrap: Wrap) -> Any:
    L = [1.0, 2.0]

    def f(x: Any) -> Any:
        return x * 2 if ad.tensor(L).sum() > 2 else x

    return changed(wrap, f, lambda: L.__setitem__(1, 0.5))


@program
def linspace_arange_from_state(wrap: Wrap) -> Any:

    class C:
        n = 3
        hi = 2.0

    def f(x: Any) -> Any:
        return (x.sum() * ad.linspace(0, C.hi, C.n), ad.arange(C.n), ad.eye(C.n))

    return changed(wrap, f, lambda: setattr(C, "n", 4), lambda: setattr(C, "hi", 5.0))


@program
def stack_growing_history(wrap: Wrap) -> Any:
    H = []

    def f(x: Any) -> Any:
        H.append(x)
        return (ad.stack(H).mean(0), ad.cat(H[-2:]))

    r = wrap(f)
    return ([tried(r, ones(2) * k) for k in range(4)], len(H))


@program
def dict_of_tensors_updated_in_place(wrap: Wrap) -> Any:
    T = {"a": ones(2), "b": ones(2)}

    def f(x: Any) -> Any:
        for k in T:  # noqa: PLC0206
            T[k].add_(x)
        T["c"] = T["a"] + T["b"]
        return sum(T.values())

    return (times(wrap(f), n=3), T)


@program
def tuple_swap_of_tensors(wrap: Wrap) -> Any:

    class S:
        a = ones(2)
        b = ones(2) * 2

    def f(x: Any) -> Any:
        S.a, S.b = (S.b, S.a + x)
        return (S.a, S.b, S.a is S.b)

    return (times(wrap(f), n=4), S.a, S.b)


@program
def swap_via_data(wrap: Wrap) -> Any:
    a, b = (ones(2), ones(2) * 2)

    def f(x: Any) -> Any:
        a.data, b.data = (b.data, a.data)
        return (a * x, b * x)

    return (times(wrap(f), n=3), a, b)


@program
def view_kept_then_base_written(wrap: Wrap) -> Any:

    class S:
        v = None

    base = ramp(4)

    def f(x: Any) -> Any:
        if S.v is None:
            S.v = base[1:3]
        base.add_(1)
        return S.v * x

    return (times(wrap(f), n=3), S.v, base)


@program
def expand_then_contiguous_write(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        y = x.expand(3, 2).contiguous()
        y[0] = 9
        return (y, x)

    return times(wrap(f), ones(1, 2), n=2)


@program
def to_same_dtype_aliases(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        y = x.to(x.dtype)
        y.add_(1)
        z = x.float()
        return (y is x, z is x, x.contiguous() is x, x.view_as(x) is x)

    r = wrap(f)
    a = ones(2)
    return ([tried(r, a) for _ in range(2)], a)


@program
def flatten_reshape_alias(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        y = x.reshape(-1)
        y.mul_(2)
        z = x.flatten()
        z.add_(1)
        return (y, z)

    r = wrap(f)
    a = ramp(2, 2)
    o = [tried(r, a)]
    b = ramp(2, 2).t()
    o.append(tried(r, b))
    return (o, a, b)
