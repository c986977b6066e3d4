"""Many images in one, and images to files."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from adjoint.data.readers import png
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.files.atomic import atomic_write
from adjoint.engine.ops.shape.join import cat, stack
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.drawing import draw_bounding_boxes as draw_bounding_boxes
from adjoint.vision.drawing import draw_segmentation_masks as draw_segmentation_masks
from adjoint.vision.flows import flow_to_image as flow_to_image
from adjoint.vision.pictures import pillow


def _log_api_usage_once(obj: Any) -> None:
    """Nothing: torchvision counts uses of its API here. Copies of its networks call it."""


def _make_ntuple(x: Any, n: int) -> tuple[Any, ...]:
    """A value n times, or the values of a sequence."""
    return tuple(x) if isinstance(x, Iterable) else (x,) * n


def _as_batch(tensor: Any) -> Tensor:
    if isinstance(tensor, (list, tuple)):
        tensor = stack(list(tensor), 0)
    if not isinstance(tensor, Tensor):
        raise TypeError(f"make_grid: tensor or list of tensors expected, got {type(tensor)}")
    if tensor.ndim == 2:
        tensor = tensor.unsqueeze(0)
    if tensor.ndim == 3:
        if tensor.shape[0] == 1:
            tensor = cat([tensor] * 3, 0)
        tensor = tensor.unsqueeze(0)
    if tensor.ndim == 4 and tensor.shape[1] == 1:
        tensor = cat([tensor] * 3, 1)
    return tensor


def _normalize(image: Tensor, bounds: tuple[float, float] | None) -> None:
    low, high = bounds or (float(image.min()), float(image.max()))
    image.clamp_(low, high).sub_(low).div_(max(high - low, 1e-5))


@no_grad()
def make_grid(
    tensor: Any,
    nrow: int = 8,
    padding: int = 2,
    normalize: bool = False,
    value_range: tuple[float, float] | None = None,
    scale_each: bool = False,
    pad_value: float = 0.0,
) -> Tensor:
    """One image (3, H, W) of a batch (B, C, H, W), in rows of `nrow`.

    Args:
        tensor: the images, a batch or a list.
        nrow: how many in a row.
        padding: pixels between them.
        normalize: shift and scale to the range from 0 to 1.
        value_range: what becomes 0 and 1; the smallest and largest value unless given.
        scale_each: normalise each image by itself.
        pad_value: what lies between images.

    Example:
        >>> import adjoint as ad
        >>> make_grid(ad.rand(5, 1, 4, 4), nrow=3).shape
        adjoint.Size([3, 14, 20])
    """
    images = _as_batch(tensor)
    if normalize:
        images = images.clone()
        for part in images if scale_each else [images]:
            _normalize(part, value_range)
    if len(images) == 1:
        return images.squeeze(0)
    columns = min(nrow, len(images))
    rows = math.ceil(len(images) / columns)
    height, width = int(images.shape[2] + padding), int(images.shape[3] + padding)
    channels = images.shape[1]
    grid = images.new_full(
        (channels, height * rows + padding, width * columns + padding), pad_value
    )
    for k in range(len(images)):
        y, x = height * (k // columns) + padding, width * (k % columns) + padding
        grid[:, y : y + height - padding, x : x + width - padding] = images[k]
    return grid


@no_grad()
def save_image(tensor: Any, fp: Any, format: str | None = None, **kwargs: Any) -> None:
    """Write a batch of images, values from 0 to 1, as one image file.

    PNG needs no other library; other formats need Pillow.

    Args:
        tensor: see `make_grid`.
        fp: a path, or an open file.
        format: the format where the name does not say it.
        kwargs: see `make_grid`.
    """
    grid = make_grid(tensor, **kwargs).float().mul(255).add_(0.5).clamp_(0, 255)
    pixels = np.asarray(grid.permute(1, 2, 0).to("cpu").numpy()).astype(np.uint8)
    write_image(pixels, fp, format)


def write_image(pixels: Any, fp: Any, format: str | None = None) -> None:
    """Write pixels (H, W, C) to a path or an open file."""
    if isinstance(fp, (str, os.PathLike)):
        kind = format or os.path.splitext(fp)[1].lstrip(".") or "png"
        with atomic_write(fp, "save_image") as file:
            write_image(pixels, file, kind)
        return
    kind, image = (format or "png").lower(), pillow()
    if image is not None:
        known = image.registered_extensions()  # "jpg" is a name of files, "JPEG" of the format
        image.fromarray(pixels).save(fp, format=known.get(f".{kind}", kind))
        return
    if kind != "png":
        raise RuntimeError(
            f"save_image: writing {kind!r} needs Pillow (pip install pillow); PNG does not"
        )
    fp.write(png.encode(pixels))
