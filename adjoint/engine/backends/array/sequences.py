"""NumPy's arrays of Python data: numbers, and sequences of them in each other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from adjoint.engine.backends.array.dtypes import NUMPY_OF
from adjoint.engine.backends.array.quiet import quietly
from adjoint.engine.core import dtype as dt
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import DTypeError, DTypeTypeError, DTypeValueError, ShapeValueError
from adjoint.engine.core.numeric_limits import iinfo
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.host import fits_a_word
from adjoint.engine.tensor.tensor import DTYPE_OF

Array = Any
NUMBERS = frozenset((bool, int, float, complex))


def _shape_error(data: Any, expected: int, dim: int) -> Exception:
    return ValueError(
        f"tensor: expected sequence of length {expected} at dim {dim} (got {len(data)})"
    )


def _check_regular(data: Any, dim: int = 0) -> None:
    """Name the place where nested sequences differ in length or depth."""
    if not isinstance(data, (list, tuple)) or not data:
        return
    first = data[0]
    if isinstance(first, (list, tuple)):
        for item in data:
            if type(item) in NUMBERS:
                raise TypeError(
                    f"tensor: not a sequence: {item!r} beside sequences of length {len(first)} at "
                    f"dim {dim + 1}"
                )
            if not isinstance(item, (list, tuple)) or len(item) != len(first):
                raise _shape_error(item if hasattr(item, "__len__") else [], len(first), dim + 1)
            _check_regular(item, dim + 1)
    elif type(first) in NUMBERS:
        for item in data:
            if isinstance(item, (list, tuple)):
                raise TypeError(
                    f"tensor: {type(item).__name__!r} object cannot be interpreted as a number, "
                    f"as {first!r} beside it is at dim {dim}"
                )


def no_such_dtype(name: str, dtype: Any) -> Exception:
    """The error for NumPy's arrays of a type that no tensor has."""
    if not dtype.isnative and dtype.newbyteorder("=") in DTYPE_OF:
        return ValueError(
            f"{name}: given numpy array has byte order different from the native byte order, "
            f"received {dtype}. Convert it with array.astype(array.dtype.newbyteorder('='))."
        )
    return DTypeTypeError(
        f"{name}: can't convert np.ndarray of type {dtype}. The supported types "
        f"are: {', '.join(d.name for d in dt.DTYPES)}."
    )


def _leaf_dtypes(data: Any) -> set[DType]:
    """The dtypes of the numbers in nested sequences: Python's count as the default dtypes."""
    if isinstance(data, (list, tuple)):
        kinds = set(map(type, data))
        if kinds <= NUMBERS:
            return {dt.of_scalar(kind()) for kind in kinds}
        if data and isinstance(data[0], str):
            raise ValueError("tensor: too many dimensions 'str': letters are no numbers")
        return set().union(*map(_leaf_dtypes, data))
    if isinstance(data, (np.ndarray, np.generic)):
        if data.dtype not in DTYPE_OF:
            raise no_such_dtype("tensor", data.dtype)
        return {DTYPE_OF[data.dtype]}
    if is_tensor(data):
        return {data.dtype}
    if isinstance(data, (bool, int, float, complex)):
        return {dt.of_scalar(data)}
    if isinstance(data, (str, bytes)):
        raise TypeError(f"tensor: invalid data type {type(data).__name__!r}")
    if isinstance(data, Sequence) or hasattr(data, "__array__"):  # a range, a data frame's column
        return _leaf_dtypes(list(data))
    raise DTypeError(f"tensor: could not infer dtype of {type(data).__name__}")


def _unwrap(data: Any) -> Any:
    """Nested sequences with tensors of one element in them replaced by their numbers."""
    if is_tensor(data):
        if data.numel() != 1:
            raise ShapeValueError(
                "tensor: only one element tensors can be converted to Python scalars, received "
                f"{data._spec} in a sequence. Use stack or cat to join tensors."
            )
        return data.item()
    if isinstance(data, (list, tuple)):
        return [_unwrap(x) for x in data]
    return data


_ROOM = 3e38  # less than float32's largest number
_SEQUENCES, _FLOATS, _INTS = {list, tuple}, {float}, {int}


def _kinds(data: Any) -> set[type]:
    """The classes of what is in nested lists and tuples."""
    kinds = set(map(type, data))
    return kinds.union(*map(_kinds, data)) - _SEQUENCES if kinds and kinds <= _SEQUENCES else kinds


def _of_numbers(data: Any, dtype: DType | None) -> Array | None:
    """The same of nested sequences of Python's floats, or of whole numbers, alone; None of others,
    or where something is to be said of them."""
    kinds = _kinds(data)
    try:
        if kinds == _FLOATS:
            target = dtype or dt.get_default_dtype()
            if target in (dt.float32, dt.float64):  # narrower ones might be rounded twice
                return quietly(np.array, (data, NUMPY_OF[target]), {})
        elif kinds == _INTS and (dtype is None or dtype is dt.int64):
            array = np.array(data)
            return array if array.dtype == np.int64 else None
    except ValueError:
        pass
    return None


def _of_number(data: Any, dtype: DType | None) -> Array | None:
    """The same of one number; None of others, or where something is to be said of it."""
    kind = data.__class__
    if kind is float:
        target = dtype or dt.get_default_dtype()
        # What is larger than float32's numbers overflows, of which NumPy warns.
        if target is dt.float32 and not -_ROOM < data < _ROOM:
            return None
        return np.array(data, NUMPY_OF[target]) if target in (dt.float32, dt.float64) else None
    if kind is int and (dtype is None or dtype is dt.int64):
        return np.array(data, np.int64) if fits_a_word(data) else None
    return np.array(data) if kind is bool and (dtype is None or dtype is dt.bool_) else None


def to_array(data: Any, dtype: DType | None) -> Array:
    """A NumPy array of `data` with PyTorch's choice of dtype; a copy.

    Without `dtype`, it is what all the numbers in `data` promote to.
    """
    if data.__class__ is list or data.__class__ is tuple:
        array = _of_numbers(data, dtype)
    else:
        array = _of_number(data, dtype)
    if array is not None:
        return array
    dtypes = _leaf_dtypes(data)
    if isinstance(data, (list, tuple)) and _holds_tensor(data):
        data = _unwrap(data)
    target = dtype or reduce(dt.promote_types, dtypes or {dt.get_default_dtype()})
    try:
        array = np.array(data)
    except ValueError:
        _check_regular(data)
        raise
    if (
        array.dtype.kind == "f"
        and dtypes
        and all(leaf_dtype.category == dt.INT for leaf_dtype in dtypes)
    ):
        array = np.array(data, object)  # NumPy rounds whole numbers of which some are large
    if not isinstance(data, (np.ndarray, np.generic)):
        _check_overflow(array, target)
    if array.dtype == NUMPY_OF[target]:
        return array
    if array.dtype.kind == "O" and target.category == dt.FLOAT:
        array = array.astype(np.float64)  # narrow dtypes take no whole numbers beyond 64 bits
    return quietly(array.astype, (NUMPY_OF[target],), {"copy": False})


def _check_overflow(array: Array, target: DType) -> None:
    """Refuse numbers that an integer dtype, or a real one, does not hold."""
    if array.dtype.kind == "c" and target.category < dt.COMPLEX and target is not dt.bool_:
        raise TypeError(f"tensor: can't convert complex to {target.name}")
    if target.category != dt.INT or not array.size or array.dtype == NUMPY_OF[target]:
        return
    limits = iinfo(target)
    low = limits.min if array.dtype.kind == "f" else min(limits.min, -limits.max)
    # NaN compares false with everything.
    if not (low <= array.min() and array.max() <= limits.max):
        beyond = array.dtype.kind in "uO" and (array.min() < -(2**63) or array.max() >= 2**63)
        raise (DTypeValueError if beyond else DTypeError)(
            f"tensor: value cannot be converted to type {target.name} without overflow; received "
            f"numbers from {array.min()} to {array.max()}. Choose a wider dtype."
        )


def _holds_tensor(data: Any) -> bool:
    if NUMBERS.issuperset(map(type, data)):  # a million of them are asked in no time
        return False
    return any(is_tensor(x) or (isinstance(x, (list, tuple)) and _holds_tensor(x)) for x in data)
