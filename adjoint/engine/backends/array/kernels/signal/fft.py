"""Kernels of Fourier transforms.

On the CPU SciPy's, which are faster than NumPy's in float32, where transforms are no fragments.
Few elements are transformed by NumPy in double precision, whose inner loops native rows call (Note
[small rows]).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.engine.backends.array.kernels.signal import plans
from adjoint.engine.backends.array.table import lowers, lowers_on_gpu, on_device, row_major
from adjoint.engine.ops.shape import frames
from adjoint.engine.ops.signal import fft

Array = Any


def library(xp: Any) -> Any:
    """The transforms that belong to an array library."""
    if xp is np:
        import scipy.fft

        return scipy.fft
    return xp.fft


SMALL = 1 << 11  # elements up to which NumPy transforms


def is_small(xp: Any, x: Array) -> bool:
    return xp is np and x.size <= SMALL


def doubled(x: Array) -> Array:
    """The same numbers in double precision."""
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64, order="C", copy=False)


@lowers(fft.FFT)
def fft_(xp: Any, x: Array, dims: tuple[int, ...], inverse: bool, norm: Any) -> Array:
    if not x.size:
        return x.copy()
    if on_device(xp):
        found = plans.transformed(xp, x, "whole", dims, inverse=inverse, norm=norm)
        if found is not None:
            return found
    if is_small(xp, x):
        out = doubled(x)
        for dim in reversed(dims):
            transform = np.fft.ifft if inverse else np.fft.fft
            out = transform(out, axis=dim, norm=norm, out=np.empty(x.shape, out.dtype))
        return out.astype(x.dtype, copy=False)
    transforms = library(xp)
    if len(dims) == 1:
        out = (transforms.ifft if inverse else transforms.fft)(x, axis=dims[0], norm=norm)
    else:
        out = (transforms.ifftn if inverse else transforms.fftn)(x, axes=dims, norm=norm)
    return row_major(xp, out)


def _empty(xp: Any, x: Array, dim: int, n: int, dtype: Any) -> Array:
    return xp.empty((*x.shape[:dim], n, *x.shape[dim + 1 :]), dtype)


@lowers(fft.RFFT)
def rfft(xp: Any, x: Array, dim: int, norm: Any) -> Array:
    if not x.size:
        return _empty(xp, x, dim, x.shape[dim] // 2 + 1, xp.result_type(x, xp.complex64))
    if is_small(xp, x):
        out = _empty(xp, x, dim, x.shape[dim] // 2 + 1, np.complex128)
        np.fft.rfft(doubled(x), axis=dim, norm=norm, out=out)
        return out.astype(np.result_type(x, np.complex64), copy=False)
    if on_device(xp) and (found := plans.transformed(xp, x, "half", (dim,), norm=norm)) is not None:
        return found
    return row_major(xp, library(xp).rfft(x, axis=dim, norm=norm))


@lowers_on_gpu(fft.RFFT_SEVERAL)
def rfft_several(xp: Any, x: Array, dims: tuple[int, ...], norm: Any) -> Array:
    found = plans.transformed(xp, x, "half", dims, norm=norm)
    if found is not None:
        return found
    return fft_(xp, rfft(xp, x, dims[-1], norm), dims[:-1], inverse=False, norm=norm)


@lowers(fft.IRFFT)
def irfft(xp: Any, x: Array, dim: int, n: int, norm: Any) -> Array:
    if not x.size:
        return _empty(xp, x, dim, n, x.real.dtype)
    if is_small(xp, x):
        out = np.fft.irfft(doubled(x), n, dim, norm, out=_empty(xp, x, dim, n, np.float64))
        return out.astype(x.real.dtype, copy=False)
    if on_device(xp):
        found = plans.transformed(xp, x, "back", (dim,), last=n, norm=norm)
        if found is not None:
            return found
    return row_major(xp, library(xp).irfft(x, n, axis=dim, norm=norm))


@lowers(fft.SPECTRUM)
def spectrum(xp: Any, x: Array, way: str, dim: int, n: int, inverse: bool, norm: str) -> Array:
    if way == "half":
        out = rfft(xp, x, dim, norm)
    else:
        pairs = xp.ascontiguousarray(x)
        numbers = pairs.view(xp.result_type(x, xp.complex64))[..., 0]
        if way == "back":
            return irfft(xp, numbers, dim, n, norm)
        out = fft_(xp, numbers, (dim,), inverse, norm)
    if on_device(xp):  # the same memory, not copied part by part
        return xp.ascontiguousarray(out).view(x.dtype).reshape((*out.shape, 2))
    return xp.stack([out.real, out.imag], axis=-1)


def _windows(xp: Any, x: Array, start: int, count: int, size: int, hop: int) -> Array:
    """`count` windows of the last dimension, `hop` apart, sharing its memory."""
    step = x.strides[-1]
    return xp.lib.stride_tricks.as_strided(
        x[..., start:],
        (*x.shape[:-1], count, size),
        (*x.strides[:-1], hop * step, step),
    )


@lowers(frames.FRAME)
def frame(xp: Any, x: Array, size: int, hop: int) -> Array:
    return _windows(xp, x, 0, 1 + (x.shape[-1] - size) // hop, size, hop).copy()


@lowers(frames.OVERLAP_ADD)
def overlap_add(xp: Any, x: Array, hop: int, length: int) -> Array:
    out = xp.zeros((*x.shape[:-2], length), x.dtype)
    count, size = x.shape[-2:]
    apart = -(-size // hop)  # every so many frames do not overlap, and are added at once
    for first in range(min(apart, count)):
        rows = x[..., first::apart, :]
        shown = _windows(xp, out, first * hop, rows.shape[-2], size, apart * hop)
        shown += rows
    return out
