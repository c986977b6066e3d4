"""Images of any size into batches, and detections back to the images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint import nn
from adjoint.engine.backends.array.interop import as_tensor
from adjoint.engine.core.errors import DTypeTypeError, ShapeValueError
from adjoint.engine.ops.create.creation import empty
from adjoint.engine.ops.shape.join import stack
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.vision.models.detection.image_list import ImageList
from adjoint.vision.models.detection.masks import paste_masks_in_image

Target = dict[str, Any]


class GeneralizedRCNNTransform(nn.Module):
    """Normalise and resize images, and join them into a batch; resize their targets alike.

    Args:
        min_size: the shorter side; of several, one drawn at random while training, else the last.
        max_size: the longer side, at most.
        image_mean, image_std: of each channel.
        size_divisible: sides of the batch are multiples of this.
        fixed_size: width and height instead.
    """

    def __init__(
        self, min_size: Any, max_size: int, image_mean: list[float], image_std: list[float],
        size_divisible: int = 32, fixed_size: tuple[int, int] | None = None,
        *, _skip_resize: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.min_size = min_size if isinstance(min_size, (list, tuple)) else (min_size,)
        self.max_size = max_size
        self.image_mean, self.image_std = image_mean, image_std
        self.size_divisible, self.fixed_size = size_divisible, fixed_size
        self._skip_resize = _skip_resize

    def forward(
        self, images: Sequence[Tensor], targets: list[Target] | None = None
    ) -> tuple[ImageList, list[Target] | None]:
        """Images (C, H, W) and their targets -> a batch and targets of its images' sizes."""
        resized: list[Tensor] = []
        resized_targets: list[Target] | None = None if targets is None else []
        for number, image in enumerate(images):
            if image.ndim != 3:
                raise ShapeValueError(
                    "images is expected to be a list of 3d tensors of shape [C, H, W], "
                    f"got {image.shape}"
                )
            target = None if targets is None else dict(targets[number])
            image, target = self.resize(self.normalize(image), target)
            resized.append(image)
            if resized_targets is not None and target is not None:
                resized_targets.append(target)
        sizes = [(int(image.shape[-2]), int(image.shape[-1])) for image in resized]
        return ImageList(self.batch_images(resized, self.size_divisible), sizes), resized_targets

    def normalize(self, image: Tensor) -> Tensor:
        """Less the mean, over the deviation."""
        if not image.is_floating_point():
            raise DTypeTypeError(
                "Expected input images to be of floating type (in range [0, 1]), "
                f"but found type {image.dtype} instead"
            )
        mean, deviation = (
            as_tensor(statistic, dtype=image.dtype, device=image.device)[:, None, None]
            for statistic in (self.image_mean, self.image_std)
        )
        return (image - mean) / deviation

    def torch_choice(self, k: Sequence[int]) -> int:
        """One of several, drawn by the generator of the framework."""
        return k[int(empty(1).uniform_(0.0, float(len(k))).item())]

    def resize(self, image: Tensor, target: Target | None = None) -> tuple[Tensor, Target | None]:
        """An image and its target at the size that is asked for."""
        before = (int(image.shape[-2]), int(image.shape[-1]))
        if self.training and self._skip_resize:
            return image, target
        size = self.torch_choice(self.min_size) if self.training else self.min_size[-1]
        after = self._size(before, size)
        image = F.interpolate(image[None], size=after, mode="bilinear", align_corners=False)[0]
        if target is None:
            return image, target
        if "masks" in target:
            masks = target["masks"][:, None].float()
            target["masks"] = F.interpolate(masks, size=after)[:, 0].byte()
        target["boxes"] = resize_boxes(target["boxes"], before, after)
        if "keypoints" in target:
            target["keypoints"] = resize_keypoints(target["keypoints"], before, after)
        return image, target

    def _size(self, before: tuple[int, int], shorter: int) -> tuple[int, int]:
        if self.fixed_size is not None:
            return self.fixed_size[1], self.fixed_size[0]
        scale = min(shorter / min(before), self.max_size / max(before))
        return math.floor(before[0] * scale), math.floor(before[1] * scale)

    def batch_images(self, images: list[Tensor], size_divisible: int = 32) -> Tensor:
        """Images filled up with zeros to the size that holds them all: (B, C, H, W)."""
        largest = [max(int(image.shape[dim]) for image in images) for dim in range(3)]
        for dim in (1, 2):
            largest[dim] = math.ceil(largest[dim] / size_divisible) * size_divisible
        filled = []
        for image in images:
            c, h, w = (most - int(n) for most, n in zip(largest, image.shape, strict=True))
            filled.append(F.pad(image, (0, w, 0, h, 0, c)))
        return stack(filled, 0)

    def postprocess(
        self, result: list[Target], image_shapes: list[tuple[int, int]],
        original_image_sizes: list[tuple[int, int]],
    ) -> list[Target]:  # fmt: skip
        """Detections in the coordinates of the images that were given."""
        if self.training:
            return result
        for detection, size, original in zip(
            result, image_shapes, original_image_sizes, strict=True
        ):
            detection["boxes"] = resize_boxes(detection["boxes"], size, original)
            if "masks" in detection:
                detection["masks"] = paste_masks_in_image(
                    detection["masks"], detection["boxes"], original
                )
            if "keypoints" in detection:
                detection["keypoints"] = resize_keypoints(detection["keypoints"], size, original)
        return result

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(\n"
            f"    Normalize(mean={self.image_mean}, std={self.image_std})\n"
            f"    Resize(min_size={self.min_size}, max_size={self.max_size}, mode='bilinear')\n)"
        )


def _ratios(before: Sequence[int], after: Sequence[int]) -> tuple[float, float]:
    """Of heights and of widths, in single precision."""
    down, across = (
        float(np.float32(new) / np.float32(old)) for old, new in zip(before, after, strict=True)
    )
    return down, across


def resize_keypoints(
    keypoints: Tensor, original_size: Sequence[int], new_size: Sequence[int]
) -> Tensor:
    """Points (N, K, 3) of an image that gets another size."""
    down, across = _ratios(original_size, new_size)
    return stack([keypoints[..., 0] * across, keypoints[..., 1] * down, keypoints[..., 2]], -1)


def resize_boxes(boxes: Tensor, original_size: Sequence[int], new_size: Sequence[int]) -> Tensor:
    """Boxes (N, 4) of an image that gets another size."""
    down, across = _ratios(original_size, new_size)
    x1, y1, x2, y2 = boxes.unbind(1)
    return stack((x1 * across, y1 * down, x2 * across, y2 * down), 1)
