"""Datasets of images with annotations, read from their own files; nothing is downloaded."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from adjoint.data.readers.images import opened
from adjoint.engine.core.availability.libraries import need
from adjoint.engine.core.errors import FileError
from adjoint.engine.core.files.budget import Budget
from adjoint.vision.matrices import read_matrices
from adjoint.vision.pictures import default_loader, picture

Change = Callable[..., Any]
NESTING = 100  # elements in elements
ELEMENT = 200  # bytes that one takes


class Annotated:
    """What these have in common: a root, items by number, transforms of one or of both."""

    def __init__(
        self, root: str | os.PathLike[str], transform: Change | None = None,
        target_transform: Change | None = None, transforms: Change | None = None,
        download: bool = False,
    ) -> None:  # fmt: skip
        name = type(self).__name__
        if download:
            raise RuntimeError(
                f"{name}: nothing is downloaded. Put the dataset's own files under {root} and pass "
                "download=False."
            )
        if transforms is not None and (transform or target_transform):
            raise ValueError(
                "Only transforms or transform/target_transform can be passed as argument"
            )
        self.root = Path(root)
        self.transform, self.target_transform = transform, target_transform
        self.transforms = transforms

    def need(self, path: Path) -> Path:
        """A file or folder that must be there."""
        if not path.exists():
            raise FileError(
                f"{type(self).__name__}: dataset not found or corrupted: no {path}. Nothing is "
                "downloaded: put the dataset's own files there."
            )
        return path

    def pair(self, index: int) -> tuple[Any, Any]:
        """An image and its annotation."""
        raise NotImplementedError

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image, target = self.pair(index)
        if self.transforms is not None:
            image, target = self.transforms(image, target)
            return image, target
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target


class _VOC(Annotated):
    """Pascal VOC: a list of names, images, and annotations of the same names."""

    _splits: tuple[str, str, str]  # folder of lists, folder of targets, their ending

    def __init__(
        self, root: str | os.PathLike[str], year: str = "2012", image_set: str = "train",
        download: bool = False, transform: Change | None = None,
        target_transform: Change | None = None, transforms: Change | None = None,
    ) -> None:  # fmt: skip
        super().__init__(root, transform, target_transform, transforms, download)
        self.year, self.image_set = year, image_set
        base = "TrainVal/VOCdevkit/VOC2011" if year == "2011" else f"VOCdevkit/VOC{year}"
        folder = self.need(self.root / base)
        lists, targets, ending = self._splits
        listed = self.need(folder / "ImageSets" / lists / f"{image_set}.txt")
        names = [line.strip() for line in listed.read_text().splitlines() if line.strip()]
        self.images = [str(folder / "JPEGImages" / f"{name}.jpg") for name in names]
        self.targets = [str(folder / targets / f"{name}{ending}") for name in names]

    def __len__(self) -> int:
        return len(self.images)


class VOCSegmentation(_VOC):
    """Pascal VOC's images with an image of classes for each.

    Args:
        root: the folder that holds `VOCdevkit`.
        year: "2007" to "2012".
        image_set: "train", "val" or "trainval".
        download: must be False.
    """

    _splits = ("Segmentation", "SegmentationClass", ".png")

    @property
    def masks(self) -> list[str]:
        """The files of the images of classes."""
        return self.targets

    def pair(self, index: int) -> tuple[Any, Any]:
        library, path = need("PIL.Image", "VOCSegmentation"), self.targets[index]
        data = Path(path).read_bytes()
        with opened(library, data, Budget(len(data), f"VOCSegmentation: {path}")) as image:
            return default_loader(self.images[index]), image.copy()


class VOCDetection(_VOC):
    """Pascal VOC's images with their annotations as nested dicts.

    Args:
        root: the folder that holds `VOCdevkit`.
        year: "2007" to "2012".
        image_set: "train", "val" or "trainval".
        download: must be False.
    """

    _splits = ("Main", "Annotations", ".xml")

    @property
    def annotations(self) -> list[str]:
        """The files of the annotations."""
        return self.targets

    def pair(self, index: int) -> tuple[Any, Any]:
        return default_loader(self.images[index]), as_dict(read_tree(Path(self.targets[index])))


class _Tree(ElementTree.TreeBuilder):
    """Elements that are not nested without end; entities, which multiply, cannot be declared."""

    depth = 0

    def doctype(self, *_: Any) -> None:
        raise ValueError("annotations declare no entities")

    def start(self, tag: str, attrs: dict[str, str]) -> Any:
        self.depth += 1
        if self.depth > NESTING:
            raise ValueError(f"elements nest deeper than {NESTING} levels")
        return super().start(tag, attrs)

    def end(self, tag: str) -> Any:
        self.depth -= 1
        return super().end(tag)


def read_tree(path: Path) -> ElementTree.Element:
    """The elements of an XML file."""
    data = path.read_bytes()
    budget = Budget(len(data), f"VOCDetection: {path}")
    budget.spend(ELEMENT * data.count(b"<"), "its elements")
    try:
        return ElementTree.fromstring(data, ElementTree.XMLParser(target=_Tree()))
    except (ValueError, LookupError, ElementTree.ParseError) as error:
        raise FileError(f"{budget.what}: refused, or damaged: {error}") from error


def as_dict(node: ElementTree.Element) -> dict[str, Any]:
    """XML as dicts: repeated children are lists, and so are an annotation's objects."""
    children = list(node)
    if not children:
        return {node.tag: (node.text or "").strip() or None}
    parts: dict[str, list[Any]] = {}
    for child in children:
        for name, value in as_dict(child).items():
            parts.setdefault(name, []).append(value)
    if node.tag == "annotation":
        parts["object"] = [parts.get("object", [])]
    return {node.tag: {k: v[0] if len(v) == 1 else v for k, v in parts.items()}}


class CocoDetection(Annotated):
    """Images with COCO's annotations, a list of dicts for each.

    Args:
        root: the folder of the images.
        annFile: the annotations, JSON.
    """

    def __init__(
        self, root: str | os.PathLike[str], annFile: str | os.PathLike[str],
        transform: Change | None = None, target_transform: Change | None = None,
        transforms: Change | None = None,
    ) -> None:  # fmt: skip
        super().__init__(root, transform, target_transform, transforms)
        path = self.need(Path(annFile))
        try:
            self._read(json.loads(path.read_bytes()), Budget(path.stat().st_size, str(path)))
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise FileError(
                f"CocoDetection: {path} holds no annotations as COCO has them "
                f"({type(error).__name__}: {str(error)[:200]})"
            ) from error

    def _read(self, content: Any, budget: Budget) -> None:
        for entry in content["images"]:
            if not isinstance(entry["file_name"], str):
                raise TypeError(f"a file_name of {entry['file_name']!r}")
            budget.check_key(entry["id"])
        self._files = {image["id"]: image["file_name"] for image in content["images"]}
        self._annotations: dict[Any, list[Any]] = {number: [] for number in self._files}
        for entry in content.get("annotations", []):
            budget.check_key(entry["image_id"])
            self._annotations.setdefault(entry["image_id"], []).append(entry)
        self.ids = sorted(self._files)
        self.categories = content.get("categories", [])

    def pair(self, index: int) -> tuple[Any, Any]:
        number = self.ids[index]
        return default_loader(str(self.root / self._files[number])), self._annotations[number]

    def __len__(self) -> int:
        return len(self.ids)


class CocoCaptions(CocoDetection):
    """Images with COCO's captions, a list of sentences for each."""

    def pair(self, index: int) -> tuple[Any, Any]:
        image, annotations = super().pair(index)
        return image, [annotation["caption"] for annotation in annotations]


class SVHN(Annotated):
    """House numbers, from `train_32x32.mat`, `test_32x32.mat` or `extra_32x32.mat`.

    Args:
        root: the folder of the file.
        split: "train", "test" or "extra".
        download: must be False.
    """

    def __init__(
        self, root: str | os.PathLike[str], split: str = "train",
        transform: Change | None = None, target_transform: Change | None = None,
        download: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(root, transform, target_transform, None, download)
        if split not in ("train", "test", "extra"):
            raise ValueError(f"SVHN: split must be train, test or extra, received {split!r}")
        self.split = split
        path = self.need(self.root / f"{split}_32x32.mat")
        matrices = read_matrices(path, ["X", "y"], "SVHN")
        count = matrices["y"].size
        if matrices["X"].shape != (32, 32, 3, count) or matrices["X"].dtype != np.uint8:
            raise FileError(
                f"SVHN: {path}: {count} labels and images of shape {matrices['X'].shape}, "
                f"{matrices['X'].dtype}"
            )
        self.labels = matrices["y"].astype(np.int64).reshape(-1) % 10  # ten stands for zero
        self.data = np.transpose(matrices["X"], (3, 2, 0, 1))

    def pair(self, index: int) -> tuple[Any, Any]:
        return picture(self.data[index].transpose(1, 2, 0)), int(self.labels[index])

    def __len__(self) -> int:
        return len(self.data)


class STL10(Annotated):
    """Images of 96 by 96, from the binary files in `stl10_binary`.

    Args:
        root: the folder that holds `stl10_binary`.
        split: "train", "test" or "unlabeled".
        download: must be False.
    """

    def __init__(
        self, root: str | os.PathLike[str], split: str = "train", folds: int | None = None,
        transform: Change | None = None, target_transform: Change | None = None,
        download: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(root, transform, target_transform, None, download)
        if split not in ("train", "test", "unlabeled"):
            raise ValueError(f"STL10: split must be train, test or unlabeled, received {split!r}")
        folder = self.need(self.root / "stl10_binary")
        pixels = np.fromfile(self.need(folder / f"{split}_X.bin"), np.uint8)
        if pixels.size % (3 * 96 * 96):
            raise FileError(f"STL10: {folder / f'{split}_X.bin'} holds no whole images")
        self.data = pixels.reshape(-1, 3, 96, 96).transpose(0, 1, 3, 2)
        self.labels = np.full(len(self.data), -1)
        if split != "unlabeled":
            labels = np.fromfile(self.need(folder / f"{split}_y.bin"), np.uint8)
            if len(labels) != len(self.data):
                raise FileError(f"STL10: {len(self.data)} images and {len(labels)} labels")
            self.labels = labels.astype(np.int64) - 1
        if folds is not None:
            chosen = self._fold(folder / "fold_indices.txt", folds)
            self.data, self.labels = self.data[chosen], self.labels[chosen]

    def _fold(self, path: Path, number: int) -> Any:
        """The images of one of the folds."""
        lines = self.need(path).read_bytes().splitlines()
        if not 0 <= number < len(lines):
            raise ValueError(f"STL10: folds must be 0 to {len(lines) - 1}, received {number}")
        words = lines[number].split()
        if not all(word.isdigit() and len(word) < 19 for word in words):
            raise FileError(f"STL10: {path}: line {number + 1} is no list of images")
        chosen = np.array([int(word) for word in words], np.int64)
        if chosen.size and chosen.max() >= len(self.data):
            raise FileError(f"STL10: {path}: line {number + 1} names image {chosen.max()}")
        return chosen

    def pair(self, index: int) -> tuple[Any, Any]:
        return picture(self.data[index].transpose(1, 2, 0)), int(self.labels[index])

    def __len__(self) -> int:
        return len(self.data)
