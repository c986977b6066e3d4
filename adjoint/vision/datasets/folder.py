"""Folders of files with a folder per class, at torchvision's path."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from adjoint.vision.datasets import IMG_EXTENSIONS as IMG_EXTENSIONS
from adjoint.vision.datasets import DatasetFolder as DatasetFolder
from adjoint.vision.datasets import ImageFolder as ImageFolder
from adjoint.vision.datasets import VisionDataset as VisionDataset
from adjoint.vision.pictures import default_loader as default_loader

pil_loader = default_loader


def has_file_allowed_extension(filename: str, extensions: str | tuple[str, ...]) -> bool:
    """Whether a file's name ends in one of the endings.

    >>> has_file_allowed_extension("a.PNG", (".png",))
    True
    """
    return filename.lower().endswith(extensions)


def is_image_file(filename: str) -> bool:
    """Whether a file's name is an image's."""
    return has_file_allowed_extension(filename, IMG_EXTENSIONS)


def find_classes(directory: str | os.PathLike[str]) -> tuple[list[str], dict[str, int]]:
    """The folders of a folder in order, and their numbers."""
    classes = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
    if not classes:
        raise FileNotFoundError(f"Couldn't find any class folder in {os.fspath(directory)}.")
    return classes, {name: i for i, name in enumerate(classes)}


def make_dataset(
    directory: str | os.PathLike[str],
    class_to_idx: dict[str, int] | None = None,
    extensions: str | tuple[str, ...] | None = None,
    is_valid_file: Callable[[str], bool] | None = None,
    allow_empty: bool = False,
) -> list[tuple[str, int]]:
    """Each file of the class folders with its class's number.

    Args:
        directory: the folder of the class folders.
        class_to_idx: classes and their numbers; by default those of `find_classes`.
        extensions: endings of the files that belong.
        is_valid_file: says by path which files belong, instead of `extensions`.
        allow_empty: let a class have no file.
    """
    if (extensions is None) == (is_valid_file is None):
        raise ValueError(
            "Both extensions and is_valid_file cannot be None or not None at the same time"
        )
    numbers = find_classes(directory)[1] if class_to_idx is None else class_to_idx
    if not numbers:
        raise ValueError("'class_to_index' must have at least one entry to collect any samples.")
    endings: Any = extensions
    belongs = is_valid_file or (lambda path: has_file_allowed_extension(path, endings))
    samples: list[tuple[str, int]] = []
    empty = []
    for name in sorted(numbers):
        paths = [
            os.path.join(folder, file)
            for folder, _, files in sorted(os.walk(os.path.join(directory, name), followlinks=True))
            for file in sorted(files)
        ]
        members = [(path, numbers[name]) for path in paths if belongs(path)]
        if not members:
            empty.append(name)
        samples += members
    if empty and not allow_empty:
        raise FileNotFoundError(f"Found no valid file for the classes {', '.join(empty)}.")
    return samples
