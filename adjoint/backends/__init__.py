"""Where operations run; also, under PyTorch's names, the settings of vendor libraries.

`backends.cudnn`, `backends.cuda`, `backends.mps`, `backends.mkldnn` exist so that programs can ask
and set what they usually do.
"""

from __future__ import annotations

import importlib
from typing import Any

SETTINGS = ("cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp")


def __getattr__(name: str) -> Any:
    if name in SETTINGS:
        return importlib.import_module(f"adjoint.backends.{name}")
    raise AttributeError(f"module 'adjoint.backends' has no attribute {name!r}", name=name)
