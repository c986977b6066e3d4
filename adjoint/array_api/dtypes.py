"""Data types: promotion by the standard's table, casts, limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.array_api.arrays import anything
from adjoint.engine.backends.array.dtypes import NUMPY_OF
from adjoint.engine.core import dtype as dt
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import DTypeTypeError
from adjoint.engine.tensor.tensor import Tensor

SIGNED = (dt.int8, dt.int16, dt.int32, dt.int64)
UNSIGNED = (dt.uint8, dt.uint16, dt.uint32, dt.uint64)
REAL = (dt.float32, dt.float64)
COMPLEX = (dt.complex64, dt.complex128)
KINDS: dict[str, tuple[DType, ...]] = {
    "bool": (dt.bool_,),
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": (*SIGNED, *UNSIGNED),
    "real floating": REAL,
    "complex floating": COMPLEX,
    "numeric": (*SIGNED, *UNSIGNED, *REAL, *COMPLEX),
}


@dataclass(frozen=True, slots=True)
class FloatLimits:
    """The limits of a floating-point dtype."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True, slots=True)
class IntegerLimits:
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


def dtype_of(value: Any) -> DType:
    """The dtype of an array, or a dtype itself."""
    dtype = value if isinstance(value, DType) else getattr(value, "dtype", None)
    if not isinstance(dtype, DType):
        raise TypeError(f"expected an array or a dtype, received {type(value).__name__}")
    return dtype


def promote(a: DType, b: DType) -> DType:
    """The standard's result of two dtypes; of kinds it leaves open, PyTorch's.

    >>> promote(dt.uint16, dt.int8)
    adjoint.int32
    """
    if a is b:
        return a
    if a in UNSIGNED and b in UNSIGNED:
        return max(a, b, key=UNSIGNED.index)
    if a in SIGNED and b in UNSIGNED:
        a, b = b, a
    if a in UNSIGNED and b in SIGNED:
        if a is dt.uint64:
            raise TypeError(f"no integer type holds all of uint64 and {b.name}. Convert one first.")
        return SIGNED[max(UNSIGNED.index(a) + 1, SIGNED.index(b))]
    if dt.bool_ in (a, b):
        return b if a is dt.bool_ else a
    return dt.promote_types(a, b)


def with_scalar(array: DType, number: complex) -> DType:
    """The dtype of an array's meeting a Python number: the array's, unless of a lower kind."""
    if isinstance(number, (bool, np.bool_)):
        return array
    if isinstance(number, (int, np.integer)):
        return dt.int64 if array is dt.bool_ else array
    if isinstance(number, (float, np.floating)):
        return array if array in (*REAL, *COMPLEX) or array.is_floating_point else _float()
    if array in COMPLEX:
        return array
    return (array if array in REAL else _float()).to_complex()


def _float() -> DType:
    return dt.get_default_dtype()


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype that an operation on these arrays, dtypes and Python numbers gives.

    >>> from adjoint import array_api as xp
    >>> xp.result_type(xp.ones(2, dtype=xp.int8), xp.uint8, 3)
    adjoint.int16
    """
    result: DType | None = None
    numbers = []
    for value in arrays_and_dtypes:
        if isinstance(value, (bool, int, float, complex)):
            numbers.append(value)
        else:
            dtype = dtype_of(value)
            result = dtype if result is None else promote(result, dtype)
    if result is None:
        raise ValueError("result_type: expected at least one array or dtype")
    for number in numbers:
        result = with_scalar(result, number)
    return result


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether promotion allows the cast."""
    source = dtype_of(from_)
    try:
        return promote(source, to) is to
    except (TypeError, RuntimeError):
        return False


def isdtype(dtype: DType, kind: Any) -> bool:
    """Whether a dtype is of a kind, a dtype, or any of a tuple of them."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one_kind) for one_kind in kind)
    if isinstance(kind, str):
        if kind not in KINDS:
            raise ValueError(f"isdtype: expected one of {', '.join(KINDS)}, received {kind!r}")
        return dtype in KINDS[kind]
    if not isinstance(kind, DType):
        raise TypeError(f"isdtype: expected a dtype, a kind or a tuple, received {kind!r}")
    return dtype is kind


def finfo(type: Any, /) -> FloatLimits:
    """The limits of a floating-point dtype, or of an array's."""
    dtype = dtype_of(type)
    if dtype not in (*REAL, *COMPLEX) and not dtype.is_floating_point:
        raise DTypeTypeError(f"finfo: expected a floating-point dtype, received {dtype.name}")
    real = dtype.to_real()
    limits = ad.finfo(real)
    return FloatLimits(
        limits.bits, float(limits.eps), float(limits.max), float(limits.min),
        float(limits.smallest_normal), real,
    )  # fmt: skip


def iinfo(type: Any, /) -> IntegerLimits:
    """The limits of an integer dtype, or of an array's."""
    dtype = dtype_of(type)
    if dtype not in KINDS["integral"]:
        raise DTypeTypeError(f"iinfo: expected an integer dtype, received {dtype.name}")
    limits = np.iinfo(NUMPY_OF[dtype])
    return IntegerLimits(limits.bits, int(limits.max), int(limits.min), dtype)


@anything
def astype(x: Any, dtype: DType, /, *, copy: bool = True, device: Any = None) -> Any:
    """The array in another dtype; the same array if it is so already and `copy` is False."""
    if x.dtype in COMPLEX and dtype not in COMPLEX:
        raise DTypeTypeError(
            f"astype: complex numbers have no {dtype.name}. Take xp.real or xp.abs."
        )
    if device is not None:
        x = x.to(device)
    if x.dtype is dtype:
        return x.clone() if copy else x
    return x.to(dtype)


def cast(x: Any, dtype: DType) -> Any:
    """An array or Python number as an array of a dtype."""
    if isinstance(x, Tensor):
        return x if x.dtype is dtype else x.to(dtype)
    return ad.tensor(x, dtype=dtype)
