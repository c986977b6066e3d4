"""The C library's allocator, told to keep the memory that arrays free.

By default glibc gives an array of more than 128 KiB fresh pages from the system and hands them
back when it is freed, so that every temporary of an eager operation pays for having its pages
found and zeroed again: `x.add(y, alpha=a)` took 0.34 ms for a hundred thousand elements and takes
0.07 ms so, 9.5 ms for a million and takes 0.9 ms; layer_norm takes half its time.
"""

from __future__ import annotations

import ctypes
import os
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # <malloc.h>
KEPT = 256 << 20  # bytes at the end of the heap that are not handed back
LARGEST = 32 << 20  # the most glibc accepts; larger arrays come from the system as before

# Who sets one of these has made up their mind.
VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_")


def keep_freed_memory() -> bool:
    """Let the heap serve large arrays and keep what they free; whether that could be set."""
    chosen = any(name in os.environ for name in VARIABLES)
    if (
        not sys.platform.startswith("linux")
        or chosen
        or "malloc" in os.getenv("GLIBC_TUNABLES", "")
    ):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return False
    return bool(mallopt(_MMAP_THRESHOLD, LARGEST) and mallopt(_TRIM_THRESHOLD, KEPT))


keep_freed_memory()
