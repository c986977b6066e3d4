"""What Adjoint's types are called in PyTorch's files."""

from __future__ import annotations

from typing import Any

from adjoint.engine import assembly
from adjoint.engine.core import dtype as dt
from adjoint.engine.core.dtype import DType

STORAGES: dict[DType, str] = {
    dt.bool_: "BoolStorage",
    dt.uint8: "ByteStorage",
    dt.int8: "CharStorage",
    dt.int16: "ShortStorage",
    dt.int32: "IntStorage",
    dt.int64: "LongStorage",
    dt.float16: "HalfStorage",
    dt.bfloat16: "BFloat16Storage",
    dt.float32: "FloatStorage",
    dt.float64: "DoubleStorage",
    dt.complex64: "ComplexFloatStorage",
    dt.complex128: "ComplexDoubleStorage",
}
DTYPE_OF_STORAGE: dict[str, DType] = {name: d for d, name in STORAGES.items()}


def parameter_class() -> Any:
    """`nn.Parameter`, asked of the facade: files know it, this layer does not."""
    return assembly.find("nn").Parameter
