"""Programs that train: flags of gradients, optimizers, modules that change, random draws."""

# Written as a user would, who annotates little.
# mypy: disable-error-code="has-type, import-not-found, index, list-item, str-format, type-arg, var-annotated"

from __future__ import annotations

import copy
import random
from typing import Any

import numpy as np

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn

from .playing import Wrap, changed, ones, program, ramp, times, tried


@program
def replay_buffer_sample(wrap: Wrap) -> Any:
    buf = []

    def f(x: Any) -> Any:
        buf.append(x.clone())
        return random.choice(buf) * 2

    random.seed(1)
    r = wrap(f)
    return ([tried(r, ones(2) * k) for k in range(6)], len(buf))


@program
def kv_cache_cat(wrap: Wrap) -> Any:
    cache = {}

    def f(x: Any) -> Any:
        k = cache.get("k")
        k = x if k is None else ad.cat([k, x], 0)
        cache["k"] = k
        return k.sum(0)

    r = wrap(f)
    return ([tried(r, ones(1, 2) * i) for i in range(5)], cache)


@program
def dynamic_batch_mask(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        n = x.shape[0]
        m = ad.arange(n) % 2 == 0
        return ((x * m[:, None]).sum(0) / max(1, n // 2), n)

    r = wrap(f)
    return [tried(r, ramp(n, 2)) for n in (2, 3, 4, 5, 1, 2)]


@program
def dynamic_true_branches(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        n = x.shape[0]
        if n % 2:
            x = x[:-1]
        return x.reshape(2, -1).sum(0) if n > 1 else x.sum()

    r = wrap(f, dynamic=True)
    return [tried(r, ramp(n)) for n in (4, 5, 6, 7, 8, 1, 2, 3)]


@program
def boolean_mask_select(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        return x[x > 1].sum()

    r = wrap(f)
    return [tried(r, ramp(n)) for n in (4, 5)]


@program
def nonzero_data_dependent(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        return ad.nonzero(x).shape[0] * x

    return times(wrap(f), ramp(3))


@program
def branch_on_value(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        if x.sum() > 2:
            return x * 2
        return x * 3

    r = wrap(f)
    return [tried(r, ones(2) * k) for k in (1, 2, 3)]


@program
def while_on_value(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        while x.max() < 10:
            x = x * 2
        return x

    r = wrap(f)
    return [tried(r, ones(2) * k) for k in (1, 2, 3)]


@program
def params_flag_freeze(wrap: Wrap) -> Any:
    m = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    for p in m.parameters():
        nn.init.constant_(p, 0.5)

    def f(x: Any) -> Any:
        m(x).sum().backward()
        out = [None if p.grad is None else p.grad.clone() for p in m.parameters()]
        m.zero_grad()
        return out

    return changed(
        wrap, f, lambda: m[0].requires_grad_(False), lambda: m[0].requires_grad_(True), x=ramp(2, 2)
    )


@program
def grad_none_vs_zero(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()

    def f(x: Any) -> Any:
        had = w.grad is not None
        (w * x).sum().backward()
        return (had, w.grad)

    r = wrap(f)
    o = [r(ones(2))]
    o.append(r(ones(2)))
    w.grad = None
    o.append(r(ones(2)))
    w.grad = ad.zeros(2)
    o.append(r(ones(2)))
    return o


@program
def clip_grad_value_returned(wrap: Wrap) -> Any:
    m = nn.Linear(2, 1)
    for p in m.parameters():
        nn.init.constant_(p, 0.5)
    opt = ad.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)

    def f(x: Any) -> Any:
        opt.zero_grad()
        level = m(x).pow(2).sum()
        level.backward()
        n = nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        opt.step()
        return (level, n)

    return (times(wrap(f), ramp(2, 2)), list(m.parameters()))


@program
def param_groups_changed(wrap: Wrap) -> Any:
    m = nn.Linear(2, 1)
    for p in m.parameters():
        nn.init.constant_(p, 0.5)
    opt = ad.optim.AdamW(
        [{"params": [m.weight], "lr": 0.1}, {"params": [m.bias], "lr": 0.2, "weight_decay": 0.0}]
    )

    def f(x: Any) -> Any:
        opt.zero_grad()
        m(x).pow(2).sum().backward()
        opt.step()
        return m.weight.clone()

    def lr() -> None:
        for g in opt.param_groups:
            g["lr"] *= 0.5

    return (
        changed(
            wrap,
            f,
            lr,
            lambda: opt.param_groups[0].update(weight_decay=0.5),
            lambda: opt.param_groups[1].update(betas=(0.5, 0.5)),
            x=ramp(2, 2),
        ),
        list(m.parameters()),
    )


@program
def scheduler_inside_and_outside(wrap: Wrap) -> Any:
    m = nn.Linear(2, 1)
    for p in m.parameters():
        nn.init.constant_(p, 0.5)
    opt = ad.optim.SGD(m.parameters(), lr=0.1)
    sch = ad.optim.lr_scheduler.StepLR(opt, 2, 0.5)

    def f(x: Any) -> Any:
        opt.zero_grad()
        level = m(x).pow(2).sum()
        level.backward()
        opt.step()
        sch.step()
        return (level, opt.param_groups[0]["lr"])

    return (times(wrap(f), ramp(2, 2), n=6), list(m.parameters()))


@program
def optimizer_state_read(wrap: Wrap) -> Any:
    m = nn.Linear(2, 1)
    for p in m.parameters():
        nn.init.constant_(p, 0.5)
    opt = ad.optim.Adam(m.parameters(), lr=0.1)

    def f(x: Any) -> Any:
        opt.zero_grad()
        m(x).pow(2).sum().backward()
        opt.step()
        s = opt.state[m.weight]
        return (s["exp_avg"].clone(), s["step"], len(opt.state))

    return times(wrap(f), ramp(2, 2))


@program
def own_optimizer(wrap: Wrap) -> Any:

    class Lion(ad.optim.Optimizer):
        def __init__(s, ps: Any, lr: Any = 0.1) -> None:
            super().__init__(ps, {"lr": lr})

        @ad.no_grad()
        def step(s, closure: Any = None) -> None:
            for g in s.param_groups:
                for p in g["params"]:
                    if p.grad is None:
                        continue
                    st = s.state[p]
                    if not st:
                        st["m"] = ad.zeros_like(p)
                        st["n"] = 0
                    st["n"] += 1
                    p.add_((st["m"] * 0.9 + p.grad * 0.1).sign(), alpha=-g["lr"])
                    st["m"].lerp_(p.grad, 0.1)

    m = nn.Linear(2, 1)
    for p in m.parameters():
        nn.init.constant_(p, 0.5)
    opt = Lion(m.parameters())

    def f(x: Any) -> Any:
        opt.zero_grad()
        m(x).pow(2).sum().backward()
        opt.step()
        return (opt.state[m.bias]["n"], m.weight.clone())

    return changed(wrap, f, lambda: opt.param_groups[0].update(lr=0.01), x=ramp(2, 2))


@program
def grad_scaler_loop(wrap: Wrap) -> Any:
    m = nn.Linear(2, 1)
    for p in m.parameters():
        nn.init.constant_(p, 0.5)
    opt = ad.optim.SGD(m.parameters(), lr=0.1)
    sc = ad.amp.GradScaler("cpu", init_scale=4.0)

    def f(x: Any) -> Any:
        opt.zero_grad()
        level = m(x).pow(2).sum()
        sc.scale(level).backward()
        sc.step(opt)
        sc.update()
        return (level, sc.get_scale())

    return (times(wrap(f), ramp(2, 2)), list(m.parameters()))


@program
def accumulate_every_n(wrap: Wrap) -> Any:
    m = nn.Linear(2, 1)
    for p in m.parameters():
        nn.init.constant_(p, 0.5)
    opt = ad.optim.SGD(m.parameters(), lr=0.1)

    class T:
        i = 0

    def f(x: Any) -> Any:
        (m(x).pow(2).sum() / 3).backward()
        T.i += 1
        if T.i % 3 == 0:
            opt.step()
            opt.zero_grad(set_to_none=True)
        return m.weight.grad is None

    return (times(wrap(f), ramp(2, 2), n=7), list(m.parameters()), m.weight.grad)


@program
def state_dict_load_between(wrap: Wrap) -> Any:
    m = nn.BatchNorm1d(2)
    sd = copy.deepcopy(m.state_dict())

    def f(x: Any) -> Any:
        return m(x)

    o = changed(
        wrap, f, lambda: m.load_state_dict(sd), lambda: m.eval(), lambda: m.train(), x=ramp(4, 2)
    )
    return (o, m.state_dict())


@program
def buffer_registered_between(wrap: Wrap) -> Any:

    class N(nn.Module):
        def forward(s, x: Any) -> Any:
            return x * s.k if "k" in dict(s.named_buffers()) else x

    n = N()
    return changed(
        wrap, n, lambda: n.register_buffer("k", ones(2) * 3), lambda: setattr(n, "k", ones(2) * 4)
    )


@program
def modulelist_append(wrap: Wrap) -> Any:
    ml = nn.ModuleList([nn.Linear(2, 2)])
    for p in ml.parameters():
        nn.init.constant_(p, 0.5)

    def more() -> None:
        ml.append(nn.Linear(2, 2))
        for p in ml[-1].parameters():
            nn.init.constant_(p, 0.25)

    def f(x: Any) -> Any:
        for level in ml:
            x = level(x)
        return x

    return changed(wrap, f, more, lambda: ml.insert(0, nn.Identity()), lambda: ml.__delitem__(1))


@program
def parameter_replaced(wrap: Wrap) -> Any:
    m = nn.Linear(2, 2)
    for p in m.parameters():
        nn.init.constant_(p, 0.5)
    return changed(
        wrap,
        lambda x: m(x),
        lambda: setattr(m, "weight", nn.Parameter(ones(2, 2) * 3)),
        lambda: setattr(m, "bias", None),
    )


@program
def functional_call_with_dict(wrap: Wrap) -> Any:
    m = nn.Linear(2, 2)
    for p in m.parameters():
        nn.init.constant_(p, 0.5)
    ps = {k: v.detach().clone() for k, v in m.named_parameters()}

    def f(x: Any) -> Any:
        g = ad.func.grad(lambda p: ad.func.functional_call(m, p, (x,)).pow(2).sum())(ps)
        for k in ps:  # noqa: PLC0206
            ps[k] = ps[k] - 0.1 * g[k]
        return g

    return (times(wrap(f)), ps)


@program
def vmap_per_sample(wrap: Wrap) -> Any:
    w = ones(2)
    S = {"p": 2}

    def f(x: Any) -> Any:
        return ad.func.vmap(ad.func.grad(lambda a: ((a * w) ** S["p"]).sum()))(x)

    return changed(wrap, f, lambda: S.update(p=3), x=ramp(3, 2))


@program
def dropout_seeded(wrap: Wrap) -> Any:
    d = nn.Dropout(0.5)

    def f(x: Any) -> Any:
        return d(x)

    ad.manual_seed(3)
    return (
        changed(
            wrap,
            f,
            lambda: setattr(d, "p", 0.1),
            lambda: d.eval(),
            lambda: ad.manual_seed(3),
            lambda: d.train(),
            x=ones(8),
        ),
        ad.rand(1),
    )


@program
def rand_own_generator(wrap: Wrap) -> Any:
    g = ad.Generator()
    g.manual_seed(4)

    def f(x: Any) -> Any:
        return (x + ad.randn(2, generator=g), ad.randint(0, 9, (2,), generator=g))

    return (times(wrap(f)), ad.rand(1, generator=g))


@program
def randperm_shuffle(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        return x[ad.randperm(4)]

    ad.manual_seed(1)
    return times(wrap(f), ramp(4))


@program
def bernoulli_stochastic_depth_python(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        return x * 2 if random.random() < 0.5 else x + 1

    random.seed(0)
    return times(wrap(f), n=10)


@program
def rnn_state_detach_loop(wrap: Wrap) -> Any:
    c = nn.RNNCell(2, 2)
    for p in c.parameters():
        nn.init.constant_(p, 0.3)

    class S:
        h = None

    def f(x: Any) -> Any:
        h = ad.zeros(x.shape[0], 2) if S.h is None else S.h.detach()
        for t in range(x.shape[1]):
            h = c(x[:, t], h)
        S.h = h
        level = h.pow(2).sum()
        level.backward()
        g = c.weight_hh.grad.clone()
        c.zero_grad()
        return (level, g)

    r = wrap(f)
    o = [tried(r, ramp(2, 3, 2) * 0.1) for _ in range(3)]
    S.h = None
    return (o, tried(r, ramp(2, 3, 2) * 0.1), S.h)


@program
def embedding_index_cpu_list(wrap: Wrap) -> Any:
    vocab = {"a": 0, "b": 1}
    e = nn.Embedding(4, 2)
    nn.init.constant_(e.weight, 0.5)

    def f(words: Any) -> Any:
        ids = [vocab.setdefault(w, len(vocab)) for w in words]
        return e(ad.tensor(ids)).sum(0) * len(vocab)

    r = wrap(f)
    return ([tried(r, list(w)) for w in ("ab", "ac", "ab", "cb")], vocab)


@program
def expanded_arg_write(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        x[0].add_(1)
        return x * 1

    a = ones(1, 2)
    r = wrap(f)
    return ([tried(r, a.expand(3, 2)) for _ in range(2)], a)


@program
def as_strided_and_set(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        y = ad.as_strided(x, (2, 2), (1, 1))
        return (y * 2, y)

    r = wrap(f)
    a = ramp(4)
    o = [r(a) for _ in range(2)]
    o[1][1].add_(1)
    return (o, a)


@program
def tensor_attr_tags(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        x.tag = getattr(x, "tag", 0) + 1
        y = x * x.tag
        y.origin = "f"
        return (y, y.origin)

    r = wrap(f)
    a = ones(2)
    o = [r(a) for _ in range(3)]
    return (o, a.tag, o[0][0].origin)


@program
def tensor_subclass(wrap: Wrap) -> Any:

    class My(ad.Tensor):
        pass

    def f(x: Any) -> Any:
        return (x * 2, type(x).__name__)

    r = wrap(f)
    return [tried(r, ones(2)), tried(r, ones(2).as_subclass(My)), tried(r, ones(2))]


@program
def dtype_promotions_between(wrap: Wrap) -> Any:

    class S:
        k = 2

    def f(x: Any) -> Any:
        return x * S.k

    r = wrap(f)
    xs = [ad.tensor([1, 2]), ones(2), ad.tensor([1, 2])]
    o = [tried(r, x) for x in xs]
    S.k = 2.5
    return o + [tried(r, x) for x in xs]


@program
def scalar_tensor_vs_number(wrap: Wrap) -> Any:

    class S:
        k = 2.0

    def f(x: Any) -> Any:
        return (x * S.k, x**S.k)

    return changed(
        wrap,
        f,
        lambda: setattr(S, "k", ad.tensor(3.0)),
        lambda: setattr(S, "k", 3),
        lambda: setattr(S, "k", True),
        lambda: setattr(S, "k", np.float64(1.5)),
    )


@program
def memory_format_results(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        return (
            F.relu(x).contiguous(memory_format=ad.channels_last),
            x.to(memory_format=ad.channels_last),
        )

    r = wrap(f)
    return [
        tried(r, ramp(1, 2, 2, 3)),
        tried(r, ramp(1, 2, 2, 3).contiguous(memory_format=ad.channels_last)),
    ]


@program
def strides_of_composites(wrap: Wrap) -> Any:
    fs = [
        F.gelu,
        F.softplus,
        F.silu,
        lambda t: t.softmax(-1),
        lambda t: t.softmax(0),
        lambda t: F.layer_norm(t, t.shape[-1:]),
        lambda t: t.cumsum(0),
        lambda t: t.sum(0, keepdim=True),
        lambda t: t.amax(1),
        lambda t: t.sort(-1)[0],
        lambda t: t.clamp(0, 1),
        lambda t: t + t.t(),
        lambda t: ad.where(t > 0, t, t * 2),
        lambda t: t.flip(0),
        lambda t: t.roll(1, 0),
        lambda t: F.normalize(t),
        lambda t: t.var(0),
        lambda t: F.dropout(t, 0.5, False),
        lambda t: t.std(1, keepdim=True),
        lambda t: F.log_softmax(t, 0),
        lambda t: t.logsumexp(0),
    ]
    out = []
    for g in fs:
        r = wrap(lambda t, g=g: g(t))
        out.append(
            [
                tried(r, a)
                for a in (
                    ramp(3, 3),
                    ramp(3, 3).t(),
                    ramp(6, 3)[::2],
                    ramp(2, 3, 3).transpose(0, 2)[..., 0],
                )
            ]
        )
    return out
