"""From sample rows to callables on tensors."""

from __future__ import annotations

import importlib
import pkgutil
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import tests.samples
from adjoint.engine.core.tree import flatten
from tests.samples import S, T


def rows() -> list[S]:
    """Every sample of every family; modules there have rows of another kind."""
    found: list[S] = []
    for name in sorted(m.name for m in pkgutil.iter_modules(tests.samples.__path__)):
        module = importlib.import_module(f"tests.samples.{name}")
        found += [row for row in getattr(module, "ROWS", ()) if isinstance(row, S)]
    return found


def places(found: list[S]) -> list[int]:
    """Of each row, how many rows of the same function stand before it."""
    counts: Counter[str] = Counter()
    out = []
    for row in found:
        out.append(counts[row.path])
        counts[row.path] += 1
    return out


def firsts(chosen: list[S]) -> list[Any]:
    """Rows as parameters of a test: a function's first, and the others as slow ones."""
    return [
        pytest.param(row, id=repr(row), marks=pytest.mark.slow if place else ())
        for row, place in zip(chosen, places(chosen), strict=True)
    ]


def resolve(path: str) -> Callable[..., Any]:
    """A function of the package, or ("Tensor.name") a method."""
    target: Any = ad
    for part in path.split("."):
        target = getattr(target, part)
    return target


@dataclass
class Case:
    """A sample with its tensors made: `fn` takes just the tensors."""

    row: S
    tensors: list[Any]  # every tensor argument, in order
    wanted: list[int]  # positions of those to differentiate
    fn: Callable[..., list[Any]]  # tensors -> list of result tensors
    symmetric: list[bool]  # of each wanted tensor: a function of symmetric matrices only
    put: Callable[..., Callable[..., list[Any]]]  # see `with_number`

    def floats(self, tensors: Sequence[Any]) -> list[Any]:
        """Results that can carry a gradient."""
        return [t for t in self.fn(*tensors) if t.dtype.is_inexact]

    def with_number(self, path: tuple[Any, ...]) -> Callable[..., list[Any]]:
        """The function of a number and the tensors: the number stands at a place of the call."""
        return self.put(path)


def make(row: S, dtype: Any = None, device: str = "cpu") -> Case:
    """Draw the tensors (from a seed that depends on the row alone) and bind the rest."""
    rng = np.random.default_rng(zlib.crc32(repr(row).encode()))
    real = dtype or ad.float64
    tensors: list[Any] = []
    wanted: list[int] = []
    symmetric: list[bool] = []

    def build(x: Any) -> Any:
        if isinstance(x, T):
            t = ad.tensor(x.array(rng))
            if t.dtype is ad.complex128:
                t = t.to(real.to_complex())
            elif t.dtype.is_floating_point:
                t = t.to(real)
            if device != "cpu":
                t = t.to(device)
            if x.grad and t.dtype.is_inexact:
                wanted.append(len(tensors))
                symmetric.append(x.kind == "spd")
            tensors.append(t)
            return _Slot(len(tensors) - 1)
        if isinstance(x, (list, tuple)) and not hasattr(x, "_fields"):
            return type(x)(build(v) for v in x)
        return x

    args = [build(a) for a in row.args]
    kwargs = {k: build(v) for k, v in row.kwargs.items()}
    target = resolve(row.path)
    inplace = (
        row.path.startswith("Tensor.") and row.path.endswith("_") and not row.path.endswith("__")
    )

    def call(args: list[Any], kwargs: dict[str, Any], given: Sequence[Any]) -> list[Any]:
        def fill(x: Any) -> Any:
            if isinstance(x, _Slot):
                return given[x.position]
            if isinstance(x, (list, tuple)) and not hasattr(x, "_fields"):
                return type(x)(fill(v) for v in x)
            return x

        actual = [fill(a) for a in args]
        if inplace:
            actual[0] = actual[0].clone()
        out = target(*actual, **{k: fill(v) for k, v in kwargs.items()})
        return [t for t in flatten(out)[0] if isinstance(t, ad.Tensor)]

    def fn(*given: Any) -> list[Any]:
        return call(args, kwargs, given)

    def put(path: tuple[Any, ...]) -> Callable[..., list[Any]]:
        def numbered(number: Any, *given: Any) -> list[Any]:
            held: dict[Any, Any] = dict(enumerate(args)) | kwargs
            held[path[0]] = _put(held[path[0]], path[1:], number)
            named = {k: held[k] for k in kwargs}
            return call([held[i] for i in range(len(args))], named, given)

        return numbered

    return Case(row, tensors, wanted, fn, symmetric, put)


def _put(x: Any, path: tuple[Any, ...], value: Any) -> Any:
    """What was given with a value at a place within."""
    if not path:
        return value
    return type(x)(_put(v, path[1:], value) if i == path[0] else v for i, v in enumerate(x))


@dataclass(frozen=True)
class _Slot:
    position: int
