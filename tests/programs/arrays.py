"""Programs that use NumPy inside: functions, arrays of the caller's, arrays drawn, seeds."""

from __future__ import annotations

import array
import random
from typing import Any

import numpy as np

import adjoint as ad

from .playing import Wrap, changed, ones, program, times, tried


def _ramp32() -> Any:
    return np.arange(1.0, 4.0, dtype=np.float32)


@program
def functions_of_an_array(wrap: Wrap) -> Any:
    a = _ramp32()

    def f(x: Any) -> Any:
        made = np.clip(a, 0, 2) + np.where(a > 1, a, 0) + np.stack([a, np.ones_like(a)]).sum(0)
        return x * ad.from_numpy(made.astype(np.float32)), float(np.log(a).sum()), a[1].item()

    return changed(wrap, f, lambda: a.__setitem__(1, 9.0), x=ones(3))


@program
def numbers_of_numpy(wrap: Wrap) -> Any:
    s = {"k": 2}

    def f(x: Any) -> Any:
        scale = np.sqrt(s["k"]) * np.float32(1.5) + np.prod((2, 3)) + np.exp(-0.5)
        return x * scale, int(np.ceil(2.5)), x[np.int64(1)], np.pi > 3

    return changed(wrap, f, lambda: s.update(k=3))


@program
def arrays_made_inside(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        a = np.zeros(3, dtype=np.float32)
        a[1:] = [1.0, 2.0]
        a += np.eye(3, dtype=np.float32)[0]
        view = a[1:]
        view[0] = 5.0
        return x + ad.from_numpy(a), a, view

    first, second, _ = times(wrap(f), ones(3), n=3)
    second[2][0] = 77.0  # shows the array it came with, and no other
    return first, second


@program
def array_written_in_place(wrap: Wrap) -> Any:
    a = np.array([1.0, 2.0])

    def f(x: Any) -> Any:
        nonlocal a
        a += 1
        return x * float(a.sum())

    return times(wrap(f)), a


@program
def array_written_through_a_view(wrap: Wrap) -> Any:
    a = np.array([1.0, 2.0])
    b = a[:1]

    def f(x: Any) -> Any:
        v = a.reshape(-1)
        v[1] = v[1] * 2
        b[0] = b[0] + 1
        tmp = a + 1
        a[:] = tmp
        tmp[0] = 99.0
        a.sort()
        return x * float(a.mean()) + a.max()

    return times(wrap(f)), a


@program
def array_of_python_written(wrap: Wrap) -> Any:
    a = array.array("d", [1.0, 2.0])

    def f(x: Any) -> Any:
        a[0] = a[0] + 1
        return x * a[0] + a[1]

    return changed(wrap, f, lambda: a.__setitem__(1, 5.0)), a.tolist()


@program
def array_that_is_a_tensor_too(wrap: Wrap) -> Any:
    a = _ramp32()

    def f(x: Any) -> Any:
        t = ad.from_numpy(a)
        t.mul_(2)
        return x * t

    return times(wrap(f), ones(3)), a


@program
def arrays_as_arguments(wrap: Wrap) -> Any:
    def f(x: Any, a: Any, *, more: Any) -> Any:
        assert isinstance(a, np.ndarray)
        assert type(a) is np.ndarray
        y = x * ad.from_numpy(a) + ad.as_tensor(a) + ad.tensor(a) + a
        scaled = (np.clip(a, 0, 1) * 2 + a[::-1]).astype(np.float32)
        return y + ad.from_numpy(scaled) + float(more["k"][0]), a.shape, len(a), a.mean()

    run = wrap(f)
    out = []
    for k in range(4):
        a = np.array([k, 2.0], dtype=np.float32)
        out.append(run(ones(2), a, more={"k": [k, np.array([k])[0]]}))
    return out


@program
def arguments_that_decide(wrap: Wrap) -> Any:
    run = wrap(lambda x, a: x * a.mean() if a.sum() > 3 else x - a.max())
    return [run(ones(2), np.array([k, 2.0], dtype=np.float32)) for k in (0, 1, 5, 2, 0)]


@program
def arguments_written(wrap: Wrap) -> Any:
    def f(x: Any, a: Any) -> Any:
        t = ad.from_numpy(a)
        t.add_(x)
        a[0] = 50.0
        return t * 2, a

    run = wrap(f)
    given = [np.zeros(2, dtype=np.float32) for _ in range(2)]
    out = [run(ones(2), given[k % 2]) for k in range(4)]
    return [o[0] for o in out], given, [o[1] is given[k % 2] for k, o in enumerate(out)]


@program
def masks_drawn(wrap: Wrap) -> Any:
    np.random.seed(0)
    g = np.random.default_rng(1)

    def f(x: Any) -> Any:
        mask = np.random.rand(3) > 0.5
        noise = g.normal(0.0, 0.1, size=3).astype(np.float32)
        order = g.permutation(3)
        y = x[ad.from_numpy(order)] * ad.from_numpy(mask.astype(np.float32)) + ad.from_numpy(noise)
        return y, mask, float(mask.sum()), int(g.integers(0, 4))

    return times(wrap(f), ad.arange(3.0)), np.random.rand(), g.random()


@program
def branch_on_drawn_elements(wrap: Wrap) -> Any:
    np.random.seed(3)

    def f(x: Any) -> Any:
        a = np.random.rand(3)
        if a[0] > 0.5:
            return x * 2
        return x * 3 if a.mean() > 0.4 else x * a.max()

    return times(wrap(f), n=8), np.random.rand()


@program
def seeds_inside(wrap: Wrap) -> Any:
    n = [0]

    def f(x: Any) -> Any:
        n[0] += 1
        np.random.seed(n[0])
        random.seed(n[0])
        ad.manual_seed(n[0])
        own, other = random.Random(3), np.random.default_rng(5)
        y = x * random.random() + np.random.rand() + ad.rand(2)
        return y + own.random() + other.random()

    out = times(wrap(f))
    return out, random.random(), np.random.rand(), ad.rand(1)


@program
def seeding_in_the_middle(wrap: Wrap) -> Any:
    ad.manual_seed(5)

    def f(x: Any) -> Any:
        first = ad.rand(2)
        with ad.random.fork_rng():
            ad.manual_seed(3)
            second = ad.rand(2)
        return first, second, ad.rand(2), x

    return times(wrap(f)), ad.rand(1)


@program
def generators_made_cloned_and_asked(wrap: Wrap) -> Any:
    g = ad.Generator().manual_seed(1)

    def f(x: Any) -> Any:
        own = ad.Generator()
        a = ad.rand(2, generator=own) + ad.rand(2, generator=g)
        twin = g.clone_state()
        b = ad.rand(2, generator=twin) + ad.rand(2, generator=g) + ad.rand(2, generator=twin)
        return a, b, g.initial_seed(), g.get_offset(), g.get_state(), x

    out = times(wrap(f))
    g.manual_seed(9)
    return out, times(wrap(f), n=2)


@program
def states_of_generators_put_back(wrap: Wrap) -> Any:
    ad.manual_seed(5)

    def f(x: Any) -> Any:
        state = ad.get_rng_state()
        a = ad.rand(2)
        ad.set_rng_state(state)
        return a, ad.rand(2), x

    return times(wrap(f)), ad.rand(1)


@program
def arrays_of_other_kinds(wrap: Wrap) -> Any:
    names = np.array(["a", "b"])
    record = np.array([(1, 2.0)], dtype=[("n", "i4"), ("v", "f4")])

    def f(x: Any) -> Any:
        return x * len(names) * float(record["v"][0]) * (2 if names.dtype.kind == "U" else 3)

    return changed(wrap, f, lambda: record.__setitem__(0, (1, 5.0))), tried(f, ones(2))
