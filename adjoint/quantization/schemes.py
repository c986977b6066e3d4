"""Schemes: whether scales are one to a tensor or to a channel, and where zero is."""

from __future__ import annotations

from dataclasses import dataclass

from adjoint.engine.core.dtype import DType, int8, int32, qint8, qint32, quint8, uint8
from adjoint.engine.core.errors import DTypeError
from adjoint.engine.core.state import config


@dataclass(frozen=True, slots=True, repr=False)
class qscheme:
    """A scheme, such as ``adjoint.per_tensor_affine``."""

    name: str
    per_channel: bool
    symmetric: bool

    def __repr__(self) -> str:
        return f"{config.display_name}.{self.name}"


per_tensor_affine = qscheme("per_tensor_affine", False, False)
per_tensor_symmetric = qscheme("per_tensor_symmetric", False, True)
per_channel_affine = qscheme("per_channel_affine", True, False)
per_channel_symmetric = qscheme("per_channel_symmetric", True, True)
per_channel_affine_float_qparams = qscheme("per_channel_affine_float_qparams", True, False)

# Dtypes by the whole numbers they are kept in, and their ranges.
HELD: dict[DType, DType] = {
    qint8: int8, quint8: uint8, qint32: int32, int8: int8, uint8: uint8, int32: int32,
}  # fmt: skip
RANGES: dict[DType, tuple[int, int]] = {
    int8: (-128, 127), uint8: (0, 255), int32: (-(2**31), 2**31 - 1),
}  # fmt: skip
QUANTIZED: dict[DType, DType] = {int8: qint8, uint8: quint8, int32: qint32}


def storage_dtype(name: str, dtype: DType) -> DType:
    """The dtype of the whole numbers of a quantised one."""
    if dtype not in HELD:
        raise DTypeError(
            f"{name}: expected a quantised dtype (qint8, quint8 or qint32), received {dtype!r}"
        )
    return HELD[dtype]
