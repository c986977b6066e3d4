"""From one kind of thing, dtype or format to another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from adjoint.data.transforms.basic import ToTensor as FirstToTensor
from adjoint.data.transforms.pillow import is_picture
from adjoint.engine.core.dtype import DType, float32
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.transforms.v2 import functional as F
from adjoint.vision.transforms.v2.kernels import is_pure_tensor
from adjoint.vision.transforms.v2.sample import Transform, is_image
from adjoint.vision.tv_tensors import (
    BoundingBoxes,
    BoundingBoxFormat,
    Image,
    KeyPoints,
    TVTensor,
    Video,
    plain,
)


class Identity(Transform):
    """The sample itself."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return inpt


class ToTensor(Transform):
    """A tensor (C, H, W) of an image; bytes become numbers from 0 to 1."""

    _transformed_types = (is_picture, np.ndarray)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Tensor:
        return FirstToTensor()(inpt)


class PILToTensor(Transform):
    """A tensor (C, H, W) of an image of Pillow's, elements unchanged."""

    _transformed_types = (is_image,)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Tensor:
        return F.pil_to_tensor(inpt)


class ToImage(Transform):
    """Tensors, arrays and pictures as images that say so, elements unchanged.

    Example:
        >>> import numpy as np
        >>> type(ToImage()(np.zeros((4, 5, 3), np.uint8))).__name__
        'Image'
    """

    _transformed_types = (is_pure_tensor, is_picture, np.ndarray)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Image:
        return F.to_image(inpt)


class ToPILImage(Transform):
    """Tensors (C, H, W) and arrays (H, W, C) as images of Pillow's."""

    _transformed_types = (is_pure_tensor, Image, np.ndarray)

    def __init__(self, mode: str | None = None) -> None:
        super().__init__()
        self.mode = mode

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return F.to_pil_image(plain(inpt) if isinstance(inpt, Tensor) else inpt, self.mode)


class ToPureTensor(Transform):
    """Tensors that say what they show as plain ones."""

    _transformed_types = (TVTensor,)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Tensor:
        return plain(inpt)


class ToDtype(Transform):
    """Another dtype; with `scale`, images also get the range that goes with it.

    Args:
        dtype: of images and videos; or for each kind one, or None, with "others" for the rest.
        scale: whether 255 of bytes becomes 1.
    """

    _transformed_types = (Tensor,)

    def __init__(self, dtype: Any, scale: bool = False) -> None:
        super().__init__()
        if not isinstance(dtype, (DType, Mapping)):
            raise ValueError(f"dtype must be a dict or a torch.dtype, got {type(dtype)} instead")
        self.dtype = dtype
        self.scale = scale

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        wanted = self._wanted(inpt)
        return inpt if wanted is None else F.to_dtype(inpt, wanted, self.scale)

    def _wanted(self, inpt: Any) -> DType | None:
        if not isinstance(self.dtype, Mapping):
            shows = is_pure_tensor(inpt) or isinstance(inpt, (Image, Video))
            return self.dtype if shows else None
        for key in (type(inpt), "others"):
            if key in self.dtype:
                return self.dtype[key]
        raise ValueError(
            f"No dtype was specified for type {type(inpt)}. Give one for it, or one for "
            '"others" (None leaves them as they are)'
        )


class ConvertImageDtype(Transform):
    """Another dtype, of images and videos with the range that goes with it."""

    _transformed_types = (Tensor,)

    def __init__(self, dtype: DType = float32) -> None:
        super().__init__()
        self.dtype = dtype

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return F.to_dtype(inpt, self.dtype, scale=True)


class ConvertBoundingBoxFormat(Transform):
    """Boxes in another format."""

    _transformed_types = (BoundingBoxes,)

    def __init__(self, format: BoundingBoxFormat | str) -> None:
        super().__init__()
        self.format = format

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return F.convert_bounding_box_format(inpt, new_format=self.format)


class ClampBoundingBoxes(Transform):
    """Boxes cut off at the edges of their image."""

    _transformed_types = (BoundingBoxes,)

    def __init__(self, clamping_mode: str | None = "auto") -> None:
        super().__init__()
        self.clamping_mode = clamping_mode

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return F.clamp_bounding_boxes(inpt, clamping_mode=self.clamping_mode)


class ClampKeyPoints(Transform):
    """Key points outside their image moved to its nearest pixel."""

    _transformed_types = (KeyPoints,)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return F.clamp_keypoints(inpt)


class SetClampingMode(Transform):
    """Whether later transforms cut boxes off at the edges."""

    _transformed_types = (BoundingBoxes,)

    def __init__(self, clamping_mode: str | None) -> None:
        super().__init__()
        if clamping_mode not in (None, "soft", "hard"):
            raise ValueError(f"clamping_mode must be soft, hard or None, got {clamping_mode}")
        self.clamping_mode = clamping_mode

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        boxes = inpt.clone()
        boxes.clamping_mode = self.clamping_mode
        return boxes


class UniformTemporalSubsample(Transform):
    """So many pictures of a video, evenly spread."""

    _transformed_types = (is_pure_tensor, Video)

    def __init__(self, num_samples: int) -> None:
        super().__init__()
        self.num_samples = num_samples

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return F.uniform_temporal_subsample(inpt, self.num_samples)
