"""What pixels show: brightness, contrast, colours, sharpness, histograms."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.data.transforms.basic import convert_image_dtype
from adjoint.data.transforms.pillow import ADJUST
from adjoint.engine.backends.array.interop import from_numpy
from adjoint.engine.core.dtype import float32, uint8
from adjoint.engine.core.errors import DTypeTypeError
from adjoint.engine.ops.elementwise.rounding import floor
from adjoint.engine.ops.image.convolution_functions import conv2d
from adjoint.engine.ops.image.pad_modes import pad as pad_tensor
from adjoint.engine.ops.shape.join import stack
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.transforms.kinds import as_float, back, bound_of, by_kind, image_ops


def _blend(img: Tensor, other: Any, ratio: float) -> Tensor:
    mixed = ratio * as_float(img) + (1.0 - ratio) * other
    return mixed.clamp(0, bound_of(img)).to(img.dtype)


def grey(img: Tensor) -> Tensor:
    """Brightness (..., 1, H, W) of colours (..., 3, H, W), in the image's dtype."""
    if img.shape[-3] == 1:
        return img
    if img.shape[-3] != 3:
        raise TypeError(
            f"Input image tensor permitted channel values are 1 or 3, got {img.shape[-3]}"
        )
    r, g, b = as_float(img).unbind(-3)
    return (0.2989 * r + 0.587 * g + 0.114 * b).to(img.dtype).unsqueeze(-3)


def _check(name: str, factor: float) -> None:
    if factor < 0:
        raise ValueError(f"{name} ({factor}) is not non-negative.")


def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    """All pixels times a factor."""
    _check("brightness_factor", brightness_factor)
    f = brightness_factor
    return by_kind(img, lambda p: ADJUST["brightness"](p, f), lambda t: _blend(t, 0.0, f))


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    """Away from, or towards, the mean grey."""
    _check("contrast_factor", contrast_factor)

    def tensor(given: Tensor) -> Tensor:
        mean = as_float(grey(given)).mean((-3, -2, -1), keepdim=True)
        return _blend(given, mean, contrast_factor)

    return by_kind(img, lambda p: ADJUST["contrast"](p, contrast_factor), tensor)


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    """Away from, or towards, grey."""
    _check("saturation_factor", saturation_factor)

    def tensor(given: Tensor) -> Tensor:
        if given.shape[-3] == 1:
            return given
        return _blend(given, as_float(grey(given)), saturation_factor)

    return by_kind(img, lambda p: ADJUST["saturation"](p, saturation_factor), tensor)


def adjust_hue(img: Any, hue_factor: float) -> Any:
    """Colours turned around the circle by a part of it, from -0.5 to 0.5."""
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")

    def tensor(given: Tensor) -> Tensor:
        if given.shape[-3] == 1:
            return given
        work = convert_image_dtype(given, float32) if not given.dtype.is_floating_point else given
        h, s, v = _to_hsv(work)
        turned = _to_rgb((h + hue_factor) % 1.0, s, v)
        return convert_image_dtype(turned, given.dtype)

    return by_kind(img, lambda p: ADJUST["hue"](p, hue_factor), tensor)


def _to_hsv(img: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r, g, b = img.unbind(-3)
    high, low = img.amax(-3), img.amin(-3)
    grey_ones = high == low
    span = high - low
    s = span / high.where(~grey_ones, high.new_ones(()))
    divisor = span.where(~grey_ones, span.new_ones(()))
    rc, gc, bc = (high - r) / divisor, (high - g) / divisor, (high - b) / divisor
    hr = (high == r) * (bc - gc)
    hg = ((high == g) & (high != r)) * (2.0 + rc - bc)
    hb = ((high != g) & (high != r)) * (4.0 + gc - rc)
    return ((hr + hg + hb) / 6.0 + 1.0).fmod(1.0), s, high


def _to_rgb(h: Tensor, s: Tensor, v: Tensor) -> Tensor:
    sector = floor(h * 6.0)
    rest = h * 6.0 - sector
    p = (v * (1.0 - s)).clamp(0.0, 1.0)
    q = (v * (1.0 - s * rest)).clamp(0.0, 1.0)
    t = (v * (1.0 - s * (1.0 - rest))).clamp(0.0, 1.0)
    at = sector.to(h.dtype) % 6
    ways = ((v, t, p), (q, v, p), (p, v, t), (p, q, v), (t, p, v), (v, p, q))
    parts = []
    for channel in range(3):
        out = ways[0][channel]
        for number in range(1, 6):
            out = ways[number][channel].where(at == number, out)
        parts.append(out)
    return stack(parts, -3)


def adjust_gamma(img: Any, gamma: float, gain: float = 1) -> Any:
    """Pixels to a power, times a gain."""
    if gamma < 0:
        raise ValueError("Gamma should be a non-negative real number")

    def picture(given: Any) -> Any:
        table = [int((255 + 1 - 1e-3) * gain * pow(v / 255.0, gamma)) for v in range(256)] * 3
        return given.convert("RGB").point(table).convert(given.mode)

    def tensor(given: Tensor) -> Tensor:
        work = given if given.dtype.is_floating_point else convert_image_dtype(given, float32)
        return convert_image_dtype((gain * work**gamma).clamp(0, 1), given.dtype)

    return by_kind(img, picture, tensor)


def invert(img: Any) -> Any:
    """Black for white and white for black."""
    return by_kind(img, lambda p: image_ops().invert(p), _inverted)


def _inverted(img: Tensor) -> Tensor:
    bound = bound_of(img)
    return (bound if img.dtype.is_floating_point else int(bound)) - img


def posterize(img: Any, bits: int) -> Any:
    """Only the highest bits of each pixel."""
    if not 0 <= bits <= 8:
        raise ValueError(f"The number of bits should be between 0 and 8. Got {bits}")

    def tensor(given: Tensor) -> Tensor:
        if given.dtype is not uint8:
            raise DTypeTypeError(f"Only uint8 image tensors are supported, but found {given.dtype}")
        return given & (256 - 2 ** (8 - bits))

    return by_kind(img, lambda p: image_ops().posterize(p, bits), tensor)


def solarize(img: Any, threshold: float) -> Any:
    """Pixels from a threshold on inverted."""

    def tensor(given: Tensor) -> Tensor:
        if threshold > bound_of(given):
            raise TypeError("Threshold should be less than bound of img.")
        return _inverted(given).where(given >= threshold, given)

    return by_kind(img, lambda p: image_ops().solarize(p, threshold), tensor)


def autocontrast(img: Any) -> Any:
    """The darkest pixel of each channel black, the lightest white."""

    def tensor(given: Tensor) -> Tensor:
        bound, work = bound_of(given), as_float(given)
        low, high = work.amin((-2, -1), keepdim=True), work.amax((-2, -1), keepdim=True)
        flat = high == low
        scale = bound / (high - low).where(~flat, high.new_ones(()))
        scale = scale.where(~flat, high.new_ones(()))
        low = low.where(~flat, low.new_zeros(()))
        return ((work - low) * scale).clamp(0, bound).to(given.dtype)

    return by_kind(img, lambda p: image_ops().autocontrast(p), tensor)


def equalize(img: Any) -> Any:
    """Each channel so that all brightnesses are equally frequent."""

    def tensor(given: Tensor) -> Tensor:
        if given.dtype is not uint8:
            raise DTypeTypeError(f"Only uint8 image tensors are supported, but found {given.dtype}")
        if not given.numel():
            return given
        pixels = np.asarray(given.cpu().numpy())
        planes = pixels.reshape(-1, *pixels.shape[-2:])
        equalized = np.stack([_equal(plane) for plane in planes])
        return from_numpy(equalized.reshape(pixels.shape)).to(given.device)

    return by_kind(img, lambda p: image_ops().equalize(p), tensor)


def _equal(plane: Any) -> Any:
    counts = np.bincount(plane.reshape(-1), minlength=256)
    filled = counts[counts != 0]
    step = int(filled[:-1].sum()) // 255
    if step == 0:
        return plane
    table = (np.cumsum(counts) + step // 2) // step
    return np.concatenate([[0], table[:-1]]).clip(0, 255).astype(np.uint8)[plane]


def adjust_sharpness(img: Any, sharpness_factor: float) -> Any:
    """Away from, or towards, a smoothed image."""
    _check("sharpness_factor", sharpness_factor)

    def picture(given: Any) -> Any:
        return (
            importlib.import_module("PIL.ImageEnhance").Sharpness(given).enhance(sharpness_factor)
        )

    def tensor(given: Tensor) -> Tensor:
        if given.shape[-1] <= 2 or given.shape[-2] <= 2:
            return given
        weights = np.ones((3, 3), np.float32)
        weights[1, 1] = 5.0
        inner = _filtered(as_float(given), weights / weights.sum())
        if not given.dtype.is_floating_point:
            inner = inner.round()
        smooth = as_float(given).clone()
        smooth[..., 1:-1, 1:-1] = inner
        return _blend(given, smooth, sharpness_factor)

    return by_kind(img, picture, tensor)


def _filtered(img: Tensor, weights: Any) -> Tensor:
    """Each channel filtered, without the border."""
    channels = img.shape[-3]
    kernel = from_numpy(np.ascontiguousarray(weights)).to(img.device, img.dtype)
    kernel = kernel.expand(channels, 1, *kernel.shape)
    out = conv2d(img.reshape(-1, *img.shape[-3:]), kernel, groups=channels)
    return out.reshape(*img.shape[:-3], *out.shape[-3:])


def blurred(img: Tensor, sizes: list[int], sigmas: list[float]) -> Tensor:
    """A tensor smoothed by a bell curve; sizes and widths across, then down."""
    across, down = (_bell(size, sigma) for size, sigma in zip(sizes, sigmas, strict=True))
    left, top = sizes[0] // 2, sizes[1] // 2
    work = as_float(img)
    batch = work.reshape(-1, *img.shape[-3:])
    padded = pad_tensor(batch, [left, left, top, top], mode="reflect")
    out = _filtered(padded, np.outer(down, across).astype(np.float32))
    return back(out.reshape(img.shape), img)


def _bell(size: int, sigma: float) -> Any:
    half = (size - 1) * 0.5
    places = np.linspace(-half, half, size, dtype=np.float32)
    weights = np.exp(-0.5 * (places / np.float32(sigma)) ** 2)
    return weights / weights.sum()


Adjust = Callable[[Any, float], Any]
