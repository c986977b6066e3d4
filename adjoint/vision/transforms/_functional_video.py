"""What clips (C, T, H, W) are changed by, under torchvision's older names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.engine.core.dtype import uint8
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.ops.image.interpolate import interpolate
from adjoint.engine.tensor.tensor import Tensor


def _clip(clip: Any) -> Tensor:
    """The clip, where it is one."""
    if not isinstance(clip, Tensor):
        raise TypeError(f"clip should be Tensor. Got {type(clip)}")
    if clip.ndim != 4:
        raise ShapeValueError(f"clip should be 4D. Got {clip.ndim}D")
    return clip


def crop(clip: Tensor, i: int, j: int, h: int, w: int) -> Tensor:
    """A part of each picture."""
    return _clip(clip)[..., i : i + h, j : j + w]


def resize(clip: Tensor, target_size: Sequence[int], interpolation_mode: str) -> Tensor:
    """Pictures of another size."""
    if len(target_size) != 2:
        raise ValueError(f"target size should be tuple (height, width), instead got {target_size}")
    return interpolate(
        clip, size=tuple(target_size), mode=interpolation_mode,
        align_corners=None if interpolation_mode == "nearest" else False,
    )  # fmt: skip


def resized_crop(
    clip: Tensor,
    i: int,
    j: int,
    h: int,
    w: int,
    size: Sequence[int],
    interpolation_mode: str = "bilinear",
) -> Tensor:
    """A part of each picture, resized."""
    return resize(crop(clip, i, j, h, w), size, interpolation_mode)


def center_crop(clip: Tensor, crop_size: Sequence[int]) -> Tensor:
    """The middle of each picture."""
    (height, width), (h, w) = _clip(clip).shape[-2:], crop_size
    if height < h or width < w:
        raise ValueError(
            f"height and width must be no smaller than crop_size, received {(height, width)} "
            f"and {(h, w)}"
        )
    return crop(clip, round((height - h) / 2.0), round((width - w) / 2.0), h, w)


def to_tensor(clip: Tensor) -> Tensor:
    """Bytes (T, H, W, C) as numbers from 0 to 1, (C, T, H, W)."""
    if _clip(clip).dtype is not uint8:
        raise TypeError(f"clip tensor should have data type uint8. Got {clip.dtype}")
    return clip.float().permute(3, 0, 1, 2) / 255.0


def normalize(
    clip: Tensor, mean: Sequence[float], std: Sequence[float], inplace: bool = False
) -> Tensor:
    """Each channel less its mean, over its deviation."""
    clip = _clip(clip) if inplace else _clip(clip).clone()
    of, over = (clip.new_tensor(values)[:, None, None, None] for values in (mean, std))
    return clip.sub_(of).div_(over)


def hflip(clip: Tensor) -> Tensor:
    """Pictures mirrored left to right."""
    return _clip(clip).flip(-1)
