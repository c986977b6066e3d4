"""Data that ships with the package, made-up data, and readers of well-known file formats."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from importlib.resources import files
from io import BytesIO
from typing import Any

import numpy as np

from adjoint.data.readers import CIFAR10 as CIFAR10
from adjoint.data.readers import CIFAR100 as CIFAR100
from adjoint.data.readers import MNIST as MNIST
from adjoint.data.readers import CharacterDataset as CharacterDataset
from adjoint.data.readers import CSVDataset as CSVDataset
from adjoint.data.readers import FashionMNIST as FashionMNIST
from adjoint.data.readers import ImageFolder as ImageFolder
from adjoint.data.readers import LineDataset as LineDataset
from adjoint.data.readers import LineStream as LineStream
from adjoint.data.readers import read_csv as read_csv
from adjoint.data.readers import read_idx as read_idx
from adjoint.data.readers import read_image as read_image
from adjoint.data.readers.labelled import Labelled
from adjoint.data.synthetic import regression as regression
from adjoint.data.synthetic import sequences as sequences
from adjoint.data.synthetic import sine_waves as sine_waves
from adjoint.data.synthetic import spirals as spirals
from adjoint.data.synthetic import two_moons as two_moons
from adjoint.engine.backends.array.interop import from_numpy
from adjoint.engine.tensor.tensor import Tensor


def digits() -> tuple[Tensor, Tensor]:
    """1,797 handwritten digits (UCI, 8x8 pixels in 0..16) and what they show.

    >>> images, labels = digits()
    >>> images.shape, labels.dtype
    (adjoint.Size([1797, 8, 8]), adjoint.int64)
    """
    packed = files("adjoint.datasets").joinpath("digits.npz").read_bytes()
    with np.load(BytesIO(packed)) as arrays:
        images = arrays["images"].astype(np.float32)
        labels = arrays["labels"].astype(np.int64)
    return from_numpy(images), from_numpy(labels)


class Digits(Labelled):
    """The embedded digits as a dataset: images (1, 8, 8) from 0 to 1, and labels.

    Args:
        train: the first 1,437 images, or the last 360, which other people wrote.
        transform: applied to the image.
        target_transform: applied to the label.

    Example:
        >>> data = Digits()
        >>> image, label = data[0]
        >>> len(data), image.shape, label
        (1437, adjoint.Size([1, 8, 8]), 0)
    """

    SPLIT = 1437
    classes = [str(i) for i in range(10)]

    def __init__(
        self,
        train: bool = True,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(transform, target_transform)
        images, labels = digits()
        part = slice(0, self.SPLIT) if train else slice(self.SPLIT, None)
        self.train = train
        self.data = (images / 16).unsqueeze(1)[part]
        self.targets = labels[part]


def shakespeare() -> str:
    """Nine plays of Shakespeare, 1,073,889 characters; the text is in the public domain.

    Othello, Julius Caesar, The Tempest, The Merchant of Venice, Much Ado About Nothing, Twelfth
    Night, As You Like It, Measure for Measure and Macbeth, each from its first act on.

    >>> text = shakespeare()
    >>> len(text), text[:27]
    (1073889, 'OTHELLO, THE MOOR OF VENICE')
    """
    packed = files("adjoint.datasets").joinpath("shakespeare.txt.gz").read_bytes()
    return gzip.decompress(packed).decode("ascii")


class Shakespeare(CharacterDataset):
    """The embedded plays by characters: a block, and the block one character later.

    Args:
        block_size: characters per item.
        train: the first eight plays, or Macbeth.

    Example:
        >>> data = Shakespeare(block_size=16, train=False)
        >>> x, y = data[66]
        >>> data.decode(x), data.decode(y), data.vocabulary_size
        ('Enter three Witc', 'nter three Witch', 78)
    """

    SPLIT = 971_476

    def __init__(self, block_size: int = 128, train: bool = True) -> None:
        text = shakespeare()
        alphabet = "".join(sorted(set(text)))
        part = text[: self.SPLIT] if train else text[self.SPLIT :]
        super().__init__(part, block_size, alphabet)
        self.train = train
