"""Arrays in the CPU's memory overwritten: by one value in all elements, or by another's elements.

Large ones that lie in one piece are moved by all workers (`backends.llvm.program.moves`), once a
compiler is loaded, or so much was moved that it would have paid to load one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.engine.core.operations.record import HOOKS

BLOCK, MANY = 1 << 15, 1 << 16  # bytes: of a block, and that are worth the calls
SHARED = 1 << 17  # bytes that are worth more than one worker
LOADED = 1 << 28  # bytes that take one core as long as to load a compiler
WIDTHS = frozenset({1, 2, 4, 8, 16})  # bytes of elements of which so many make up a pattern

_moved = 0  # bytes of arrays that would have been shared
_alone = False  # whether there are no workers here: no compiler, or no threads it knows


def is_shared(size: int) -> bool:
    """Whether workers are at hand for so many bytes, or worth being loaded by now."""
    global _moved
    if not HOOKS.native_loaded and _moved < LOADED:
        _moved += size
        return False
    return not _alone


def is_moved(move: Callable[..., None], *words: Any) -> bool:
    """Whether workers moved memory; once they could not, they are asked no more."""
    global _alone
    try:
        move(*words)
    except (ImportError, OSError, RuntimeError):
        _alone = True
    return not _alone


def address_of(array: Any) -> int:
    """Where the elements of an array begin."""
    return int(array.ctypes.data if HOOKS.address is None else HOOKS.address(array))


def in_one_piece(array: Any) -> bool:
    """Whether elements lie side by side, in whatever order of dimensions."""
    if array.flags.c_contiguous or array.flags.f_contiguous:
        return True
    order = sorted(range(array.ndim), key=lambda d: -array.strides[d])
    return bool(array.transpose(order).flags.c_contiguous)


def fill(target: Any, value: Any) -> None:
    """Overwrite all elements by a number, as `numpy.copyto` converts it.

    NumPy writes one element after another, and converts each to a dtype that is not its own, as
    bfloat16. Zeros are written as bytes and others by blocks, which memory takes in half the time.
    """
    one = np.empty((), target.dtype)
    np.copyto(one, value, casting="unsafe")
    large = target.nbytes >= SHARED and one.itemsize in WIDTHS and target.flags.writeable
    if (
        large
        and in_one_piece(target)
        and is_shared(target.nbytes)
        and is_moved(HOOKS.fill_memory, address_of(target), target.nbytes, one.tobytes())
    ):
        return
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


def copy(target: Any, source: Any) -> None:
    """Overwrite all elements by those of an array of the same dtype, as `numpy.copyto` does."""
    size = target.nbytes
    if size >= SHARED and target.shape == source.shape and target.strides == source.strides:
        to, given = address_of(target), address_of(source)
        apart = abs(to - given) >= size
        if (
            apart
            and target.flags.writeable
            and in_one_piece(target)
            and is_shared(target.nbytes)
            and is_moved(HOOKS.copy_memory, to, given, size)
        ):
            return
    np.copyto(target, source)
