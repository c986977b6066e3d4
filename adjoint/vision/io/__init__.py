"""Image files to tensors and back."""

from __future__ import annotations

import os
from enum import Enum
from io import BytesIO
from typing import Any

import numpy as np

from adjoint.data.readers import png
from adjoint.data.readers.images import SHOWN_AS, in_strips, opened, rgb
from adjoint.data.readers.images import read_image as _read
from adjoint.engine.backends.array.interop import from_numpy
from adjoint.engine.core.availability.libraries import need
from adjoint.engine.core.dtype import uint8
from adjoint.engine.core.files.atomic import atomic_write
from adjoint.engine.core.files.budget import Budget
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


def read_file(path: str | os.PathLike[str]) -> Tensor:
    """The bytes of a file."""
    return from_numpy(np.fromfile(os.fspath(path), np.uint8))


def write_file(filename: str | os.PathLike[str], data: Tensor) -> None:
    """Write bytes to a file."""
    if data.dtype is not uint8 or data.ndim != 1:
        raise RuntimeError(
            f"write_file: expected uint8 of one dimension, received {data.dtype} of shape "
            f"{tuple(data.shape)}"
        )
    with atomic_write(filename, "write_file") as file:
        file.write(np.ascontiguousarray(data.to("cpu").numpy()).tobytes())


_MODES = {"UNCHANGED": None, "GRAY": "L", "GRAY_ALPHA": "LA", "RGB": "RGB", "RGB_ALPHA": "RGBA"}


def decode_image(
    input: Any, mode: Any = ImageReadMode.UNCHANGED, apply_exif_orientation: bool = False
) -> Tensor:
    """The image in bytes, or in a file, as bytes (C, H, W)."""
    if not isinstance(input, Tensor):
        return read_image(input, mode)
    if input.dtype is not uint8 or input.ndim != 1:
        raise RuntimeError(
            f"decode_image: expected uint8 of one dimension, received {input.dtype} of shape "
            f"{tuple(input.shape)}"
        )
    library = need("PIL.Image", "decode_image")
    turned = need("PIL.ImageOps", "decode_image").exif_transpose if apply_exif_orientation else None
    name = mode.upper() if isinstance(mode, str) else mode.name
    wanted = _MODES[name]
    data = np.ascontiguousarray(input.to("cpu").numpy()).tobytes()
    with opened(library, data, Budget(len(data), "decode_image")) as image:
        wanted = wanted or SHOWN_AS.get(image.mode, image.mode)
        if image.format == "JPEG" and wanted == "L":
            image.draft("L", image.size)  # the file's own brightness
        shown = image if turned is None else turned(image)
        pixels = in_strips(shown if shown.mode == wanted else shown.convert(wanted))
    pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
    return from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))


decode_png = decode_jpeg = decode_webp = decode_gif = decode_image


def _bytes_of(input: Tensor, name: str) -> Any:
    if input.dtype is not uint8 or input.ndim != 3 or input.shape[0] not in (1, 3):
        raise RuntimeError(
            f"{name}: expected uint8 of shape (1, H, W) or (3, H, W), received "
            f"{input.dtype} of shape {tuple(input.shape)}"
        )
    pixels = np.asarray(input.permute(1, 2, 0).to("cpu").numpy())
    return pixels[:, :, 0] if len(input) == 1 else pixels


def encode_png(input: Tensor, compression_level: int = 6) -> Tensor:
    """Bytes (C, H, W) as the bytes of a PNG file."""
    encoded = png.encode(_bytes_of(input, "encode_png"), compression_level)
    return from_numpy(np.frombuffer(encoded, np.uint8).copy())


def encode_jpeg(input: Tensor, quality: int = 75) -> Tensor:
    """Bytes (C, H, W) as the bytes of a JPEG file."""
    if not 1 <= quality <= 100:
        raise ValueError("Image quality should be a positive number between 1 and 100")
    library, stream = need("PIL.Image", "encode_jpeg"), BytesIO()
    library.fromarray(_bytes_of(input, "encode_jpeg")).save(stream, "JPEG", quality=quality)
    return from_numpy(np.frombuffer(stream.getvalue(), np.uint8).copy())


def write_jpeg(input: Tensor, filename: str | os.PathLike[str], quality: int = 75) -> None:
    """Write bytes (C, H, W) as a JPEG file."""
    write_file(filename, encode_jpeg(input, quality))


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
