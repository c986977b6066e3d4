"""Attributes of tensors that are given, and functions that a `__torch_function__` takes over."""

# Written as a user would, who annotates little.
# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc, attr-defined, assignment"

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import adjoint as ad
from adjoint import nn
from adjoint.overrides import TorchFunctionMode

from .playing import Wrap, ones, program, tried


def two() -> tuple[Any, Any]:
    return ones(2), ones(2) * 2


@program
def tag_of_argument(wrap: Wrap) -> Any:
    a, b = two()
    b.tag = 3.0
    r = wrap(lambda x: x * getattr(x, "tag", 1.0))
    out = [tried(r, t) for t in (a, b, a, b)]
    a.tag = 9.0
    return [*out, tried(r, a), tried(r, b), tried(r, ones(2))]


@program
def tag_written_at_each_call(wrap: Wrap) -> Any:
    a, b = two()

    def f(x):
        x.tag = getattr(x, "tag", 0) + 1
        return x * x.tag

    r = wrap(f)
    return [tried(r, t) for t in (a, b, a, a, b)], a.tag, b.tag


@program
def tag_taken_off(wrap: Wrap) -> Any:
    a, b = two()
    a.tag, b.tag = 2.0, 3.0

    def f(x):
        found = x.tag
        del x.tag
        return x * found

    r = wrap(f)
    out = [tried(r, a), tried(r, b)]
    a.tag = 7.0
    return [*out, tried(r, a)], hasattr(a, "tag"), hasattr(b, "tag")


@program
def mask_kept_on_argument(wrap: Wrap) -> Any:
    a, b = two()
    a.mask, b.mask = ones(2), ones(2) * 5
    r = wrap(lambda x: x + x.mask)
    return [tried(r, t) for t in (a, b, a, b)]


@program
def scale_of_parameter_given(wrap: Wrap) -> Any:
    a, b = map(nn.Parameter, two())
    b.scale = 3.0
    r = wrap(lambda p: p * getattr(p, "scale", 1.0))
    return [tried(r, t) for t in (a, b, a, b)]


@program
def attributes_counted(wrap: Wrap) -> Any:
    a, b = two()
    b.tag = 1.0
    r = wrap(lambda x: (x * len(vars(x)), x * x.__dict__.get("tag", 5.0)))
    return [tried(r, t) for t in (a, b, a, b)]


@program
def recordings_of_new_tensors(wrap: Wrap) -> Any:
    r = wrap(lambda x: x * 2 if hasattr(x, "tag") else x)
    return [tried(r, ones(2)) for _ in range(4)], getattr(r, "traces", 1)


class Counting(ad.Tensor):
    seen = 0

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        Counting.seen += 1
        return super().__torch_function__(func, types, args, kwargs or {})


@program
def operator_taken_over(wrap: Wrap) -> Any:
    Counting.seen = 0
    t = ones(2).as_subclass(Counting)
    r = wrap(lambda x: (t + x).as_subclass(ad.Tensor) * Counting.seen)
    return [tried(r, ones(2)) for _ in range(4)]


@program
def function_taken_over(wrap: Wrap) -> Any:
    class Wrapped:
        count = 0

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            Wrapped.count += 1
            return func(*[ones(2) if isinstance(a, Wrapped) else a for a in args])

    w = Wrapped()
    r = wrap(lambda x: ad.add(w, x) * Wrapped.count)
    return [tried(r, ones(2)) for _ in range(4)]


class Seeing(TorchFunctionMode):
    seen = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        Seeing.seen += 1
        return func(*args, **(kwargs or {}))


@program
def mode_entered_outside(wrap: Wrap) -> Any:
    Seeing.seen = 0
    r = wrap(lambda x: x * 2 + 1)
    out = [tried(r, ones(2))]
    with Seeing():
        out += [tried(r, ones(2)), tried(r, ones(2))]
    return [*out, tried(r, ones(2))], Seeing.seen


@program
def mode_entered_inside(wrap: Wrap) -> Any:
    Seeing.seen = 0

    def f(x):
        with Seeing():
            y = x * 2
        return y + Seeing.seen

    r = wrap(f)
    return [tried(r, ones(2)) for _ in range(3)], Seeing.seen


@program
def tag_given_to_each_argument(wrap: Wrap) -> Any:
    rate = SimpleNamespace(value=1.0)

    def f(x):
        rate.value += 1
        x.rate, x.total = rate.value, x.sum()
        return x * x.rate, x

    run, out = wrap(f), []
    for n in (1, 2, 3, 4):
        x = ones(2) * n
        y, z = run(x)
        out += [y, z is x, x.rate, x.total]
    return out


@program
def tags_between_arguments(wrap: Wrap) -> Any:
    def f(x, y):
        x.mask, y.of = y > 0, x
        x.passing = 1
        del x.passing
        return x + y

    run, out = wrap(f), []
    for n in (1, -1, 2):
        x, y = ones(2), ones(2) * n
        out += [run(x, y), x.mask, y.of is x, hasattr(x, "passing")]
    return out


@program
def tag_taken_off_unread(wrap: Wrap) -> Any:
    def f(x):
        del x.tag
        return x * 2

    run, out = wrap(f), []
    for has_tag in (True, True, False, True):
        x = ones(2)
        if has_tag:
            x.tag = 1
        out += [type(tried(run, x)), hasattr(x, "tag")]
    return out
