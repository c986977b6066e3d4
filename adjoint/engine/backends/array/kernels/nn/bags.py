"""Rows of a table pooled in bags that offsets divide, on a GPU, and back: a block for a bag.

What `ops.nn.bags` composes. A thread goes through the rows of its bag one after another, so
the sums are the same each time.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from adjoint.engine.backends.array.gpu.driver import PackedLaunch
from adjoint.engine.backends.array.gpu.reports import REPORT, Fault, Report, fault_of
from adjoint.engine.backends.array.table import lowers_on_gpu
from adjoint.engine.ops.common.checks import NUMBER
from adjoint.engine.ops.index.index import out_of_bounds
from adjoint.engine.ops.nn.bags import EMBEDDING_BAG_SPREAD, EMBEDDING_BAG_WHOLE

Array = Any
THREADS = 256  # of a block, at most
MODES = {"sum": 0, "mean": 1, "max": 2}
# Of the kernels (`PackedLaunch`).
ARGUMENTS = {"adjoint_bags": "PPPqqqqiPPqqi", "adjoint_spread_bags": "PPqqqiP"}

SOURCE = (
    REPORT
    + r"""
typedef REAL real;

extern "C" __global__ void adjoint_bags(
    const real* x, const long long* index, const long long* begins, long long rows,
    long long features, long long length, long long bags, int mode, real* out,
    unsigned long long* status, long long no_row, long long no_bag, int bits)
{
    const long long bag = blockIdx.x, begin = begins[bag];
    const long long end = bag + 1 < bags ? begins[bag + 1] : length;
    if (begin < 0 || begin > end || end > length || (!bag && begin)) {
        const long long wrong = begin < 0 || begin > length || (!bag && begin) ? begin : end;
        if (!threadIdx.x) report(status, no_bag, bits, wrong);
        return;
    }
    const real least = (real)__int_as_float(0xff800000);
    for (long long k = threadIdx.x; k < features; k += blockDim.x) {
        real pooled = mode == 2 ? least : (real)0;
        for (long long i = begin; i < end; i++) {
            const long long row = index[i];
            if (row < 0 || row >= rows) {
                if (!k) report(status, no_row, bits, row);
                continue;
            }
            const real value = x[row * features + k];
            if (mode != 2) pooled += value;
            else if (value > pooled || value != value) pooled = value;
        }
        if (mode == 1 && begin < end) pooled /= end - begin;
        if (mode == 2 && pooled == least) pooled = 0;
        out[bag * features + k] = pooled;
    }
}

// Each row of a bag gets what came back to the bag. Offsets that divide nothing were reported.
extern "C" __global__ void adjoint_spread_bags(
    const real* g, const long long* begins, long long features, long long length, long long bags,
    int mode, real* out)
{
    const long long bag = blockIdx.x, begin = begins[bag];
    const long long end = bag + 1 < bags ? begins[bag + 1] : length;
    if (begin < 0 || end > length) return;
    for (long long k = threadIdx.x; k < features; k += blockDim.x) {
        real value = g[bag * features + k];
        if (mode == 1 && begin < end) value /= end - begin;
        for (long long i = begin; i < end; i++) out[i * features + k] = value;
    }
}
"""
)


@lru_cache(maxsize=64)
def _launch(xp: Any, device: int, name: str, kind: str, features: int) -> PackedLaunch:
    text = SOURCE.replace("REAL", "double" if kind == "d" else "float")
    kernel = xp.RawModule(code=text).get_function(name).kernel
    threads = min(THREADS, -(-features // 32) * 32)
    return PackedLaunch(xp.cuda, kernel, threads, ARGUMENTS[name])


@lru_cache(maxsize=64)
def _faults(rows: int) -> tuple[Fault, Fault]:
    """What is said of an index that names no row, and of offsets that divide nothing."""
    wanted = "offsets must begin with 0, never decrease, and not go beyond the input"
    return (
        fault_of(out_of_bounds("index", NUMBER, 0, rows, wrap=False)),
        fault_of(RuntimeError(f"embedding_bag: {wanted}; received {NUMBER}")),
    )


def _in_rows(xp: Any, *arrays: Array) -> list[Array]:
    return [a if a.flags.c_contiguous else xp.ascontiguousarray(a) for a in arrays]


@lowers_on_gpu(EMBEDDING_BAG_WHOLE)
def embedding_bag(xp: Any, x: Array, index: Array, begins: Array, mode: str) -> Array:
    table, picks, starts = _in_rows(xp, x, index, begins)
    rows, features = table.shape
    bags = starts.size
    out = xp.ndarray((bags, features), table.dtype)
    device = table.data.device_id
    report = Report(xp, device, *_faults(rows))
    _launch(xp, device, "adjoint_bags", table.dtype.char, features)(
        bags, table.data.ptr, picks.data.ptr, starts.data.ptr, rows, features, picks.size, bags,
        MODES[mode], out.data.ptr, *report.words,
    )  # fmt: skip
    report.look()
    return out


@lowers_on_gpu(EMBEDDING_BAG_SPREAD)
def spread(xp: Any, g: Array, begins: Array, length: int, mode: str) -> Array:
    given, starts = _in_rows(xp, g, begins)
    bags, features = given.shape
    out = xp.ndarray((length, features), given.dtype)
    _launch(xp, given.data.device_id, "adjoint_spread_bags", given.dtype.char, features)(
        bags, given.data.ptr, starts.data.ptr, features, length, bags, MODES[mode], out.data.ptr
    )
    return out
