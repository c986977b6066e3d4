"""Factors and systems of small matrices on a GPU, a block of threads for each, in one launch.

The libraries go from matrix to matrix, or in many launches. Here a matrix lies in the registers of
its block: thread (row, column) of a square of threads has every SIDE-th row and column. A step
needs one column of all, which goes through shared memory, and the threads meet once a step.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

import numpy as np

from adjoint.engine.backends.array.gpu.driver import PackedLaunch, kernels_of

Array = Any
SIDE = 16  # of the square of threads: the rows of a column are half a warp's
LONGEST = 128  # rows and columns
ROOM = 40 << 10  # bytes of shared memory that a block asks for; 48 KB are there without asking
REALS = {"f": "float", "d": "double"}

# Loops over a thread's rows and columns are unrolled, so that registers are known by their number:
# what is left of a slot before the step's own is left out when the text is compiled.
SOURCE = r"""
typedef REAL real;
#define ALL 0xffffffffu
#define ROW(r) ((r) * SIDE + y)
#define COLUMN(c) ((c) * SIDE + x)
#define EACH(k, first, many) _Pragma("unroll") for (int k = first; k < many; k++)

// Over the rows of one column.
template <class T> __device__ __forceinline__ T summed(T part) {
    EACH(k, 0, 31) {
        if ((1 << k) >= SIDE) break;
        part += __shfl_xor_sync(ALL, part, 1 << k);
    }
    return part;
}
__device__ __forceinline__ double greatest(double part) {
    EACH(k, 0, 31) {
        if ((1 << k) >= SIDE) break;
        part = fmax(part, __shfl_xor_sync(ALL, part, 1 << k));
    }
    return part;
}

#define PLACE \
    const int y = threadIdx.x % SIDE, x = threadIdx.x / SIDE; \
    const long long block = blockIdx.x;

// The lower factor of one triangle; `turned`: the upper one, of the upper triangle.
extern "C" __global__ void __launch_bounds__(SIDE * SIDE) adjoint_cholesky(
    const real* given, int n, bool turned, real* out, int* info)
{
    PLACE
    __shared__ real columns[2][TILES * SIDE];
    real a[TILES][TILES];
    given += block * n * n;
    out += block * n * n;
    EACH(c, 0, TILES) EACH(r, c, TILES) {
        const int i = ROW(r), j = COLUMN(c);
        a[r][c] = i < n && j <= i ? given[turned ? j * n + i : i * n + j] : (real)0;
    }
    int wrong = 0;
    EACH(c, 0, TILES) {
        for (int t = 0; t < SIDE; t++) {
            const int k = c * SIDE + t;
            if (k >= n || wrong) break;
            real* column = columns[k & 1];
            if (x == t) EACH(r, c, TILES) column[ROW(r)] = a[r][c];
            __syncthreads();
            const real pivot = column[k];
            if (!(pivot > 0)) { wrong = k + 1; break; }
            const real root = sqrt(pivot), by = 1 / root;
            real mine[TILES];
            EACH(r, c, TILES) mine[r] = column[ROW(r)] * by;
            if (x == t) EACH(r, c, TILES) a[r][c] = ROW(r) == k ? root : mine[r];
            EACH(d, c, TILES) {
                const real other = d > c || x > t ? column[COLUMN(d)] * by : (real)0;
                if (d > c || x > t) EACH(r, d, TILES) a[r][d] -= mine[r] * other;
            }
        }
    }
    if (!threadIdx.x) info[block] = wrong;
    EACH(c, 0, TILES) EACH(r, 0, TILES) {
        const int i = ROW(r), j = COLUMN(c);
        if (i >= n || j >= n) continue;
        out[turned ? j * n + i : i * n + j] = r < c || i < j ? (real)0 : a[r][c];
    }
}

// Y with a triangle undone, of which each block has SIDE * TILES columns.
extern "C" __global__ void __launch_bounds__(SIDE * SIDE) adjoint_triangular(
    const real* given, int n, int columns, int tiles, bool upper, bool unit, long long step,
    long long down, long long across, const real* right, real* out)
{
    extern __shared__ __align__(16) unsigned char room[];
    real* triangle = (real*)room;  // column by column
    __shared__ real solved[2][TILES * SIDE];
    const int y = threadIdx.x % SIDE, x = threadIdx.x / SIDE;
    const long long matrix = blockIdx.x / tiles;
    const int start = blockIdx.x % tiles * (TILES * SIDE);
    given += matrix * step;
    right += matrix * n * columns;
    out += matrix * n * columns;
    for (int k = threadIdx.x; k < n * n; k += SIDE * SIDE) {
        // Neighbours in memory are read together.
        const int i = down == 1 ? k % n : k / n, j = down == 1 ? k / n : k % n;
        triangle[j * n + i] = given[i * down + j * across];
    }
    real b[TILES][TILES];
    EACH(r, 0, TILES) EACH(c, 0, TILES) {
        const int i = ROW(r), j = start + COLUMN(c);
        b[r][c] = i < n && j < columns ? right[(long long)i * columns + j] : (real)0;
    }
    __syncthreads();
    EACH(turn, 0, TILES) {
        for (int u = 0; u < SIDE; u++) {
            // Slots of rows from the first or from the last one.
            const int s = upper ? TILES - 1 - turn : turn, t = upper ? SIDE - 1 - u : u;
            const int k = s * SIDE + t;
            if (k >= n) continue;
            real* row = solved[u & 1];
            if (y == t) {
                const real by = triangle[k * n + k];
                EACH(c, 0, TILES) EACH(r, 0, TILES) if (r == s) {
                    if (!unit) b[r][c] /= by;
                    row[COLUMN(c)] = b[r][c];
                }
            }
            __syncthreads();
            EACH(r, 0, TILES) {
                const int i = ROW(r);
                if (i < n && (upper ? i < k : i > k)) {
                    const real factor = triangle[k * n + i];
                    EACH(c, 0, TILES) b[r][c] -= factor * row[COLUMN(c)];
                }
            }
        }
    }
    EACH(r, 0, TILES) EACH(c, 0, TILES) {
        const int i = ROW(r), j = start + COLUMN(c);
        if (i < n && j < columns) out[(long long)i * columns + j] = b[r][c];
    }
}

// Reflections (their signs are LAPACK's) that make a matrix a triangle, and their product: of
// `wanted` columns, none where that is 0. The triangle has `rows` rows.
extern "C" __global__ void __launch_bounds__(SIDE * SIDE) adjoint_reflections(
    const real* given, int m, int n, int wanted, int rows, real* left, real* right)
{
    PLACE
    extern __shared__ __align__(16) unsigned char room[];
    real* kept = (real*)room;  // each reflection's vector
    __shared__ real vectors[2][TILES * SIDE], sizes[TILES * SIDE];
    const int lane = threadIdx.x & 31, count = m < n ? m : n;
    real a[TILES][TILES];
    given += block * m * n;
    EACH(r, 0, TILES) EACH(c, 0, TILES) {
        const int i = ROW(r), j = COLUMN(c);
        a[r][c] = i < m && j < n ? given[i * n + j] : (real)0;
    }
    EACH(c, 0, TILES) {
        for (int t = 0; t < SIDE; t++) {
            const int k = c * SIDE + t;
            if (k >= count) break;
            // Each column of a slot finds its own reflection, of which one is taken.
            double most = 0, sum = 0;
            EACH(r, c, TILES) if (ROW(r) > k) most = fmax(most, fabs((double)a[r][c]));
            most = greatest(most);
            const double scale = most > 0 && most < INFINITE ? scalbn(1.0, -ilogb(most)) : 1.0;
            EACH(r, c, TILES) if (ROW(r) > k) {
                const double part = (double)a[r][c] * scale;
                sum += part * part;
            }
            sum = summed(sum);
            const double top = (double)__shfl_sync(ALL, a[c][c], (lane & ~(SIDE - 1)) + t) * scale;
            const double length = sum == 0 ? fabs(top) : hypot(top, sqrt(sum));
            const double beta = sum == 0 ? top : -copysign(length, top);
            const real size = sum == 0 ? (real)0 : (real)((beta - top) / beta);
            const double by = sum == 0 ? 0 : scale / (top - beta);
            real* vector = vectors[k & 1];
            if (x == t) {
                EACH(r, 0, TILES) {
                    const int i = ROW(r);
                    if (r < c || i < k) vector[i] = 0;
                    else if (i == k) { vector[i] = 1; a[r][c] = (real)(beta / scale); }
                    else vector[i] = a[r][c] = (real)((double)a[r][c] * by);
                }
                if (!y) sizes[k] = size;
            }
            __syncthreads();
            const real factor = sizes[k];
            EACH(d, c, TILES) {
                real part = 0;
                EACH(r, c, TILES) part += vector[ROW(r)] * a[r][d];
                part = summed(part) * factor;
                if (d > c || x > t) EACH(r, c, TILES) a[r][d] -= vector[ROW(r)] * part;
            }
        }
    }
    right += block * rows * n;
    EACH(c, 0, TILES) EACH(r, 0, TILES) {
        const int i = ROW(r), j = COLUMN(c);
        if (i < rows && j < n) right[i * n + j] = i <= j ? a[r][c] : (real)0;
        if (wanted && i < m && j < count) kept[j * m + i] = i > j ? a[r][c] : (real)(i == j);
    }
    if (!wanted) return;
    __syncthreads();
    real q[TILES][TILES];
    EACH(r, 0, TILES) EACH(c, 0, TILES) q[r][c] = ROW(r) == COLUMN(c);
    for (int k = count - 1; k >= 0; k--) {
        const real factor = sizes[k];
        real vector[TILES];
        EACH(r, 0, TILES) vector[r] = ROW(r) < m ? kept[k * m + ROW(r)] : (real)0;
        EACH(c, 0, TILES) {
            real part = 0;
            EACH(r, 0, TILES) part += vector[r] * q[r][c];
            part = summed(part) * factor;
            EACH(r, 0, TILES) q[r][c] -= vector[r] * part;
        }
    }
    left += block * m * wanted;
    EACH(r, 0, TILES) EACH(c, 0, TILES) {
        const int i = ROW(r), j = COLUMN(c);
        if (i < m && j < wanted) left[i * wanted + j] = q[r][c];
    }
}
"""
# Of the kernels (`PackedLaunch`).
ARGUMENTS = {"cholesky": "Pi?PP", "triangular": "Piii??qqqPP", "reflections": "PiiiiPP"}


def source(kind: str, tiles: int) -> str:
    """The text of the kernels for a dtype (its letter), of so many rows and columns a thread."""
    text = SOURCE
    for name, meaning in (
        ("REAL", REALS[kind]), ("TILES", str(tiles)), ("SIDE", str(SIDE)),
        ("INFINITE", "(1.0 / 0.0)"),
    ):  # fmt: skip
        text = text.replace(name, meaning)
    return text


@cache
def _kernels(xp: Any, device: int, kind: str, tiles: int) -> dict[str, PackedLaunch]:
    named = [(f"adjoint_{name}", SIDE * SIDE, layout) for name, layout in ARGUMENTS.items()]
    return dict(zip(ARGUMENTS, kernels_of(xp, source(kind, tiles), *named), strict=True))


def launch_for(xp: Any, name: str, kind: str, most: int) -> PackedLaunch:
    """A kernel for matrices of so many rows or columns, on the current GPU."""
    tiles = 1 << (-(-most // SIDE) - 1).bit_length()
    return _kernels(xp, xp.cuda.runtime.getDevice(), kind, tiles)[name]


def fits(x: Array, *sizes: int, kept: int = 0) -> bool:
    """Whether matrices are of a block's dtypes and sizes, with so many numbers kept beside."""
    return (
        x.dtype.char in REALS
        and min(sizes) > 0
        and max(sizes) <= LONGEST
        and kept * x.itemsize <= ROOM
        and 0 < prod(x.shape[:-2]) < 1 << 24
    )


def cholesky(xp: Any, x: Array, upper: bool) -> tuple[Array, Array] | None:
    """Factors, and 0 or the order of the minor that is not positive; None of other matrices."""
    n = x.shape[-1]
    if not fits(x, n):
        return None
    x = xp.ascontiguousarray(x)
    out, info = xp.empty(x.shape, x.dtype), xp.empty(x.shape[:-2], np.int32)
    launch_for(xp, "cholesky", x.dtype.char, n)(
        info.size, x.data.ptr, n, upper, out.data.ptr, info.data.ptr
    )
    return out, info


def triangular_solve(xp: Any, x: Array, y: Array, upper: bool, unit: bool) -> Array | None:
    """y with each matrix's triangle undone; None of other matrices."""
    n, columns = y.shape[-2:]
    if not fits(y, n, kept=n * n) or x.dtype != y.dtype or not columns:
        return None
    if x.ndim > 3:
        x = xp.ascontiguousarray(x).reshape(-1, n, n)
    size = x.itemsize
    steps = [step // size for step in x.strides]
    y = xp.ascontiguousarray(y)
    out = xp.empty(y.shape, y.dtype)
    launch = launch_for(xp, "triangular", y.dtype.char, n)
    tiles = -(-columns // (SIDE << (-(-n // SIDE) - 1).bit_length()))
    launch(
        prod(y.shape[:-2]) * tiles, x.data.ptr, n, columns, tiles, upper, unit,
        steps[0] if x.ndim > 2 else 0, *steps[-2:], y.data.ptr, out.data.ptr, shared=n * n * size,
    )  # fmt: skip
    return out


def qr(xp: Any, x: Array, mode: str) -> tuple[Array | None, Array] | None:
    """Orthogonal factors (None in mode "r") and triangles; None of other matrices."""
    m, n = x.shape[-2:]
    count = min(m, n)
    rows = m if mode == "complete" else count
    wanted = 0 if mode == "r" else rows
    kept = m * count if wanted else 0
    if not fits(x, m, n, kept=kept):
        return None
    x = xp.ascontiguousarray(x)
    batch = x.shape[:-2]
    right = xp.empty((*batch, rows, n), x.dtype)
    left = xp.empty((*batch, m, wanted), x.dtype) if wanted else None
    launch_for(xp, "reflections", x.dtype.char, max(m, n))(
        prod(batch), x.data.ptr, m, n, wanted, rows, 0 if left is None else left.data.ptr,
        right.data.ptr, shared=kept * x.itemsize,
    )  # fmt: skip
    return left, right
