"""Making arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

import adjoint as ad
from adjoint.array_api.arrays import anything, from_numpy, standard
from adjoint.array_api.dtypes import cast, result_type
from adjoint.engine.backends.array.dtypes import NUMPY_OF
from adjoint.engine.core import dtype as dt
from adjoint.engine.core.dtype import DType
from adjoint.engine.tensor.tensor import Tensor

_NUMBERS = (bool, int, float, complex)


def default_dtype(*numbers: Any) -> DType:
    """The dtype of Python numbers: bool, or the default of the highest kind among them."""
    if any(isinstance(number, complex) for number in numbers):
        return dt.get_default_dtype().to_complex()
    if any(isinstance(number, float) for number in numbers):
        return dt.get_default_dtype()
    return dt.bool_ if all(isinstance(number, bool) for number in numbers) else dt.int64


def _from_numpy(array: Any, dtype: DType, device: Any) -> Any:
    array_of = from_numpy(np.asarray(array).astype(NUMPY_OF[dtype], copy=False))
    return array_of if device is None else array_of.to(device)


def _shape(shape: Any) -> tuple[int, ...]:
    return (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(shape)


@anything
def asarray(
    obj: Any, /, *, dtype: DType | None = None, device: Any = None, copy: bool | None = None
) -> Any:
    """An array of a number, nested sequence, buffer or array; shares memory unless `copy`.

    >>> from adjoint import array_api as xp
    >>> xp.asarray([[1.0, 2.0], [3.0, 4.0]]).shape
    adjoint.Size([2, 2])
    """
    if isinstance(obj, Tensor):
        array_made = obj if device is None else obj.to(device)
        array_made = array_made if dtype is None else array_made.to(dtype)
        if array_made is obj:
            return obj.clone() if copy else obj
        return _refuse_copy(copy, array_made)
    if isinstance(obj, (*_NUMBERS, list, tuple)) and not isinstance(obj, np.generic):
        if copy is False:
            raise ValueError("asarray: Python's numbers and sequences have to be copied")
        return _of_sequence(obj, dtype, device)
    array = np.asarray(obj)
    if not isinstance(obj, (np.ndarray, np.generic)) and hasattr(obj, "__dlpack__"):
        return from_dlpack(obj, device=device, copy=copy)
    wanted = dtype or ad.as_tensor(array).dtype
    array_made = _from_numpy(np.array(array, copy=copy), wanted, device)
    if array.dtype != NUMPY_OF[wanted] or device is not None:
        return _refuse_copy(copy, array_made)
    return array_made


def _refuse_copy(copy: bool | None, result: Any) -> Any:
    if copy is False:
        raise ValueError("asarray: another dtype or device takes a copy, which copy=False forbids")
    return result


def _of_sequence(obj: Any, dtype: DType | None, device: Any) -> Any:
    leaves = list(_leaves(obj))
    arrays = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    if dtype is None:
        numbers = [leaf for leaf in leaves if not isinstance(leaf, Tensor)]
        plain = [n.item() if isinstance(n, np.generic) else n for n in numbers]
        if arrays:
            dtype = result_type(*arrays, *plain)
        elif not leaves:
            dtype = dt.get_default_dtype()
        else:
            dtype = default_dtype(*plain)
    if arrays:
        parts = [_of_sequence(part, dtype, device) for part in obj]
        return ad.stack([cast(part, dtype) for part in parts])
    array = np.asarray(obj, dtype=NUMPY_OF[dtype])
    return _from_numpy(array, dtype, device)


def _leaves(obj: Any) -> Any:
    if isinstance(obj, (list, tuple)):
        for item in obj:
            yield from _leaves(item)
    elif isinstance(obj, np.ndarray):
        yield from obj.reshape(-1)
    else:
        yield obj


@anything
def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """An array on the memory of an object that speaks DLPack."""
    shared = ad.from_dlpack(x, copy=copy)
    if device is None or shared.device == ad.device(device):
        return shared
    if copy is False:
        raise ValueError(f"from_dlpack: the memory is on {shared.device}; {device} takes a copy")
    return shared.to(device)


@anything
def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: DType | None = None,
    device: Any = None,
) -> Any:  # fmt: skip
    """Numbers from `start` up to `stop`, `step` apart."""
    if stop is None:
        start, stop = 0, start
    dtype = dtype or default_dtype(
        *(int(n) if isinstance(n, bool) else n for n in (start, stop, step))
    )
    length = max(int(np.ceil((stop - start) / step)), 0)
    if dtype in (dt.float32, dt.float64, dt.float16, dt.bfloat16):
        return _from_numpy(start + np.arange(length, dtype=np.float64) * step, dtype, device)
    return _from_numpy(np.arange(start, stop, step), dtype, device)


@anything
def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: DType | None = None, device: Any = None,
    endpoint: bool = True,
) -> Any:  # fmt: skip
    """`num` numbers at equal distances, the last of which is `stop` if `endpoint`."""
    dtype = dtype or default_dtype(start, stop, 1.0)
    return _from_numpy(np.linspace(start, stop, num, endpoint=endpoint), dtype, device)


@anything
def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: DType | None = None,
    device: Any = None,
) -> Any:  # fmt: skip
    """Ones on the k-th diagonal, zeros elsewhere."""
    return _from_numpy(np.eye(n_rows, n_cols, k), dtype or dt.get_default_dtype(), device)


@anything
def empty(shape: Any, *, dtype: DType | None = None, device: Any = None) -> Any:
    """An array whose elements mean nothing yet."""
    return ad.empty(_shape(shape), dtype=dtype or dt.get_default_dtype(), device=device)


@anything
def zeros(shape: Any, *, dtype: DType | None = None, device: Any = None) -> Any:
    """An array of zeros."""
    return ad.zeros(_shape(shape), dtype=dtype or dt.get_default_dtype(), device=device)


@anything
def ones(shape: Any, *, dtype: DType | None = None, device: Any = None) -> Any:
    """An array of ones."""
    return full(shape, 1, dtype=dtype or dt.get_default_dtype(), device=device)


@anything
def full(shape: Any, fill_value: Any, *, dtype: DType | None = None, device: Any = None) -> Any:
    """An array of one number."""
    if isinstance(fill_value, Tensor):
        filled = fill_value.to(dtype or fill_value.dtype)
        return (filled if device is None else filled.to(device)).expand(_shape(shape)).clone()
    dtype = dtype or default_dtype(fill_value)
    if device is None or ad.device(device).type == "cpu":
        return _from_numpy(np.full(_shape(shape), fill_value, dtype=NUMPY_OF[dtype]), dtype, None)
    return ad.full(_shape(shape), fill_value, dtype=dtype, device=device)


@anything
def empty_like(x: Any, /, *, dtype: DType | None = None, device: Any = None) -> Any:
    """An array of the shape of another, whose elements mean nothing yet."""
    return empty(x.shape, dtype=dtype or x.dtype, device=device or x.device)


@anything
def zeros_like(x: Any, /, *, dtype: DType | None = None, device: Any = None) -> Any:
    """Zeros in the shape of another array."""
    return zeros(x.shape, dtype=dtype or x.dtype, device=device or x.device)


@anything
def ones_like(x: Any, /, *, dtype: DType | None = None, device: Any = None) -> Any:
    """Ones in the shape of another array."""
    return ones(x.shape, dtype=dtype or x.dtype, device=device or x.device)


@anything
def full_like(x: Any, /, fill_value: Any, *, dtype: DType | None = None, device: Any = None) -> Any:
    """One number in the shape of another array."""
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device or x.device)


@anything
def meshgrid(*arrays: Any, indexing: str = "xy") -> Any:
    """Arrays of coordinates from their values along each dimension."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij', received {indexing!r}")
    if not arrays:
        return []
    order = list(range(len(arrays)))
    if indexing == "xy" and len(arrays) > 1:
        order[:2] = [1, 0]
    shape = [arrays[i].shape[0] if arrays[i].ndim else 1 for i in order]
    out = []
    for at, array in enumerate(arrays):
        where = [1] * len(arrays)
        where[order.index(at)] = -1
        out.append(array.reshape(where).expand(shape).clone())
    return out


@standard
def tril(x: Any, /, *, k: int = 0) -> Any:
    """The elements on and below the k-th diagonal; zeros above."""
    return ad.tril(x, k)


@standard
def triu(x: Any, /, *, k: int = 0) -> Any:
    """The elements on and above the k-th diagonal; zeros below."""
    return ad.triu(x, k)
