"""Statistics and tests over dimensions, running sums, differences."""

from __future__ import annotations

import math
from typing import Any

import adjoint as ad
from adjoint.array_api.arrays import WIDE_UNSIGNED, anything, by_numpy, standard
from adjoint.array_api.dtypes import SIGNED, UNSIGNED, cast, result_type
from adjoint.array_api.manipulation import axes_of
from adjoint.engine.core import dtype as dt
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import DTypeTypeError


def summed_dtype(dtype: DType) -> DType:
    """The dtype that sums and products of a dtype are of: whole numbers in the widest of them."""
    if dtype in UNSIGNED:
        return dt.uint64
    return dt.int64 if dtype in SIGNED or dtype is dt.bool_ else dtype


def _lines(name: str, x: Any, axis: Any) -> tuple[Any, tuple[int, ...], tuple[int, ...]]:
    """(the array with the reduced dimensions last, as one; its shape without and with them)."""
    axes = axes_of(name, axis, x.ndim)
    others = [d for d in range(x.ndim) if d not in axes]
    shape = tuple(x.shape[d] for d in others)
    count = math.prod(x.shape[d] for d in axes)
    whole = tuple(1 if d in axes else n for d, n in enumerate(x.shape))
    return x.permute((*others, *axes)).reshape((*shape, count)), shape, whole


def _reduce(name: str, x: Any, axis: Any, keepdims: bool, compute: Any) -> Any:
    lines, shape, whole = _lines(name, x, axis)
    return compute(lines).reshape(whole if keepdims else shape)


def _exact_unsigned(name: str, x: Any, dtype: DType, kwargs: dict[str, Any]) -> Any:
    """Sums and products in uint64, which NumPy computes."""
    return by_numpy(name, "", (x if x.dtype is dtype else x.to(dtype),), kwargs)


def _total(name: str, compute: Any) -> Any:
    def function(
        x: Any, /, *, axis: Any = None, dtype: DType | None = None, keepdims: bool = False
    ) -> Any:
        wanted = dtype or summed_dtype(x.dtype)
        if wanted in WIDE_UNSIGNED or x.dtype in WIDE_UNSIGNED:
            given = {"axis": axis, "keepdims": keepdims, "dtype": wanted}
            return _exact_unsigned(name, x, wanted, given)
        return _reduce(name, cast(x, wanted), axis, keepdims, compute)

    function.__name__ = name
    function.__doc__ = f"The {name} over some dimensions, over all if `axis` is None."
    return anything(function)


sum = _total("sum", lambda lines: lines.sum(-1, dtype=lines.dtype))
prod = _total("prod", lambda lines: lines.prod(-1, dtype=lines.dtype))


def _extreme(name: str) -> Any:
    def function(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
        def compute(lines: Any) -> Any:
            if lines.shape[-1] == 0:
                raise ValueError(f"{name}: no elements to choose from in shape {tuple(x.shape)}")
            return getattr(ad, f"a{name}")(lines, -1)

        return _reduce(name, x, axis, keepdims, compute)

    function.__name__ = name
    function.__doc__ = f"The {name}imum over some dimensions, over all if `axis` is None."
    return standard(function)


max = _extreme("max")
min = _extreme("min")


def _floating(name: str, x: Any) -> None:
    if not x.dtype.is_floating_point and not x.is_complex():
        raise DTypeTypeError(f"{name}: expected a floating-point array, received {x.dtype.name}")


@standard
def mean(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """The mean over some dimensions, over all if `axis` is None."""
    _floating("mean", x)
    return _reduce("mean", x, axis, keepdims, lambda lines: lines.mean(-1))


@standard
def var(x: Any, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The variance over some dimensions: squared distances from the mean by `N - correction`."""
    _floating("var", x)

    def compute(lines: Any) -> Any:
        far = lines - lines.mean(-1, keepdim=True)
        freedom = lines.shape[-1] - correction
        total = (far * far.conj()).real.sum(-1) if lines.is_complex() else (far * far).sum(-1)
        return total / (freedom if freedom > 0 else math.nan)

    return _reduce("var", x, axis, keepdims, compute)


@standard
def std(x: Any, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The standard deviation over some dimensions, over all if `axis` is None."""
    return ad.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


@standard
def all(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether all elements along some dimensions are true, or not zero."""
    return _reduce("all", x != 0, axis, keepdims, lambda lines: lines.all(-1))


@standard
def any(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether any element along some dimensions is true, or not zero."""
    return _reduce("any", x != 0, axis, keepdims, lambda lines: lines.any(-1))


@anything
def count_nonzero(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """How many elements along some dimensions are not zero."""
    where = by_numpy("not_equal", "", (x, 0), {}) if x.dtype in WIDE_UNSIGNED else x != 0
    return _reduce("count_nonzero", where, axis, keepdims, lambda lines: lines.sum(-1))


def _running(name: str, compute: Any, initial: int) -> Any:
    def function(
        x: Any, /, *, axis: int | None = None, dtype: DType | None = None,
        include_initial: bool = False,
    ) -> Any:  # fmt: skip
        if axis is None:
            if x.ndim > 1:
                raise ValueError(f"{name}: axis is needed for an array of {x.ndim} dimensions")
            axis = 0
        axis = axes_of(name, axis, x.ndim)[0]
        wanted = dtype or summed_dtype(x.dtype)
        if wanted in WIDE_UNSIGNED or x.dtype in WIDE_UNSIGNED:
            given = {"axis": axis, "dtype": wanted, "include_initial": include_initial}
            return _exact_unsigned(name, x, wanted, given)
        x = cast(x, wanted)
        out = compute(x, axis)
        if include_initial:
            shape = [1 if d == axis else n for d, n in enumerate(x.shape)]
            first = ad.full(shape, initial, dtype=wanted, device=x.device)
            out = ad.cat([first, out], axis)
        return out

    function.__name__ = name
    function.__doc__ = f"The running {name.removeprefix('cumulative_')} along a dimension."
    return anything(function)


cumulative_sum = _running("cumulative_sum", lambda x, axis: x.cumsum(axis, dtype=x.dtype), 0)
cumulative_prod = _running("cumulative_prod", lambda x, axis: x.cumprod(axis, dtype=x.dtype), 1)


@standard
def diff(x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Any:
    """The n-th differences of neighbours along a dimension."""
    if n < 0:
        raise ValueError(f"diff: n must not be negative, received {n}")
    parts = [part for part in (prepend, x, append) if part is not None]
    dtype = result_type(*parts)
    whole = ad.cat([cast(part, dtype) for part in parts], axis) if len(parts) > 1 else x
    for _ in range(n):
        size = whole.shape[axis]
        if not size:
            break
        later, earlier = whole.narrow(axis, 1, size - 1), whole.narrow(axis, 0, size - 1)
        whole = later ^ earlier if dtype is dt.bool_ else later - earlier
    return whole
