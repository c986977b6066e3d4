"""Programs that count, append, draw, iterate, raise: what each call does to Python's state."""

from __future__ import annotations

import collections
import heapq
import operator
import threading
import types
from typing import Any

import numpy as np

import adjoint as ad

from .playing import Wrap, ones, program, times

COUNT = 0
CALLS: list[int] = []


@program
def global_counter(wrap: Wrap) -> Any:
    global COUNT
    COUNT = 0

    def f(x: Any) -> Any:
        global COUNT
        COUNT += 1
        return x * COUNT

    return times(wrap(f)), COUNT


@program
def nonlocal_counter(wrap: Wrap) -> Any:
    n = 0

    def f(x: Any) -> Any:
        nonlocal n
        n += 1
        return x * n if n % 2 else x

    return times(wrap(f), n=6), n


@program
def attribute_counter_with_branch(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(step=0, warmup=2, rate=1.0)

    def f(x: Any) -> Any:
        s.step += 1
        if s.step > s.warmup:
            s.rate *= 0.5
        return x * s.rate

    return times(wrap(f), n=6), vars(s)


@program
def item_counter(wrap: Wrap) -> Any:
    d: Any = collections.Counter()

    def f(x: Any, key: str) -> Any:
        d[key] += 1
        return x * d[key] + len(d)

    run = wrap(f)
    return [run(ones(1), k) for k in "aababc"], d


@program
def appended_tensors(wrap: Wrap) -> Any:
    log: list[Any] = []

    def f(x: Any) -> Any:
        log.append(x * 2)
        return sum(log)

    return times(wrap(f)), log


@program
def appended_argument(wrap: Wrap) -> Any:
    log: list[Any] = []
    run = wrap(lambda x: (log.append(x), x + 1)[1])  # type: ignore[func-returns-value]
    given = [ones(2) * k for k in range(3)]
    out = [run(x) for x in given]
    return out, log, [a is b for a, b in zip(given, log, strict=True)]


@program
def bounded_deque(wrap: Wrap) -> Any:
    d: collections.deque[Any] = collections.deque(maxlen=2)

    def f(x: Any) -> Any:
        d.append(x.sum())
        return ad.stack(list(d)).mean()

    run = wrap(f)
    return [run(ones(2) * k) for k in range(5)], d


@program
def history_by_length(wrap: Wrap) -> Any:
    seen: list[float] = []

    def f(x: Any) -> Any:
        seen.append(1.0)
        if len(seen) > 3:
            seen.pop(0)
        return x * len(seen)

    return times(wrap(f), n=6), seen


@program
def set_of_seen(wrap: Wrap) -> Any:
    seen: set[Any] = set()

    def f(x: Any, k: int) -> Any:
        first = k not in seen
        seen.add(k)
        return x * 2 if first else x

    run = wrap(f)
    return [run(ones(1), k) for k in (1, 2, 1, 3, 2)], seen


@program
def memo_in_dict(wrap: Wrap) -> Any:
    memo: dict[Any, Any] = {}

    def f(x: Any, k: int) -> Any:
        if k not in memo:
            memo[k] = ad.full((2,), float(k))
        return x * memo[k]

    run = wrap(f)
    out = [run(ones(2), k) for k in (1, 2, 1, 2)]
    return out, memo


@program
def lazily_made(wrap: Wrap) -> Any:
    class Net:
        cache: Any = None

        def __call__(self, x: Any) -> Any:
            if self.cache is None or self.cache.shape[0] < x.shape[0]:
                self.cache = ad.arange(float(x.shape[0]))
            return x + self.cache[: x.shape[0]]

    net = Net()
    run = wrap(net)
    return [run(ones(n)) for n in (3, 2, 5, 4, 5)], net.cache


@program
def rebound_state(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(h=ad.zeros(2), old=None)

    def f(x: Any) -> Any:
        s.old, s.h = s.h, s.h * 0.5 + x
        return s.old, s.h

    out = times(wrap(f))
    return out, s.h, s.old, out[-1][1] is s.h, out[-1][0] is out[-2][1]


@program
def swapped_globals(wrap: Wrap) -> Any:
    d = {"a": ad.zeros(1), "b": ones(1)}

    def f(x: Any) -> Any:
        d["a"], d["b"] = d["b"], d["a"]
        return x + d["a"]

    a = d["a"]
    out = times(wrap(f), ones(1), n=3)
    return out, d["b"] is a


@program
def heap(wrap: Wrap) -> Any:
    h = [5, 7, 9]

    def f(x: Any) -> Any:
        heapq.heappush(h, 1 + len(h))
        return x * heapq.heappop(h)

    return times(wrap(f)), h


@program
def list_methods(wrap: Wrap) -> Any:
    s = [3, 1, 2]

    def f(x: Any) -> Any:
        s.append(len(s))
        s.sort(reverse=True)
        s.remove(1)
        s.insert(1, 1)
        s[0:1] = [9, 8]
        del s[-1]
        s.extend(v for v in (4, 5))
        s[:] = s[:4]
        return x * s[0] + sum(s)

    return times(wrap(f)), s


@program
def dict_methods(wrap: Wrap) -> Any:
    d: dict[str, Any] = {"a": 1}

    def f(x: Any) -> Any:
        d.setdefault("n", []).append(len(d))
        d["a"] += 1
        d.update(c=d.pop("c", 0) + 1)
        return x * d["a"] + len(d["n"]) + d["c"]

    return times(wrap(lambda x: f(x))), d


@program
def set_methods(wrap: Wrap) -> Any:
    s = {1, 2, 3}
    t = {3, 4}

    def f(x: Any) -> Any:
        s.symmetric_difference_update(t)
        t.add(len(s))
        return x * len(s) + len(s & t) + (3 in s)

    return times(wrap(f)), s, t


@program
def deque_methods(wrap: Wrap) -> Any:
    d = collections.deque([1, 2, 3])

    def f(x: Any) -> Any:
        d.rotate(1)
        d.appendleft(d.pop() + 1)
        d.extend([d[0]])
        d.popleft()
        return x * d[0] + sum(d)

    return times(wrap(f)), d


@program
def aliased_containers(wrap: Wrap) -> Any:
    a = [1]
    s = types.SimpleNamespace(a=a, b=a, c=[a, a])

    def f(x: Any) -> Any:
        s.b.append(len(s.a))
        s.c.append(s.a)
        s.d = s.c[-1]
        return x * len(s.c[0])

    return times(wrap(f)), a, s.d is a, s.c[2] is a


@program
def results_that_are_state(wrap: Wrap) -> Any:
    s = {"list": [1]}

    def f(x: Any) -> Any:
        s["list"].append(2)
        made = [x * 2]
        s["made"] = made
        return s["list"], made

    run = wrap(f)
    held, made = run(ones(1))
    same = held is s["list"], made is s["made"]
    again, fresh = run(ones(1))
    return same, again is held, fresh is s["made"], fresh is made, s


@program
def mutated_containers_of_arguments(wrap: Wrap) -> Any:
    def f(batch: Any) -> Any:
        batch["y"] = batch["x"] * 2
        batch["n"] = batch.get("n", 0) + 1
        batch["log"].append(batch["n"])
        return batch

    run = wrap(f)
    batch: Any = {"x": ones(2), "log": []}
    log = batch["log"]
    out = [run(batch) is batch for _ in range(3)]
    return out, batch, batch["log"] is log


@program
def closures_made_and_kept(wrap: Wrap) -> Any:
    kept: list[Any] = []

    def f(x: Any, k: int) -> Any:
        kept.append(lambda v: v * k + x.sum())
        return x * k

    run = wrap(f)
    out = [run(ones(2), k) for k in (1, 2, 3)]
    return out, [fn(10.0) for fn in kept]


@program
def objects_made_and_kept(wrap: Wrap) -> Any:
    class Node:
        def __init__(self, value: Any, before: Any) -> None:
            self.value, self.before = value, before

    s = types.SimpleNamespace(head=None)

    def f(x: Any) -> Any:
        s.head = Node(x * 2, s.head)
        return s.head.value

    out = times(wrap(f), n=3)
    chain = []
    node: Any = s.head
    while node is not None:
        chain.append(node.value)
        node = node.before
    return out, chain


@program
def class_counter(wrap: Wrap) -> Any:
    class Layer:
        made = 0

        def __init__(self) -> None:
            Layer.made += 1
            self.number = Layer.made

    def f(x: Any) -> Any:
        return x * Layer().number

    return times(wrap(f)), Layer.made


@program
def attributes_set_by_name(wrap: Wrap) -> Any:
    s = types.SimpleNamespace()

    def f(x: Any, k: int) -> Any:
        setattr(s, f"k{k}", k)
        if hasattr(s, "k1") and k == 3:
            del s.k1
        return x * len(vars(s))

    run = wrap(f)
    return [run(ones(1), k) for k in (1, 2, 3, 1)], vars(s)


@program
def effects_of_callbacks(wrap: Wrap) -> Any:
    log: list[Any] = []
    hooks: list[Any] = [lambda x: log.append(x.sum()) or x * 2]  # type: ignore[func-returns-value]

    def f(x: Any) -> Any:
        for hook in hooks:
            x = hook(x)
        return x

    run = wrap(f)
    out = times(run, n=2)
    hooks.append(lambda x: x + 1)
    return out, times(run, n=2), log


@program
def integer_state_as_index(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(at=0, buffer=ad.zeros(4))

    def f(x: Any) -> Any:
        s.buffer[s.at] = x.sum()
        s.at = (s.at + 1) % 4
        return s.buffer.clone()

    return times(wrap(f), n=6), s.at


@program
def numbers_kept_as_results(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(n=1)

    def f(x: Any) -> Any:
        s.n = s.n * 2
        return s.n, s.n + 1.5, [s.n], {"n": s.n}, f"{s.n}", x * s.n

    return times(wrap(f))


@program
def numpy_array_written(wrap: Wrap) -> Any:
    a = np.zeros(3)
    n = [0]

    def f(x: Any) -> Any:
        a[n[0] % 3] += 1.0
        n[0] += 1
        return x * float(a[0])

    return times(wrap(f), n=5), a


@program
def array_filled_outside(wrap: Wrap) -> Any:
    a = np.zeros(2, dtype=np.float32)
    t = ad.from_numpy(a)
    run = wrap(lambda x: x + t)
    out = [run(ones(2))]
    a[0] = 5.0
    return [*out, run(ones(2))]


@program
def locks_and_threads(wrap: Wrap) -> Any:
    lock = threading.Lock()
    s = [0]

    def f(x: Any) -> Any:
        with lock:
            s[0] += 1
        return x * s[0]

    run = wrap(f)
    out = times(run, n=2)
    thread = threading.Thread(target=lambda: out.append(run(ones(2))))
    thread.start()
    thread.join()
    return out, s


@program
def star_unpacking_of_state(wrap: Wrap) -> Any:
    s = [[1, 2, 3]]

    def f(x: Any) -> Any:
        first, *rest = s[0]
        s[0] = [*rest, first]
        return x * first

    return times(wrap(f)), s


@program
def bit_of_everything(wrap: Wrap) -> Any:
    s: Any = types.SimpleNamespace(n=0, log=[], best=None)

    def f(x: Any) -> Any:
        s.n += 1
        loss = (x * s.n).sum()
        s.log.append({"n": s.n, "loss": loss})
        if s.best is None or s.n > s.best[0]:
            s.best = (s.n, loss)
        return loss

    return times(wrap(f), n=3), s.log, s.best, s.best[1] is s.log[-1]["loss"]


@program
def operator_and_swap(wrap: Wrap) -> Any:
    s = [1, 2]

    def f(x: Any) -> Any:
        operator.setitem(s, 0, operator.add(s[0], s[1]))
        s[0], s[1] = s[1], s[0]
        return x * operator.itemgetter(0)(s)

    return times(wrap(f)), s


@program
def while_with_state(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(left=5)

    def f(x: Any) -> Any:
        taken = 0
        while s.left > 0 and taken < 2:
            s.left -= 1
            taken += 1
            x = x * 2
        return x

    return times(wrap(f), n=4), s.left
