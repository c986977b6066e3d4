"""Short-time Fourier transforms: frames of a signal, windowed and transformed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.errors import DTypeError, ShapeError, warn_user
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.image.resample import resampled
from adjoint.engine.ops.shape.frames import FRAME, OVERLAP_ADD
from adjoint.engine.ops.shape.reinterpret import view_as_real
from adjoint.engine.ops.signal.fft import FFT, IRFFT, RFFT

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _windowed(x: Tensor, y: Tensor, hop: int) -> Tensor:
    """On a GPU frames are read where they lie."""
    size = y.shape[0]
    if x.device.type == "cuda":
        return x.unfold(-1, size, hop) * y
    return FRAME(x, size=size, hop=hop) * y


def _windowed_vjp(g: Tensor, x: Any, y: Any, needed: Any, x_spec: Spec, hop: int) -> Any:
    back = OVERLAP_ADD(g * y, hop=hop, length=x_spec.shape[-1]) if needed[0] else None
    if not needed[1]:
        return back, None
    frames = FRAME(x, size=g.shape[-1], hop=hop)
    return back, (g * frames).sum((*range(g.ndim - 1),))


# WINDOWED_FRAMES(x, y, hop): frames of x as long as the window y, and times it; both are real.
WINDOWED_FRAMES = composite(
    "windowed_frames",
    _windowed,
    operands=("x", "y"),
    joint=_windowed_vjp,
    joint_for={"x": ("y",), "y": ("x",)},
    fragment="device",
)


def _pad(x: Tensor, left: int, right: int, mode: str) -> Tensor:
    """Padded along the last dimension."""
    n = x.shape[-1]
    if mode == "constant":
        return x.constant_pad([*[(0, 0)] * (x.ndim - 1), (left, right)], 0)
    limit = {"reflect": n - 1, "circular": n, "replicate": max(left, right) if n else -1}
    if mode not in limit:
        raise NotImplementedError(
            f"stft: unrecognised padding mode {mode}. Use constant, reflect, replicate or circular."
        )
    if max(left, right) > limit[mode]:
        raise ShapeError(
            f"stft: padding size should be less than the corresponding input dimension, but got: "
            f"padding ({left}, {right}) of an input of size {n} in mode {mode!r}"
        )
    return resampled(x, {x.ndim - 1: (mode, n, n + left + right, left)})


def _window(name: str, window: Any, x: Tensor, n_fft: int, win_length: int) -> Any:
    """The window centred in a frame; None where it is all ones."""
    if window is not None and (window.ndim != 1 or window.shape[0] != win_length):
        raise ShapeError(
            f"{name}: expected a 1D window tensor of size equal to win_length={win_length}, but "
            f"got window with size {tuple(window.shape)}"
        )
    if win_length == n_fft:
        return window
    if window is None:
        window = x.new_ones((win_length,), dtype=x.dtype.to_real())
    left = (n_fft - win_length) // 2
    return _pad(window, left, n_fft - win_length - left, "constant")


def _check_lengths(name: str, n_fft: int, hop_length: int | None, win_length: int | None) -> Any:
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    if hop <= 0:
        raise RuntimeError(f"{name}: expected hop_length > 0, but got hop_length={hop}")
    if not 0 < length <= n_fft:
        raise RuntimeError(
            f"{name}: expected 0 < win_length <= n_fft, but got win_length={length}, n_fft={n_fft}"
        )
    return hop, length


def _check_stft(
    input: Tensor, window: Any, center: bool, onesided: Any, return_complex: Any, align: Any
) -> None:
    is_complex = input.dtype.is_complex or (window is not None and window.dtype.is_complex)
    if return_complex is None and not is_complex:
        raise RuntimeError(
            "stft requires the return_complex parameter be given for real inputs. Pass "
            "return_complex=True."
        )
    if onesided and is_complex:
        raise RuntimeError("stft: cannot have onesided output if window or input is complex")
    if center and align is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    if not input.dtype.is_inexact or input.dtype.is_half:
        raise DTypeError(
            f"stft: expected a tensor of floating point or complex values, received "
            f"{input.dtype.name}"
        )
    if input.ndim not in (1, 2):
        raise ShapeError(f"stft: expected a 1D or 2D tensor, received {tuple(input.shape)}")


@public(method=True)
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """The short-time Fourier transform of a signal (L) or batch of them (B, L).

    The result has shape (B?, N, T): N frequencies of T frames, `hop_length` samples apart.

    >>> import adjoint as ad
    >>> ad.stft(ad.zeros(16), 8, return_complex=True).shape
    adjoint.Size([5, 9])
    """
    _check_stft(input, window, center, onesided, return_complex, align_to_window)
    if center:
        input = _pad(input, n_fft // 2, n_fft // 2, pad_mode)
    if not 0 < n_fft <= input.shape[-1] + (n_fft if align_to_window else 0):
        raise RuntimeError(f"stft: expected 0 < n_fft < {input.shape[-1]}, but got n_fft={n_fft}")
    hop, length = _check_lengths("stft", n_fft, hop_length, win_length)
    if align_to_window:
        input = _pad(input, (n_fft - length) // 2, (n_fft - length) // 2, "constant")
    shape = _window("stft", window, input, n_fft, length)
    if shape is not None and shape.dtype is input.dtype and input.dtype.is_floating_point:
        frames = WINDOWED_FRAMES(input, shape, hop=hop)  # (B?, T, n_fft)
    else:
        frames = FRAME(input, size=n_fft, hop=hop)
        frames = frames if shape is None else frames * shape
    last, norm = frames.ndim - 1, "ortho" if normalized else "backward"
    if frames.dtype.is_complex or onesided is False:
        frames = frames.to(frames.dtype.to_complex())
        spectrum = FFT(frames, dims=(last,), inverse=False, norm=norm)
    else:
        spectrum = RFFT(frames, dim=last, norm=norm)
    spectrum = spectrum.transpose(-1, -2)
    return spectrum if return_complex is not False else view_as_real(spectrum)


@public(method=True)
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal whose `stft` is nearest to `input`, by weighted overlap-add."""
    _check_istft(input, n_fft, window, onesided, return_complex)
    hop, win = _check_lengths("istft", n_fft, hop_length, win_length)
    if hop > win:
        raise RuntimeError(f"istft: expected 0 < hop_length <= win_length, but got {hop} and {win}")
    shape = _window("istft", window, input, n_fft, win)
    frames = _frames(input.transpose(-1, -2), n_fft, normalized, return_complex)
    if shape is None:
        shape = frames.new_ones((n_fft,), dtype=frames.dtype.to_real())
    count = frames.shape[-2]
    total = n_fft + hop * (count - 1)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else total - start
    y = OVERLAP_ADD(frames * shape, hop=hop, length=total)[..., start:end]
    squares = (shape * shape).expand((count, n_fft))
    envelope = OVERLAP_ADD(squares, hop=hop, length=total)[start:end]
    if CONTEXT.concrete and envelope.shape[0] and bool(envelope.detach().abs().min() < 1e-11):
        raise RuntimeError(
            "istft: window overlap add is zero somewhere, so the signal is not determined there. "
            "Use a smaller hop_length, or center=True."
        )
    y = y / envelope
    if end > total:
        warn_user(
            "The length of signal is shorter than the length parameter. Result is being padded "
            "with zeros in the tail. Please check your center and hop_length settings."
        )
        y = _pad(y, 0, end - total, "constant")
    return y


def _check_istft(
    input: Tensor, n_fft: int, window: Any, onesided: bool | None, return_complex: bool
) -> None:
    if not input.dtype.is_complex:
        raise DTypeError(
            "istft requires a complex-valued input tensor matching the output from stft with "
            f"return_complex=True, received {input.dtype.name}"
        )
    if input.ndim not in (2, 3):
        kind = IndexError if input.ndim < 2 else RuntimeError
        raise kind(f"istft: expected (B?, N, T), received shape {tuple(input.shape)}")
    if 0 in input.shape:
        raise ShapeError(f"istft: input tensor cannot be empty, received {tuple(input.shape)}")
    if window is not None and window.dtype.is_complex and not return_complex:
        raise RuntimeError("istft: complex windows are incompatible with return_complex=False")
    have = input.shape[-2]
    half = have != n_fft if onesided is None else onesided
    if half and return_complex:
        raise RuntimeError("istft: cannot have onesided output if window or input is complex")
    wanted = n_fft // 2 + 1 if half else n_fft
    if have != wanted:
        raise ShapeError(
            f"istft: expected the frequency dimension (second to last) of the input to be "
            f"{wanted} for n_fft={n_fft} and onesided={half}, but got {have}"
        )


def _frames(x: Tensor, n_fft: int, normalized: bool, return_complex: bool) -> Tensor:
    """Spectra (..., T, N) to frames (..., T, n_fft); without return_complex, real ones."""
    last, norm = x.ndim - 1, "ortho" if normalized else "backward"
    if return_complex:
        return FFT(x, dims=(last,), inverse=True, norm=norm)
    return IRFFT(x[..., : n_fft // 2 + 1], dim=last, n=n_fft, norm=norm)
