"""Convolutions and pooling of images whose channels lie innermost, against float64 sums."""

from __future__ import annotations

import ctypes
from itertools import product
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.engine.backends.llvm.program.native import compile_task
from adjoint.engine.backends.llvm.program.planning import library
from adjoint.engine.backends.llvm.target import LLVM
from adjoint.engine.backends.llvm.templates.convolution.geometry import forward_phases
from adjoint.engine.backends.llvm.templates.convolution.narrow import TapWeights
from adjoint.engine.backends.llvm.templates.convolution.pixels.pooling import (
    pixel_pool_steps,
    pools_pixels,
)
from adjoint.engine.backends.llvm.templates.convolution.pixels.sums import (
    along_sums,
    pixel_sums,
    pixel_way,
    row_sums,
    vectors_of,
)
from adjoint.engine.backends.llvm.templates.convolution.pixels.winograd import (
    winograd_pixel_sums,
)
from adjoint.engine.backends.llvm.templates.product.tiles import has_wide_registers
from adjoint.engine.compiler.memory.places import INPUT, Place, PlannedBuffer
from adjoint.engine.compiler.options import Options
from adjoint.engine.compiler.schedule.build import plan_for
from adjoint.engine.compiler.schedule.steps import Address, Launch, launches_of
from adjoint.engine.core import dtype as dt
from adjoint.engine.graph.execution import Executable, Task

wide = pytest.mark.skipif(not has_wide_registers(), reason="registers are not of 512 bits")
DTYPES = {"float32": dt.float32, "float64": dt.float64}
MARGIN = 64  # elements on either side of what is made, that are nobody's to write
UNWRITTEN = -7.0
LARGE = 1e38  # four of which are no number of float32
Params = dict[str, Any]


def place_of(x: Any) -> Place:
    """An array as an input."""
    buffer = PlannedBuffer(INPUT, DTYPES[x.dtype.name], x.size, 0)
    return Place(buffer, x.shape, tuple(s // x.itemsize for s in x.strides))


def in_pixels(x: Any) -> Any:
    """The same with the second dimension innermost."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)


def run(launches: list[Launch], known: dict[PlannedBuffer, Any], workers: int) -> None:
    """Do launches by so many workers, one after the other; other memory they use is made here."""
    held = []
    for launch in launches:
        for touch in (*launch.reads, *launch.writes):
            if touch.buffer not in known:
                made = np.full(touch.buffer.size, np.nan, touch.buffer.dtype.name)
                held.append(made)
                known[touch.buffer] = made.ctypes.data
        words = [
            known[w.buffer] + w.shift if isinstance(w, Address) else int(w) for w in launch.words
        ]
        assert launch.text is not None
        found = library.load({launch.function: lambda launch=launch: launch.text(launch.function)})
        signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        function = signature(found[launch.function].address)
        given = (ctypes.c_int64 * len(words))(*words)
        for worker in range(workers):
            function(ctypes.addressof(given), worker, workers)


def guarded(shape: tuple[int, ...], dtype: Any) -> tuple[Any, Any]:
    """Memory with margins, and the array of pixels in its middle."""
    count = int(np.prod(shape))
    memory = np.full(count + 2 * MARGIN, UNWRITTEN, dtype)
    middle = memory[MARGIN : MARGIN + count].reshape(shape[0], *shape[2:], shape[1])
    return memory, np.moveaxis(middle, -1, 1)


def check_margins(memory: Any) -> None:
    assert (memory[:MARGIN] == UNWRITTEN).all()
    assert (memory[-MARGIN:] == UNWRITTEN).all()


def convolved(x: Any, weights: Any, params: Params, sizes: tuple[int, ...]) -> Any:
    """The convolution in float64, tap by tap."""
    x, weights, groups = x.astype(np.float64), weights.astype(np.float64), params["groups"]
    pads = [(0, 0), (0, 0), *params["padding"]]
    around = np.pad(x, pads)
    n, m = x.shape[0], weights.shape[0]
    out = np.zeros((n, m, *sizes))
    for tap in product(*map(range, weights.shape[2:])):
        steps = zip(tap, sizes, params["stride"], params["dilation"], strict=True)
        at = tuple(slice(t * d, t * d + (size - 1) * s + 1, s) for t, size, s, d in steps)
        seen = around[(slice(None), slice(None), *at)].reshape(n, groups, -1, *sizes)
        taken = weights[(slice(None), slice(None), *tap)].reshape(groups, m // groups, -1)
        out += np.einsum("ngc...,gmc->ngm...", seen, taken).reshape(out.shape)
    return out


def drawn(rng: Any, way: Any) -> tuple[tuple[int, ...], tuple[int, ...], Params]:
    """Shapes of images and weights, and a geometry with at least one window."""
    rank, groups = int(rng.integers(1, 3)), int(rng.choice([1, 1, 1, 2, 3]))
    channels = int(rng.choice([8, 11, 16, 31, 90]))
    rows = int(rng.choice([13, 16, 31, 45, 64, 130]))
    if way is along_sums:  # each channel has a filter of its own
        groups, channels, rows = rows, 1, 1
    if way is row_sums:
        rank, groups, channels = 2, 1, int(rng.integers(1, 6))
        rows = int(rng.choice([45, 64, 130]))
    kernel = tuple(int(n) for n in rng.integers(1, 5 if rank == 2 else 9, rank))
    params: Params = {
        "groups": groups,
        "stride": tuple(int(n) for n in rng.integers(1, 4, rank)),
        "padding": tuple((int(a), int(b)) for a, b in rng.integers(0, 4, (rank, 2))),
        "dilation": tuple(int(n) for n in rng.integers(1, 3, rank)),
    }
    if way is row_sums:
        kernel, params["dilation"] = (kernel[0], kernel[1] + 1), (params["dilation"][0], 1)
    sizes = tuple(
        int(rng.integers(max(1, (k - 1) * d + 1 - low - high), 24))
        for k, d, (low, high) in zip(kernel, params["dilation"], params["padding"], strict=True)
    )
    images = (int(rng.integers(1, 4)), groups * channels, *sizes)
    return images, (groups * rows, channels, *kernel), params


@wide
@pytest.mark.parametrize("way", [pixel_sums, along_sums, row_sums])
@pytest.mark.parametrize("seed", range(18))
def test_sums_of_pixels_are_those_of_float64(seed: int, way: Any) -> None:
    rng = np.random.default_rng(seed)
    dtype = "float64" if seed % 8 == 7 and way is not row_sums else "float32"
    images, kernel, params = drawn(rng, way)
    x = rng.standard_normal(images).astype(dtype)
    x = x if way is row_sums else in_pixels(x)
    weights = rng.standard_normal(kernel).astype(dtype)
    lines = [params[name] for name in ("stride", "padding", "dilation")]
    geometry = zip(images[2:], kernel[2:], *lines, strict=True)
    sizes = tuple((n + sum(pad) - (k - 1) * d - 1) // s + 1 for n, k, s, pad, d in geometry)
    memory, out = guarded((images[0], kernel[0], *sizes), dtype)
    source, given, target = place_of(x), place_of(weights), place_of(out)
    groups, rows = params["groups"], kernel[0] // params["groups"]
    row, channel = given.strides[:2]
    taps = TapWeights(given, groups, rows, kernel[1], row * rows, row, channel)
    phases = forward_phases(params, kernel[2:], sizes)
    assert pixel_way(source, taps, target, phases) is way
    known = {source.buffer: x.ctypes.data, given.buffer: weights.ctypes.data}
    known[target.buffer] = out.ctypes.data
    run(way(source, taps, target, phases), known, 1 + seed % 3)
    expected = convolved(x, weights, params, sizes)
    scale = np.sqrt(np.prod(kernel[1:])) * (2e-6 if dtype == "float32" else 1e-14)
    np.testing.assert_allclose(out, expected, rtol=0, atol=4 * scale)
    check_margins(memory)


@wide
@pytest.mark.parametrize("odd", [None, np.inf, -np.inf, np.nan, LARGE])
@pytest.mark.parametrize("seed", range(6))
def test_points_of_pixels_make_the_same_sums(seed: int, odd: float | None) -> None:
    rng = np.random.default_rng(seed)
    groups, channels = int(rng.choice([1, 2])), int(rng.choice([4, 7, 16, 33, 200]))
    rows = int(rng.choice([13, 16, 45, 64, 130]))
    pads, kernel = rng.integers(0, 3, (2, 2)), (groups * rows, channels, 3, 3)
    images = (int(rng.integers(1, 4)), groups * channels, *map(int, rng.integers(3, 20, 2)))
    x = in_pixels(rng.standard_normal(images).astype(np.float32))
    weights = (rng.standard_normal(kernel) / 3).astype(np.float32)
    if odd is not None:
        some = rng.integers(0, x.size, 1 if abs(odd) < np.inf else 4)
        x[np.unravel_index(some, images)] = odd
    params: Params = {"groups": groups, "stride": (1, 1), "dilation": (1, 1)}
    params["padding"] = tuple((int(a), int(b)) for a, b in pads)
    sizes = tuple(n + sum(pad) - 2 for n, pad in zip(images[2:], params["padding"], strict=True))
    memory, out = guarded((images[0], kernel[0], *sizes), np.float32)
    source, given, target = place_of(x), place_of(weights), place_of(out)
    row, channel = given.strides[:2]
    taps = TapWeights(given, groups, rows, channels, row * rows, row, channel)
    (phase,) = forward_phases(params, (3, 3), sizes)
    known = {source.buffer: x.ctypes.data, given.buffer: weights.ctypes.data}
    known[target.buffer] = out.ctypes.data
    vectors = vectors_of(rows, 16)
    run(winograd_pixel_sums(source, taps, target, phase, vectors, None), known, 1 + seed % 3)
    with np.errstate(all="ignore"):
        expected = convolved(x, weights, params, sizes)
    scale = np.sqrt(channels * 9) * 1e-5
    np.testing.assert_allclose(out, expected, rtol=1e-4 if odd == LARGE else 0, atol=scale)
    check_margins(memory)


@wide
@pytest.mark.parametrize("seed", range(8))
def test_windows_of_pixels_have_their_largest(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank, channels = 1 + seed % 2, int(rng.choice([1, 7, 16, 40, 64, 131]))
    windows, sizes = [], []
    for _ in range(rank):
        size, extent, step = (int(rng.integers(1, n)) for n in (20, 5, 4))
        low, high = (int(n) for n in rng.integers(0, extent // 2 + 1, 2))
        count = (max(size + low + high - extent, 0)) // step + 1
        count = min(count, (size - 1 + low) // step + 1)  # the last begins within
        windows.append(("window", size, count, extent, step, -low, 1))
        sizes.append(count)
    images = (2, channels, *(rule[1] for rule in windows))
    x = in_pixels(rng.integers(-3, 3, images).astype(np.float32))
    x[rng.random(images) < 0.02] = np.nan
    x[rng.random(images) < 0.1] = -np.inf
    memory, out = guarded((2, channels, *sizes), np.float32)
    source, target = place_of(x), place_of(out)
    assert pools_pixels(source, target, windows)
    known = {source.buffer: x.ctypes.data, target.buffer: out.ctypes.data}
    run(pixel_pool_steps(source, target, windows), known, 1 + seed % 3)
    for at in np.ndindex(*sizes):
        seen: Any = (slice(None), slice(None))
        for i, (_, size, _, extent, step, start, _) in zip(at, windows, strict=True):
            first = i * step + start
            seen += (slice(max(first, 0), min(first + extent, size)),)
        expected = x[seen].reshape(2, channels, -1).max(2)
        np.testing.assert_array_equal(out[(slice(None), slice(None), *at)], expected)
    check_margins(memory)


class Branches(nn.Module):
    """Sums, poolings and views between convolutions, two results of one of which one is an image."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 7, 2, 3, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.second, self.third = nn.Conv2d(16, 24, 3, 2, 1), nn.Conv2d(16, 24, 1, 2)
        self.along = nn.Conv2d(24, 24, 3, 1, 2, groups=24, dilation=2)
        self.wide = nn.Conv2d(24, 96, (1, 3))
        self.few = nn.Conv2d(96, 2, 1)

    def forward(self, x: Any) -> Any:
        x = self.pool(self.norm(self.first(x)).relu())
        y = (self.second(x) + self.third(x)).relu()
        y = y + self.along(y)
        z = self.wide(y)
        half, at = nn.functional.max_pool2d(z, 2, 1, return_indices=True)
        return y, z.flatten(1), self.few(z).tanh(), half.mean((2, 3)), at.float()


@wide
def test_images_lie_in_pixels_between_convolutions_by_kept_weights() -> None:
    found: list[Task] = []

    def keep(task: Task) -> Executable:
        found.append(task)
        return compile_task(task, Options())

    model, x = Branches().eval(), ad.randn(1, 3, 32, 32)
    with ad.no_grad():
        ad.compile(model, backend=keep)(x)
    steps = plan_for(found[0], LLVM, Options()).steps
    names = [launch.function.split("_f32")[0] for step in steps for launch in launches_of(step)]
    assert [names.count(n) for n in ("pixel_sums", "pixel_pool", "along_pixels")] == [2, 1, 1]


@pytest.mark.parametrize("shape", [(1, 3, 32, 32), (3, 3, 37, 41), (2, 3, 64, 29)])
def test_networks_without_gradients_are_those_of_eager_mode(shape: tuple[int, ...]) -> None:
    ad.manual_seed(0)
    model = Branches().eval()
    x = ad.randn(shape)
    compiled = ad.compile(model)
    with ad.no_grad():
        for _ in range(2):
            for got, expected in zip(compiled(x), model(x), strict=True):
                np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-4, atol=2e-6)
                assert got.stride() == expected.stride()
            for p in model.parameters():  # what is kept of them is made again
                p.mul_(1.25)
