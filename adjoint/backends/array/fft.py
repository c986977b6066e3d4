"""Kernels of Fourier transforms."""

from __future__ import annotations

from typing import Any

from adjoint.backends.array.table import lowers
from adjoint.ops import fft

Array = Any


@lowers(fft.FFT)
def fft_(xp: Any, x: Array, dims: tuple[int, ...], inverse: bool, norm: str) -> Array:
    if not x.size:
        return x.copy()
    return (xp.fft.ifftn if inverse else xp.fft.fftn)(x, axes=dims, norm=norm)


def _empty(xp: Any, x: Array, dim: int, n: int, dtype: Any) -> Array:
    return xp.empty((*x.shape[:dim], n, *x.shape[dim + 1 :]), dtype)


@lowers(fft.RFFT)
def rfft(xp: Any, x: Array, dim: int, norm: str) -> Array:
    if not x.size:
        return _empty(xp, x, dim, x.shape[dim] // 2 + 1, xp.result_type(x, xp.complex64))
    return xp.fft.rfft(x, axis=dim, norm=norm)


@lowers(fft.IRFFT)
def irfft(xp: Any, x: Array, dim: int, n: int, norm: str) -> Array:
    if not x.size:
        return _empty(xp, x, dim, n, x.real.dtype)
    return xp.fft.irfft(x, n, axis=dim, norm=norm)
