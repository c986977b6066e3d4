"""Names for annotations, under PyTorch's names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO

from adjoint.engine.core.device import Device as _Device
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.layout import Layout
from adjoint.engine.core.spec import Size
from adjoint.engine.tensor.tensor import Tensor

Number = int | float | bool
Device = _Device | str | int | None
FileLike = str | os.PathLike[str] | IO[bytes]

_TensorOrTensors = Tensor | Sequence[Tensor]
_dtype = DType
_device = _Device
_layout = Layout
_size = Size | list[int] | tuple[int, ...]
_int, _float, _bool, _complex = int, float, bool, complex
DeviceObjType = _Device
