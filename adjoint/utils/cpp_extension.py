"""What programs ask of PyTorch's C++ extensions before they build one: whether they could.

Nothing is compiled against PyTorch here; what would (`load`, `CUDAExtension`) refuses when used.
"""

from __future__ import annotations

import os
import shutil

# Where NVIDIA's compiler is, by the variables that PyTorch reads; None where there is none.
CUDA_HOME: str | None = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
ROCM_HOME: str | None = None
IS_HIP_EXTENSION = False


def is_ninja_available() -> bool:
    """Whether the build tool is installed."""
    return shutil.which("ninja") is not None
