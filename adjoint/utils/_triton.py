"""Whether kernels written in Triton can run here."""

from __future__ import annotations

from importlib.util import find_spec

from adjoint.engine.backends.array.gpu.cuda import is_available


def has_triton_package() -> bool:
    """Whether Triton is installed."""
    return find_spec("triton") is not None


def has_triton() -> bool:
    """Whether Triton is installed and there is a GPU for it."""
    return has_triton_package() and is_available()
