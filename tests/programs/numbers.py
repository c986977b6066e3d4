"""Programs whose numbers change class, outgrow a word, raise, or cannot be written."""

# Written as a user would, who annotates little.
# mypy: disable-error-code="index, var-annotated"

from __future__ import annotations

import random
import types
from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint import nn, optim
from adjoint.nn import functional as F

from .playing import Wrap, ones, program, ramp, tried


def _values() -> list[Any]:
    return [ramp(3), ramp(3) - 1, ad.tensor([float("nan"), 1.0, 2.0]), ramp(3) + 0.3]


def _with_rates(wrap: Wrap, read: Any, rates: tuple[Any, ...]) -> Any:
    """Train with one rate after another; what is read of the optimizer, and what was trained."""
    ad.manual_seed(0)
    model = nn.Linear(3, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        (model(x) ** 2).mean().backward()
        optimizer.step()
        return read(optimizer)

    run = wrap(step)
    out = []
    for rate in rates:
        optimizer.param_groups[0]["lr"] = rate
        out += [tried(run, ramp(3)), model.weight.detach().tolist()]
        out += [optimizer.state[model.weight]["momentum_buffer"].tolist()]
    return out


@program
def rate_keeps_its_class(wrap: Wrap) -> Any:
    return _with_rates(wrap, lambda o: o.param_groups[0]["lr"], (0.1, 0.01, 1, 2, 0.5, 10**20))


@program
def rates_in_state_dict(wrap: Wrap) -> Any:
    return _with_rates(wrap, lambda o: o.state_dict()["param_groups"], (0.1, 0.01, 1, 2))


@program
def quotient_by_rate_of_zero(wrap: Wrap) -> Any:
    return _with_rates(wrap, lambda o: 1 / o.param_groups[0]["lr"], (0.1, 0.2, 0.0, 0.0, 2, 0, 0))


@program
def betas_keep_their_classes(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()
    optimizer = optim.Adam([w], lr=0.1)

    def step(x: Any) -> Any:
        w.grad = x
        optimizer.step()
        return optimizer.param_groups[0]["betas"]

    run = wrap(step)
    out = []
    for betas in ((0.9, 0.9), (0.5, 0.9), (0, 0.9), (0, 0.5), [0.5, 0.9]):
        optimizer.param_groups[0]["betas"] = betas
        out += [tried(run, ones(2)), tried(run, ones(2)), w.tolist()]
    return out


@program
def whole_numbers_beyond_a_word(wrap: Wrap) -> Any:
    S = {"k": 2}
    run = wrap(lambda x: (x * S["k"], x + S["k"]))
    out = []
    for k in (2, 3, 4, 2**62, 2**63, 10**20, -(10**20), 5, 10**30):
        S["k"] = k
        try:
            out.append([[float(v) / 2**70 for v in part] for part in run(ones(2))])
        except OverflowError:
            out.append("beyond")
    return out


@program
def state_before_what_raises(wrap: Wrap) -> Any:
    S = {"k": 1, "n": 0.0}
    total = ones(2)

    def f(x: Any) -> Any:
        total.add_(x)
        S["n"] = 1 / S["k"]
        return x * 2

    run = wrap(f)
    out = []
    for k in (1, 2, 4, 0, 0, 5):
        S["k"] = k
        out += [tried(run, ones(2)), total.tolist(), dict(S)]
    return out


@program
def whole_number_of_nan(wrap: Wrap) -> Any:
    seen = [0]

    def f(x: Any) -> Any:
        said = "%d" % x.sum().item()  # noqa: UP031
        seen[0] += 1
        x.add_(1)
        return said

    run = wrap(f)
    given = _values()
    return [tried(run, x) for x in given], [x.nan_to_num(7.0) for x in given], seen


@program
def whole_number_of_nan_caught(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        try:
            return "%d" % x.sum().item()  # noqa: UP031
        except ValueError:
            return "none"

    run = wrap(f)
    return [tried(run, x) for x in _values()]


@program
def letter_of_value(wrap: Wrap) -> Any:
    run = wrap(lambda x: f"{x.sum().long().item():c}")
    return [tried(run, x) for x in (ones(3) * 30, ones(3) * 20, -ones(3))]


@program
def list_of_values_as_text(wrap: Wrap) -> Any:
    run = wrap(lambda x: f"{x.tolist()} { ({'a': x.sum().item()}) }")
    return [tried(run, x) for x in _values()]


@program
def tensor_of_values(wrap: Wrap) -> Any:
    run = wrap(lambda x: ad.tensor([x.sum().item(), x[1].item()]))
    return [tried(run, x) for x in (ramp(3), ones(3))]


@program
def large_whole_value_times_tensor(wrap: Wrap) -> Any:
    run = wrap(lambda i: ones(2) * float(i.sum()) - 2.0**60)
    return [tried(run, ad.tensor([2**60 + 2**36 + k])) for k in (0, 1, -1)]


@program
def generator_left_in_a_block(wrap: Wrap) -> Any:
    log = []

    def parts(x: Any) -> Any:
        with ad.no_grad():
            try:
                for k in range(5):
                    yield x * k
            finally:
                log.append("end")

    def f(x: Any) -> Any:
        out = []
        for k, y in enumerate(parts(x)):
            out.append(y)
            if k == 2:
                break
        return out, ad.is_grad_enabled(), len(log)

    run = wrap(f)
    return [(tried(run, ones(2)), list(log), ad.is_grad_enabled()) for _ in range(3)]


@program
def generator_left_in_two_iterators(wrap: Wrap) -> Any:
    log = []

    def parts(x: Any) -> Any:
        try:
            yield x
            yield x * 2
        finally:
            log.append("end")

    def f(x: Any) -> Any:
        for _, (y, _) in enumerate(zip(parts(x), parts(x), strict=True)):
            return y, len(log)
        return None

    run = wrap(f)
    return [(tried(run, ones(2)), list(log)) for _ in range(3)]


@program
def generator_returned(wrap: Wrap) -> Any:
    run = wrap(lambda x: (y * 2 for y in [x, x]))
    return [tried(lambda: list(run(ones(2)))) for _ in range(2)]


# What is done with a matrix and pictures, as a whole number says.
STEERED: tuple[Callable[[Any, Any, int], Any], ...] = (
    lambda x, c, n: x.flip(n),
    lambda x, c, n: x.flip((0, n)) if n else x,
    lambda x, c, n: x.mean((n,)),
    lambda x, c, n: x.max(n),
    lambda x, c, n: x.median(n),
    lambda x, c, n: x.kthvalue(1, n),
    lambda x, c, n: x.quantile(0.5, n),
    lambda x, c, n: x.logsumexp(n),
    lambda x, c, n: x.unsqueeze(0).squeeze(n),
    lambda x, c, n: c.movedim(n, -1),
    lambda x, c, n: ad.diag_embed(x, n),
    lambda x, c, n: F.pad(x, (n, 0)),
    lambda x, c, n: F.conv2d(c, c[:, :, :2, :2], stride=n + 1, padding=n),
    lambda x, c, n: F.max_pool2d(c, n + 1),
    lambda x, c, n: F.avg_pool2d(c, 2, stride=n + 1),
    lambda x, c, n: F.interpolate(c, size=(n + 2, n + 3), mode="bilinear"),
    lambda x, c, n: ad.vmap(ad.sum, in_dims=n)(x),
    lambda x, c, n: ad.vmap(ad.sin, out_dims=n)(x),
    lambda x, c, n: ad.func.grad(lambda a, b: (a * b * b).sum(), argnums=n)(x[0], x[1]),
)


@program
def whole_numbers_that_say_what_is_done(wrap: Wrap) -> Any:
    setting = types.SimpleNamespace(n=0)
    out = []
    for act in STEERED:
        run = wrap(lambda x, c, act=act: act(x, c, setting.n))
        for setting.n in (0, 1, 0):
            out.append(tried(run, ramp(2, 3), ramp(1, 2, 4, 4)))
    return out


@program
def sizes_drawn_and_of_layers(wrap: Wrap) -> Any:
    pool = nn.MaxPool2d(2)
    run = wrap(lambda x: pool(x).flip(random.randint(2, 3)))
    random.seed(3)
    out = [tried(run, ramp(1, 1, 6, 6)) for _ in range(4)]
    pool.kernel_size = 3
    return [*out, *[tried(run, ramp(1, 1, 6, 6)) for _ in range(3)], random.random()]
