"""Factors, inverses and transforms by NumPy's generalised functions, as rows.

`np.linalg` and `np.fft` call functions of one matrix, or one line, through wrappers that take ten
times as long as LAPACK does for a small matrix. Rows call the same functions with the same
operands, in double precision as NumPy has it; where one fails, its results are NaN, and the
kernel is called instead, which says so in its own words.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import numpy as np

from adjoint.engine.backends.llvm.runtime.ufuncs import inner_loop_of
from adjoint.engine.backends.llvm.small.compounds import need
from adjoint.engine.backends.llvm.small.operations import select, ufunc_of
from adjoint.engine.backends.llvm.small.rows import (
    Array,
    NoRow,
    RowWriter,
    Spot,
    spread,
    writes,
)
from adjoint.engine.ops.linalg import cholesky, det, eigen, qr, solve, svd
from adjoint.engine.ops.signal import fft

Shape = tuple[int, ...]


# NumPy's modules of generalised functions, which are its own affair: one may be gone some day.
MODULES = {"linalg": "numpy.linalg._umath_linalg", "fft": "numpy.fft._pocketfft_umath"}


def generalised(
    w: RowWriter, module: str, name: str, kinds: str, places: list[Spot], sizes: Shape
) -> None:
    """One call on stacks of matrices: `sizes` are the signature's, in order of their names."""
    try:
        function = getattr(import_module(MODULES[module]), name)
    except (ImportError, AttributeError):
        raise NoRow from None
    loop = inner_loop_of(function, kinds)
    groups = re.findall(r"\(([^)]*)\)", function.signature)
    ranks = [len(group.split(",")) if group else 0 for group in groups]
    if loop is None or len(ranks) != len(places):
        raise NoRow
    batches = [p.array.shape[: p.array.ndim - r] for p, r in zip(places, ranks, strict=True)]
    batch = np.broadcast_shapes(*batches)
    steps, core = [], []
    for place, rank, own in zip(places, ranks, batches, strict=True):
        array = place.array
        one = np.lib.stride_tricks.as_strided(array, own, array.strides[: array.ndim - rank])
        steps.append(spread(one, batch))
        core += array.strides[array.ndim - rank :]
    w.call(loop, places, batch, steps, sizes, core)


def doubled(w: RowWriter, x: Spot) -> Spot:
    """Real matrices in double precision, row after row."""
    if x.array.dtype.char not in "fd" or not x.array.size:
        raise NoRow
    return w.copy(x, w.scratch(np.empty(x.array.shape, np.float64)))


def room(w: RowWriter, *shape: int) -> Spot:
    """Memory for a result in double precision."""
    return w.scratch(np.empty(shape, np.float64))


def given_back(w: RowWriter, results: list[Spot], outs: list[Array]) -> list[Spot]:
    """Results in the dtypes that they have."""
    return [w.copy(r, w.scratch(out)) for r, out in zip(results, outs, strict=True)]


def need_numbers(w: RowWriter, x: Spot) -> None:
    """Fail where there is a NaN."""
    need(w, ufunc_of(w, np.equal, x, x))


def with_info(w: RowWriter, result: Spot, outs: tuple[Array, Array]) -> list[Spot]:
    """A result, and that no matrix failed."""
    need_numbers(w, result)
    nothing = w.copy(w.constant(0, outs[1].dtype), w.scratch(outs[1]))
    return [*given_back(w, [result], [outs[0]]), nothing]


@writes(cholesky.CHOLESKY)
def write_cholesky(
    w: RowWriter, outs: tuple[Array, Array], x: Spot, upper: bool, name: str, check: bool
) -> list[Spot]:
    if upper:
        raise NoRow
    factor = room(w, *x.array.shape)
    generalised(w, "linalg", "cholesky_lo", "d->d", [doubled(w, x), factor], (x.array.shape[-1],))
    return with_info(w, factor, outs)


@writes(solve.INV)
def write_inv(
    w: RowWriter, outs: tuple[Array, Array], x: Spot, name: str, check: bool
) -> list[Spot]:
    inverse = room(w, *x.array.shape)
    generalised(w, "linalg", "inv", "d->d", [doubled(w, x), inverse], (x.array.shape[-1],))
    return with_info(w, inverse, outs)


@writes(solve.SOLVE)
def write_solve(
    w: RowWriter, outs: tuple[Array, Array], x: Spot, y: Spot, name: str, check: bool
) -> list[Spot]:
    if y.array.ndim != x.array.ndim:
        raise NoRow
    places = [doubled(w, x), doubled(w, y), room(w, *outs[0].shape)]
    generalised(w, "linalg", "solve", "dd->d", places, (x.array.shape[-1], y.array.shape[-1]))
    return with_info(w, places[-1], outs)


@writes(det.DET)
def write_det(w: RowWriter, out: Array, x: Spot) -> Spot:
    result = room(w, *out.shape)
    generalised(w, "linalg", "det", "d->d", [doubled(w, x), result], (x.array.shape[-1],))
    return given_back(w, [result], [out])[0]


@writes(det.SLOGDET)
def write_slogdet(w: RowWriter, outs: tuple[Array, Array], x: Spot) -> list[Spot]:
    sign, size = room(w, *outs[0].shape), room(w, *outs[1].shape)
    generalised(w, "linalg", "slogdet", "d->dd", [doubled(w, x), sign, size], (x.array.shape[-1],))
    return given_back(w, [sign, size], [*outs])


@writes(qr.QR)
def write_qr(w: RowWriter, outs: tuple[Array, Array], x: Spot, mode: str) -> list[Spot]:
    if mode != "reduced":
        raise NoRow
    *batch, m, n = x.array.shape
    k = min(m, n)
    work, rates, q = doubled(w, x), room(w, *batch, k), room(w, *batch, m, k)
    generalised(w, "linalg", "qr_r_raw", "d->d", [work, rates], (m, n, k))
    generalised(w, "linalg", "qr_reduced", "dd->d", [work, rates, q], (m, n, k))
    need_numbers(w, q)
    upper = work.seen(work.array[..., :k, :])
    inside = w.constant(np.triu(np.ones((k, n), bool)), bool)
    r = select(w, room(w, *batch, k, n), inside, upper, w.constant(0, np.float64))
    return given_back(w, [q, r], [*outs])


def as_it_is(w: RowWriter, x: Spot) -> tuple[Spot, str]:
    """Real matrices in their own precision, row after row, all finite; and NumPy's name of it."""
    char = x.array.dtype.char
    if char not in "fd" or not x.array.size:
        raise NoRow
    given = w.copy(x, w.scratch(np.empty(x.array.shape, char)))
    need(w, ufunc_of(w, np.isfinite, given))
    return given, char


@writes(svd.SVD)
def write_svd(w: RowWriter, outs: Any, x: Spot, full_matrices: bool) -> list[Spot]:
    m, n = x.array.shape[-2:]
    given, char = as_it_is(w, x)
    u, s, v = (w.scratch(np.empty(out.shape, char)) for out in outs)
    name = "svd_f" if full_matrices else "svd_s"
    generalised(w, "linalg", name, f"{char}->{char * 3}", [given, u, s, v], (m, n, min(m, n)))
    need_numbers(w, s)
    return given_back(w, [u, s, v], [*outs])


@writes(svd.SVDVALS)
def write_svdvals(w: RowWriter, out: Array, x: Spot) -> Spot:
    m, n = x.array.shape[-2:]
    given, char = as_it_is(w, x)
    s = w.scratch(np.empty(out.shape, char))
    generalised(w, "linalg", "svd", f"{char}->{char}", [given, s], (m, n, min(m, n)))
    need_numbers(w, s)
    return given_back(w, [s], [out])[0]


@writes(eigen.EIGH)
def write_eigh(w: RowWriter, outs: tuple[Array, Array], x: Spot, upper: bool) -> list[Spot]:
    given, char = as_it_is(w, x)
    values, vectors = (w.scratch(np.empty(out.shape, char)) for out in outs)
    name, size = "eigh_up" if upper else "eigh_lo", x.array.shape[-1]
    generalised(w, "linalg", name, f"{char}->{char}{char}", [given, values, vectors], (size,))
    need_numbers(w, values)
    return given_back(w, [values, vectors], [*outs])


@writes(eigen.EIGVALSH)
def write_eigvalsh(w: RowWriter, out: Array, x: Spot, upper: bool) -> Spot:
    given, char = as_it_is(w, x)
    values = w.scratch(np.empty(out.shape, char))
    name, size = "eigvalsh_up" if upper else "eigvalsh_lo", x.array.shape[-1]
    generalised(w, "linalg", name, f"{char}->{char}", [given, values], (size,))
    need_numbers(w, values)
    return given_back(w, [values], [out])[0]


# -- Fourier transforms -------------------------------------------------------------------------


def wide(w: RowWriter, x: Spot) -> Spot:
    """Numbers in double precision, row after row."""
    if x.array.dtype.char not in "fdFD":
        raise NoRow
    dtype = np.complex128 if x.array.dtype.kind == "c" else np.float64
    return w.copy(x, w.scratch(np.empty(x.array.shape, dtype)))


def transform(w: RowWriter, name: str, x: Spot, out: Spot, dim: int, n: int, norm: str) -> Spot:
    """One of NumPy's transforms along a dimension of n elements; `norm` is of this direction."""
    factors = {"backward": 1.0, "ortho": np.reciprocal(np.sqrt(np.float64(n)))}
    scale = w.constant(factors.get(norm, np.reciprocal(np.float64(n))), np.float64)
    kinds = f"{x.array.dtype.char}d->{out.array.dtype.char}"
    line, result = (p.seen(np.moveaxis(p.array, dim, -1)) for p in (x, out))
    sizes = (line.array.shape[-1], result.array.shape[-1])
    generalised(w, "fft", name, kinds, [line, scale, result], sizes)
    return out


@writes(fft.FFT)
def write_fft(
    w: RowWriter, out: Array, x: Spot, dims: tuple[int, ...], inverse: bool, norm: str
) -> Spot:
    norm, x = fft.OPPOSITE[norm] if inverse else norm, wide(w, x)
    for dim in reversed(dims):
        place = w.scratch(x.array)
        x = transform(w, "ifft" if inverse else "fft", x, place, dim, out.shape[dim], norm)
    return w.copy(x, w.scratch(out))


@writes(fft.RFFT)
def write_rfft(w: RowWriter, out: Array, x: Spot, dim: int, norm: str) -> Spot:
    n = x.array.shape[dim]
    name, place = "rfft_n_odd" if n % 2 else "rfft_n_even", w.scratch(out, np.dtype("D"))
    return w.copy(transform(w, name, wide(w, x), place, dim, n, norm), w.scratch(out))


@writes(fft.IRFFT)
def write_irfft(w: RowWriter, out: Array, x: Spot, dim: int, n: int, norm: str) -> Spot:
    place = w.scratch(out, np.dtype("d"))
    transform(w, "irfft", wide(w, x), place, dim, n, fft.OPPOSITE[norm])
    return w.copy(place, w.scratch(out))
