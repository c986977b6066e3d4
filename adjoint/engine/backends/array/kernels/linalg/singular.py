"""Singular values and vectors of small matrices on a GPU: a block for each, by Jacobi's rotations.

Pairs of columns are rotated until all are orthogonal: their lengths are the singular values then.
In each round every column is in one pair, a warp for each pair, so that a sweep over all pairs
takes as many rounds as there are columns. cuSOLVER has this for up to 32 columns only, and goes
matrix by matrix beyond.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

Array = Any
WARPS = 32  # of a block at most
SWEEPS = 40  # eight are enough as a rule
KEPT = 1024  # bytes of shared memory besides columns

SOURCE = r"""
typedef REAL real;  // in which it is computed
typedef WORD word;

__device__ real warp_sum(real x) {
    for (int step = 16; step; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

// Of `m` by `n`, m at least n; with `turned` the matrix lies transposed, as do its results.
extern "C" __global__ void __launch_bounds__(THREADS) adjoint_singular(
    const word* given, int m, int n, int turned, real alike, word* left, word* values, word* right,
    int* doubtful)
{
    extern __shared__ __align__(16) unsigned char room[];
    __shared__ int moved, unit;
    real* columns = (real*)room;
    real* turns = columns + (long long)m * n;
    real* lengths = turns + (long long)n * n;
    int* place = (int*)(lengths + n);
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    const word* x = given + (long long)blockIdx.x * m * n;
    left += (long long)blockIdx.x * n * (turned ? n : m);
    right += (long long)blockIdx.x * n * (turned ? m : n);
    values += (long long)blockIdx.x * n;
    if (!threadIdx.x) unit = -10000;
    __syncthreads();
    for (int k = threadIdx.x; k < m * n; k += blockDim.x)
        if (x[k] != 0) atomicMax(&unit, ilogb((double)x[k]));
    __syncthreads();
    // Squares of elements neither overflow nor vanish.
    int scale = unit == -10000 ? 0 : unit;
    for (int k = threadIdx.x; k < m * n; k += blockDim.x)
        columns[turned ? k : k % n * m + k / n] = (real)ldexp((double)x[k], -scale);
    for (int k = threadIdx.x; k < n * n; k += blockDim.x) turns[k] = k / n == k % n;
    __syncthreads();
    int players = n + (n & 1), sweep = 0;
    for (; sweep < SWEEPS; sweep++) {
        if (!threadIdx.x) moved = 0;
        __syncthreads();
        for (int round = 0; round + 1 < players; round++) {
            for (int pair = warp; pair < players / 2; pair += warps) {
                int a = pair ? (round + pair) % (players - 1) : players - 1;
                int b = (round + players - 1 - pair) % (players - 1);
                int p = a < b ? a : b, q = a < b ? b : a;
                if (q >= n) continue;
                real* first = columns + (long long)p * m;
                real* second = columns + (long long)q * m;
                real pp = 0, qq = 0, pq = 0;
                for (int i = lane; i < m; i += 32) {
                    pp += first[i] * first[i];
                    qq += second[i] * second[i];
                    pq += first[i] * second[i];
                }
                pp = warp_sum(pp); qq = warp_sum(qq); pq = warp_sum(pq);
                if (!(fabs(pq) > alike * sqrt(pp) * sqrt(qq))) continue;
                real ratio = (qq - pp) / (2 * pq);
                real t = (ratio < 0 ? -1 : 1) / (fabs(ratio) + sqrt(1 + ratio * ratio));
                real c = 1 / sqrt(1 + t * t), s = c * t;
                for (int i = lane; i < m; i += 32) {
                    real y = first[i], z = second[i];
                    first[i] = c * y - s * z;
                    second[i] = s * y + c * z;
                }
                real* one = turns + (long long)p * n;
                real* other = turns + (long long)q * n;
                for (int i = lane; i < n; i += 32) {
                    real y = one[i], z = other[i];
                    one[i] = c * y - s * z;
                    other[i] = s * y + c * z;
                }
                if (!lane) moved = 1;
            }
            __syncthreads();
        }
        if (!moved) break;
        __syncthreads();
    }
    for (int j = warp; j < n; j += warps) {
        real sum = 0;
        real* column = columns + (long long)j * m;
        for (int i = lane; i < m; i += 32) sum += column[i] * column[i];
        sum = warp_sum(sum);
        if (!lane) lengths[j] = sqrt(sum);
    }
    __syncthreads();
    for (int j = threadIdx.x; j < n; j += blockDim.x) {
        int before = 0;
        for (int i = 0; i < n; i++)
            before += lengths[i] > lengths[j] || (lengths[i] == lengths[j] && i < j);
        place[before] = j;
        values[before] = (word)ldexp((double)lengths[j], scale);
        if (sweep == SWEEPS || !(lengths[j] > 0)) doubtful[blockIdx.x] = 1;
    }
    __syncthreads();
    for (int k = threadIdx.x; k < m * n; k += blockDim.x) {
        int at = turned ? k / m : k % n, i = turned ? k % m : k / n, j = place[at];
        (turned ? right : left)[k] = (word)(columns[(long long)j * m + i] / lengths[j]);
    }
    for (int k = threadIdx.x; k < n * n; k += blockDim.x) {
        int at = turned ? k % n : k / n, i = turned ? k / n : k % n, j = place[at];
        (turned ? left : right)[k] = (word)turns[(long long)j * n + i];
    }
}
"""


@lru_cache(maxsize=4)
def _kernel(xp: Any, real: str, word: str) -> Any:
    text = (
        SOURCE.replace("SWEEPS", str(SWEEPS))
        .replace("THREADS", str(32 * WARPS))
        .replace("REAL", real)
        .replace("WORD", word)
    )
    return xp.RawModule(code=text).get_function("adjoint_singular")


@lru_cache(maxsize=16)
def _shared(xp: Any, device: int) -> int:
    """Bytes of shared memory that a block may ask for."""
    return int(xp.cuda.Device(device).attributes["MaxSharedMemoryPerBlockOptin"]) - KEPT


def svd(xp: Any, x: Array) -> tuple[Array, Array, Array] | None:
    """Factors of real matrices, reduced; None where they do not fit, or what they are is in doubt.

    A singular value that is zero leaves its vectors open.
    """
    rows, size = x.shape[-2:]
    turned = rows < size
    m, n = (size, rows) if turned else (rows, size)
    if x.dtype.char not in "fd":
        return None
    kind = real_for(x.dtype, m * n + n * n + n, _shared(xp, x.device.id) - 4 * n)
    if kind is None:
        return None
    batch = x.shape[:-2]
    count = prod(batch)
    left, right = xp.empty((*batch, rows, n), x.dtype), xp.empty((*batch, n, size), x.dtype)
    values, doubtful = xp.empty((*batch, n), x.dtype), xp.zeros(count, np.int32)
    # Columns are orthogonal when what is left is rounding; of floats, far below theirs.
    least = 2.0 ** (-36 if kind != x.dtype else -51 if kind.itemsize == 8 else -22) * m**0.5
    launch = _kernel(xp, *("double" if k.itemsize == 8 else "float" for k in (kind, x.dtype)))
    room = (m * n + n * n + n) * kind.itemsize + 4 * n
    launch.max_dynamic_shared_size_bytes = room
    given = (
        xp.ascontiguousarray(x), np.int32(m), np.int32(n), np.int32(turned), kind.type(least),
        left, values, right, doubtful,
    )  # fmt: skip
    launch((count,), (32 * min(WARPS, max(1, (n + 1) // 2)),), given, shared_mem=room)
    return None if bool(doubtful.any()) else (left, values, right)


def real_for(given: Any, count: int, room: int) -> np.dtype[Any] | None:
    """In which precision so many numbers fit: double, or that of the matrix."""
    for kind in (np.dtype(np.float64), np.dtype(given)):
        if count * kind.itemsize <= room:
            return kind
    return None
