"""Fourier transforms as products with small tables, by the ways of Cooley and Tukey and Bluestein.

Note [transforms as products]
    A transform of n = a b elements is b transforms of a elements, a multiplication by powers of the
    n-th root of one, and a transforms of b. What has no factors is multiplied by its table of
    roots; where that table were large it is a circular convolution, of the next power of two that
    holds it. Tables are computed in float64.
"""

from __future__ import annotations

from functools import lru_cache
from math import isqrt, sqrt
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.engine.tensor.tensor import Tensor
from adjoint.export.forms.table import form_of, held

WHOLE = 32  # elements up to which a transform is one product
PRIME = 128  # elements up to which one without factors is


@lru_cache(maxsize=64)
def _table(n: int, inverse: bool, kind: str) -> Any:
    """Roots of one: "roots" by row times column, "chirp" by half of squares."""
    sign = 2j if inverse else -2j
    k = np.arange(n)
    if kind == "chirp":  # k * k / 2, exactly
        return np.exp(sign * np.pi * ((k * k) % (2 * n)) / (2 * n))
    return np.exp(sign * np.pi * (np.outer(k, k) % n) / n)


@lru_cache(maxsize=64)
def _twiddles(a: int, b: int, inverse: bool) -> Any:
    sign = 2j if inverse else -2j
    return np.exp(sign * np.pi * np.outer(np.arange(a), np.arange(b)) / (a * b))


def _factor(n: int) -> int:
    """The factor of n that is nearest to its root from below; 1 if there is none."""
    return next((a for a in range(isqrt(n), 1, -1) if n % a == 0), 1)


def transformed(x: Tensor, inverse: bool) -> Tensor:
    """The transform along the last dimension, of complex numbers, unscaled."""
    n = int(x.shape[-1])
    a = _factor(n) if n > WHOLE else 1
    if n == 1:
        return x
    if a == 1:
        return _bluestein(x, inverse) if n > PRIME else x @ held(_table(n, inverse, "roots"), x)
    b = n // a
    parts = x.reshape(*x.shape[:-1], a, b)
    inner = transformed(parts.transpose(-1, -2), inverse).transpose(-1, -2)  # (..., a, b)
    turned = inner * held(_twiddles(a, b, inverse), x)
    return transformed(turned, inverse).transpose(-1, -2).reshape(x.shape)


def _bluestein(x: Tensor, inverse: bool) -> Tensor:
    """n elements as a convolution with a chirp, which powers of two hold."""
    n = int(x.shape[-1])
    size = 1 << (2 * n - 1).bit_length()
    chirp = _table(n, inverse, "chirp")
    other = np.zeros(size, np.complex128)
    other[:n] = chirp.conj()
    other[size - n + 1 :] = chirp.conj()[1:][::-1]
    spectrum = held(np.fft.fft(other) / size, x)
    own = held(chirp, x)
    turned = x * own
    wide = ad.cat([turned, turned.new_zeros((*x.shape[:-1], size - n))], -1)
    folded = transformed(transformed(wide, False) * spectrum, True)
    return folded[..., :n] * own


def _scaled(x: Tensor, n: int, inverse: bool, norm: str) -> Tensor:
    if norm == "ortho":
        return x * (1 / sqrt(n))
    return x * (1 / n) if (norm == "backward") is inverse else x


@form_of("fft")
def fft(x: Tensor, dims: tuple[int, ...], inverse: bool, norm: str) -> Tensor:
    """Along each dimension in turn."""
    for dim in dims:
        moved = transformed(x.movedim(dim, -1), inverse).movedim(-1, dim)
        x = _scaled(moved, int(x.shape[dim]), inverse, norm)
    return x


@form_of("rfft")
def rfft(x: Tensor, dim: int, norm: str) -> Tensor:
    """The half of the spectrum that says all of it."""
    n = int(x.shape[dim])
    whole = fft(ad.complex(x, ad.zeros_like(x)), (dim,), False, norm)
    return whole.narrow(dim, 0, n // 2 + 1)


@form_of("irfft")
def irfft(x: Tensor, dim: int, n: int, norm: str) -> Tensor:
    """Back from the half: negative frequencies are conjugates of positive ones."""
    rest = (n - 1) // 2
    mirrored = ad.conj(x.narrow(dim, 1, rest).flip(dim)) if rest else None
    whole = x if mirrored is None else ad.cat([x, mirrored], dim)
    return ad.real(fft(whole, (dim,), True, norm))


@form_of("frame")
def frame(x: Tensor, size: int, hop: int) -> Tensor:
    """Pieces, side by side or over one another."""
    count = 1 + (int(x.shape[-1]) - size) // hop
    places = held_places(count, size, hop)
    return x.index_select(-1, places).reshape(*x.shape[:-1], count, size)


@form_of("overlap_add")
def overlap_add(x: Tensor, hop: int, length: int) -> Tensor:
    """Every so many frames do not overlap: these are one row, and the rows are added."""
    count, size = int(x.shape[-2]), int(x.shape[-1])
    apart = -(-size // hop)
    total = x.new_zeros((*x.shape[:-2], length))
    for first in range(min(apart, count)):
        rows = x[..., first::apart, :]
        gap = apart * hop - size
        spaced = ad.cat([rows, rows.new_zeros((*rows.shape[:-1], gap))], -1) if gap else rows
        line = spaced.reshape(*x.shape[:-2], spaced.shape[-2] * apart * hop)
        line = line[..., : length - first * hop]
        after = length - first * hop - int(line.shape[-1])
        around = [
            line.new_zeros((*line.shape[:-1], n)) if n else None for n in (first * hop, after)
        ]
        parts = [part for part in (around[0], line, around[1]) if part is not None]
        total = total + (ad.cat(parts, -1) if len(parts) > 1 else line)
    return total


def held_places(count: int, size: int, hop: int) -> Tensor:
    """Where elements of frames are."""
    return (ad.arange(count).unsqueeze(1) * hop + ad.arange(size)).reshape(-1)
