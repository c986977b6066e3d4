"""Datasets read from their own files; nothing is downloaded."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from adjoint.data.readers import CIFAR10 as _CIFAR10
from adjoint.data.readers import CIFAR100 as _CIFAR100
from adjoint.data.readers import MNIST as _MNIST
from adjoint.data.readers import FashionMNIST as _FashionMNIST
from adjoint.data.readers import ImageFolder as _ImageFolder
from adjoint.data.readers.images import EXTENSIONS as IMG_EXTENSIONS
from adjoint.data.readers.labelled import Labelled
from adjoint.engine.core.state.rng import Generator
from adjoint.engine.ops.random.random import randint
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.annotated import STL10 as STL10
from adjoint.vision.annotated import SVHN as SVHN
from adjoint.vision.annotated import CocoCaptions as CocoCaptions
from adjoint.vision.annotated import CocoDetection as CocoDetection
from adjoint.vision.annotated import VOCDetection as VOCDetection
from adjoint.vision.annotated import VOCSegmentation as VOCSegmentation
from adjoint.vision.pictures import default_loader, picture

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "IMG_EXTENSIONS",
    "KMNIST",
    "MNIST",
    "STL10",
    "SVHN",
    "CocoCaptions",
    "CocoDetection",
    "DatasetFolder",
    "FakeData",
    "FashionMNIST",
    "ImageFolder",
    "VOCDetection",
    "VOCSegmentation",
    "StandardTransform",
    "VisionDataset",
]


class StandardTransform:
    """A transform of the image and one of the target, called with both.

    Args:
        transform: applied to the image, or None.
        target_transform: applied to the target, or None.

    Example:
        >>> StandardTransform(str.upper)("a", 1)
        ('A', 1)
    """

    def __init__(
        self,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
    ) -> None:
        self.transform, self.target_transform = transform, target_transform

    def __call__(self, input: Any, target: Any) -> tuple[Any, Any]:
        if self.transform is not None:
            input = self.transform(input)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return input, target


class VisionDataset(Labelled):
    """What datasets of images have in common: a root folder and transforms.

    Args:
        root: the folder.
        transforms: applied to image and target together.
        transform: applied to the image.
        target_transform: applied to the target.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        transforms: Callable[..., Any] | None = None,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(transform, target_transform)
        self.root = root
        if transforms is not None and (transform or target_transform):
            raise ValueError(
                "Only transforms or transform/target_transform can be passed as argument"
            )
        if transform or target_transform:
            transforms = StandardTransform(transform, target_transform)
        self.transforms = transforms


class _Pictures:
    """Gives the items of a reader as images."""

    def _item(self, index: int) -> Any:
        return picture(super()._item(index))  # type: ignore[misc]


class MNIST(_Pictures, _MNIST):
    """The handwritten digits; see `adjoint.datasets.MNIST`."""

    @property
    def class_to_idx(self) -> dict[str, int]:
        """Classes and their numbers."""
        return {name: i for i, name in enumerate(self.classes)}


class FashionMNIST(_Pictures, _FashionMNIST):
    """Articles of clothing in MNIST's format."""


class KMNIST(_Pictures, _MNIST):
    """Cursive Japanese characters in MNIST's format."""

    classes = ["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"]


class _Listed:
    """Targets as a list, as torchvision has them for CIFAR."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.targets: Any = [int(t) for t in self.targets]


class CIFAR10(_Listed, _Pictures, _CIFAR10):
    """Colour images in ten classes; see `adjoint.datasets.CIFAR10`."""

    @property
    def class_to_idx(self) -> dict[str, int]:
        """Classes and their numbers."""
        return {name: i for i, name in enumerate(self.classes)}


class CIFAR100(_Listed, _Pictures, _CIFAR100):
    """Colour images in a hundred classes; see `adjoint.datasets.CIFAR100`."""


class ImageFolder(_ImageFolder):
    """Images in one folder per class; see `adjoint.datasets.ImageFolder`."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        loader: Callable[[str], Any] = default_loader,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        super().__init__(root, transform, target_transform, loader, is_valid_file)


class DatasetFolder(_ImageFolder):
    """Files of any kind in one folder per class.

    Args:
        root: the folder of the class folders.
        loader: reads a file.
        extensions: endings of the files that belong.
        transform: applied to the item.
        target_transform: applied to the label.
        is_valid_file: says by path which files belong, instead of `extensions`.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        loader: Callable[[str], Any],
        extensions: tuple[str, ...] | None = None,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        if (extensions is None) == (is_valid_file is None):
            raise ValueError(
                "Both extensions and is_valid_file cannot be None or not None at the same time"
            )
        self.extensions = extensions
        endings = tuple(extensions or ())
        valid = is_valid_file or (lambda path: path.lower().endswith(endings))
        super().__init__(root, transform, target_transform, loader, valid)


class FakeData(VisionDataset):
    """Images of random pixels and random labels, the same for an index every time.

    Args:
        size: how many.
        image_size: channels, height, width.
        num_classes: how many labels there are.
        transform: applied to the image.
        target_transform: applied to the label.
        random_offset: added to the index, which is the seed.

    Example:
        >>> image, label = FakeData(4, (3, 8, 8))[1]
        >>> 0 <= label < 10
        True
    """

    def __init__(
        self,
        size: int = 1000,
        image_size: tuple[int, int, int] = (3, 224, 224),
        num_classes: int = 10,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        random_offset: int = 0,
    ) -> None:
        super().__init__(None, None, transform, target_transform)
        self.size = size
        self.image_size = image_size
        self.num_classes = num_classes
        self.random_offset = random_offset

    def _generator(self, index: int) -> Generator:
        if not 0 <= index < self.size:
            raise IndexError(f"{type(self).__name__} index out of range")
        return Generator().manual_seed(index + self.random_offset)

    def _item(self, index: int) -> Any:
        generator = self._generator(index)
        pixels: Tensor = randint(0, 256, tuple(self.image_size), generator=generator)
        array = pixels.to("cpu")._array.astype("uint8").transpose(1, 2, 0)
        return picture(array[:, :, 0] if array.shape[2] == 1 else array)

    def _label(self, index: int) -> int:
        generator = self._generator(index)
        generator.manual_seed(generator.initial_seed() + (1 << 40))
        return int(randint(0, self.num_classes, (1,), generator=generator).item())

    def __len__(self) -> int:
        return self.size
