"""Arrays in the CPU's memory overwritten: by one value in all elements, or by another's elements.

Large ones that lie in one piece, or in rows, are moved by all workers
(`backends.llvm.program.moves`), once a compiler is loaded, or so much was moved that it would have
paid to load one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from adjoint.engine.core.operations.record import HOOKS

Shape = tuple[int, ...]

BLOCK, MANY = 1 << 15, 1 << 16  # bytes: of a block, and that are worth the calls
SHARED = 1 << 17  # bytes that are worth more than one worker
# Bytes, in all and side by side, that are worth a call that walks rows: it takes ten microseconds.
ROWS, ROW = 1 << 18, 64
TRIANGLE = 1 << 14  # the same of a matrix, of which NumPy would write a copy
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
    if array.flags.forc or array.ndim < 3:
        return bool(array.flags.forc)
    order = sorted(range(array.ndim), key=lambda d: -array.strides[d])
    return bool(array.transpose(order).flags.c_contiguous)


class FilledRows(NamedTuple):
    """Which bytes of rows are written: in row i from `begin + i * later` to `end + i * longer`, of
    those that a row has. Numbers of bytes are multiples of an element's."""

    rows: int
    step: int  # bytes to the next row
    width: int  # bytes of a row
    matrices: int = 1
    apart: int = 0  # bytes to the next matrix
    begin: int = 0
    later: int = 0
    end: int | None = None  # None: where the row does
    longer: int = 0


def rows_of(target: Any) -> FilledRows | None:
    """The rows of elements side by side that an array is made of; None where these are short, where
    more than two dimensions are left of which they are rows, or where memory shows twice."""
    width = int(target.itemsize)
    outer: list[tuple[int, int]] = []
    for step, size in sorted(zip(target.strides, target.shape, strict=True)):
        if size == 1:
            continue
        if step <= 0:
            return None
        if not outer and step == width:
            width *= size
        elif outer and step == outer[-1][0] * outer[-1][1]:
            outer[-1] = outer[-1][0], outer[-1][1] * size
        else:
            outer.append((step, size))
    if width < ROW or len(outer) > 2:
        return None
    (step, rows), (apart, matrices) = (*outer, (0, 1), (0, 1))[:2]
    return FilledRows(rows, step, width, matrices, apart)


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
    if fill_rows(target, one):
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


def fill_rows(target: Any, one: Any) -> bool:
    """Overwrite all elements of an array in rows apart, where it has many; False: nothing is."""
    flags = target.flags
    if target.nbytes < ROWS or flags.forc or not flags.writeable or one.itemsize not in WIDTHS:
        return False
    rows = rows_of(target)
    if rows is None or not is_shared(target.nbytes):
        return False
    return is_moved(HOOKS.fill_rows, address_of(target), rows, one.tobytes())


def zero_triangle(target: Any, diagonal: int, lower: bool) -> bool:
    """Set what lies beyond a diagonal of matrices to zeros, where they lie. False: nothing is done.

    That is what `tril_` (lower) and `triu_` do, which then touch nothing else.
    """
    if target.ndim < 2 or target.nbytes < TRIANGLE or not target.flags.writeable:
        return False
    rows = _beyond(target.shape, target.strides, target.itemsize, diagonal, lower)
    if rows is None or not is_shared(target.nbytes):
        return False
    return is_moved(HOOKS.fill_rows, address_of(target), rows, bytes(target.itemsize))


@lru_cache(maxsize=1 << 8)
def _beyond(
    shape: Shape, strides: Shape, itemsize: int, diagonal: int, lower: bool
) -> FilledRows | None:
    """What lies beyond a diagonal of matrices; None where they do not lie in rows."""
    height, width = shape[-2:]
    step, item = strides[-2:]
    if item != itemsize:  # the other triangle of what is turned around
        height, width, step, item = width, height, item, step
        diagonal, lower = -diagonal, not lower
    matrices, apart = 1, 0
    for size, stride in zip(reversed(shape[:-2]), reversed(strides[:-2]), strict=True):
        if size == 1:
            continue
        if matrices > 1 and stride != apart * matrices:
            return None
        apart, matrices = (stride if matrices == 1 else apart), matrices * size
    if item != itemsize or step < width * item or apart < 0 or item not in WIDTHS:
        return None
    edge = min(max(diagonal, -height), width) * item  # which is where no row reaches it
    if lower:
        begin, later, end, longer = edge + item, item, width * item, 0
    else:
        begin, later, end, longer = 0, 0, edge, item
    return FilledRows(height, step, width * item, matrices, apart, begin, later, end, longer)


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
    np.copyto(target, unharmed(target, source))


def unharmed(target: Any, source: Any) -> Any:
    """The source, or a copy of it where `numpy.copyto` would overwrite what it reads later.

    NumPy copies a source that overlaps its target first, but not in one dimension with strides of
    one sign: there it only chooses the end that it begins at, which is enough for equal strides.
    """
    if target.ndim == 1 and source.ndim and target.strides[0] != source.strides[-1]:
        return source.copy() if np.may_share_memory(target, source) else source
    return source
