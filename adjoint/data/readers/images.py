"""Image files, and folders of them with a folder per class."""

from __future__ import annotations

import io
import os
import re
import struct
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from adjoint.data.readers import png
from adjoint.data.readers.labelled import Labelled
from adjoint.engine.core.availability import libraries
from adjoint.engine.core.errors import FileError
from adjoint.engine.core.files.budget import Budget, FileRefusal

EXTENSIONS = (".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm", ".webp", ".tif", ".tiff", ".npy")
ADDRESS = re.compile(r"<[^<>]* at 0x[0-9a-f]+>")  # of an object, which tells nobody anything
NPY = b"\x93NUMPY"
# Those whose decoders decode; others run programs (EPS) or fetch further files.
PILLOW = ("JPEG", "BMP", "WEBP", "TIFF", "GIF", "PNG", "PPM")
# One bit as bytes, places in a palette as the colours there; inks and other spaces as light.
SHOWN_AS = {"1": "L", "P": "RGB", "CMYK": "RGB", "YCbCr": "RGB", "LAB": "RGB", "HSV": "RGB"}
STRIP = 256  # lines taken from Pillow at a time
_SPACE = rb"(?:\s|#[^\n]{0,10000}\n){1,100}"
_NETPBM = re.compile(rb"P[56]" + (_SPACE + rb"(\d{1,9})") * 3 + rb"\s")
_NPY_HEADER = re.compile(
    r"\{'descr': '([<>|=]?[a-zA-Z?]\d{0,3})', 'fortran_order': (True|False), "
    r"'shape': \(((?:\d{1,18},? ?){0,40})\), \}\s*"
)


def read_image(path: str | os.PathLike[str]) -> Any:
    """An image as an array (H, W) or (H, W, C).

    Pillow reads it where it is installed; without it PNG, binary PPM and PGM, and `.npy` are read.
    Channels are as in the file; `ImageFolder.loader` gives RGB whatever the file has.
    """
    source = os.fspath(path)
    with open(path, "rb") as file:
        data = file.read()
    budget = Budget(len(data), f"read_image: {source}")
    if data[:6] == NPY:
        return _npy(data, source)
    # Pillow has no colour of 16 bits and would cut it down to 8.
    if libraries.find("PIL") is not None and not png.is_deep_colour(data):
        return by_pillow(libraries.find("PIL.Image"), data, budget)
    if data[:8] == png.SIGNATURE:
        return png.decode(data, source, budget)
    if data[:2] in (b"P5", b"P6"):
        return _netpbm(data, source)
    raise FileError(
        f"read_image: {source} is neither PNG, PPM, PGM nor npy; other formats need Pillow. "
        "Install it with `pip install adjoint[images]`."
    )


@contextmanager
def opened(
    library: Any, data: bytes, budget: Budget, cost: int = 12, formats: Sequence[str] = PILLOW
) -> Iterator[Any]:
    """An image as Pillow has it, of a kind and size that may be decoded.

    Args:
        library: `PIL.Image`.
        data: the file.
        budget: what reading it may take.
        each: bytes that are to be taken for a pixel.
        formats: those whose decoders decode and nothing else.
    """
    try:
        with warnings.catch_warnings(), library.open(io.BytesIO(data), formats=formats) as image:
            warnings.simplefilter("ignore")  # of sizes, which the budget sees to
            width, height = image.size
            budget.spend(cost * width * height, "an image of its size")
            yield image
    except FileRefusal:
        raise
    except Exception as error:  # its decoders raise whatever they like
        raise FileError(
            f"{budget.what}: damaged, or no image of a kind that is read "
            f"({type(error).__name__}: {ADDRESS.sub('it', str(error))[:200]})"
        ) from error


def by_pillow(library: Any, data: bytes, budget: Budget, mode: str | None = None) -> Any:
    """The pixels of an image that Pillow decodes, in one of its modes if given."""
    with opened(library, data, budget, 8 if mode is None else 12) as image:
        if image.mode == "P" and data[:8] == png.SIGNATURE:
            png.check_palette(data, image.getextrema()[1])
        wanted = mode or SHOWN_AS.get(image.mode)
        return in_strips(image if wanted is None else image.convert(wanted))


def in_strips(image: Any) -> Any:
    """The pixels of Pillow's image, some lines at a time: at once it would hold three copies."""
    width, height = image.size
    corner = np.asarray(image.crop((0, 0, 1, 1)))
    out = np.empty((height, width, *corner.shape[2:]), corner.dtype)
    for top in range(0, height, STRIP):
        bottom = min(top + STRIP, height)
        out[top:bottom] = np.asarray(image.crop((0, top, width, bottom)))
    return out


def _npy(data: bytes, source: str) -> Any:
    """NumPy's format: magic, version, length of the header, header, elements."""
    try:
        sized = {1: "<H", 2: "<I"}[data[6]]
        start = 8 + struct.calcsize(sized)
        (length,) = struct.unpack_from(sized, data, 8)
        header = _NPY_HEADER.fullmatch(data[start : start + length].decode("latin1"))
        if header is None:
            raise ValueError("its header")
        dtype = np.dtype(header[1])
        shape = tuple(int(n) for n in header[3].replace(",", " ").split())
        count = prod(shape)
        left = len(data) - start - length
        if dtype.kind not in "biufc" or len(shape) > 32 or count * dtype.itemsize != left:
            raise ValueError(f"{left} bytes for shape {shape} of {dtype}")
        flat = np.frombuffer(data, dtype, count, start + length)
        if dtype.kind == "b" and count and flat.view(np.uint8).max() > 1:
            raise ValueError("booleans that are neither 0 nor 1")
        return flat.reshape(shape, order="F" if header[2] == "True" else "C").copy()
    except (KeyError, IndexError, ValueError, TypeError, struct.error) as error:
        raise FileError(f"read_image: {source}: damaged npy file ({error})") from error


def _netpbm(data: bytes, source: str) -> Any:
    # Width, height, white; comments between. One space ends the header.
    header = _NETPBM.match(data)
    if header is None:
        raise FileError(f"read_image: {source}: damaged header")
    width, height, white = (int(header[i]) for i in (1, 2, 3))
    channels = 3 if data[:2] == b"P6" else 1
    size = width * height * channels
    if not 0 < white <= 255 or not size or len(data) - header.end() < size:
        raise FileError(f"read_image: {source}: truncated, or not 8 bits deep")
    pixels = np.frombuffer(data, np.uint8, size, header.end()).reshape(height, width, channels)
    return pixels[..., 0].copy() if channels == 1 else pixels.copy()


def rgb(path: str) -> Any:
    """An image file as an array (H, W, 3) of bytes; transparency is dropped."""
    pixels = read_image(path)
    if pixels.ndim not in (2, 3) or (pixels.ndim == 3 and not 1 <= pixels.shape[2] <= 4):
        raise FileError(f"read_image: {path}: an array of shape {pixels.shape} is no image")
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
        self.classes, self.class_to_idx = self.find_classes(self.root)
        if not self.classes:
            raise FileNotFoundError(f"ImageFolder: no class folders in {self.root!r}")
        valid = is_valid_file or (lambda path: path.lower().endswith(EXTENSIONS))
        self.samples: list[tuple[str, int]] = []
        for name, label in self.class_to_idx.items():
            paths = [p for p in _files(os.path.join(self.root, name)) if valid(p)]
            if not paths:
                wanted = f"Extensions: {', '.join(EXTENSIONS)}." if is_valid_file is None else ""
                raise FileNotFoundError(
                    f"ImageFolder: found no valid file for class {name!r} in {self.root!r}. "
                    f"{wanted or 'is_valid_file takes none of those there.'} Remove the folder, or "
                    "put files there."
                )
            self.samples += [(path, label) for path in paths]
        self.imgs = self.samples
        self.targets = [label for _, label in self.samples]

    def find_classes(self, directory: str) -> tuple[list[str], dict[str, int]]:
        """The names of the class folders in order, and their numbers; for subclasses to change."""
        classes = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
        return classes, {name: i for i, name in enumerate(classes)}

    def _item(self, index: int) -> Any:
        return self.loader(self.samples[index][0])


def _files(folder: str) -> list[str]:
    return sorted(
        os.path.join(where, name)
        for where, _, names in os.walk(folder, followlinks=True)
        for name in names
    )
