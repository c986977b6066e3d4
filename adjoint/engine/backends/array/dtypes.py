"""Our dtypes and the array library's."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from adjoint.engine.core import dtype as dt
from adjoint.engine.core.dtype import DTYPES, STORAGE_DTYPES, DType
from adjoint.engine.core.operations.large import HALF_DTYPES
from adjoint.engine.tensor.tensor import DTYPE_OF


class _Kept(dict[DType, np.dtype[Any]]):
    """NumPy's dtypes by ours; one that nothing is kept in is refused by name."""

    def __missing__(self, d: DType) -> np.dtype[Any]:
        raise NotImplementedError(
            f"tensors of {d!r} are not implemented: elements are kept in "
            f"{', '.join(kept.name for kept in self)}"
        )


NUMPY_OF: dict[DType, np.dtype[Any]] = _Kept(
    (d, np.dtype(getattr(ml_dtypes, d.name) if hasattr(ml_dtypes, d.name) else d.name))
    for d in (*DTYPES, *STORAGE_DTYPES)
    if d is not dt.complex32 or hasattr(ml_dtypes, "complex32")  # ml_dtypes 0.6 brought it
)
# CuPy has no arrays of float8: there they are bytes of a kind of their own, which are kept, copied
# and converted. By NumPy's dtype, and back.
FLOAT8: dict[np.dtype[Any], np.dtype[Any]] = {
    NUMPY_OF[d]: np.dtype([(d.name, np.uint8)]) for d in (dt.float8_e4m3fn, dt.float8_e5m2)
}
HOST_FLOAT8 = {there: here for here, there in FLOAT8.items()}
HALF_DTYPES.update(v for k, v in NUMPY_OF.items() if k.is_half)
DTYPE_OF.update({v: k for k, v in NUMPY_OF.items()})
DTYPE_OF.update({there: DTYPE_OF[here] for here, there in FLOAT8.items()})


def put(target: Any, source: Any) -> None:
    """Put an array's elements into another; a GPU's of float8 as the bytes they are."""
    if target.dtype in HOST_FLOAT8:
        target, source = target.view(np.uint8), source.view(np.uint8)
    target[...] = source


def accumulator(d: DType) -> np.dtype[Any]:
    """The dtype arithmetic on `d` is carried out in: halves compute in float32."""
    return NUMPY_OF[dt.float32 if d.is_half else d]


def bits_in(d: DType, value: Any) -> int:
    """A number as an element of a dtype, and that as a whole number of as many bits."""
    return int(np.array([value]).astype(NUMPY_OF[d]).view(f"i{d.itemsize}")[0])
