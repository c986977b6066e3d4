"""Errors by kind; each is also of the type that PyTorch raises, so programs catch either.

>>> import adjoint as ad
>>> try:
...     ad.ones(2, 3) @ ad.ones(2, 3)
... except ad.errors.ShapeError as error:
...     print(isinstance(error, RuntimeError))
True
"""

from adjoint.engine.core.errors import AbsentDeviceError as AbsentDeviceError
from adjoint.engine.core.errors import AcceleratorError as AcceleratorError
from adjoint.engine.core.errors import AdjointError as AdjointError
from adjoint.engine.core.errors import AnyDTypeError as AnyDTypeError
from adjoint.engine.core.errors import AnyShapeError as AnyShapeError
from adjoint.engine.core.errors import BoundsError as BoundsError
from adjoint.engine.core.errors import CaptureError as CaptureError
from adjoint.engine.core.errors import DeviceError as DeviceError
from adjoint.engine.core.errors import DTypeError as DTypeError
from adjoint.engine.core.errors import DTypeTypeError as DTypeTypeError
from adjoint.engine.core.errors import DTypeValueError as DTypeValueError
from adjoint.engine.core.errors import ExportGuardError as ExportGuardError
from adjoint.engine.core.errors import FileError as FileError
from adjoint.engine.core.errors import FileFormatError as FileFormatError
from adjoint.engine.core.errors import LinAlgError as LinAlgError
from adjoint.engine.core.errors import OutOfMemoryError as OutOfMemoryError
from adjoint.engine.core.errors import ShapeError as ShapeError
from adjoint.engine.core.errors import ShapeIndexError as ShapeIndexError
from adjoint.engine.core.errors import ShapeValueError as ShapeValueError

__all__ = [
    "AbsentDeviceError",
    "AcceleratorError",
    "AdjointError",
    "AnyDTypeError",
    "AnyShapeError",
    "CaptureError",
    "DTypeError",
    "DTypeTypeError",
    "DTypeValueError",
    "DeviceError",
    "ExportGuardError",
    "FileError",
    "FileFormatError",
    "LinAlgError",
    "OutOfMemoryError",
    "ShapeError",
    "ShapeIndexError",
    "ShapeValueError",
]
