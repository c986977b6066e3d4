"""The idx format of MNIST, plain or gzipped."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from adjoint.data.readers.labelled import Labelled
from adjoint.engine.backends.array.interop import from_numpy
from adjoint.engine.core.errors import FileError
from adjoint.engine.core.files.budget import GZIP, Budget, inflate, inflated_start
from adjoint.engine.tensor.tensor import Tensor

_DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
RANK = 32


def read_idx(path: str | os.PathLike[str]) -> Tensor:
    """The array in an idx file: two zero bytes, type, rank, big-endian sizes, elements."""
    what = f"read_idx: {os.fspath(path)}"
    with open(path, "rb") as file:
        raw: Any = file.read()
    budget = Budget(len(raw), what)
    zipped = raw[:2] == b"\x1f\x8b"
    try:
        start = inflated_start(raw, 4 + 4 * RANK, GZIP) if zipped else raw[: 4 + 4 * RANK]
        kind, shape, begin = _header(start, what)
        size = begin + prod(shape) * kind.itemsize
        budget.spend(3 * size, f"an array of shape {shape}")
        if zipped:
            raw = inflate(raw, size, GZIP)
    except (ValueError, zlib.error) as error:
        raise FileError(f"{what}: damaged gzip file ({error})") from error
    if len(raw) != size:
        raise FileError(f"{what}: {len(raw)} bytes, expected {size} for shape {shape} (truncated?)")
    array = np.frombuffer(raw, kind, offset=begin).reshape(shape)
    return from_numpy(array.astype(kind.newbyteorder("=")))


def _header(raw: bytes, what: str) -> tuple[Any, tuple[int, ...], int]:
    """Type, shape, and where the elements begin."""
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] not in _DTYPES:
        raise FileError(f"{what} is not an idx file (it begins with {raw[:4]!r})")
    begin = 4 + 4 * raw[3]
    shape = tuple(int.from_bytes(raw[i : i + 4], "big") for i in range(4, begin, 4))
    if raw[3] > RANK or len(raw) < begin or prod(n or 1 for n in shape) >= 1 << 60:
        raise FileError(f"{what}: damaged: {raw[3]} dimensions of {shape[:RANK]}")
    return np.dtype(_DTYPES[raw[2]]), shape, begin


def find_file(folders: list[str], names: list[str], who: str) -> str:
    """The first of some names that is in one of some folders."""
    for folder in folders:
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                return path
    raise FileNotFoundError(
        f"{who}: none of {', '.join(names)} in {', '.join(folders)}. Nothing is downloaded: put "
        "the dataset's own files there."
    )


class MNIST(Labelled):
    """The handwritten digits: images (28, 28) of bytes as NumPy arrays, and labels.

    Args:
        root: a folder with `train-images-idx3-ubyte` and so on, plain or `.gz`, directly or under
            `MNIST/raw`.
        train: the 60,000 training images, or the 10,000 test images.
        transform: applied to the image.
        target_transform: applied to the label.
        download: accepted as torchvision has it; nothing is downloaded.
    """

    classes = [str(i) for i in range(10)]

    def __init__(
        self,
        root: str | os.PathLike[str],
        train: bool = True,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(transform, target_transform)
        self.train = train
        folder, part = os.fspath(root), "train" if train else "t10k"
        folders = [folder, os.path.join(folder, type(self).__name__, "raw")]
        self.data = self._read(folders, f"{part}-images", "idx3-ubyte")
        self.targets = self._read(folders, f"{part}-labels", "idx1-ubyte").long()
        if len(self.data) != len(self.targets):
            raise FileError(
                f"{type(self).__name__}: {len(self.data)} images and {len(self.targets)} labels"
            )

    def _read(self, folders: list[str], stem: str, ending: str) -> Tensor:
        names = [f"{stem}{dash}{ending}{gz}" for dash in "-." for gz in ("", ".gz")]
        return read_idx(find_file(folders, names, type(self).__name__))

    def _item(self, index: int) -> Any:
        return self.data._array[index]


class FashionMNIST(MNIST):
    """Zalando's articles of clothing, in MNIST's format."""

    classes = [
        "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
        "Ankle boot",
    ]  # fmt: skip
