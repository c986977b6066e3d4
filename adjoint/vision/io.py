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
from adjoint.engine.core.atomic import atomic_write
from adjoint.engine.core.dtype import uint8
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
    """Write bytes (C, H, W), of one channel or three, as a PNG file."""
    if not 0 <= compression_level <= 9:
        raise RuntimeError(
            f"write_png: compression_level must be between 0 and 9, received {compression_level}"
        )
    if input.dtype is not uint8 or input.ndim != 3 or input.shape[0] not in (1, 3):
        raise RuntimeError(
            "write_png: expected uint8 of shape (1, H, W) or (3, H, W), received "
            f"{input.dtype} of shape {tuple(input.shape)}"
        )
    pixels = np.asarray(input.permute(1, 2, 0).to("cpu").numpy())
    with atomic_write(filename, "write_png") as file:
        file.write(png.encode(pixels[:, :, 0] if len(input) == 1 else pixels, compression_level))
