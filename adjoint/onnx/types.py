"""ONNX's element types, and what a value of a model is here.

A value is a tensor; an array, where Adjoint has no such dtype (strings, wide unsigned integers, the
narrow formats of `ml_dtypes`); a list, for a sequence; None, for what is absent. Whole numbers that
depend on sizes which a recording leaves open are `OpenSizes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np

import adjoint as ad
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.state.context import concrete
from adjoint.engine.tensor.tensor import Tensor

Value = Any


class OnnxError(ValueError):
    """A file that is not a valid model, or asks for what is not done."""


@dataclass(frozen=True, slots=True)
class OpenSizes:
    """A whole number, or a row of them, of which some depend on open sizes."""

    numbers: tuple[int, ...]
    ndim: int  # 0 or 1

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.numbers),) if self.ndim else ()

    def tensor(self) -> Tensor:
        """The same as a tensor of the recording."""
        # `full` would take an open one as what it counts as meanwhile.
        parts = [ad.zeros((), dtype=ad.int64) + n for n in self.numbers]
        return ad.stack(parts) if self.ndim else parts[0]


# The number that files use -> NumPy's type; strings are arrays of objects.
ELEMENTS: Final[dict[int, np.dtype[Any]]] = {
    number: np.dtype(kind)
    for number, kind in {
        1: np.float32, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32,
        7: np.int64, 8: object, 9: np.bool_, 10: np.float16, 11: np.float64, 12: np.uint32,
        13: np.uint64, 14: np.complex64, 15: np.complex128, 16: ml_dtypes.bfloat16,
        17: ml_dtypes.float8_e4m3fn, 18: ml_dtypes.float8_e4m3fnuz, 19: ml_dtypes.float8_e5m2,
        20: ml_dtypes.float8_e5m2fnuz, 21: ml_dtypes.uint4, 22: ml_dtypes.int4,
        23: ml_dtypes.float4_e2m1fn, 24: ml_dtypes.float8_e8m0fnu, 25: ml_dtypes.uint2,
        26: ml_dtypes.int2,
    }.items()
}  # fmt: skip
NUMBERS: Final = {kind: number for number, kind in ELEMENTS.items()}

TENSORS: Final[dict[np.dtype[Any], DType]] = {
    np.dtype(kind): dtype
    for kind, dtype in {
        np.float32: ad.float32, np.uint8: ad.uint8, np.int8: ad.int8, np.int16: ad.int16,
        np.int32: ad.int32, np.int64: ad.int64, np.bool_: ad.bool, np.float16: ad.float16,
        np.float64: ad.float64, np.complex64: ad.complex64, np.complex128: ad.complex128,
        ml_dtypes.bfloat16: ad.bfloat16,
    }.items()
}  # fmt: skip
ARRAYS: Final = {dtype: kind for kind, dtype in TENSORS.items()}


def element(number: int, who: str) -> np.dtype[Any]:
    """NumPy's type of an element type's number."""
    if number not in ELEMENTS:
        raise OnnxError(
            f"{who}: element type {number} is not one of ONNX's, {min(ELEMENTS)} to "
            f"{max(ELEMENTS)}."
        )
    return ELEMENTS[number]


def value_of(array: Any) -> Value:
    """An array as a value: a tensor where Adjoint has the dtype. Lists are sequences."""
    if array is None or isinstance(array, Tensor):
        return array
    if isinstance(array, list | tuple):
        return [value_of(item) for item in array]
    array = np.asarray(array)
    if array.dtype.kind in "US":
        return array.astype(object)
    if array.dtype in TENSORS:
        return ad.tensor(np.ascontiguousarray(array).reshape(array.shape))
    return array


def array_of(value: Value) -> Any:
    """A value as an array, a sequence as a list of them."""
    if isinstance(value, Tensor):
        with concrete():
            return value.detach().cpu().numpy()
    if isinstance(value, list | tuple):
        return [array_of(item) for item in value]
    return value


def kind_of(value: Value) -> np.dtype[Any]:
    """NumPy's type of a value's elements."""
    return ARRAYS[value.dtype] if isinstance(value, Tensor) else value.dtype


def integers(value: Value) -> list[int]:
    """The numbers of a small tensor that says sizes, axes or positions, in order."""
    if isinstance(value, list | tuple):
        return [int(v) for v in value]
    if isinstance(value, OpenSizes):
        return list(value.numbers)
    return [int(v) for v in np.asarray(array_of(value)).ravel()]


def numbers(value: Value) -> list[float]:
    """The numbers of a small tensor of floats, in order."""
    if isinstance(value, list | tuple):
        return [float(v) for v in value]
    return [float(v) for v in np.asarray(array_of(value)).ravel()]


def number(value: Value) -> Any:
    """The one number of a tensor, as Python has it."""
    if isinstance(value, OpenSizes):
        return value.numbers[0]
    return np.asarray(array_of(value)).reshape(-1)[0].item() if value is not None else None
