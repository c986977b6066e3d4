"""`backends.cpu`: what the processor can do."""

from __future__ import annotations

import platform

# The widest first: LLVM's name of a feature, PyTorch's word for it.
_X86 = (("avx512f", "AVX512"), ("avx2", "AVX2"))


def get_cpu_capability() -> str:
    """The vector instructions that compiled programs use, in one word.

    >>> get_cpu_capability() in ("AVX512", "AVX2", "NEON", "DEFAULT")
    True
    """
    if platform.machine().lower() in ("aarch64", "arm64"):
        return "NEON"
    from llvmlite import binding

    features = binding.get_host_cpu_features()
    return next((word for feature, word in _X86 if features.get(feature)), "DEFAULT")
