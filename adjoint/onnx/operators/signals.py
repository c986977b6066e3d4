"""Signals: Fourier transforms, windows, mel weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.engine.ops.signal.fft import fft, ifft, irfft
from adjoint.engine.tensor.tensor import Tensor
from adjoint.onnx.operators.shapes import bounded
from adjoint.onnx.table import NodeCall, operator
from adjoint.onnx.types import Value, element, number, value_of


def _complex(x: Tensor) -> Tensor:
    """The last dimension, of one part or of two, as numbers."""
    return x.squeeze(-1) if x.shape[-1] == 1 else ad.view_as_complex(x.contiguous())


def _parts(x: Tensor, like: Tensor) -> Tensor:
    return ad.view_as_real(x).to(like.dtype)


@operator("DFT")
def dft(
    x: Tensor,
    dft_length: Value = None,
    axis: Value = None,
    *,
    inverse: int = 0,
    onesided: int = 0,
    call: NodeCall,
) -> Tensor:
    """The discrete Fourier transform along an axis."""
    default = 1 if call.opset < 20 else -2
    place = default if axis is None else axis if isinstance(axis, int) else int(number(axis))
    dim = place % x.ndim
    length = None if dft_length is None else int(number(dft_length))
    values = _complex(x.double())
    if inverse and onesided:
        size = length or 2 * (int(x.shape[dim]) - 1)
        return irfft(values, size, dim).unsqueeze(-1).to(x.dtype)
    length = length or int(x.shape[dim])
    if inverse:
        return _parts(ifft(values, length, dim), x)
    whole = fft(values, length, dim)
    return _parts(whole.narrow(dim, 0, length // 2 + 1) if onesided else whole, x)


@operator("STFT")
def stft(
    signal: Tensor,
    frame_step: Value,
    window: Value = None,
    frame_length: Value = None,
    *,
    onesided: int = 1,
) -> Tensor:
    """The Fourier transforms of overlapping frames: (B, frames, frequencies, 2)."""
    signal = signal.unsqueeze(-1) if signal.ndim == 2 else signal
    total, step = int(signal.shape[1]), int(number(frame_step))
    size = (
        int(number(frame_length))
        if frame_length is not None
        else total
        if window is None
        else int(window.shape[0])
    )
    frames = 1 + (total - size) // step
    index = ad.arange(frames)[:, None] * step + ad.arange(size)[None, :]
    parts = signal[:, index]  # (B, frames, size, 1 or 2)
    if window is not None:
        parts = parts * window[:, None]
    values = fft(_complex(parts), size, -1)
    values = values[..., : size // 2 + 1] if onesided else values
    return _parts(values, signal)


def _window(of: Callable[[Any], Any]) -> Callable[..., Value]:
    def make(size: Value, *, output_datatype: int = 1, periodic: int = 1) -> Value:
        count = bounded([int(number(size))], "window")[0]
        turn = 2 * np.pi * np.arange(count) / max(count if periodic else count - 1, 1)
        return value_of(of(turn).astype(element(output_datatype, "window")))

    return make


operator("HannWindow")(_window(lambda turn: 0.5 - 0.5 * np.cos(turn)))
operator("HammingWindow")(_window(lambda turn: 25 / 46 - 21 / 46 * np.cos(turn)))
operator("BlackmanWindow")(
    _window(lambda turn: 0.42 - 0.5 * np.cos(turn) + 0.08 * np.cos(2 * turn))
)


@operator("MelWeightMatrix")
def mel_weight_matrix(
    num_mel_bins: Value,
    dft_length: Value,
    sample_rate: Value,
    lower_edge_hertz: Value,
    upper_edge_hertz: Value,
    *,
    output_datatype: int = 1,
) -> Value:
    """Weights from frequencies to mel bins: triangles, evenly spaced in mel."""
    bins, length, rate = (int(number(v)) for v in (num_mel_bins, dft_length, sample_rate))
    low, high = (2595 * np.log10(1 + number(v) / 700) for v in (lower_edge_hertz, upper_edge_hertz))
    bounded([length // 2 + 1, bins], "MelWeightMatrix")
    mel = low + np.arange(bins + 2) * (high - low) / (bins + 2)
    edges = ((length + 1) * 700 * (10 ** (mel / 2595) - 1) // rate).astype(int)
    left, centre, right = (edges[k : k + bins][None, :] for k in range(3))
    j = np.arange(length // 2 + 1)[:, None]
    rising = np.where(centre == left, j == centre, (j - left) / np.maximum(centre - left, 1))
    falling = (right - j) / np.maximum(right - centre, 1)
    weights = np.where((j >= left) & (j <= centre), rising, 0.0)
    weights = np.where((j >= centre) & (j < right), falling, weights)
    return value_of(weights.astype(element(output_datatype, "MelWeightMatrix")))
