"""Images as Pillow has them: Pillow itself for its images and for arrays of bytes.

Where Pillow is not installed, its arithmetic is done here, so that arrays become the same pixels.
Pillow from version 13 on resizes vertically first where that is less work, which may round
differently by one; here it is horizontally first, as in all versions before.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from adjoint.engine.core.availability import libraries

BITS = 22  # of the fixed-point weights: 32, less 8 of a pixel and 2 for sums beyond white
# Pillow's numbers for the names, and the other way round.
FILTERS = {
    "nearest": 0, "nearest-exact": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "box": 4,
    "hamming": 5,
}  # fmt: skip
NAMES = {str(number): name for name, number in FILTERS.items() if name != "nearest-exact"}
# Of red, green and blue in 65,536ths (ITU-R 601-2).
LUMA = np.array([19595, 38470, 7471], np.int64)


def is_picture(image: Any) -> bool:
    """Whether something is an image of Pillow's; no such image exists before Pillow is imported."""
    library = sys.modules.get("PIL.Image")
    return library is not None and isinstance(image, library.Image)


def picture(array: Any, mode: str | None = None, source: Any = None) -> Any:
    """An image of an array (H, W) or (H, W, C), in a mode, with the palette of another."""
    library = sys.modules["PIL.Image"]
    image = library.fromarray(array)
    if mode is not None and image.mode != mode:
        image = library.frombytes(mode, image.size, np.ascontiguousarray(array).tobytes())
        if mode == "P" and source is not None:
            image.putpalette(source.getpalette())
    return image


def resize_picture(image: Any, height: int, width: int, mode: str) -> Any:
    """An image of Pillow's in another size."""
    return image.resize((width, height), FILTERS[mode])


def grey_picture(image: Any, channels: int) -> Any:
    """An image of Pillow's without colour, in one channel or three equal ones."""
    grey = image.convert("L")
    return grey if channels == 1 else sys.modules["PIL.Image"].merge("RGB", [grey] * 3)


def rotate_picture(
    image: Any, angle: float, mode: str, fill: float, expand: bool = False, center: Any = None
) -> Any:
    """An image of Pillow's turned counter-clockwise."""
    bands = len(image.getbands())
    colour = int(fill) if bands == 1 else (int(fill),) * bands
    return image.rotate(angle, FILTERS[mode], expand, center, fillcolor=colour)


def _enhanced(kind: str) -> Callable[[Any, float], Any]:
    def adjust(image: Any, factor: float) -> Any:
        library = importlib.import_module("PIL.ImageEnhance")
        return getattr(library, kind)(image).enhance(factor)

    return adjust


def turn_hue(image: Any, amount: float) -> Any:
    """The colours of an image of Pillow's turned around the circle by a part of it."""
    if image.mode in ("L", "1", "I", "F"):
        return image
    hue, saturation, value = image.convert("HSV").split()
    turned = np.array(hue) + np.array(int(amount * 255)).astype(np.uint8)  # round the circle
    parts = (picture(turned.astype(np.uint8), "L"), saturation, value)
    return sys.modules["PIL.Image"].merge("HSV", parts).convert(image.mode)


# In the order in which ColorJitter names them.
ADJUST: dict[str, Callable[[Any, float], Any]] = {
    "brightness": _enhanced("Brightness"),
    "contrast": _enhanced("Contrast"),
    "saturation": _enhanced("Color"),
    "hue": turn_hue,
}


# -- the same for arrays of bytes -----------------------------------------------------------------


def _triangle(x: Any) -> Any:
    return np.maximum(1.0 - np.abs(x), 0.0)


def _cubic(x: Any) -> Any:
    a, x = -0.5, np.abs(x)
    near = ((a + 2.0) * x - (a + 3.0)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))


KERNELS: dict[str, tuple[Callable[[Any], Any], float]] = {
    "bilinear": (_triangle, 1.0),
    "bicubic": (_cubic, 2.0),
}


@lru_cache(maxsize=256)
def fixed_weights(source: int, size: int, mode: str) -> Any:
    """Weights (size, source) in 2**-22ths: the kernel widened when shrinking, to take all in."""
    kernel, reach = KERNELS[mode]
    scale = source / size
    stretch = max(scale, 1.0)
    support = reach * stretch
    weights = np.zeros((size, source), np.int64)
    for place in range(size):
        centre = (place + 0.5) * scale
        first = max(int(centre - support + 0.5), 0)
        last = min(int(centre + support + 0.5), source)
        shares = kernel((np.arange(first, last) - centre + 0.5) * (1.0 / stretch))
        # Added up one by one, as a loop does; NumPy's own sum would pair them.
        total = float(np.add.accumulate(shares)[-1]) if len(shares) else 0.0
        if total:
            shares = shares / total
        rounded = np.trunc(shares * (1 << BITS) + np.where(shares < 0, -0.5, 0.5))
        weights[place, first:last] = rounded
    return weights


def _resized(pixels: Any, size: int, mode: str) -> Any:
    """Bytes (..., source) as bytes (..., size)."""
    weights = fixed_weights(pixels.shape[-1], size, mode)
    sums = np.matmul(pixels.astype(np.int64), weights.T) + (1 << (BITS - 1))
    return (sums >> BITS).clip(0, 255).astype(np.uint8)


def _nearest(source: int, size: int) -> Any:
    """The pixel under the middle of each; the places are added up as Pillow adds them."""
    step = source / size
    places = np.full(size, step)
    places[0] = step * 0.5
    return np.add.accumulate(places).astype(np.int64).clip(0, source - 1)


def resize_bytes(array: Any, height: int, width: int, mode: str) -> Any:
    """Bytes (..., H, W) in another size, by Pillow where it is installed."""
    library = libraries.find("PIL.Image")
    if mode not in ("nearest", "nearest-exact", *KERNELS):
        raise ValueError(
            f"Resize: interpolation {mode!r} is for PIL images; arrays and tensors have 'nearest', "
            "'bilinear' and 'bicubic'"
        )
    if library is None:
        return resize_plain(array, height, width, mode)
    planes = array.reshape(-1, *array.shape[-2:])
    resized = [resize_picture(library.fromarray(p), height, width, mode) for p in planes]
    return np.stack([np.asarray(one) for one in resized]).reshape(*array.shape[:-2], height, width)


def resize_plain(array: Any, height: int, width: int, mode: str) -> Any:
    """The same without Pillow.

    >>> resize_plain(np.array([[0, 10, 255, 20]], np.uint8), 1, 2, "bilinear").tolist()
    [[41, 119]]
    """
    h, w = array.shape[-2:]
    if (h, w) == (height, width):
        return array
    if mode.startswith("nearest"):
        rows, columns = _nearest(h, height), _nearest(w, width)
        return np.ascontiguousarray(array[..., rows[:, None], columns])
    out = array if w == width else _resized(array, width, mode)
    if h != height:
        out = _resized(out.swapaxes(-1, -2), height, mode).swapaxes(-1, -2)
    return np.ascontiguousarray(out)


def grey_bytes(array: Any) -> Any:
    """Bytes (..., 3, H, W) as brightness (..., 1, H, W), rounded as Pillow rounds.

    >>> grey_bytes(np.array([255, 0, 0], np.uint8).reshape(3, 1, 1)).tolist()
    [[[76]]]
    """
    mixed = np.tensordot(array.astype(np.int64), LUMA, ((-3,), (0,))) + (1 << 15)
    return np.expand_dims(mixed >> 16, -3).astype(np.uint8)
