"""`backends.cpu`: what the processor can do."""

from __future__ import annotations

import platform


def get_cpu_capability() -> str:
    """The vector instructions NumPy's kernels use, in one word."""
    return "NEON" if platform.machine() in ("aarch64", "arm64") else "DEFAULT"
