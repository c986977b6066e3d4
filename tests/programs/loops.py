"""Programs around training: averages of weights, two optimizers, buffers, precision."""

# Written as a user would, who annotates little.
# mypy: disable-error-code="has-type, import-not-found, index, list-item, str-format, type-arg, var-annotated"

from __future__ import annotations

from collections import defaultdict
from typing import Any

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn

from .playing import Wrap, changed, ones, program, ramp, times, tried


@program
def ema_model_swap(wrap: Wrap) -> Any:
    m = nn.Linear(2, 1)
    for p in m.parameters():
        nn.init.constant_(p, 0.5)

    class E:
        def __init__(s) -> None:
            s.shadow = {k: p.detach().clone() for k, p in m.named_parameters()}
            s.backup = {}

        def update(s) -> None:
            for k, p in m.named_parameters():
                s.shadow[k] = 0.9 * s.shadow[k] + 0.1 * p.detach()

        def apply(s) -> None:
            for k, p in m.named_parameters():
                s.backup[k] = p.data
                p.data = s.shadow[k]

        def restore(s) -> None:
            for k, p in m.named_parameters():
                p.data = s.backup[k]
            s.backup = {}

    e = E()
    opt = ad.optim.SGD(m.parameters(), lr=0.1)

    def f(x: Any) -> Any:
        opt.zero_grad()
        m(x).sum().backward()
        opt.step()
        e.update()
        e.apply()
        y = m(x).detach()
        e.restore()
        return y

    return (times(wrap(f), ramp(2, 2)), list(m.parameters()), e.shadow)


@program
def lr_finder(wrap: Wrap) -> Any:
    m = nn.Linear(2, 1)
    for p in m.parameters():
        nn.init.constant_(p, 0.5)
    opt = ad.optim.SGD(m.parameters(), lr=0.001)
    hist = []

    def f(x: Any) -> Any:
        opt.zero_grad()
        level = m(x).pow(2).mean()
        level.backward()
        opt.step()
        for g in opt.param_groups:
            g["lr"] *= 2
        hist.append((opt.param_groups[0]["lr"], level.item()))
        return level

    return (times(wrap(f), ramp(2, 2)), hist)


@program
def gan_two_optimizers(wrap: Wrap) -> Any:
    G = nn.Linear(2, 2)
    D = nn.Linear(2, 1)
    for p in [*G.parameters(), *D.parameters()]:
        nn.init.constant_(p, 0.3)
    og = ad.optim.Adam(G.parameters(), lr=0.1)
    od = ad.optim.Adam(D.parameters(), lr=0.1)

    class S:
        i = 0

    def f(x: Any) -> Any:
        if S.i % 2 == 0:
            od.zero_grad()
            level = D(x).mean() - D(G(x).detach()).mean()
            level.backward()
            od.step()
        else:
            for p in D.parameters():
                p.requires_grad_(False)
            og.zero_grad()
            level = -D(G(x)).mean()
            level.backward()
            og.step()
            for p in D.parameters():
                p.requires_grad_(True)
        S.i += 1
        return level.detach()

    return (
        times(wrap(f), ramp(3, 2), n=6),
        [*G.parameters(), *D.parameters()],
        [p.requires_grad for p in D.parameters()],
    )


@program
def gradient_penalty(wrap: Wrap) -> Any:
    D = nn.Linear(2, 1)
    for p in D.parameters():
        nn.init.constant_(p, 0.3)

    def f(x: Any) -> Any:
        x = x.clone().requires_grad_()
        y = D(x).pow(2).sum()
        (g,) = ad.autograd.grad(y, x, create_graph=True)
        p = (g.norm() - 1) ** 2
        p.backward()
        r = [q.grad.clone() for q in D.parameters() if q.grad is not None]
        D.zero_grad()
        return (p, r)

    return times(wrap(f), ramp(3, 2))


@program
def rl_episode_buffers(wrap: Wrap) -> Any:
    logp = []
    rew = []
    w = ones(2).requires_grad_()

    def act(x: Any, r: Any) -> Any:
        level = (w * x).log_softmax(0)[0]
        logp.append(level)
        rew.append(r)
        return level.detach()

    def learn() -> Any:
        R = 0
        ret = []
        for r in reversed(rew):
            R = r + 0.9 * R
            ret.insert(0, R)
        loss = -sum((level * r for level, r in zip(logp, ret, strict=False)))
        loss.backward()
        g = w.grad.clone()
        w.grad = None
        logp.clear()
        rew.clear()
        return (loss.detach(), g)

    a = wrap(act)
    b = wrap(learn)
    out = []
    for _ep in range(2):
        for t in range(3):
            out.append(tried(a, ramp(2) * t, float(t)))  # noqa: PERF401
        out.append(tried(b))
    return (out, logp, rew)


@program
def curriculum_by_epoch(wrap: Wrap) -> Any:

    class S:
        epoch = 0

    def f(x: Any) -> Any:
        n = min(S.epoch + 1, 4)
        S.epoch += 1
        return (x[:n].sum(), n)

    return times(wrap(f), ramp(4), n=6)


@program
def label_smoothing_sched(wrap: Wrap) -> Any:

    class C:
        eps = 0.1

    def f(x: Any, y: Any) -> Any:
        C.eps = max(0.0, C.eps - 0.04)
        return F.cross_entropy(x, y, label_smoothing=C.eps)

    r = wrap(f)
    return ([tried(r, ramp(2, 3), ad.tensor([0, 2])) for _ in range(5)], C.eps)


@program
def moe_router_static(wrap: Wrap) -> Any:
    ex = nn.ModuleList([nn.Linear(2, 2, bias=False) for _ in range(3)])
    for i, e in enumerate(ex):
        nn.init.constant_(e.weight, i + 1.0)
    load = [0] * 3

    class S:
        r = 0

    def f(x: Any) -> Any:
        i = S.r % 3
        S.r += 1
        load[i] += 1
        return ex[i](x)

    return (times(wrap(f), n=7), load)


@program
def beam_sorted(wrap: Wrap) -> Any:
    beams = [(0.0, "")]

    def f(x: Any, scores: Any) -> Any:
        global_ = [(s + v, t + c) for s, t in beams for c, v in scores.items()]
        beams[:] = sorted(global_, reverse=True)[:2]
        return x * beams[0][0]

    r = wrap(f)
    return ([tried(r, ones(2), {"a": 0.1, "b": 0.2 * i}) for i in range(4)], beams)


@program
def tokenizer_vocab_growth(wrap: Wrap) -> Any:
    vocab = defaultdict(lambda: len(vocab))
    emb = ramp(8, 2)

    def f(text: Any) -> Any:
        return emb[[vocab[w] for w in text.split()]].sum(0)

    r = wrap(f)
    return ([tried(r, t) for t in ("a b", "b c", "a c d", "a b")], dict(vocab))


@program
def positional_cache_buffer(wrap: Wrap) -> Any:

    class P(nn.Module):
        def __init__(s) -> None:
            super().__init__()
            s.register_buffer("pe", ad.zeros(0, 2), persistent=False)

        def forward(s, x: Any) -> Any:
            n = x.shape[0]
            if s.pe.shape[0] < n:
                s.pe = ad.arange(float(2 * n)).reshape(n, 2)
            return x + s.pe[:n]

    p = P()
    r = wrap(p)
    return ([tried(r, ones(n, 2)) for n in (2, 4, 3, 5, 2)], p.pe)


@program
def stateful_batchnorm_momentum_none(wrap: Wrap) -> Any:
    m = nn.BatchNorm1d(2, momentum=None)
    r = wrap(lambda x: m(x))
    return (
        [tried(r, ramp(4, 2) * k) for k in (1, 2, 3)],
        m.running_mean,
        m.running_var,
        m.num_batches_tracked,
    )


@program
def spectral_like_power_iter(wrap: Wrap) -> Any:
    W = ramp(3, 2) + 1
    u = ones(3) / 3**0.5

    def f(x: Any) -> Any:
        v = F.normalize(W.t() @ u, dim=0)
        u.copy_(F.normalize(W @ v, dim=0))
        return W / (u @ W @ v) @ x

    return (times(wrap(f)), u)


@program
def weight_tying_changes(wrap: Wrap) -> Any:
    a = nn.Linear(2, 2, bias=False)
    b = nn.Linear(2, 2, bias=False)
    nn.init.constant_(a.weight, 1.0)
    nn.init.constant_(b.weight, 2.0)

    def f(x: Any) -> Any:
        return b(a(x))

    return changed(
        wrap,
        f,
        lambda: setattr(b, "weight", a.weight),
        lambda: a.weight.data.mul_(3.0),
        lambda: setattr(b, "weight", nn.Parameter(ones(2, 2))),
    )


@program
def grads_through_tied(wrap: Wrap) -> Any:
    a = nn.Linear(2, 2, bias=False)
    nn.init.constant_(a.weight, 1.0)
    b = nn.Linear(2, 2, bias=False)
    nn.init.constant_(b.weight, 1.0)

    def f(x: Any) -> Any:
        b(a(x)).sum().backward()
        g = a.weight.grad.clone()
        a.zero_grad()
        b.zero_grad()
        return g

    return changed(wrap, f, lambda: setattr(b, "weight", a.weight))


@program
def module_children_iterated(wrap: Wrap) -> Any:
    m = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    for p in m.parameters():
        nn.init.constant_(p, 0.5)

    def f(x: Any) -> Any:
        n = sum(isinstance(c, nn.Linear) for c in m.modules())
        k = [type(c).__name__ for c in m.children()]
        return (m(x) * n, k, sum(p.numel() for p in m.parameters()))

    return changed(
        wrap,
        f,
        lambda: m.append(nn.Identity()),
        lambda: m.pop(-1),
        lambda: m.__setitem__(1, nn.Tanh()),
    )


@program
def module_apply_and_to(wrap: Wrap) -> Any:
    m = nn.Linear(2, 2)
    for p in m.parameters():
        nn.init.constant_(p, 0.5)
    r = wrap(lambda x: m(x))
    o = [tried(r, ones(2))]
    m.double()
    o.append(tried(r, ones(2).double()))
    m.float()
    o.append(tried(r, ones(2)))
    m.half()
    o.append(tried(r, ones(2).half()))
    return o


@program
def custom_autograd_function_state(wrap: Wrap) -> Any:

    class S:
        k = 2.0

    class Sq(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            ctx.k = S.k
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * x * ctx.k

    w = ones(2).requires_grad_()

    def f(x: Any) -> Any:
        Sq.apply(w * x).sum().backward()
        g = w.grad
        w.grad = None
        return g

    return changed(wrap, f, lambda: setattr(S, "k", 5.0))


@program
def checkpoint_with_state(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()
    cnt = [0]

    def blk(x: Any) -> Any:
        cnt[0] += 1
        return (w * x).sin()

    def f(x: Any) -> Any:
        y = ad.utils.checkpoint.checkpoint(blk, x, use_reentrant=False).sum()
        y.backward()
        g = w.grad
        w.grad = None
        return g

    return (times(wrap(f), n=3), cnt)


@program
def autocast_flag(wrap: Wrap) -> Any:

    class C:
        on = False

    m = nn.Linear(2, 2)
    for p in m.parameters():
        nn.init.constant_(p, 0.5)

    def f(x: Any) -> Any:
        with ad.autocast("cpu", dtype=ad.bfloat16, enabled=C.on):
            return m(x)

    return changed(wrap, f, lambda: setattr(C, "on", True), lambda: setattr(C, "on", False))


@program
def inference_mode_results(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()

    def f(x: Any) -> Any:
        with ad.inference_mode():
            y = w * x
        return (y, y.is_inference(), y.requires_grad)

    return times(wrap(f))


@program
def result_mutated_by_caller(wrap: Wrap) -> Any:
    s = ones(2)

    def f(x: Any) -> Any:
        return (s, s[:1], x)

    r = wrap(f)
    x = ones(2)
    o = r(x)
    o[0].add_(1)
    o[1].mul_(5)
    o2 = r(x)
    o2[2].add_(3)
    return (r(x), s, x)
