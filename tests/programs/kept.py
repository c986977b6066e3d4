"""Programs that go on with values of tensors, keep copies, make optimizers lazily."""

# Written as a user would, who annotates little.
# mypy: disable-error-code="has-type, import-not-found, index, list-item, str-format, type-arg, var-annotated"

from __future__ import annotations

import copy
import dataclasses
import json
import math
import threading
import types
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import nn

from .playing import Wrap, changed, ones, program, ramp, times, tried


@program
def late_value_as_key(wrap: Wrap) -> Any:
    d = {}

    def f(x: Any) -> Any:
        d[x.sum().item()] = 1
        return x

    return (times(wrap(f)), list(d))


@program
def late_value_in_set_list_sort(wrap: Wrap) -> Any:
    log = []

    def f(x: Any) -> Any:
        log.append(x.sum().item())
        return sorted(log)[-1]

    r = wrap(f)
    return ([tried(r, ones(2) * k) for k in (1, 3, 2)], log)


@program
def late_read_back_next_call(wrap: Wrap) -> Any:

    class S:
        last = 0.0

    def f(x: Any) -> Any:
        prev = S.last
        S.last = x.sum().item()
        return (x * prev, S.last - prev)

    r = wrap(f)
    return ([tried(r, ones(2) * k) for k in (1, 3, 2, 2)], S.last)


@program
def late_int_index(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        return x[x.argmax().item()]

    r = wrap(f)
    return [tried(r, ramp(3)), tried(r, -ramp(3))]


@program
def late_in_tuple_compare(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        return (x.sum().item(), 1) == (2.0, 1)

    return times(wrap(f))


@program
def late_isinstance_and_type(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        v = x.sum().item()
        return (isinstance(v, float), type(v).__name__, isinstance(v, (int, str)), v)

    return times(wrap(f))


@program
def late_json_dump(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        return json.dumps({"l": x.sum().item()})

    return times(wrap(f))


@program
def late_percent_format(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        return (
            f"{x.sum().item():.2f}",
            f"{x.mean().item():.1f}",
            "a" + str(x.sum().item()),
        )

    return times(wrap(f))


@program
def late_math_exp(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        return math.exp(x.mean().item())

    return times(wrap(f))


@program
def late_np_mean_of_log(wrap: Wrap) -> Any:
    log = []

    def f(x: Any) -> Any:
        log.append(x.sum().item())
        return float(np.mean(log))

    return (times(wrap(f)), log)


@program
def late_sum_of_list(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        return (sum([v.item() for v in x]), sum(x.tolist()))

    return times(wrap(f), ramp(3))


@program
def late_deque_mean(wrap: Wrap) -> Any:
    d = deque(maxlen=3)

    def f(x: Any) -> Any:
        d.append(x.sum().item())
        return sum(d) / len(d)

    r = wrap(f)
    return ([tried(r, ones(2) * k) for k in range(6)], d)


@program
def late_dataclass(wrap: Wrap) -> Any:

    @dataclasses.dataclass
    class Out:
        loss: float
        acc: float

    def f(x: Any) -> Any:
        return Out(x.mean().item(), (x > 1).float().mean().item() * 100)

    r = wrap(f)
    return [tried(r, ramp(k)) for k in (2, 3)]


@program
def late_namedtuple_kwargs(wrap: Wrap) -> Any:
    hist = []

    def log(**kw: Any) -> None:
        hist.append(kw)

    def f(x: Any) -> Any:
        log(loss=x.mean().item(), n=len(x))
        return x

    r = wrap(f)
    for k in (2, 3):
        r(ramp(k))
    return hist


@program
def late_passed_to_user_class(wrap: Wrap) -> Any:

    class Stat:
        def __init__(s) -> None:
            s.v = []

        def add(s, v: Any) -> None:
            s.v.append(float(v))

        def __len__(s) -> Any:
            return len(s.v)

    st = Stat()

    def f(x: Any) -> Any:
        st.add(x.mean())
        st.add(x.max().item())
        return x * len(st)

    r = wrap(f)
    return ([tried(r, ramp(k)) for k in (2, 3, 2)], st.v)


@program
def late_no_effect_but_called(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        x.sum().item()
        x.numpy()
        return x * 2

    return times(wrap(f))


@program
def late_after_backward(wrap: Wrap) -> Any:
    m = nn.Linear(2, 1)
    for p in m.parameters():
        nn.init.constant_(p, 0.5)
    opt = ad.optim.SGD(m.parameters(), lr=0.1)

    def f(x: Any) -> Any:
        opt.zero_grad()
        level = m(x).pow(2).mean()
        level.backward()
        g = m.weight.grad.norm().item()
        opt.step()
        return (level.item(), g, m.weight.norm().item())

    return (times(wrap(f), ramp(3, 2)), list(m.parameters()))


@program
def late_of_param_in_no_grad(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()

    def f(x: Any) -> Any:
        with ad.no_grad():
            a = w.numpy().copy() if False else w.sum().item()
            w.add_(1)
        return (a, w.sum().item())

    return (times(wrap(f)), w)


@program
def late_scalar_state_accum(wrap: Wrap) -> Any:

    class S:
        tot = 0

    def f(x: Any) -> Any:
        S.tot = S.tot + (x > 0).sum().item()
        return S.tot * 2 + 1

    r = wrap(f)
    return ([tried(r, ramp(k)) for k in (2, 3, 2)], S.tot)


@program
def late_bool_item_returned(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        return ((x > 0).all().item(), x.isnan().any().item(), ad.allclose(x, x * 1), ad.equal(x, x))

    r = wrap(f)
    return [tried(r, ones(2)), tried(r, ramp(2))]


@program
def equal_branch(wrap: Wrap) -> Any:
    s = ones(2)

    def f(x: Any) -> Any:
        return x if ad.equal(x, s) else x * 2

    return times(wrap(f), n=2)


@program
def deepcopy_twice_and_mutate(wrap: Wrap) -> Any:
    m = nn.Linear(2, 2)
    for p in m.parameters():
        nn.init.constant_(p, 0.5)
    snaps = []

    def f(x: Any) -> Any:
        snaps.append(copy.deepcopy(m.state_dict()))
        m.weight.data.add_(1.0)
        return m(x)

    r = wrap(f)
    o = times(r, n=3)
    return (o, [s["weight"] for s in snaps])


@program
def clone_module_list_of_layers(wrap: Wrap) -> Any:
    base = nn.Linear(2, 2)
    for p in base.parameters():
        nn.init.constant_(p, 0.5)

    class C:
        n = 2
        layers = None

    def f(x: Any) -> Any:
        if C.layers is None or len(C.layers) != C.n:
            C.layers = nn.ModuleList([copy.deepcopy(base) for _ in range(C.n)])
        for level in C.layers:
            x = level(x)
        return x

    return changed(wrap, f, lambda: setattr(C, "n", 3), lambda: C.layers[0].weight.data.zero_())


@program
def lazy_optimizer_every_n(wrap: Wrap) -> Any:
    m = nn.Linear(2, 1)
    for p in m.parameters():
        nn.init.constant_(p, 0.5)

    class T:
        opt = None
        n = 0

    def f(x: Any) -> Any:
        if T.n % 3 == 0:
            T.opt = ad.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
        T.n += 1
        T.opt.zero_grad()
        m(x).sum().backward()
        T.opt.step()
        return m.weight.clone()

    return (times(wrap(f), ramp(2, 2), n=7), T.n)


@program
def lazy_scheduler(wrap: Wrap) -> Any:
    m = nn.Linear(2, 1)
    for p in m.parameters():
        nn.init.constant_(p, 0.5)

    class T:
        opt = None
        sch = None

    def f(x: Any) -> Any:
        if T.opt is None:
            T.opt = ad.optim.SGD(m.parameters(), lr=0.1)
            T.sch = ad.optim.lr_scheduler.ExponentialLR(T.opt, 0.5)
        T.opt.zero_grad()
        m(x).sum().backward()
        T.opt.step()
        T.sch.step()
        return (T.opt.param_groups[0]["lr"], m.weight.clone())

    return times(wrap(f), ramp(2, 2), n=4)


@program
def lazy_ema_object(wrap: Wrap) -> Any:
    m = nn.Linear(2, 1)
    for p in m.parameters():
        nn.init.constant_(p, 0.5)

    class T:
        avg = None

    def f(x: Any) -> Any:
        if T.avg is None:
            T.avg = ad.optim.swa_utils.AveragedModel(m)
        m.weight.data.add_(1.0)
        T.avg.update_parameters(m)
        return T.avg(x)

    return times(wrap(f), ones(1, 2), n=4)


@program
def generator_with_finally_and_return(wrap: Wrap) -> Any:
    log = []

    def g(n: Any) -> Any:
        try:
            yield from range(n)
        finally:
            log.append(n)

    def f(x: Any) -> Any:
        it = g(4)
        a = next(it)
        b = next(it)
        del it
        log.append("after")
        return x * (a + b)

    return (times(wrap(f), n=3), log)


@program
def generator_left_open_in_local(wrap: Wrap) -> Any:
    log = []

    def g() -> Any:
        try:
            yield 1
            yield 2
        finally:
            log.append("closed")

    def h(x: Any) -> Any:
        it = g()
        return x * next(it)

    def f(x: Any) -> Any:
        y = h(x)
        log.append("back")
        return y

    return (times(wrap(f), n=3), log)


@program
def threading_local_write(wrap: Wrap) -> Any:
    t = threading.local()
    t.n = 0

    def f(x: Any) -> Any:
        t.n += 1
        t.h = x
        return x * t.n

    r = wrap(f)
    o = times(r, n=3)
    other = []

    def run() -> None:
        t.n = 10
        other.append(tried(r, ones(2)))

    th = threading.Thread(target=run)
    th.start()
    th.join()
    return (o, other, t.n)


@program
def subclass_arguments_mixed(wrap: Wrap) -> Any:

    class A(ad.Tensor):
        pass

    class B(ad.Tensor):
        pass

    def f(x: Any) -> Any:
        return (x * (2 if isinstance(x, A) else 3), type(x * 1).__name__)

    r = wrap(f)
    return [
        tried(r, v)
        for v in (
            ones(2),
            ones(2).as_subclass(A),
            ones(2).as_subclass(B),
            ones(2).as_subclass(A),
            ones(2),
        )
    ]


@program
def parameter_vs_tensor_argument(wrap: Wrap) -> Any:

    def f(x: Any) -> Any:
        return x * (2 if isinstance(x, nn.Parameter) else 3)

    r = wrap(f)
    return [
        tried(r, v)
        for v in (
            ones(2),
            nn.Parameter(ones(2)),
            ones(2).requires_grad_(),
            nn.Parameter(ones(2), requires_grad=False),
            ones(2),
        )
    ]


@program
def deepcopy_builtin_containers(wrap: Wrap) -> Any:
    box = [
        deque([1.0, [2.0]], maxlen=5),
        defaultdict(list, a=[1.0]),
        {1.0, 2.0},
        Counter("aab"),
        OrderedDict(a=[1.0]),
        frozenset([3]),
        bytearray(b"ab"),
        types.SimpleNamespace(k=[1.0]),
    ]

    def f(x: Any) -> Any:
        c = copy.deepcopy(box)
        c[0].append(9.0)
        c[1]["b"].append(2.0)
        c[4]["a"].append(1.0)
        return (
            x * len(c[0])
            + c[1]["a"][0]
            + len(c[2])
            + c[3]["a"]
            + len(c[4]["a"])
            + sum(c[5])
            + c[6][0]
            + c[7].k[0]
        )

    return changed(
        wrap,
        f,
        lambda: box[0].append(1.0),
        lambda: box[1].update(a=[7.0]),
        lambda: box[3].update("aaa"),
        lambda: box[4]["a"].append(5.0),
        lambda: setattr(box[7], "k", [4.0]),
    )


@program
def shallow_copy_containers(wrap: Wrap) -> Any:
    box = [
        deque([1.0]),
        defaultdict(list, a=[1.0]),
        {1.0, 2.0},
        Counter("aab"),
        OrderedDict(a=[1.0]),
    ]

    def f(x: Any) -> Any:
        c = [copy.copy(b) for b in box]
        c[0].append(9.0)
        c[1]["b"].append(2.0)
        c[4]["z"] = 1
        return (x * len(c[0]) + len(c[1]) + len(c[2]) + c[3]["a"] + len(c[4]), len(box[0]))

    return changed(wrap, f, lambda: box[0].append(1.0), lambda: box[1].update(q=[7.0]))
