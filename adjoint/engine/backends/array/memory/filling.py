"""One value in all elements of an array in the CPU's memory."""

from __future__ import annotations

from typing import Any

import numpy as np

BLOCK, MANY = 1 << 15, 1 << 16  # bytes: of a block, and that are worth the calls


def fill(target: Any, value: Any) -> None:
    """Overwrite all elements by a number, as `numpy.copyto` converts it.

    NumPy writes one element after another, and converts each to a dtype that is not its own, as
    bfloat16. Zeros are written as bytes and others by blocks, which memory takes in half the time.
    """
    one = np.empty((), target.dtype)
    np.copyto(one, value, casting="unsafe")
    if target.dtype.kind == "V" and target.dtype.names is None:
        words = f"u{target.dtype.itemsize}"
        target, one = target.view(words), one.view(words)
    zero = not any(one.tobytes())  # -0.0 is not
    if target.nbytes < MANY or not (zero or one.itemsize >= 4) or not target.flags.c_contiguous:
        target[...] = one
        return
    line = target.reshape(-1)
    if zero:
        line.view(np.uint8).fill(0)
        return
    block = np.full(BLOCK // line.itemsize, one)
    whole = line.size - line.size % block.size
    line[:whole].reshape(-1, block.size)[...] = block
    line[whole:] = one
