"""Image files to tensors and back."""

from __future__ import annotations

import os
from enum import Enum
from typing import Any

import numpy as np

from adjoint.data.readers import png
from adjoint.data.readers.images import read_image as _read
from adjoint.data.readers.images import rgb
from adjoint.engine.backends.array.interop import from_numpy
from adjoint.engine.tensor.tensor import Tensor


class ImageReadMode(Enum):
    """Which channels an image is read with."""

    UNCHANGED = 0
    GRAY = 1
    GRAY_ALPHA = 2
    RGB = 3
    RGB_ALPHA = 4


def read_image(
    path: str | os.PathLike[str], mode: Any = ImageReadMode.UNCHANGED, **_: Any
) -> Tensor:
    """An image file as bytes (C, H, W)."""
    name = mode if isinstance(mode, str) else mode.name
    if name == "RGB":
        pixels = rgb(os.fspath(path))
    elif name == "GRAY":
        weights = np.array([0.299, 0.587, 0.114])
        pixels = np.rint(rgb(os.fspath(path)) @ weights).astype(np.uint8)
    elif name == "UNCHANGED":
        pixels = _read(path)
    else:
        raise NotImplementedError(f"read_image: mode {name} is not supported")
    pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
    return from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))


decode_image = read_image


def write_png(input: Tensor, filename: str, compression_level: int = 6) -> None:
    """Write bytes (C, H, W) as a PNG file."""
    with open(filename, "wb") as file:
        file.write(png.encode(np.asarray(input.permute(1, 2, 0).to("cpu").numpy())))
