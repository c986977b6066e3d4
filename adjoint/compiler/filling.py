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

from collections.abc import Callable
from sys import getrefcount
from typing import Any

import numpy as np

from adjoint.backends.array.dtypes import NUMPY_OF
from adjoint.compiler.image import Image
from adjoint.core.dtype import named

Fill = Callable[[list[Any], list[Any]], list[Any]]
SMALL = 1 << 20  # bytes; larger results are not kept when nobody else wants them
UNHELD = 3  # references to an array that only its slot holds, seen from `_result`


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
        self.keeps = 0 < size <= SMALL
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
            if getrefcount(pair[0]) == UNHELD - 1:
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
    slots = [Slot(shape, NUMPY_OF[named(dtype)]) for _, shape, dtype in image.results]
    lines = ["def fill(inputs, targets):", f" results = [None] * {outputs}"]

    def put(at: int, shift: int) -> str:
        return f" q[{at}] = a + {shift}" if shift else f" q[{at}] = a"

    def written(array: str) -> list[str]:
        return [f" a, fixed = {array}.__array_interface__['data']", " if fixed: refuse()"]

    for i, changes in moving.items():
        if changes:
            lines += written(f"inputs[{i}]")
        else:
            lines.append(f" a = inputs[{i}].__array_interface__['data'][0]")
        lines += [put(at, shift) for at, shift in image.patches.get(f"input {i}", ())]
    for key in image.patches:
        kind, number = key.split()
        if kind == "target":
            lines += written(f"targets[{number}]")
            lines += [put(at, shift) for at, shift in image.patches[key]]
    for i, places in image.numbers.items():
        lines.append(f" x = inputs[{i}]")
        if i in floats:
            lines += [f" d[{at}] = x" for at, _ in places]
        else:
            lines += [f" q[{at}] = signed(x + {plus})" for at, plus in places]
    for s, (k, _, _) in enumerate(image.results):
        lines.append(f" results[{k}], a = take{s}()")
        lines += [put(at, shift) for at, shift in image.patches.get(f"result {k}", ())]
    lines.append(" return results")
    view = memoryview(words).cast("B")
    scope: dict[str, Any] = {
        "q": view.cast("q"),
        "d": view.cast("d"),
        "signed": signed,
        "refuse": refuse,
    }
    scope |= {f"take{s}": slot.take for s, slot in enumerate(slots)}
    exec(compile("\n".join(lines), "<fill>", "exec"), scope)
    fill: Fill = scope["fill"]
    return fill


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
