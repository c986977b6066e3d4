"""Programs whose sizes change from call to call."""

from __future__ import annotations

import math
import types
from typing import Any, NamedTuple

import adjoint as ad
from adjoint import nn

from .playing import Wrap, ones, program, ramp, tried

LENGTHS = (4, 6, 6, 3, 8, 1, 5, 4, 0)


def over(wrap: Wrap, fn: Any, *lengths: int, wide: int = 2) -> Any:
    """The function for batches of several sizes: sizes static, then dynamic."""
    out = []
    for options in ({}, {"dynamic": True}):
        run = wrap(fn, **options)
        out += [tried(run, ramp(n, wide)) for n in lengths or LENGTHS]
    return out


@program
def last_batch(wrap: Wrap) -> Any:
    net = nn.Linear(2, 1)
    with ad.no_grad():
        net.weight.fill_(0.5), net.bias.fill_(0.25)
    return over(wrap, lambda x: net(x).square().mean(), 4, 4, 4, 3, 4, 2)


@program
def arithmetic(wrap: Wrap) -> Any:
    return over(
        wrap,
        lambda x: x.sum() / max(x.shape[0], 1) + x.shape[0] * 2 - x.shape[0] // 3 + x.size(0) % 2,
    )


@program
def loops(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        total = x.new_zeros(2)
        for i in range(x.shape[0]):
            total = total + x[i] * i
        return total

    return over(wrap, f)


@program
def iterated(wrap: Wrap) -> Any:
    return over(wrap, lambda x: [row * 2 for row in x] + [len(x)])


@program
def enumerated_and_unbound(wrap: Wrap) -> Any:
    return over(wrap, lambda x: sum(i * row.sum() for i, row in enumerate(x.unbind(0))) + x.numel())


@program
def branches(wrap: Wrap) -> Any:
    return over(wrap, lambda x: x * 2 if x.shape[0] > 4 else x.sum(0) if len(x) == 3 else x - 1)


@program
def shapes_made(wrap: Wrap) -> Any:
    return over(
        wrap,
        lambda x: (
            x + ad.arange(x.shape[0])[:, None], ad.zeros(x.shape[0], 2), x.new_ones(len(x) + 1),
            x.reshape(x.shape[0] * 2), x.view(-1, 1), ad.eye(x.size(0)),
        ),
    )  # fmt: skip


@program
def padded(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        n = 8 - x.shape[0] % 8
        return nn.functional.pad(x, (0, 0, 0, n)).reshape(-1, 8).sum(-1)

    return over(wrap, f)


@program
def halves(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        half = x.shape[0] // 2
        a, b = x[:half], x[half : 2 * half]
        return a - b, x[::2], x[-1:], ad.cat([b, a])

    return over(wrap, f)


@program
def chunks(wrap: Wrap) -> Any:
    return over(
        wrap, lambda x: [c.sum() for c in x.split(2)] + [c * 1 for c in x.chunk(2)], 4, 6, 3, 5, 4
    )


@program
def text_and_keys(wrap: Wrap) -> Any:
    table = {4: 2.0, 6: 3.0}
    return over(
        wrap,
        lambda x: x * table.get(x.shape[0], 1.0) + len(f"{x.shape}") + len(str(x.shape[0])) * 10,
    )


@program
def shapes_returned(wrap: Wrap) -> Any:
    return over(wrap, lambda x: (tuple(x.shape), x.shape[0], x.numel(), x.shape, len(x), x.ndim))


@program
def shapes_compared(wrap: Wrap) -> Any:
    return over(
        wrap,
        lambda x: x * (x.shape == (4, 2)) + (x.shape[0] in (3, 5)) + (x.shape[0] == x.shape[1]),
    )


@program
def mathematics(wrap: Wrap) -> Any:
    return over(
        wrap,
        lambda x: x * math.sqrt(x.shape[0]) + math.ceil(x.shape[0] / 2) + int(x.shape[0] * 0.5),
    )


@program
def size_kept_in_state(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(seen=0, most=0, sizes=[])

    def f(x: Any) -> Any:
        s.seen += x.shape[0]
        s.most = max(s.most, x.shape[0])
        s.sizes.append(len(x))
        return x * s.most

    return over(wrap, f), vars(s)


@program
def average_over_all_seen(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(total=ad.zeros(2), count=0)

    def f(x: Any) -> Any:
        s.total = s.total + x.sum(0)
        s.count += x.shape[0]
        return s.total / s.count

    return over(wrap, f, 4, 6, 3, 5, 4), s.total, s.count


@program
def two_sizes(wrap: Wrap) -> Any:
    out = []
    for options in ({}, {"dynamic": True}):
        run = wrap(lambda x, y: x @ y + x.shape[0] * y.shape[1], **options)
        out += [run(ramp(a, 3), ramp(3, b)) for a, b in ((2, 2), (4, 2), (4, 5), (5, 5), (2, 7))]
    return out


@program
def mask_of_lengths(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        mask = ad.ones(x.shape[0], x.shape[0]).tril()
        return (mask.masked_fill(mask == 0, -1e4).softmax(-1) @ x).sum(-1)

    return over(wrap, f, 4, 6, 3, 5, 4)


@program
def positions_sliced(wrap: Wrap) -> Any:
    table = ramp(10, 2)
    return over(wrap, lambda x: x + table[: x.shape[0]], 4, 6, 3, 10, 4)


@program
def ranks(wrap: Wrap) -> Any:
    run = wrap(lambda x: x.sum(tuple(range(1, x.ndim))) * x.dim())
    return [run(ramp(*s)) for s in ((2,), (2, 3), (2, 3, 2), (2, 3))]


@program
def gradients(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()
    out = []
    for options in ({}, {"dynamic": True}):
        run = wrap(lambda x: (x * w).sum() / x.shape[0], **options)
        for n in (4, 6, 3, 4):
            w.grad = None
            run(ramp(n, 2)).backward()
            out.append(w.grad + 0)
    return out


@program
def kept_lengths(wrap: Wrap) -> Any:
    lengths = [3, 2]
    run = wrap(lambda x: [part.sum() for part in x.split(lengths)])
    out = [run(ramp(5))]
    lengths[:] = [1, 4]
    out.append(run(ramp(5)))
    lengths.append(2)
    return [*out, tried(run, ramp(7))]


@program
def marked(wrap: Wrap) -> Any:
    run = wrap(lambda x: x.sum(0) * len(x))
    out = []
    for n in (3, 5, 9):
        x = ramp(n, 2)
        ad.mark_dynamic(x, 0)
        out.append(run(x))
    return out


@program
def empty_batches(wrap: Wrap) -> Any:
    return over(wrap, lambda x: x.sum() if x.shape[0] else ad.tensor(-1.0), 0, 2, 0, 1)


@program
def size_as_default(wrap: Wrap) -> Any:
    def helper(x: Any, n: Any = None) -> Any:
        n = n or x.shape[0]
        return x[:n].sum(0) / n

    return over(wrap, lambda x: helper(x) + helper(x, 1), 4, 6, 3)


@program
def leaves_and_results_given(wrap: Wrap) -> Any:
    run = wrap(lambda x: (x * 2, x.is_leaf), dynamic=True)
    leaf = ramp(3, 2).requires_grad_()
    return [run(x) for x in (leaf, leaf * 1, leaf.detach(), ramp(4, 2), leaf + 1)]


@program
def layer_given_its_sizes_by_a_batch(wrap: Wrap) -> Any:
    ad.manual_seed(0)
    layer: Any = nn.LazyLinear(2)
    calls = [0]

    def f(x: Any) -> Any:
        calls[0] += 1
        return layer(x)

    run = wrap(f, dynamic=True)
    out = [run(ramp(size, 3)).shape for size in (2, 4, 5)]
    return out, layer.in_features, type(layer).__name__, calls


@program
def identities_of_any_size(wrap: Wrap) -> Any:
    seen: dict[int, int] = {}

    def f(x: Any) -> Any:
        seen[id(x)] = seen.get(id(x), 0) + 1
        return x * seen[id(x)]

    run, a, b = wrap(f, dynamic=True), ones(3), ones(4)
    return [tried(run, x) for x in (a, a, b, a, b)], list(seen.values())


class Pair(NamedTuple):
    size: Any
    other: int


@program
def keys_made_of_sizes(wrap: Wrap) -> Any:
    """A size in a tuple of whatever class is one number as a key."""
    makers: tuple[Any, ...] = (
        lambda x: x.shape,
        lambda x: (x.shape, x.dtype),
        lambda x: Pair(x.shape[0], 1),
        lambda x: (Pair(x.shape[0], 1), 2),
        lambda x: frozenset({x.shape[0]}),
    )
    out = []
    for key_of in makers:
        seen: dict[Any, int] = {}

        def f(x: Any, key_of: Any = key_of, seen: Any = seen) -> Any:
            key = key_of(x)
            if key not in seen:
                seen[key] = len(seen)
            return x * seen[key]

        run = wrap(f, dynamic=True)
        out.append(([run(ramp(n)) for n in (2, 3, 2, 4)], list(seen.values())))
    return out
