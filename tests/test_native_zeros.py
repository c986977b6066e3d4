"""Images laid down with zeros around them, whatever their sizes and where they begin."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from adjoint.engine.backends.llvm.program.planning import library
from adjoint.engine.backends.llvm.templates.convolution.windowed import copied_with_zeros
from adjoint.engine.backends.llvm.templates.convolution.zeros_kernel import pad_text
from adjoint.engine.compiler.memory.places import INPUT, Place, PlannedBuffer
from adjoint.engine.compiler.schedule.steps import Address
from adjoint.engine.core import dtype as dt

KINDS = {"f32": dt.float32, "f64": dt.float64}
MARGIN = 64  # elements on either side of the result, that are nobody's to write
UNWRITTEN = -7.0
Ranges = list[tuple[int, int]]


def expected(x: Any, ranges: Ranges) -> Any:
    """The same by NumPy: each position of the ranges, 0 where there is none."""
    out = np.zeros((*x.shape[:2], *(high - low + 1 for low, high in ranges)), x.dtype)
    here, there = [slice(None)] * 2, [slice(None)] * 2
    for (low, high), size in zip(ranges, x.shape[2:], strict=True):
        first, last = max(low, 0), min(high, size - 1)
        if last < first:
            return out
        here.append(slice(first, last + 1))
        there.append(slice(first - low, last - low + 1))
    out[tuple(there)] = x[tuple(here)]
    return out


@cache
def kernel(kind: str) -> Any:
    """The kernel, as a function of its words, a worker and how many there are."""
    name = f"zeros_around_{kind}"
    found = library.load({name: lambda: pad_text(name, kind)})[name]
    signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    return found, signature(found.address)


def laid(x: Any, ranges: Ranges, kind: str, workers: int) -> Any:
    """What the kernel makes, by so many workers one after the other; its margins are checked."""
    buffer = PlannedBuffer(INPUT, KINDS[kind], x.size, 0)
    item = x.itemsize
    place = Place(buffer, x.shape, tuple(s // item for s in x.strides))
    made, (launch,) = copied_with_zeros(place, ranges)
    shape = tuple(high - low + 1 for low, high in ranges)
    count = int(np.prod((*x.shape[:2], *shape)))
    out = np.full(count + 2 * MARGIN, UNWRITTEN, x.dtype)
    starts = {buffer: x.ctypes.data, made.buffer: out.ctypes.data + MARGIN * item}
    words = [starts[w.buffer] + w.shift if isinstance(w, Address) else int(w) for w in launch.words]
    given_words = np.array(words, np.int64)
    for worker in range(workers):
        kernel(kind)[1](given_words.ctypes.data, worker, workers)
    assert (out[:MARGIN] == UNWRITTEN).all()
    assert (out[-MARGIN:] == UNWRITTEN).all()
    return out[MARGIN:-MARGIN].reshape(*x.shape[:2], *shape)


@st.composite
def images(draw: Any) -> tuple[tuple[int, ...], Ranges]:
    """The sizes of some images, and positions that begin and end anywhere near them."""
    rank = draw(st.integers(1, 3))
    sizes = tuple(draw(st.integers(1, 40 if d == rank - 1 else 6)) for d in range(rank))
    ranges = []
    for size in sizes:
        low = draw(st.integers(-20, size + 2))
        ranges.append((low, draw(st.integers(low, size + 20))))
    return (draw(st.integers(1, 2)), draw(st.integers(1, 5)), *sizes), ranges


@pytest.mark.parametrize("kind", KINDS)
@given(images(), st.sampled_from(["rows", "channels", "turned", "spread"]), st.integers(1, 3))
@example(((1, 2, 4, 4), [(-1, 4), (-1, 4)]), "rows", 1)
@example(((1, 2, 3, 32), [(-1, 3), (-1, 32)]), "rows", 2)
@example(((1, 1, 3, 15), [(0, 2), (-20, 30)]), "rows", 1)
@example(((1, 1, 3, 15), [(1, 2), (2, 9)]), "rows", 1)
@example(((1, 1, 3, 15), [(-5, -1), (0, 14)]), "rows", 1)
@settings(max_examples=150, deadline=None)
def test_zeros_lie_around_images(
    kind: str, given_images: tuple[tuple[int, ...], Ranges], layout: str, workers: int
) -> None:
    shape, ranges = given_images
    rng = np.random.default_rng(0)
    dtype = np.float32 if kind == "f32" else np.float64
    match layout:
        case "rows":
            x = rng.standard_normal(shape).astype(dtype)
        case "channels":
            x = np.moveaxis(rng.standard_normal((shape[0], *shape[2:], shape[1])), -1, 1)
            x = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)).astype(dtype), -1, 1)
        case "turned":
            x = rng.standard_normal(shape[::-1]).astype(dtype).transpose()
        case _:
            x = rng.standard_normal((*shape[:-1], 2 * shape[-1])).astype(dtype)[..., ::2]
    np.testing.assert_array_equal(laid(x, ranges, kind, workers), expected(x, ranges))
