"""Filling in: the addresses and numbers that differ from call to call, by code made for the task.

A call of a small program must not take longer than the program. What has to be done is known when
the program is made, so it is written out as a Python function without loops or look-ups; for most
programs native code (`runtime.fill_code`) does the same unless it meets something unusual.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable, Iterator
from itertools import groupby
from math import prod
from typing import Any

import numpy as np

from adjoint.engine.backends.array.dtypes import NUMPY_OF
from adjoint.engine.backends.llvm.runtime.peeking import COUNTED, quick_address, slow_address
from adjoint.engine.compiler.package.image import ProgramImage
from adjoint.engine.core.dtype import named
from adjoint.engine.core.generated import function_of_text

Fill = Callable[[list[Any], list[Any]], list[Any]]
SMALL = 1 << 20  # bytes; larger results are not kept when nobody else wants them
BANKS = "adjoint.engine.backends.llvm.program.banks"  # fragments do without
MANY = 64  # words with an array's address that NumPy fills in sooner than as many lines of Python


def keeps(shape: tuple[int, ...], dtype: Any) -> bool:
    """Whether a result of this kind comes from a bank."""
    return COUNTED and 0 < dtype.itemsize * prod(shape) <= SMALL


def numpy_of(dtype: str) -> Any:
    """NumPy's dtype of the name that images have."""
    return NUMPY_OF[named(dtype)]


def make_fill(
    image: ProgramImage,
    moving: dict[int, bool],
    floats: frozenset[int],
    words: Any,
    outputs: int,
    banks: bool = True,
) -> Fill:
    """A function of a call's inputs and targets that fills in `words` and gives the results.

    `moving` are the inputs whose addresses change, and whether they are written; `floats` the
    host's numbers that are floats. With `banks`, small results come from arrays used again.
    """
    view = memoryview(words).cast("B")
    scope: dict[str, Any] = {"q": view.cast("q"), "d": view.cast("d"), "words": words}
    scope |= {"bytes": view, "peek": quick_address(), "slow_address": slow_address}
    scope |= {"signed": signed, "refuse": refuse, "empty": np.empty, "ndarray": np.ndarray}
    lines = [f" results = [None] * {outputs}"]
    kept = [keeps(shape, numpy_of(dtype)) for _, shape, dtype in image.results]
    both: Any = None
    if banks and any(kept):
        both = importlib.import_module(BANKS).Banks(image, outputs)
        scope["take"] = both.take
        lines = [" results = take(words)"]
    lines += [
        *_arrays(image, moving, scope),
        *_numbers(image, floats, scope),
        *_results(image, scope, banks),
    ]
    given = ", ".join(f"{name}={name}" for name in scope)  # locals are read fastest
    text = "\n".join([f"def fill(inputs, targets, {given}):", *lines, " return results"])
    fill = function_of_text(text, "fill", "<fill>", scope)
    targets = any(key.startswith("target") for key in image.patches)
    if both is None or not all(kept) or targets or any(moving.values()):
        return fill
    if image.numbers.keys() - floats:
        return fill
    quick: Fill = both.quickened(
        {i: image.patches[f"input {i}"] for i in moving},
        {i: [at for at, _ in image.numbers[i]] for i in sorted(floats)},
        fill,
        words,
    )
    return quick


def _put(image: ProgramImage, key: str, scope: dict[str, Any]) -> Iterator[str]:
    """Put the address `a` of an array where it is needed."""
    patches = image.patches.get(key, ())
    if len(patches) > MANY:  # the turns of a loop
        name = key.replace(" ", "_")
        scope[f"at_{name}"] = np.array([at for at, _ in patches], np.int64)
        scope[f"shift_{name}"] = np.array([shift for _, shift in patches], np.int64)
        yield f" words[at_{name}] = shift_{name} + a"
        return
    for at, shift in patches:
        yield f" q[{at}] = a + {shift}" if shift else f" q[{at}] = a"


def _arrays(image: ProgramImage, moving: dict[int, bool], scope: dict[str, Any]) -> Iterator[str]:
    arrays = [(f"inputs[{i}]", f"input {i}", written) for i, written in moving.items()]
    targets = [key.split()[1] for key in image.patches if key.startswith("target")]
    arrays += [(f"targets[{n}]", f"target {n}", True) for n in targets]
    for array, key, written in arrays:
        yield f" x = {array}"
        if written:
            yield " if not x.flags.writeable: refuse()"
        yield " a = peek(x) if x.__class__ is ndarray else slow_address(x)"
        yield from _put(image, key, scope)


def _numbers(image: ProgramImage, floats: frozenset[int], scope: dict[str, Any]) -> Iterator[str]:
    """Put the host's numbers where they are needed; floats in a row are written together."""
    for i, words in image.numbers.items():
        yield f" x{i} = inputs[{i}]"
        if i not in floats:
            for at, plus in words:
                yield f" q[{at}] = signed(x{i} + {plus})"
    written = sorted((at, i) for i in floats for at, _ in image.numbers[i])
    rows: dict[str, list[int]] = {}  # the same numbers in the same order, and where they begin
    for _, group in groupby(enumerate(written), lambda pair: pair[1][0] - pair[0]):
        row = [word for _, word in group]
        rows.setdefault(", ".join(f"x{i}" for _, i in row), []).append(8 * row[0][0])
    for number, (values, starts) in enumerate(rows.items()):
        count = values.count("x")
        scope[f"pack{count}"] = struct.Struct(f"={count}d").pack
        scope[f"parts{number}"] = [slice(start, start + 8 * count) for start in starts]
        yield f" row = pack{count}({values})"
        yield f" for part in parts{number}: bytes[part] = row"


def _results(image: ProgramImage, scope: dict[str, Any], banks: bool) -> Iterator[str]:
    """Fresh arrays for results that are too large to be kept."""
    for k, shape, dtype in image.results:
        if not (banks and keeps(shape, numpy_of(dtype))):
            scope |= {f"shape{k}": shape, f"dtype{k}": numpy_of(dtype)}
            yield f" results[{k}] = r = empty(shape{k}, dtype{k})"
            yield " a = peek(r)"
            yield from _put(image, f"result {k}", scope)


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
