"""Images turned, sheared, seen in perspective and bent."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.engine.backends.array.interop import from_numpy
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.ops.image.pixels import grid_sample
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.transforms.kinds import (
    InterpolationMode,
    as_float,
    back,
    by_kind,
    mode_name,
    picture_fill,
    pillow_filter,
)


def both_shears(shear: Any) -> tuple[float, float]:
    """Across and down: a number is across alone, a list of one is both, as in torchvision."""
    if isinstance(shear, (int, float)):
        return shear, 0.0
    if len(shear) not in (1, 2):
        raise ValueError(f"shear: expected one or two numbers, received {list(shear)}")
    return shear[0], shear[-1]


def inverse_matrix(
    center: Sequence[float], angle: float, translate: Sequence[float], scale: float,
    shear: Sequence[float],
) -> list[float]:  # fmt: skip
    """From places in the result to places in the image: rows of an affine map."""
    turn, sx, sy = (math.radians(v) for v in (angle, *shear))
    (cx, cy), (tx, ty) = center, translate
    a = math.cos(turn - sy) / math.cos(sy)
    b = -math.cos(turn - sy) * math.tan(sx) / math.cos(sy) - math.sin(turn)
    c = math.sin(turn - sy) / math.cos(sy)
    d = -math.sin(turn - sy) * math.tan(sx) / math.cos(sy) + math.cos(turn)
    m = [value / scale for value in (d, -b, 0.0, -c, a, 0.0)]
    m[2] += m[0] * (-cx - tx) + m[1] * (-cy - ty) + cx
    m[5] += m[3] * (-cx - tx) + m[4] * (-cy - ty) + cy
    return m


def _places(width: int, height: int, x0: float, y0: float) -> Any:
    """(height, width, 3): x, y and 1 of each pixel, from given starts."""
    grid = np.ones((height, width, 3), np.float32)
    grid[..., 0] = np.linspace(x0, x0 + width - 1, width, dtype=np.float32)
    grid[..., 1] = np.linspace(y0, y0 + height - 1, height, dtype=np.float32)[:, None]
    return grid


def affine_grid(matrix: Sequence[float], w: int, h: int, ow: int, oh: int) -> Any:
    """Where each pixel of the result comes from, as `grid_sample` counts."""
    base = _places(ow, oh, -ow * 0.5 + 0.5, -oh * 0.5 + 0.5)
    theta = np.array(matrix, np.float32).reshape(2, 3).T / np.array([0.5 * w, 0.5 * h], np.float32)
    return (base.reshape(-1, 3) @ theta).reshape(1, oh, ow, 2)


def perspective_grid(coefficients: Sequence[float], ow: int, oh: int) -> Any:
    """The same for a perspective map."""
    c = [float(value) for value in coefficients]
    base = _places(ow, oh, 0.5, 0.5).reshape(-1, 3)
    above = np.array([c[:3], c[3:6]], np.float32).T / np.array([0.5 * ow, 0.5 * oh], np.float32)
    below = np.array([[c[6], c[7], 1.0]] * 2, np.float32).T
    return ((base @ above) / (base @ below) - 1.0).reshape(1, oh, ow, 2)


def sample_image(img: Tensor, grid: Any, mode: str, fill: Any) -> Tensor:
    """Pixels of an image (..., C, H, W) at places, `fill` outside."""
    if mode not in ("nearest", "bilinear", "bicubic"):
        raise ValueError(
            f"interpolation {mode!r} is for PIL images; tensors have nearest, bilinear"
        )
    batch = as_float(img).reshape(-1, *img.shape[-3:]) if img.ndim != 3 else as_float(img)[None]
    count, channels = batch.shape[:2]
    places = from_numpy(np.ascontiguousarray(grid)).to(batch.device, batch.dtype)
    places = places.expand(count, *places.shape[1:])
    if fill is not None:
        batch = cat([batch, batch.new_ones((count, 1, *batch.shape[-2:]))], 1)
    out = grid_sample(batch, places, mode=mode, padding_mode="zeros", align_corners=False)
    if fill is not None:
        out, mask = out[:, :-1], out[:, -1:].expand(count, channels, *out.shape[-2:])
        given = fill if isinstance(fill, (tuple, list)) else [float(fill)]
        colour = (
            out.new_tensor([float(channel) for channel in given])
            .view(1, -1, 1, 1)
            .expand(out.shape)
        )
        if mode == "nearest":
            out = out.where(~(mask < 0.5), colour)
        else:
            out = out * mask + (1.0 - mask) * colour
    return back(out[0] if img.ndim == 3 else out, img)


def _size(img: Tensor) -> tuple[int, int]:
    return int(img.shape[-1]), int(img.shape[-2])


def affine(
    img: Any, angle: float, translate: Sequence[int], scale: float, shear: Any,
    interpolation: Any = InterpolationMode.NEAREST, fill: Any = None, center: Any = None,
) -> Any:  # fmt: skip
    """The image turned (clockwise), scaled, sheared and shifted about its middle, or a point."""
    if scale <= 0.0:
        raise ValueError("Argument scale should be positive")
    shears = both_shears(shear)

    def picture(given: Any) -> Any:
        middle = center or [given.size[0] * 0.5, given.size[1] * 0.5]
        matrix = inverse_matrix(middle, angle, translate, scale, shears)
        return _transform(given, "AFFINE", matrix, interpolation, fill)

    def tensor(given: Tensor) -> Tensor:
        w, h = _size(given)
        middle = [0.0, 0.0] if center is None else [center[0] - w * 0.5, center[1] - h * 0.5]
        shift = [float(t) for t in translate]
        matrix = inverse_matrix(middle, angle, shift, scale, shears)
        return sample_image(given, affine_grid(matrix, w, h, w, h), mode_name(interpolation), fill)

    return by_kind(img, picture, tensor)


def _transform(img: Any, kind: str, data: Sequence[float], interpolation: Any, fill: Any) -> Any:
    library = importlib.import_module("PIL.Image")
    method = getattr(library.Transform, kind)
    how = pillow_filter(interpolation)
    return img.transform(img.size, method, tuple(data), how, **picture_fill(img, fill))


def rotate(
    img: Any, angle: float, interpolation: Any = InterpolationMode.NEAREST,
    expand: bool = False, center: Any = None, fill: Any = None,
) -> Any:  # fmt: skip
    """The image turned counter-clockwise about its middle, or a point.

    Args:
        img: the image.
        angle: in degrees.
        interpolation: nearest or bilinear; bicubic for PIL images.
        expand: make room for all of it.
        center: the point (x, y).
        fill: what pixels from outside become.
    """

    def picture(given: Any) -> Any:
        how = pillow_filter(interpolation)
        return given.rotate(angle, how, expand, center, **picture_fill(given, fill))

    def tensor(given: Tensor) -> Tensor:
        w, h = _size(given)
        middle = [0.0, 0.0] if center is None else [center[0] - w * 0.5, center[1] - h * 0.5]
        matrix = inverse_matrix(middle, -angle, [0.0, 0.0], 1.0, [0.0, 0.0])
        ow, oh = _room(matrix, w, h) if expand else (w, h)
        grid = affine_grid(matrix, w, h, ow, oh)
        return sample_image(given, grid, mode_name(interpolation), fill)

    return by_kind(img, picture, tensor)


def _room(matrix: Sequence[float], w: int, h: int) -> tuple[int, int]:
    """The size that holds all of the turned image."""
    corners = np.array([[x * w, y * h, 1.0] for x in (-0.5, 0.5) for y in (-0.5, 0.5)], np.float32)
    turned = corners @ np.array(matrix, np.float32).reshape(2, 3).T
    half = np.array([w * 0.5, h * 0.5], np.float32)
    low, high = turned.min(0) + half, turned.max(0) + half
    tolerance = np.float32(1e-4)
    top = np.ceil(np.trunc(high / tolerance) * tolerance)
    bottom = np.floor(np.trunc(low / tolerance) * tolerance)
    width, height = (top - bottom).astype(int)
    return int(width), int(height)


def perspective_coefficients(startpoints: Any, endpoints: Any) -> list[float]:
    """The map that takes end points to start points, by least squares."""
    rows, wanted = [], []
    for (x, y), (u, v) in zip(endpoints, startpoints, strict=True):
        rows.append([x, y, 1, 0, 0, 0, -u * x, -u * y])
        rows.append([0, 0, 0, x, y, 1, -v * x, -v * y])
        wanted += [u, v]
    solution = np.linalg.lstsq(np.array(rows, np.float64), np.array(wanted, np.float64), rcond=None)
    return [float(np.float32(value)) for value in solution[0]]


def perspective(
    img: Any, startpoints: Any, endpoints: Any,
    interpolation: Any = InterpolationMode.BILINEAR, fill: Any = None,
) -> Any:  # fmt: skip
    """The image with four points moved to others."""
    numbers = perspective_coefficients(startpoints, endpoints)

    def tensor(given: Tensor) -> Tensor:
        w, h = _size(given)
        return sample_image(given, perspective_grid(numbers, w, h), mode_name(interpolation), fill)

    return by_kind(
        img, lambda p: _transform(p, "PERSPECTIVE", numbers, interpolation, fill), tensor
    )


def elastic(img: Tensor, displacement: Any, interpolation: Any, fill: Any) -> Tensor:
    """Pixels from places moved by displacements (1, H, W, 2), in parts of half the size."""
    w, h = _size(img)
    if tuple(displacement.shape) != (1, h, w, 2):
        raise ShapeValueError(
            f"Argument displacement shape should be {(1, h, w, 2)}, but given "
            f"{tuple(displacement.shape)}"
        )
    grid = np.empty((1, h, w, 2), np.float32)
    grid[..., 0] = np.linspace((-w + 1) / w, (w - 1) / w, w, dtype=np.float32)
    grid[..., 1] = np.linspace((-h + 1) / h, (h - 1) / h, h, dtype=np.float32)[:, None]
    moved = grid + np.asarray(displacement.detach().cpu().numpy())
    return sample_image(img, moved.astype(np.float32), mode_name(interpolation), fill)
