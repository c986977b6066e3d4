"""Images of several sizes in one tensor."""

from __future__ import annotations

from typing import Any

from adjoint.engine.tensor.tensor import Tensor


class ImageList:
    """A batch of images filled up with zeros to one size, and the size of each before.

    Args:
        tensors: (B, C, H, W).
        image_sizes: (height, width) of each image.
    """

    def __init__(self, tensors: Tensor, image_sizes: list[tuple[int, int]]) -> None:
        self.tensors = tensors
        self.image_sizes = image_sizes

    def to(self, device: Any) -> ImageList:
        """The same images on another device."""
        return ImageList(self.tensors.to(device), self.image_sizes)
