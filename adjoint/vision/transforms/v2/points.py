"""Where key points go when their image is flipped, resized, cropped, padded, turned or bent.

The functions named after torchvision's kernels take plain tensors (..., 2) of x and y and the size
of the image; those that change it give the new one beside the points.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.engine.backends.array.interop import from_numpy
from adjoint.engine.core.dtype import float32, int64
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.ops.shape.join import stack
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.transforms.v2.boxes import (
    Size,
    borders,
    centre_of,
    forward_map,
    projected,
    resized,
    turned_map,
)
from adjoint.vision.transforms.warp import perspective_coefficients
from adjoint.vision.tv_tensors import KeyPoints, plain, wrap


def _working(points: Tensor) -> Tensor:
    return points if points.dtype.is_floating_point else points.to(float32)


def horizontal_flip_keypoints(keypoints: Tensor, canvas_size: Size) -> Tensor:
    """Points with left and right exchanged: the first column of pixels is the last."""
    x, y = plain(keypoints).unbind(-1)
    return stack([canvas_size[1] - 1 - x, y], -1)


def vertical_flip_keypoints(keypoints: Tensor, canvas_size: Size) -> Tensor:
    """Points with top and bottom exchanged."""
    x, y = plain(keypoints).unbind(-1)
    return stack([x, canvas_size[0] - 1 - y], -1)


def resize_keypoints(
    keypoints: Tensor, size: Any, canvas_size: Size, max_size: int | None = None
) -> tuple[Tensor, Size]:
    """Points of an image that is resized, and its new size."""
    (height, width), new = canvas_size, resized(canvas_size, size, max_size)
    points = plain(keypoints)
    if new == tuple(canvas_size):
        return points, new
    ratios = from_numpy(np.array([new[1] / width, new[0] / height], np.float32))
    return (points * ratios.to(points.device)).to(points.dtype), new


def crop_keypoints(
    keypoints: Tensor, top: int, left: int, height: int, width: int
) -> tuple[Tensor, Size]:
    """Points as a rectangle of the image shows them, and its size; some may lie outside."""
    points = plain(keypoints)
    return points - points.new_tensor([left, top]), (height, width)


def center_crop_keypoints(
    inpt: Tensor, canvas_size: Size, output_size: Any
) -> tuple[Tensor, Size]:  # fmt: skip
    """Points as the middle of the image shows them, and its size."""
    return crop_keypoints(inpt, *centre_of(canvas_size, output_size))


def resized_crop_keypoints(
    keypoints: Tensor, top: int, left: int, height: int, width: int, size: Any
) -> tuple[Tensor, Size]:
    """Points as a rectangle of the image shows them when it is resized, and its size."""
    points, part = crop_keypoints(keypoints, top, left, height, width)
    return resize_keypoints(points, size, part)


def pad_keypoints(
    keypoints: Tensor, canvas_size: Size, padding: Any, padding_mode: str = "constant"
) -> tuple[Tensor, Size]:
    """Points of an image with a border, and its new size."""
    if padding_mode != "constant":
        raise ValueError(f"Padding mode '{padding_mode}' is not supported with KeyPoints")
    left, top, right, bottom = borders(padding)
    points = plain(keypoints)
    size = (canvas_size[0] + top + bottom, canvas_size[1] + left + right)
    return points + points.new_tensor([left, top]), size


def affine_keypoints(
    keypoints: Tensor,
    canvas_size: Size,
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: Any,
    center: Any = None,
) -> tuple[Tensor, Size]:
    """What becomes of points under `affine`, and the image's size, which stays."""
    points = plain(keypoints)
    matrix = forward_map(canvas_size, angle, translate, scale, shear, center)
    return projected(_working(points), matrix).to(points.dtype), canvas_size


def rotate_keypoints(
    keypoints: Tensor, canvas_size: Size, angle: float, expand: bool = False, center: Any = None
) -> tuple[Tensor, Size]:
    """What becomes of points under `rotate`, and the image's new size."""
    points = plain(keypoints)
    matrix, size = turned_map(canvas_size, angle, expand, center)
    if not points.numel():  # so in torchvision, which then knows of no larger image
        return points, canvas_size
    return projected(_working(points), matrix).to(points.dtype), size


def perspective_keypoints(
    keypoints: Tensor,
    canvas_size: Size,
    startpoints: Any,
    endpoints: Any,
    coefficients: Any = None,
) -> Tensor:
    """What becomes of points under `perspective`."""
    points = plain(keypoints)
    if not points.numel():
        return points
    numbers = coefficients or perspective_coefficients(startpoints, endpoints)
    matrix = np.linalg.inv(np.array([*numbers, 1.0]).reshape(3, 3))
    return projected(_working(points), matrix).to(points.dtype)


def elastic_keypoints(keypoints: Tensor, canvas_size: Size, displacement: Tensor) -> Tensor:
    """Points moved against the displacements of the pixels they are in.

    The map of `elastic` has no closed inverse; as in torchvision, a displacement at a point is
    taken for the one that leads to it.
    """
    points, (height, width) = plain(keypoints), canvas_size
    if not isinstance(displacement, Tensor):
        raise TypeError("Argument displacement should be a Tensor")
    if tuple(displacement.shape) != (1, height, width, 2):
        raise ShapeValueError(
            f"Argument displacement shape should be {(1, height, width, 2)}, but given "
            f"{tuple(displacement.shape)}"
        )
    if not points.numel():
        return points
    work = _working(points).dtype
    x, y = points.to(int64).unbind(-1)
    x, y = x.clamp(0, width - 1), y.clamp(0, height - 1)
    sides = points.new_tensor([width, height], dtype=work)
    by = displacement.to(points.device, work)[0][y, x] * sides * 0.5
    return (stack([x, y], -1).to(work) - by).to(points.dtype)


def _clamped(points: Tensor, canvas_size: Size) -> Tensor:
    height, width = canvas_size
    x, y = _working(points).unbind(-1)
    return stack([x.clamp(0, width - 1), y.clamp(0, height - 1)], -1).to(points.dtype)


def clamp_keypoints(inpt: Tensor, canvas_size: Size | None = None) -> Any:
    """Points outside their image moved to its nearest pixel."""
    if isinstance(inpt, KeyPoints):
        if canvas_size is not None:
            raise ValueError("For keypoints tv_tensor inputs, `canvas_size` must not be passed.")
        return wrap(_clamped(plain(inpt), inpt.canvas_size), like=inpt)
    if not isinstance(inpt, Tensor):
        raise TypeError(
            "Input can either be a plain tensor or a keypoints tv_tensor, but got "
            f"{type(inpt)} instead."
        )
    if canvas_size is None:
        raise ValueError("For pure tensor inputs, `canvas_size` has to be passed.")
    return _clamped(plain(inpt), canvas_size)


def inside(points: Tensor, canvas_size: Size) -> Tensor:
    """Which points, or groups all of whose points, lie in the image."""
    (height, width), (x, y) = canvas_size, plain(points).unbind(-1)
    valid = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    return valid.flatten(1).all(1) if valid.ndim > 1 else valid


def sanitize_keypoints(key_points: Tensor, canvas_size: Size | None = None) -> tuple[Any, Tensor]:
    """The points (or whole groups of them) that lie in the image, and which those are."""
    if isinstance(key_points, KeyPoints):
        if canvas_size is not None:
            raise ValueError(
                "canvas_size must be None when key_points is a tv_tensors.KeyPoints instance. "
                f"Got canvas_size={canvas_size}."
            )
        valid = inside(key_points, key_points.canvas_size)
        return wrap(plain(key_points)[valid], like=key_points), valid
    if canvas_size is None:
        raise ValueError(
            "canvas_size cannot be None if key_points is a pure tensor. Set it to an appropriate "
            "value or pass key_points as a tv_tensors.KeyPoints object."
        )
    valid = inside(key_points, canvas_size)
    return plain(key_points)[valid], valid
