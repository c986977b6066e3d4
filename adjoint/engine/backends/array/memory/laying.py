"""Kernels' results in the layout that a record's rule gives them (`core.result_layouts`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from adjoint.engine.backends.array.memory.strides import allocate, strided
from adjoint.engine.core.result_layouts import RULES
from adjoint.engine.tensor.tensor import unit_strides

Array = Any
Shape = tuple[int, ...]
ArrayPlace = tuple[Shape, Shape, int]  # shape, strides, bytes of an element


def laid_by_rule(xp: Any, kernel: Callable[..., Any], rule: Any) -> Callable[..., Any]:
    """A kernel whose results lie as a rule says."""

    def laid(*arrays: Array, **params: Any) -> Any:
        results = kernel(*arrays, **params)
        places = tuple([(a.shape, a.strides, a.itemsize) for a in arrays])
        dim = params.get("dim")
        if results.__class__ is tuple:
            return tuple([_as_said(xp, out, rule, places, dim) for out in results])
        return _as_said(xp, results, rule, places, dim)

    return laid


def _as_said(xp: Any, out: Array, rule: Any, places: tuple[ArrayPlace, ...], dim: Any) -> Array:
    wanted = _wanted(rule, places, out.shape, dim)
    return out if wanted is None else with_strides(xp, out, wanted)


@lru_cache(maxsize=1 << 12)
def _wanted(rule: Any, places: tuple[ArrayPlace, ...], shape: Shape, dim: Any) -> Shape | None:
    """The strides of a result, in elements; None: rows, as kernels give them."""
    return RULES[rule]([in_elements(place) for place in places], shape, dim)


def in_elements(place: ArrayPlace) -> tuple[Shape, Shape]:
    """An array's shape and strides, these in elements."""
    shape, steps, size = place
    return shape, unit_strides(shape, tuple([step // size for step in steps]))


def with_strides(xp: Any, array: Array, wanted: Shape) -> Array:
    """An array with these strides, in elements: itself, where only single elements' differ."""
    size = array.itemsize
    if array.strides == tuple([step * size for step in wanted]):
        return array
    pairs = zip(array.shape, array.strides, wanted, strict=True)
    if array.size and all(n == 1 or have == step * size for n, have, step in pairs):
        return strided(xp, array, array.shape, wanted)
    out = allocate(xp, array.shape, array.dtype, wanted)
    if out.size:
        out[...] = array
    return out
