"""Samples of any structure, transformed in all their parts by one draw of parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, ClassVar

import numpy as np

from adjoint import nn
from adjoint.data.transforms.draw import chance
from adjoint.data.transforms.pillow import is_picture
from adjoint.engine.tensor.tensor import Tensor
from adjoint.utils._pytree import tree_flatten, tree_unflatten
from adjoint.vision.pictures import pillow
from adjoint.vision.transforms.v2 import functional as F
from adjoint.vision.transforms.v2.kernels import is_pure_tensor, kernel_of
from adjoint.vision.tv_tensors import BoundingBoxes, Image, KeyPoints, Mask, Video

Check = type | Callable[[Any], bool]


def is_image(inpt: Any) -> bool:
    """Whether something is a picture: Pillow's, or where that is not installed an array."""
    return is_picture(inpt) or (isinstance(inpt, np.ndarray) and pillow() is None)


def check_type(obj: Any, types_or_checks: tuple[Check, ...]) -> bool:
    """Whether something is of one of the types, or one of the functions says yes to it."""
    return any(
        isinstance(obj, test) if isinstance(test, type) else test(obj) for test in types_or_checks
    )


def has_any(flat_inputs: list[Any], *types_or_checks: Check) -> bool:
    """Whether there is something of any of the types."""
    return any(check_type(part, types_or_checks) for part in flat_inputs)


def has_all(flat_inputs: list[Any], *types_or_checks: Check) -> bool:
    """Whether there is something of each of the types."""
    return all(has_any(flat_inputs, test) for test in types_or_checks)


def get_bounding_boxes(flat_inputs: list[Any]) -> BoundingBoxes:
    """The boxes of a sample."""
    for part in flat_inputs:
        if isinstance(part, BoundingBoxes):
            return part
    raise ValueError("No bounding boxes were found in the sample")


def get_keypoints(flat_inputs: list[Any]) -> KeyPoints:
    """The key points of a sample."""
    for part in flat_inputs:
        if isinstance(part, KeyPoints):
            return part
    raise ValueError("No keypoints were found in the sample")


def _only(sizes: set[tuple[int, ...]], what: str, missing: str) -> tuple[int, ...]:
    if not sizes:
        raise TypeError(f"No {missing} was found in the sample")
    if len(sizes) > 1:
        raise ValueError(f"Found multiple {what} dimensions in the sample: {sorted(sizes)}")
    return sizes.pop()


def query_chw(flat_inputs: list[Any]) -> tuple[int, int, int]:
    """Channels, height and width that all images of a sample have."""
    kinds = (is_pure_tensor, Image, Video, is_image)
    sizes = {tuple(F.get_dimensions(x)) for x in flat_inputs if check_type(x, kinds)}
    c, h, w = _only(sizes, "CxHxW", "image or video")
    return c, h, w


def query_size(flat_inputs: list[Any]) -> tuple[int, int]:
    """Height and width that all parts of a sample have."""
    kinds = (is_pure_tensor, Image, Video, is_image, Mask, BoundingBoxes, KeyPoints)
    sizes = {tuple(F.get_size(x)) for x in flat_inputs if check_type(x, kinds)}
    h, w = _only(sizes, "HxW", "image, video, mask, bounding box or keypoint")
    return h, w


class Transform(nn.Module):
    """What transforms of samples have in common; programs may derive their own.

    A sample is anything: an image, or a tuple, list or dict of images, masks, boxes, labels.
    `make_params` draws once for the whole sample, `transform` changes each part. Parts that are
    not of `_transformed_types` stay. A plain tensor is an image if it is the first one and the
    sample has no other image or video.
    """

    _transformed_types: ClassVar[tuple[Check, ...]] = (Tensor, is_image)

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        """Refuse samples this transform is not for."""

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """What is drawn for a sample, given the parts to be changed."""
        return {}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One part, changed."""
        raise NotImplementedError(f"{type(self).__name__} does not define transform")

    def forward(self, *inputs: Any) -> Any:
        """The sample, changed in all its parts."""
        parts, structure = tree_flatten(inputs if len(inputs) > 1 else inputs[0])
        self.check_inputs(parts)
        concerned = self._needs_transform_list(parts)
        params = self.make_params([x for x, yes in zip(parts, concerned, strict=True) if yes])
        changed = [
            self.transform(x, params) if yes else x for x, yes in zip(parts, concerned, strict=True)
        ]
        return tree_unflatten(changed, structure)

    def _needs_transform_list(self, flat_inputs: list[Any]) -> list[bool]:
        wanted = not has_any(flat_inputs, Image, Video, is_image)
        concerned = []
        for part in flat_inputs:
            yes = check_type(part, self._transformed_types)
            if yes and is_pure_tensor(part):
                yes, wanted = wanted, False
            concerned.append(yes)
        return concerned

    def _call_kernel(self, functional: Any, inpt: Any, *args: Any, **kwargs: Any) -> Any:
        """The function of a part, or the part where it has no kernel for its kind."""
        kernel = kernel_of(functional, inpt)
        return inpt if kernel is None else kernel(inpt, *args, **kwargs)

    def extra_repr(self) -> str:
        kinds = (bool, int, float, str, tuple, list, Enum)
        return ", ".join(
            f"{name}={value}"
            for name, value in vars(self).items()
            if not name.startswith("_") and name != "training" and isinstance(value, kinds)
        )


class RandomTransform(Transform):
    """A transform that leaves a sample as it is but with a probability."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if not 0.0 <= p <= 1.0:
            raise ValueError("`p` should be a floating point value in the interval [0.0, 1.0].")
        self.p = p

    def forward(self, *inputs: Any) -> Any:
        """The sample, changed or not."""
        given = inputs if len(inputs) > 1 else inputs[0]
        self.check_inputs(tree_flatten(given)[0])
        return super().forward(*inputs) if chance(self.p) else given


def fill_of(fill: Any, inpt: Any) -> Any:
    """What new pixels of a part hold: one value for all kinds, or one per kind."""
    if not isinstance(fill, Mapping):
        return fill
    kind = type(inpt)
    if kind in fill or hasattr(fill, "default_factory"):
        return fill[kind]
    if "others" in fill:
        return fill["others"]
    raise ValueError(f'fill has no value for {kind.__name__}; give one, or one for "others"')
