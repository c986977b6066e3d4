"""Image files, and folders of them with a folder per class."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.data.readers import png
from adjoint.data.readers.labelled import Labelled
from adjoint.engine.core import libraries

EXTENSIONS = (".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm", ".webp", ".tif", ".tiff", ".npy")


def read_image(path: str | os.PathLike[str]) -> Any:
    """An image as an array (H, W) or (H, W, C).

    Pillow reads it where it is installed; without it PNG, binary PPM and PGM, and `.npy` are read.
    """
    source = os.fspath(path)
    with open(path, "rb") as file:
        data = file.read()
    if data[:6] == b"\x93NUMPY":
        return np.load(path, allow_pickle=False)
    # Pillow has no colour of 16 bits and would cut it down to 8.
    if libraries.find("PIL") is not None and not png.is_deep_colour(data):
        return _by_pillow(data, source)
    if data[:8] == png.SIGNATURE:
        return png.decode(data, source)
    if data[:2] in (b"P5", b"P6"):
        return _netpbm(data, source)
    raise RuntimeError(
        f"read_image: {source} is neither PNG, PPM, PGM nor npy; other formats need Pillow. "
        "Install it with `pip install adjoint[images]`."
    )


def _by_pillow(data: bytes, source: str) -> Any:
    try:
        with libraries.find("PIL.Image").open(io.BytesIO(data)) as image:
            # One bit as bytes, places in a palette as the colours there.
            mode = {"1": "L", "P": "RGB"}.get(image.mode)
            return np.array(image if mode is None else image.convert(mode))
    except (OSError, SyntaxError, ValueError) as error:  # Pillow's errors for damaged files
        raise RuntimeError(f"read_image: {source}: damaged, or no image ({error})") from error


def _netpbm(data: bytes, source: str) -> Any:
    fields: list[int] = []
    position = 2
    while len(fields) < 3:  # width, height, white; comments between
        while data[position : position + 1].isspace():
            position += 1
        end = position
        while end < len(data) and not data[end : end + 1].isspace():
            end += 1
        if data[position : position + 1] == b"#":
            position = data.find(b"\n", position)
        elif data[position:end].isdigit():
            fields.append(int(data[position:end]))
            position = end
        else:
            raise RuntimeError(f"read_image: {source}: damaged header")
    width, height, white = fields
    channels = 3 if data[:2] == b"P6" else 1
    size = width * height * channels
    if white > 255 or len(data) - position - 1 < size:
        raise RuntimeError(f"read_image: {source}: truncated, or not 8 bits deep")
    pixels = np.frombuffer(data, np.uint8, size, position + 1).reshape(height, width, channels)
    return pixels[..., 0].copy() if channels == 1 else pixels.copy()


def rgb(path: str) -> Any:
    """An image file as an array (H, W, 3) of bytes; transparency is dropped."""
    pixels = read_image(path)
    if pixels.dtype == np.uint16:
        pixels = (pixels >> 8).astype(np.uint8)
    if pixels.ndim == 3 and pixels.shape[2] in (2, 4):
        pixels = pixels[:, :, :-1]
    if pixels.ndim == 2 or pixels.shape[2] == 1:
        pixels = np.repeat(pixels.reshape(*pixels.shape[:2], 1), 3, 2)
    return np.ascontiguousarray(pixels)


class ImageFolder(Labelled):
    """Images in one folder per class: `root/cat/1.png`, `root/dog/2.png`, ...

    Args:
        root: the folder of the class folders.
        transform: applied to the image.
        target_transform: applied to the label.
        loader: reads a file; gives RGB bytes (H, W, 3) unless given.
        is_valid_file: says by path which files belong; by extension unless given.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        loader: Callable[[str], Any] = rgb,
        is_valid_file: Callable[[str], bool] | None = None,
    ) -> None:
        super().__init__(transform, target_transform)
        self.root = os.fspath(root)
        self.loader = loader
        self.classes = sorted(e.name for e in os.scandir(self.root) if e.is_dir())
        if not self.classes:
            raise FileNotFoundError(f"ImageFolder: no class folders in {self.root}")
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}
        valid = is_valid_file or (lambda path: path.lower().endswith(EXTENSIONS))
        self.samples: list[tuple[str, int]] = []
        for name, label in self.class_to_idx.items():
            found = [p for p in _files(os.path.join(self.root, name)) if valid(p)]
            if not found:
                raise FileNotFoundError(
                    f"ImageFolder: found no valid file for class {name!r} in {self.root}. "
                    f"Extensions: {', '.join(EXTENSIONS)}"
                )
            self.samples += [(path, label) for path in found]
        self.imgs = self.samples
        self.targets = [label for _, label in self.samples]

    def _item(self, index: int) -> Any:
        return self.loader(self.samples[index][0])


def _files(folder: str) -> list[str]:
    return sorted(
        os.path.join(where, name)
        for where, _, names in os.walk(folder, followlinks=True)
        for name in names
    )
