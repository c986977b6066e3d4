"""Programs that keep, return or print values of tensors: `item`, `tolist`, `numpy`, text."""

# Written as a user would, who annotates little.
# mypy: disable-error-code="has-type, import-not-found, index, list-item, str-format, type-arg, var-annotated"

from __future__ import annotations

import contextlib
import io
import logging
from collections import defaultdict
from typing import Any

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn

from .playing import Wrap, ones, program, ramp, times, tried


@program
def item_in_running_total(wrap: Wrap) -> Any:

    class S:
        total = 0.0
        n = 0

    def f(x: Any) -> Any:
        level = (x * x).mean()
        S.total += level.item() * x.shape[0]
        S.n += x.shape[0]
        return level

    r = wrap(f)
    return ([tried(r, ramp(n)) for n in (2, 3, 2, 4)], S.total, S.n)


@program
def item_returned_dict(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        level = (x * x).mean()
        return {
            "loss": level.item(),
            "max": x.max().item(),
            "n": x.argmax().item(),
            "flag": (x > 1).any().item(),
        }

    r = wrap(f)
    return [tried(r, ramp(n)) for n in (2, 3, 2, 4)]


@program
def item_before_inplace(wrap: Wrap) -> Any:
    s = ones(2)

    def f(x: Any) -> Any:
        a = s.sum().item()
        s.add_(x)
        b = s.sum().item()
        return (b - a, a, [s.tolist()])

    return (times(wrap(f)), s)


@program
def float_of_tensor_logged(wrap: Wrap) -> Any:
    log = []

    def f(x: Any) -> Any:
        log.append((float(x.sum()), int(x.argmax()), round(float(x.mean()), 2), -float(x.min())))
        return x * 2

    r = wrap(f)
    return ([tried(r, ramp(n)) for n in (2, 3, 2, 4)], log)


@program
def fstring_of_loss(wrap: Wrap) -> Any:
    log = []

    def f(x: Any, step: Any) -> Any:
        level = x.mean()
        log.append(f"step {step}: loss {level.item():.3f} {level:.2f} {level.item()!s}!")
        print(f"{level.item():8.4f}", level.item(), end=";")
        return level

    r = wrap(f)
    b = io.StringIO()
    with contextlib.redirect_stdout(b):
        o = [tried(r, ramp(n), i) for i, n in enumerate((2, 3, 2, 4))]
    return (o, log, b.getvalue())


@program
def item_branch(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        if x.sum().item() > 2:
            return x * 2
        return x

    return times(wrap(f))


@program
def item_times_tensor(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        return x * x.sum().item()

    r = wrap(f)
    return [tried(r, ramp(n)) for n in (2, 3, 2, 4)]


@program
def item_compare_best(wrap: Wrap) -> Any:

    class S:
        best = float("inf")

    def f(x: Any) -> Any:
        v = x.sum().item()
        S.best = min(S.best, v)
        return x

    return (times(wrap(f)), S.best)


@program
def numpy_result_shares(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        y = x * 2
        a = y.numpy()
        y.add_(1)
        return (y, a)

    r = wrap(f)
    o = r(ones(2))
    o = r(ones(2))
    o[1][0] = 9
    return o


@program
def numpy_of_arg_shares(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        a = x.numpy()
        x.add_(1)
        return a

    r = wrap(f)
    x = ones(2)
    r(x)
    a = r(x)
    a[0] = 7
    return (a, x)


@program
def numpy_appended(wrap: Wrap) -> Any:
    log = []

    def f(x: Any) -> Any:
        log.append((x * 2).detach().numpy())
        return x

    r = wrap(f)
    for i in range(3):
        r(ones(2) * i)
    return log


@program
def numpy_requires_grad_raises(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()

    def f(x: Any) -> Any:
        return (w * x).numpy()

    return times(wrap(f), n=2)


@program
def metrics_dict_update(wrap: Wrap) -> Any:
    hist = defaultdict(list)
    m = nn.Linear(2, 1)
    for p in m.parameters():
        nn.init.constant_(p, 0.5)
    opt = ad.optim.SGD(m.parameters(), lr=0.1)

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        level = F.mse_loss(m(x), y)
        level.backward()
        opt.step()
        for k, v in {"loss": level, "norm": m.weight.grad.norm()}.items():
            hist[k].append(v.item())
        return sum(hist["loss"]) / len(hist["loss"])

    r = wrap(step)
    return ([tried(r, ramp(3, 2), ones(3, 1)) for _ in range(3)], dict(hist))


@program
def average_meter(wrap: Wrap) -> Any:

    class Meter:
        def __init__(s) -> None:
            s.sum = 0.0
            s.count = 0

        def update(s, v: Any, n: Any = 1) -> None:
            s.sum += v * n
            s.count += n

        @property
        def avg(s) -> Any:
            return s.sum / s.count

    m = Meter()

    def f(x: Any) -> Any:
        m.update(x.mean().item(), len(x))
        return x

    r = wrap(f)
    for n in (2, 3, 2, 4):
        r(ramp(n))
    return (m.avg, m.count)


@program
def item_dynamic(wrap: Wrap) -> Any:

    class S:
        t = 0.0

    def f(x: Any) -> Any:
        S.t += x.sum().item() * len(x)
        return x.mean().item() / 4

    r = wrap(f, dynamic=True)
    return ([tried(r, ramp(n)) for n in (2, 3, 2, 4, 7)], S.t)


@program
def correct_count(wrap: Wrap) -> Any:

    class S:
        right = 0
        seen = 0

    def f(p: Any, y: Any) -> Any:
        S.right += (p.argmax(1) == y).sum().item()
        S.seen += len(y)
        return S.right

    r = wrap(f)
    return ([tried(r, ramp(3, 2), ad.tensor([1, 0, 1])) for _ in range(3)], S.right / S.seen)


@program
def item_then_raise(wrap: Wrap) -> Any:
    log = []

    def f(x: Any, bad: Any) -> Any:
        log.append(x.sum().item())
        if bad:
            raise ValueError(f"bad {x.shape}")
        return x

    r = wrap(f)
    return ([tried(r, ones(2), b) for b in (0, 1, 0)], log)


@program
def tensor_isnan_assert(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        assert not x.isnan().any()
        return x

    return times(wrap(f))


@program
def print_then_write(wrap: Wrap) -> Any:
    s = ones(2)

    def f(x: Any) -> Any:
        print(s)
        s.add_(1)
        print(s, x.sum(), (x * 2)[0])
        return x

    b = io.StringIO()
    with contextlib.redirect_stdout(b):
        o = times(wrap(f), n=3)
    return (o, b.getvalue())


@program
def print_on_tape(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()

    def f(x: Any) -> Any:
        y = (w * x).sum()
        print(y, w)
        print(f"{y}", str(y))
        return y

    b = io.StringIO()
    with contextlib.redirect_stdout(b):
        o = times(wrap(f), n=3)
    return (o, b.getvalue())


@program
def log_tensor(wrap: Wrap) -> Any:
    log = logging.getLogger("t9")
    s = io.StringIO()
    h = logging.StreamHandler(s)
    log.addHandler(h)
    log.setLevel(10)
    log.propagate = False

    def f(x: Any) -> Any:
        log.info("loss %s", x.sum())
        log.warning("item %.3f", x.sum().item())
        log.info(f"{x.mean().item():.2f}")
        return x

    o = times(wrap(f), n=3)
    log.removeHandler(h)
    return (o, s.getvalue())
