"""How this Adjoint is put together, in words."""

from __future__ import annotations

import platform
import sys

import numpy as np

from adjoint.engine.backends.threads import get_num_threads


def show() -> str:
    """Versions and machine."""
    return (
        f"Adjoint on Python {platform.python_version()}, NumPy {np.__version__}\n"
        f"  - {platform.platform()} ({platform.machine()}, {sys.byteorder}-endian)\n"
        f"  - {get_num_threads()} threads\n"
    )


def parallel_info() -> str:
    """The number of threads."""
    return f"threads: {get_num_threads()}\n"
