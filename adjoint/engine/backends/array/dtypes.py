"""Our dtypes and the array library's."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from adjoint.engine.core import dtype as dt
from adjoint.engine.core.dtype import DTYPES, STORAGE_DTYPES, DType
from adjoint.engine.tensor.tensor import DTYPE_OF

NUMPY_OF: dict[DType, np.dtype[Any]] = {
    d: np.dtype(getattr(ml_dtypes, d.name) if hasattr(ml_dtypes, d.name) else d.name)
    for d in (*DTYPES, *STORAGE_DTYPES)
    if d is not dt.complex32 or hasattr(ml_dtypes, "complex32")  # ml_dtypes 0.6 brought it
}
DTYPE_OF.update({v: k for k, v in NUMPY_OF.items()})


def accumulator(d: DType) -> np.dtype[Any]:
    """The dtype arithmetic on `d` is carried out in: halves compute in float32."""
    return NUMPY_OF[dt.float32 if d.is_half else d]
