"""Data that ships with the package."""

from __future__ import annotations

from importlib.resources import files
from io import BytesIO

import numpy as np

from adjoint.backends.array.interop import from_numpy
from adjoint.tensor.tensor import Tensor


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
