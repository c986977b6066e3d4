"""CIFAR-10 and CIFAR-100, from the binary files or the Python ones; pickles are never executed."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.data.readers.labelled import Labelled
from adjoint.engine import assembly
from adjoint.engine.backends.array.interop import from_numpy
from adjoint.engine.core.errors import FileError

PIXELS = 3 * 32 * 32


class _Cifar(Labelled):
    """Reads either form of the files."""

    folders: tuple[str, str]  # of the binary and of the Python files
    label_bytes: int
    label_key: str

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
        images, labels = self._read(os.fspath(root))
        self.data = np.ascontiguousarray(images.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        self.targets = from_numpy(labels.astype(np.int64))

    def _stems(self) -> list[str]:
        raise NotImplementedError

    def _read(self, root: str) -> tuple[Any, Any]:
        stems = self._stems()
        for folder in (root, *(os.path.join(root, name) for name in self.folders)):
            for ending, read in ((".bin", self._binary), ("", self._pickled)):
                paths = [os.path.join(folder, stem + ending) for stem in stems]
                if all(os.path.isfile(path) for path in paths):
                    parts = [read(path) for path in paths]
                    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))  # type: ignore[return-value]
        raise FileNotFoundError(
            f"{type(self).__name__}: no {', '.join(stems)} (or .bin) in {root}. Nothing is "
            "downloaded: put the dataset's own files there."
        )

    def _binary(self, path: str) -> tuple[Any, Any]:
        raw = np.fromfile(path, np.uint8)
        width = self.label_bytes + PIXELS
        if len(raw) == 0 or len(raw) % width:
            raise FileError(
                f"{type(self).__name__}: {path}: {len(raw)} bytes are no whole number of records "
                f"of {width} (truncated?)"
            )
        rows = raw.reshape(-1, width)
        return rows[:, self.label_bytes :], rows[:, self.label_bytes - 1]

    def _pickled(self, path: str) -> tuple[Any, Any]:
        try:
            with open(path, "rb") as file:
                content = assembly.find("io").files.load_pickle(file, path)
            images, labels = content["data"], np.asarray(content[self.label_key])
            if labels.ndim != 1 or labels.dtype.kind not in "iu":
                raise ValueError(f"labels of {labels.dtype} {labels.shape}")
            if images.dtype != np.uint8 or images.shape != (len(labels), PIXELS):
                raise ValueError(f"images of {images.dtype} {images.shape}")
        except pickle.UnpicklingError as error:
            raise pickle.UnpicklingError(f"{type(self).__name__}: {error}") from error
        except Exception as error:
            raise FileError(f"{type(self).__name__}: {path} is damaged ({error})") from error
        return images, labels


class CIFAR10(_Cifar):
    """60,000 colour images in 10 classes: arrays (32, 32, 3) of bytes, and labels.

    Args:
        root: a folder with the binary (`data_batch_1.bin`, ...) or Python (`data_batch_1`, ...)
            files, directly or in the folder of their archive.
        train: the 50,000 training images, or the 10,000 test images.
        transform: applied to the image.
        target_transform: applied to the label.
        download: accepted as torchvision has it; nothing is downloaded.
    """

    folders = ("cifar-10-batches-bin", "cifar-10-batches-py")
    label_bytes = 1
    label_key = "labels"
    classes = "airplane automobile bird cat deer dog frog horse ship truck".split()

    def _stems(self) -> list[str]:
        return [f"data_batch_{i}" for i in range(1, 6)] if self.train else ["test_batch"]


class CIFAR100(_Cifar):
    """60,000 colour images in 100 classes; see CIFAR10."""

    folders = ("cifar-100-binary", "cifar-100-python")
    label_bytes = 2  # the coarse label, then the fine one
    label_key = "fine_labels"

    def _stems(self) -> list[str]:
        return ["train" if self.train else "test"]
