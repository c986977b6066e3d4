"""Finding, sorting and telling elements apart."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import adjoint as ad
from adjoint.array_api.arrays import WIDE_UNSIGNED, anything, by_numpy, standard, to_numpy
from adjoint.array_api.dtypes import cast, result_type
from adjoint.array_api.elementwise import operands
from adjoint.engine.core import dtype as dt
from adjoint.engine.core.errors import DTypeTypeError, ShapeValueError
from adjoint.engine.tensor.tensor import Tensor, wrap


class UniqueAllResult(NamedTuple):
    """Distinct values, where each occurs first, which one each element is, how often it occurs."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCountsResult(NamedTuple):
    """Distinct values and how often each occurs."""

    values: Any
    counts: Any


class UniqueInverseResult(NamedTuple):
    """Distinct values and which one each element is."""

    values: Any
    inverse_indices: Any


def _chosen(name: str) -> Any:
    def function(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
        if x.dtype in WIDE_UNSIGNED:
            x = ordered(x)
        if axis is None:
            position = getattr(ad, name)(x.reshape(-1))
            return position.reshape([1] * x.ndim) if keepdims else position
        return getattr(ad, name)(x, axis, keepdim=keepdims)

    function.__name__ = name
    function.__doc__ = f"Where the {name.removeprefix('arg')}imum is, first of equals."
    return anything(function)


argmax = _chosen("argmax")
argmin = _chosen("argmin")


def ordered(x: Any) -> Any:
    """Wide unsigned numbers as int64 in the same order."""
    if x.dtype is not dt.uint64:
        return x.to(dt.int64)
    return wrap((to_numpy("sort", x) ^ np.uint64(1 << 63)).view(np.int64))


@anything
def nonzero(x: Any, /) -> Any:
    """Where the elements that are not zero lie, an array of places for each dimension."""
    if x.ndim == 0:
        raise ShapeValueError("nonzero: expected an array of at least one dimension")
    if x.dtype in WIDE_UNSIGNED:
        return by_numpy("nonzero", "", (x,), {})
    return tuple(ad.nonzero(x, as_tuple=True))


@anything
def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Any:
    """Where elements would be inserted into a sorted array to keep it so."""
    if not isinstance(x2, Tensor):
        x2 = cast(x2, result_type(x1, x2))
    if x1.dtype is not x2.dtype:
        dtype = result_type(x1, x2)
        x1, x2 = cast(x1, dtype), cast(x2, dtype)
    if sorter is not None:
        x1 = x1[sorter.to(dt.int64)]
    if x1.dtype in WIDE_UNSIGNED:
        x1, x2 = ordered(x1), ordered(x2)
    return ad.searchsorted(x1, x2, right=side == "right")


@standard
def where(condition: Any, x1: Any, x2: Any, /) -> Any:
    """Elements of one array where a condition holds, of another elsewhere."""
    if condition.dtype is not dt.bool_:
        raise DTypeTypeError(
            f"where: expected a boolean condition, received {condition.dtype.name}"
        )
    if not isinstance(x1, Tensor) and not isinstance(x2, Tensor):
        dtype = result_type(cast(x1, ad.tensor(x1).dtype), cast(x2, ad.tensor(x2).dtype))
        x1, x2 = cast(x1, dtype), cast(x2, dtype)
    one, two = operands("where", x1, x2)
    return ad.where(condition, one, two)


@anything
def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The order in which elements along a dimension are sorted."""
    if x.dtype in WIDE_UNSIGNED:
        x = ordered(x)
    if x.ndim == 0:
        raise ShapeValueError("argsort: expected an array of at least one dimension")
    return ad.sort(x, dim=axis, descending=descending, stable=True)[1]


@anything
def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The elements along a dimension in order."""
    if x.ndim == 0:
        raise ShapeValueError("sort: expected an array of at least one dimension")
    if x.dtype in WIDE_UNSIGNED:
        order = argsort(x, axis=axis, descending=descending)
        return by_numpy("take_along_axis", "", (x, order), {"axis": axis})
    return ad.sort(x, dim=axis, descending=descending, stable=True)[0]


# -- distinct values -------------------------------------------------------------------------------


def _distinct(x: Any) -> tuple[Any, Any, Any, Any]:
    """(values, first places, which value each element is, counts); every NaN is one of its own."""
    flat = x.reshape(-1)
    key = ordered(flat) if x.dtype in WIDE_UNSIGNED else flat
    if x.is_complex():
        order = ad.sort(key.imag, stable=True)[1]
        order = order[ad.sort(key.real[order], stable=True)[1]]
    else:
        order = ad.sort(key, stable=True)[1]
    line = key[order]
    fresh = ad.ones(line.shape, dtype=ad.bool, device=x.device)
    if line.shape[0]:
        fresh[1:] = line[1:] != line[:-1]
    starts = ad.nonzero(fresh, as_tuple=True)[0]
    group = fresh.to(ad.int64).cumsum(0) - 1
    inverse = ad.empty_like(group)
    inverse[order] = group
    ends = ad.cat([starts[1:], ad.tensor([line.shape[0]], device=x.device)])
    counts = (ends - starts) if starts.shape[0] else starts
    first = order[starts]
    return flat[first], first, inverse.reshape(x.shape), counts


@anything
def unique_all(x: Any, /) -> Any:
    """Distinct values with all that can be told of them."""
    return UniqueAllResult(*_distinct(x))


@anything
def unique_counts(x: Any, /) -> Any:
    """Distinct values and how often each occurs.

    >>> from adjoint import array_api as xp
    >>> values, counts = xp.unique_counts(xp.asarray([3, 1, 3]))
    >>> values.tolist(), counts.tolist()
    ([1, 3], [1, 2])
    """
    values, _, _, counts = _distinct(x)
    return UniqueCountsResult(values, counts)


@anything
def unique_inverse(x: Any, /) -> Any:
    """Distinct values and which one each element is."""
    values, _, inverse, _ = _distinct(x)
    return UniqueInverseResult(values, inverse)


@anything
def unique_values(x: Any, /) -> Any:
    """Distinct values."""
    return _distinct(x)[0]
