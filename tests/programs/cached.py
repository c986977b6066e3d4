"""Functions with a cache: answers, what is computed anew, and how often they were asked."""

# Written as a user would, who annotates little.
# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc, type-arg, var-annotated"

from __future__ import annotations

import functools
import types
from typing import Any

import adjoint as ad

from .playing import Wrap, ones, program, tried


def counted(wrap: Wrap, fn: Any, cached: Any, *arguments: Any, **options: Any) -> Any:
    """Results of calls, and after each what the cache counted."""
    r, out = wrap(fn, **options), []
    for given in arguments:
        out += [tried(r, *given), tuple(cached.cache_info())]
    return out


@program
def counts_of_recordings(wrap: Wrap) -> Any:
    f = functools.lru_cache(maxsize=4)(lambda n: n * 2.0)
    return counted(wrap, lambda x: x * f(3) * f(3), f, *[(ones(k),) for k in (2, 3, 4, 2, 5)])


@program
def counts_where_something_else_changed(wrap: Wrap) -> Any:
    state, out = types.SimpleNamespace(k=1), []
    f = functools.lru_cache(lambda n: n * 2.0)
    r = wrap(lambda x: x * f(2) * state.k)
    for k in (1, 1, 2, "a", 3):
        state.k = k
        out += [tried(r, ones(2)), tuple(f.cache_info())]
    return out


@program
def counts_of_what_is_evicted(wrap: Wrap) -> Any:
    calls: list[int] = []

    @functools.lru_cache(maxsize=2)
    def f(n):
        calls.append(n)
        return n * 2.0

    given = [(ones(2), k) for k in (1, 2, 1, 3, 2, 1, 1)]
    return counted(wrap, lambda x, n: x * f(n), f, *given), calls


@program
def counts_by_type_and_name(wrap: Wrap) -> Any:
    @functools.lru_cache(maxsize=3, typed=True)
    def f(a, k=1):
        return float(a) * k

    given = [(ones(2), a) for a in (1, 2, 1.0, 1, 2, 5, 6, 1)]
    return counted(wrap, lambda x, a: x * f(a) * f(a, k=2) * f(True), f, *given)


@program
def counts_of_methods(wrap: Wrap) -> Any:
    class Table:
        @functools.lru_cache  # noqa: B019
        def row(self, n):
            return n + 1

    t = Table()
    given = [(ones(k),) for k in (1, 2, 2, 3, 1)]
    return counted(wrap, lambda x: x * t.row(x.shape[0]), Table.row, *given)


@program
def counts_with_dynamic_sizes(wrap: Wrap) -> Any:
    f = functools.lru_cache(lambda n: ad.arange(float(n)))
    given = [(ones(k),) for k in (2, 3, 2, 4, 5, 3, 2)]
    return counted(wrap, lambda x: x * f(x.shape[0]), f, *given, dynamic=True)


@program
def counts_where_the_call_raises(wrap: Wrap) -> Any:
    @functools.lru_cache
    def f(n):
        if n > 4:
            raise ValueError(n)
        return n * 2.0

    def g(x, k):
        y = x * f(3)
        if k == 1:
            raise KeyError(k)
        return y * f(k)

    return counted(wrap, g, f, *[(ones(2), k) for k in (4, 1, 4, 5, 1, 5, 4)])


@program
def counts_of_calls_left_to_python(wrap: Wrap) -> Any:
    f = functools.cache(lambda n: n * 2.0)
    given = [(ones(2) * k,) for k in range(4)]
    return counted(wrap, lambda x: x * f(2) if x.sum() > 0 else x, f, *given, fullgraph=False)


@program
def cleared_inside(wrap: Wrap) -> Any:
    f = functools.lru_cache(lambda n: n * 2.0)

    def g(x):
        f.cache_clear()
        return x * f(3)

    def h(x):
        y = x * f(5)
        f.cache_clear()
        return y

    given = [(ones(k),) for k in (1, 2, 2, 3)]
    return counted(wrap, g, f, *given), counted(wrap, h, f, *given)


@program
def kept_list_written_to(wrap: Wrap) -> Any:
    f = functools.cache(lambda k: [1.0])

    def g(x):
        f(1).append(2.0)
        return x * sum(f(1))

    return counted(wrap, g, f, *[(ones(2) * k,) for k in range(5)]), f(1)


@program
def cache_of_nothing(wrap: Wrap) -> Any:
    calls: list[int] = []

    @functools.lru_cache(maxsize=0)
    def f(k):
        calls.append(k)
        return 2.0

    return counted(wrap, lambda x: x * f(2), f, *[(ones(2) * k,) for k in range(5)]), calls


@program
def fibonacci(wrap: Wrap) -> Any:
    @functools.cache
    def f(n):
        return n if n < 2 else f(n - 1) + f(n - 2)

    return counted(wrap, lambda x, n: x * f(n), f, *[(ones(2), n) for n in (5, 6, 5, 7, 6)])
