"""Filling in: the addresses and numbers that differ from call to call, by code made for the task.

A call of a small program must not take longer than the program. What has to be done is known when
the program is made, so it is written out as a Python function without loops or look-ups.

Note [recycled results]
    Results are fresh arrays to whoever receives them. An array that was handed out and that nobody
    holds any more (its reference count says so: views and exported buffers hold it too) is as good
    as a fresh one, and its address is known. Each result keeps the last two: the gradient of the
    call before is usually alive until this call's replaces it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from sys import getrefcount
from typing import Any

import numpy as np

from adjoint.backends.array.dtypes import NUMPY_OF
from adjoint.compiler.image import Image
from adjoint.core.dtype import named

Fill = Callable[[list[Any], list[Any]], list[Any]]
SMALL = 1 << 20  # bytes; larger results are not kept when nobody else wants them
UNHELD = 2  # references to an array that only its slot holds: the slot's, and the question's own
# Where threads run at once, one may be about to take a reference that is not counted yet.
COUNTED: bool = getattr(sys, "_is_gil_enabled", lambda: True)()


def address(array: Any) -> int:
    """Where an array's elements begin."""
    where: int = array.__array_interface__["data"][0]
    return where


class Slot:
    """Arrays for one result."""

    __slots__ = ("dtype", "keeps", "kept", "shape", "turn")

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape, self.dtype = shape, dtype
        size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        self.keeps = COUNTED and 0 < size <= SMALL
        self.kept: list[tuple[Any, int]] = []
        self.turn = 0

    def take(self) -> tuple[Any, int]:
        """An array that is nobody's, and its address."""
        if not self.keeps:
            array = np.empty(self.shape, self.dtype)
            return array, address(array)
        kept = self.kept
        if len(kept) == 2:
            self.turn ^= 1
            pair = kept[self.turn]
            if getrefcount(pair[0]) == UNHELD:
                return pair
        array = np.empty(self.shape, self.dtype)
        pair = (array, address(array))
        if len(kept) < 2:
            kept.append(pair)
        else:
            kept[self.turn] = pair
        return pair


def make_fill(
    image: Image, moving: dict[int, bool], floats: set[int], words: Any, outputs: int
) -> Fill:
    """A function of a call's inputs and targets that fills in `words` and gives the results.

    `moving` are the inputs whose addresses change, and whether they are written; `floats` the
    host's numbers that are floats.
    """
    lines = ["def fill(inputs, targets):", f" results = [None] * {outputs}"]
    lines += [*_arrays(image, moving), *_numbers(image, floats), *_results(image)]
    lines.append(" return results")
    view = memoryview(words).cast("B")
    scope: dict[str, Any] = {"q": view.cast("q"), "d": view.cast("d")}
    scope |= {"signed": signed, "refuse": refuse}
    for s, (_, shape, dtype) in enumerate(image.results):
        scope[f"take{s}"] = Slot(shape, NUMPY_OF[named(dtype)]).take
    exec(compile("\n".join(lines), "<fill>", "exec"), scope)
    fill: Fill = scope["fill"]
    return fill


def _put(image: Image, key: str) -> Iterator[str]:
    """Put the address `a` of an array where it is needed."""
    for at, shift in image.patches.get(key, ()):
        yield f" q[{at}] = a + {shift}" if shift else f" q[{at}] = a"


def _arrays(image: Image, moving: dict[int, bool]) -> Iterator[str]:
    arrays = [(f"inputs[{i}]", f"input {i}", written) for i, written in moving.items()]
    targets = [key.split()[1] for key in image.patches if key.startswith("target")]
    arrays += [(f"targets[{n}]", f"target {n}", True) for n in targets]
    for array, key, written in arrays:
        if written:
            yield f" a, fixed = {array}.__array_interface__['data']"
            yield " if fixed: refuse()"
        else:
            yield f" a = {array}.__array_interface__['data'][0]"
        yield from _put(image, key)


def _numbers(image: Image, floats: set[int]) -> Iterator[str]:
    for i, places in image.numbers.items():
        yield f" x = inputs[{i}]"
        for at, plus in places:
            yield f" d[{at}] = x" if i in floats else f" q[{at}] = signed(x + {plus})"


def _results(image: Image) -> Iterator[str]:
    for s, (k, _, _) in enumerate(image.results):
        yield f" results[{k}], a = take{s}()"
        yield from _put(image, f"result {k}")


def refuse() -> None:
    """Refuse to write where the owner of the memory does not allow it."""
    raise ValueError(
        "compile: the function writes in place to a tensor whose memory is read-only: it was made "
        "from a NumPy array that is not writeable, or from bytes. Clone the tensor first."
    )


def signed(x: int) -> int:
    """An integer as the signed 64-bit word of its low bits."""
    x = int(x)
    if -(2**63) <= x < 2**63:
        return x
    x &= 2**64 - 1
    return x - 2**64 if x >> 63 else x
