"""Sampling at the points of a grid on a GPU, and its gradients: a thread for a point of a sample.

What `ops.image.grid` composes. A thread goes through some channels, of which it adds what comes
back to the pixels it read, or through all of them where the grid's own gradient is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from adjoint.engine.backends.array.devices import cupy
from adjoint.engine.backends.array.gpu.driver import PackedLaunch
from adjoint.engine.backends.array.libraries.prepared import PREPARERS
from adjoint.engine.backends.array.table import lowers_on_gpu
from adjoint.engine.ops.image.grid import BICUBIC, GRID_SAMPLER_GRADIENT, GRID_SAMPLER_WHOLE

Array = Any
THREADS = 256
CHANNELS = 4  # that a thread goes through
ARGUMENTS = "PPPqiqiiiiiPPP"  # of the kernel (`PackedLaunch`)

SOURCE = r"""
typedef REAL real;
#define TAPS (MODE == 2 ? 4 : MODE == 1 ? 1 : 2)

// Where along a dimension a point lies, and how fast that moves with the grid.
struct Point { real at, slope; };

__device__ real clipped(real p, int size, real* slope) {
    if (p > 0 && p < size - 1) return p;
    *slope = 0;
    return p != p ? p : p <= 0 ? (real)0 : (real)(size - 1);
}
__device__ real padded(real p, int size, real* slope) {
    if (PADDING == 2) {
        real low = ALIGN ? (real)0 : (real)-0.5, span = ALIGN ? (real)(size - 1) : (real)size;
        if (span == 0) { *slope = 0; p = p * 0; }
        else {
            real from = p - low, a = fabs(from);
            bool odd = fmod(floor(a / span), (real)2) == 1;
            real folded = fmod(a, span);
            *slope *= (from > 0 ? 1 : from < 0 ? -1 : 0) * (odd ? -1 : 1);
            p = (odd ? span - folded : folded) + low;
        }
    }
    return PADDING ? clipped(p, size, slope) : p;
}
__device__ Point placed(real g, int size) {
    Point p;
    p.at = ALIGN ? (g + 1) * ((real)(size - 1) / 2) : ((g + 1) * size - 1) / 2;
    p.slope = ALIGN ? (real)(size - 1) / 2 : (real)size / 2;
    if (MODE != 2) p.at = padded(p.at, size, &p.slope);
    return p;
}
// The pixels along a dimension (-1: outside), their weights, and how fast these change.
struct Taps { int index[TAPS]; real weight[TAPS], change[TAPS]; };

__device__ int inside(real x, int size) {
    if (x != x) return 0;
    if (!PADDING && !(x >= 0 && x <= size - 1)) return -1;
    return x <= 0 ? 0 : x >= size - 1 ? size - 1 : (int)x;
}
__device__ Taps taken(Point p, int size) {
    Taps taps;
    real below = MODE == 1 ? rint(p.at) : floor(p.at), t = p.at - below;
    if (MODE == 1) {
        taps.index[0] = inside(below, size);
        taps.weight[0] = 1;
        taps.change[0] = 0;
    } else if (MODE == 0) {
        for (int k = 0; k < TAPS; k++) {
            taps.index[k] = inside(below + k, size);
            taps.weight[k] = k ? t : 1 - t;
            taps.change[k] = k ? p.slope : -p.slope;
        }
    } else {
        const real a = -0.75;
        for (int k = 0; k < TAPS; k++) {
            real none = 1, s = k == 0 ? t + 1 : k == 1 ? t : k == 2 ? 1 - t : 2 - t;
            taps.index[k] = inside(padded(below + (k - 1), size, &none), size);
            bool near = k == 1 || k == 2;
            taps.weight[k] = near ? ((a + 2) * s - (a + 3)) * s * s + 1
                                  : ((a * s - 5 * a) * s + 8 * a) * s - 4 * a;
            real slope = near ? (3 * (a + 2) * s - 2 * (a + 3)) * s
                              : (3 * a * s - 10 * a) * s + 8 * a;
            taps.change[k] = slope * (k < 2 ? p.slope : -p.slope);
        }
    }
    return taps;
}

// Thread by thread: a point, and which channels of it. `back`: gradients, else the samples.
extern "C" __global__ void adjoint_grid(
    const real* x, const real* grid, const real* g, long long batch, int channels, long long points,
    int depth, int height, int width, int together, int back, real* out, real* into, real* moved)
{
    int groups = (channels + together - 1) / together;
    long long id = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= batch * points * groups) return;
    long long k = id % points, n = id / points / groups;
    int first = (int)(id / points % groups) * together;
    int last = first + together < channels ? first + together : channels;
    long long pixels = (long long)depth * height * width;
    const real* where = grid + (n * points + k) * RANK;
    Taps columns = taken(placed(where[0], width), width);
    Taps rows = taken(placed(where[1], height), height);
#if RANK == 3
    Taps planes = taken(placed(where[2], depth), depth);
    #define PLANES TAPS
#else
    #define PLANES 1
#endif
    real slopes[3] = {0, 0, 0};
    for (int c = first; c < last; c++) {
        const real* image = x + (n * channels + c) * pixels;
        long long own = (n * channels + c) * points + k;
        real come = back ? g[own] : (real)0, sum = 0;
        for (int d = 0; d < PLANES; d++) {
#if RANK == 3
            int plane = planes.index[d];
            real deep = planes.weight[d];
#else
            int plane = 0;
            real deep = 1;
#endif
            for (int i = 0; i < TAPS; i++) for (int j = 0; j < TAPS; j++) {
                if (plane < 0 || rows.index[i] < 0 || columns.index[j] < 0) continue;
                long long row = (long long)plane * height + rows.index[i];
                long long at = row * width + columns.index[j];
                real weight = deep * rows.weight[i] * columns.weight[j];
                if (!back) { sum += image[at] * weight; continue; }
                if (into) atomicAdd(into + (n * channels + c) * pixels + at, come * weight);
                if (moved) {
                    real value = come * image[at];
                    slopes[0] += value * deep * rows.weight[i] * columns.change[j];
                    slopes[1] += value * deep * rows.change[i] * columns.weight[j];
#if RANK == 3
                    slopes[2] += value * planes.change[d] * rows.weight[i] * columns.weight[j];
#endif
                }
            }
        }
        if (!back) out[own] = sum;
    }
    if (moved) for (int r = 0; r < RANK; r++) moved[(n * points + k) * RANK + r] = slopes[r];
}
"""


@lru_cache(maxsize=64)
def _kernel(xp: Any, kind: str, rank: int, mode: int, padding: int, align: bool) -> Any:
    text = SOURCE
    for name, meaning in (
        ("REAL", "double" if kind == "d" else "float"), ("RANK", rank), ("MODE", mode),
        ("PADDING", padding), ("ALIGN", int(align)),
    ):  # fmt: skip
        text = text.replace(name, str(meaning))
    return xp.RawModule(code=text).get_function("adjoint_grid")


def _launched(
    xp: Any, arrays: tuple[Array, Array, Array | None], outs: tuple[Array | None, ...],
    interpolation: int, padding: int, align: bool,
) -> None:  # fmt: skip
    given: list[Any] = [None if a is None else xp.ascontiguousarray(a) for a in arrays]
    x, y, g = given
    if not x.shape[1]:
        return
    blocks, numbers = _numbers(x, y, x.shape[1] if outs[2] is not None else CHANNELS)
    if not blocks[0]:
        return
    launch = _kernel(xp, x.dtype.char, y.shape[-1], interpolation, padding, align)
    nothing = np.uint64(0)
    words = (
        x, y, nothing if g is None else g, *numbers, np.int32(g is not None),
        *(nothing if out is None else out for out in outs),
    )  # fmt: skip
    launch(blocks, (THREADS,), words)


def _numbers(x: Array, y: Array, together: int) -> tuple[tuple[int], tuple[Any, ...]]:
    """How many blocks a launch has whose threads take so many channels, and what it is told."""
    batch, channels, points = x.shape[0], x.shape[1], prod(y.shape[1:-1])
    sizes = (1, *x.shape[2:]) if y.shape[-1] == 2 else x.shape[2:]
    count = batch * points * -(-channels // together)
    return (-(-count // THREADS),), (
        np.int64(batch), np.int32(channels), np.int64(points), *map(np.int32, sizes),
        np.int32(together),
    )  # fmt: skip


@lowers_on_gpu(GRID_SAMPLER_WHOLE)
def grid_sampler(
    xp: Any, x: Array, y: Array, interpolation: int, padding: int, align: bool
) -> Array:
    out = xp.empty((*x.shape[:2], *y.shape[1:-1]), x.dtype)
    _launched(xp, (x, y, None), (out, None, None), interpolation, padding, align)
    return out


def prepared(
    x: Array, y: Array, interpolation: int, padding: int, align: bool
) -> Callable[[Array, Array], Array] | None:
    """The same of arrays that lie as these do; None where they would be copied first.

    All that a launch is told but addresses is known then.
    """
    count = prod(x.shape) and prod(y.shape)
    if not (x.flags.c_contiguous and y.flags.c_contiguous and count):
        return None
    xp, shape, dtype = cupy(), (*x.shape[:2], *y.shape[1:-1]), x.dtype
    launch = _kernel(xp, dtype.char, y.shape[-1], interpolation, padding, align)
    (blocks,), numbers = _numbers(x, y, CHANNELS)
    make, given = xp.ndarray, (*map(int, numbers), 0)
    packed = PackedLaunch(xp.cuda, launch.kernel, THREADS, ARGUMENTS)

    def sample(x: Array, y: Array) -> Array:
        out = make(shape, dtype)
        packed(blocks, x.data.ptr, y.data.ptr, 0, *given, out.data.ptr, 0, 0)
        return out

    return sample


PREPARERS[GRID_SAMPLER_WHOLE.name] = prepared


@lowers_on_gpu(GRID_SAMPLER_GRADIENT)
def grid_sampler_gradient(
    xp: Any, g: Array, x: Array, y: Array, wanted: tuple[bool, bool], interpolation: int,
    padding: int, align: bool,
) -> tuple[Array, ...]:  # fmt: skip
    """The gradients of the image and of the grid, those that are wanted."""
    into = xp.zeros(x.shape, x.dtype) if wanted[0] else None
    moved = xp.zeros(y.shape, y.dtype) if wanted[1] else None
    _launched(xp, (x, y, g), (None, into, moved), interpolation, padding, align)
    return tuple(out for out in (into, moved) if out is not None)


assert BICUBIC == 2, "kernels know modes by number"
