"""What a program may ask of the build: `version.cuda` is None where there is no CUDA."""

from __future__ import annotations

import importlib
from typing import Any

from adjoint.engine.core.state.loading import lacking as _lacking

debug = False
git_version = "unknown"
hip: str | None = None
rocm: str | None = None
xpu: str | None = None


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("adjoint").__version__
    if name == "cuda":
        from adjoint.engine.backends.array.gpu import cuda

        if not cuda.is_available():
            return None
        import cupy

        number = cupy.cuda.runtime.runtimeGetVersion()
        return f"{number // 1000}.{number % 1000 // 10}"
    raise _lacking(__name__, name)
