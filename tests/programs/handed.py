"""Objects of one's own that operations are given, and classes of the framework that are changed."""

# Written as a user would, who annotates little.
# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc, var-annotated, attr-defined"

from __future__ import annotations

import array
import collections
import types
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn
from adjoint.utils.checkpoint import checkpoint_sequential

from .playing import Wrap, program, ramp, tried


class Index:
    def __init__(self, v):
        self.v = v

    def __index__(self):
        return self.v


class Number:
    def __init__(self, v):
        self.v = v

    def __float__(self):
        return float(self.v)


class Sequence:
    def __init__(self, *v):
        self.v = list(v)

    def __len__(self):
        return len(self.v)

    def __getitem__(self, i):
        return self.v[i]


class Stepped(Sequence):
    def __iter__(self):
        return iter(self.v)


class Listed(list[Any]):
    pass


class AsArray:
    def __init__(self, v):
        self.v = v

    def __array__(self, dtype=None, copy=None):
        return np.full(3, self.v, "float32")


def put(value: Any) -> Callable[[Any], Any]:
    return lambda o: setattr(o, "v", value)


def set_at(y: Any, at: Any) -> Any:
    y[at] = 9.0
    return y


# What is handed over, by which operations, and how it changes between calls.
INDEX = (
    lambda: Index(2),
    {
        "subscript": lambda x, o: x[o],
        "slice": lambda x, o: x[o:],
        "subscript_in_a_tuple": lambda x, o: x[None][0, o],
        "subscript_set": lambda x, o: set_at(x * 1, o),
        "size": lambda x, o: ad.zeros(o),
        "sizes": lambda x, o: ad.full((o, 2), 1.5),
        "expanded": lambda x, o: x.reshape(-1, 1).expand(3, o),
        "dimension": lambda x, o: x[None, None].sum(o),
        "rolled": lambda x, o: x.roll(o),
        "repeated": lambda x, o: x.repeat(o),
        "padded": lambda x, o: F.pad(x, (o, 0)),
        "largest": lambda x, o: x.topk(o).values,
    },
    put(1),
)
NUMBER = (
    lambda: Number(0.5),
    {
        "multiplied": lambda x, o: x * o,
        "filled": lambda x, o: ad.full((2,), o),
        "bounded": lambda x, o: x.clamp(o),
        "slope": lambda x, o: F.leaky_relu(x - 2, o),
    },
    put(0.25),
)
MADE = {
    "tensor": lambda x, o: ad.tensor(o),
    "as_tensor": lambda x, o: ad.as_tensor(o) * 2,
    "new_tensor": lambda x, o: x.new_tensor(o),
}
SHAPES = {"reshaped": lambda x, o: x.reshape(o), "zeros": lambda x, o: ad.zeros(o)}
STACKED = {"stacked": lambda x, o: ad.stack(o)}
ROWS: dict[str, tuple[Callable[[], Any], dict[str, Any], Callable[[Any], Any]]] = {
    "index": INDEX,
    "number": NUMBER,
    "list": (lambda: Listed([1.0, 2.0]), MADE, lambda o: o.append(9.0)),
    "nested_list": (lambda: Listed([Listed([1.0])]), MADE, lambda o: o[0].append(9.0)),
    "user_list": (lambda: collections.UserList([1.0, 2.0]), MADE, lambda o: o.append(9.0)),
    "array": (lambda: array.array("f", [1.0, 2.0]), MADE, lambda o: o.append(9.0)),
    "list_of_tensors": (lambda: Listed([ramp(2)]), STACKED, lambda o: o.append(ramp(2) * 5)),
    "sequence": (lambda: Sequence(ramp(2)), STACKED, lambda o: o.v.append(ramp(2) * 5)),
    "steps": (lambda: Stepped(ramp(2)), STACKED, lambda o: o.v.append(ramp(2) * 5)),
    "list_of_sizes": (lambda: Listed([3, 1]), SHAPES, lambda o: o.reverse()),
    "indices": (lambda: [Index(3), Index(1)], SHAPES, lambda o: (put(1)(o[0]), put(3)(o[1]))),
    "as_array": (lambda: AsArray(2.0), {"multiplied": lambda x, o: x * o}, put(5.0)),
}


def register(name: str, make: Any, operation: Any, change: Any) -> None:
    def play(wrap: Wrap) -> Any:
        given = make()
        r = wrap(lambda x: operation(x, given))
        out = [tried(r, ramp(3))]
        change(given)
        return [*out, tried(r, ramp(3)), tried(r, ramp(3))]

    play.__name__ = name
    program(play)


for _kind, (_make, _operations, _change) in ROWS.items():
    for _name, _operation in _operations.items():
        register(f"{_kind}_{_name}", _make, _operation, _change)


@program
def values_of_a_dict_stacked(wrap: Wrap) -> Any:
    d = {"a": ramp(2)}
    r = wrap(lambda x: ad.stack(d.values()) + x)
    out = [r(ramp(2))]
    d["b"] = ramp(2) * 3
    return [*out, r(ramp(2))]


@program
def array_of_numpy_from_an_object(wrap: Wrap) -> Any:
    given = AsArray(2.0)
    r = wrap(lambda x: x + ad.tensor(np.asarray(given)))
    out = [tried(r, ramp(3))]
    given.v = 5.0
    return [*out, tried(r, ramp(3))]


@program
def index_that_counts(wrap: Wrap) -> Any:
    class Counting(Index):
        def __index__(self):
            self.v += 1
            return self.v % 3

    given = Counting(0)
    r = wrap(lambda x: ad.zeros(given))
    return [tried(r, ramp(3)) for _ in range(3)], given.v


def patched(owner: Any, name: str, value: Any, r: Any) -> Any:
    """Calls before, during and after an attribute of a class is another one."""
    before = owner.__dict__.get(name)
    out = [r(ramp(3))]
    setattr(owner, name, value)
    try:
        out.append(r(ramp(3)))
    finally:
        if before is None:
            delattr(owner, name)
        else:
            setattr(owner, name, before)
    return [*out, r(ramp(3))]


@program
def method_of_tensors_replaced(wrap: Wrap) -> Any:
    return patched(ad.Tensor, "exp", lambda self: self * 100, wrap(lambda x: x.exp()))


@program
def operator_of_tensors_replaced(wrap: Wrap) -> Any:
    return patched(ad.Tensor, "__add__", lambda self, o: self.mul(50), wrap(lambda x: x + 1))


@program
def method_of_tensors_new(wrap: Wrap) -> Any:
    r = wrap(lambda x: x.twice() if hasattr(x, "twice") else x)
    return patched(ad.Tensor, "twice", lambda self: self * 2, r)


@program
def property_of_tensors_new(wrap: Wrap) -> Any:
    r = wrap(lambda x: x.tag if hasattr(x, "tag") else x)
    return patched(ad.Tensor, "tag", property(lambda self: self * 7), r)


@program
def attribute_of_parameters_new(wrap: Wrap) -> Any:
    w = nn.Parameter(ramp(3))
    return patched(nn.Parameter, "gain", 4.0, wrap(lambda x: x * getattr(w, "gain", 1.0)))


@program
def attribute_of_a_class_of_tensors(wrap: Wrap) -> Any:
    class Scaled(ad.Tensor):
        scale = 2.0

    r = wrap(lambda x: x.as_subclass(ad.Tensor) * type(x).scale)
    out = [r(ramp(3).as_subclass(Scaled))]
    Scaled.scale = 3.0
    return [*out, r(ramp(3).as_subclass(Scaled))]


@program
def functions_in_a_list(wrap: Wrap) -> Any:
    factor = [2.0]
    steps = [lambda x: x * factor[0], lambda x: x + 1]
    r = wrap(lambda x: checkpoint_sequential(steps, 2, x, use_reentrant=False))
    out = [r(ramp(3))]
    factor[0] = 5.0
    out.append(r(ramp(3)))
    steps.append(lambda x: x * 10)
    return [*out, r(ramp(3))]


@program
def step_of_optimizers_replaced(wrap: Wrap) -> Any:
    w = nn.Parameter(ramp(3))
    o = ad.optim.SGD([w], lr=0.1)

    def f(x):
        o.zero_grad()
        (w * x).sum().backward()
        o.step()
        return w.detach().clone()

    return patched(ad.optim.SGD, "step", lambda self, closure=None: None, wrap(f))


@program
def resized_output(wrap: Wrap) -> Any:
    kept = ad.empty(0)

    def f(x):
        made = ad.empty(0)
        same = made
        ad.mul(x, 2, out=made)
        return ad.add(made, 1, out=kept) is kept, same + 1

    r = wrap(f)
    return [r(ramp(3)) for _ in range(3)], kept


@program
def output_too_small(wrap: Wrap) -> Any:
    r = wrap(lambda x: ad.mul(x, 2, out=ad.empty(2)))
    return tried(r, ramp(3)), tried(r, ramp(2))


@program
def end_of_an_object_that_is_popped(wrap: Wrap) -> Any:
    log: list[str] = []

    class Ending:
        def __del__(self):
            log.append("end")

    def f(x, given):
        given.pop()
        log.append("popped")
        return x

    r = wrap(f)
    for _ in range(2):
        r(ramp(2), [Ending()])
        log.append("returned")
    return log, types.SimpleNamespace(n=len(log)).n


def strided(wrap: Wrap, fn: Any) -> Any:
    """A function of tensors that begin at several places of their memory."""
    makers = (lambda: ramp(3) + 10, lambda: ramp(8)[3:6], lambda: ramp(3), lambda: ramp(4)[1:])
    out = []
    for options in ({}, {"dynamic": True}):
        r = wrap(fn, **options)
        for make in makers:
            x = make()
            out.append((tried(r, x), x))
    return out


@program
def place_in_memory_shown(wrap: Wrap) -> Any:
    return strided(wrap, lambda x: x.as_strided((2,), (1,), x.storage_offset() + 1) * 1)


@program
def windows_from_where_it_begins(wrap: Wrap) -> Any:
    return strided(wrap, lambda x: x.as_strided((2, 2), (1, 1)) * 1)


@program
def memory_before_an_argument(wrap: Wrap) -> Any:
    return strided(wrap, lambda x: x.as_strided((2,), (1,), 0) * 1)


@program
def memory_before_an_argument_written(wrap: Wrap) -> Any:
    return strided(wrap, lambda x: x.as_strided((2,), (1,), 0).add_(1))
