"""Boxes, regions and encoded images."""

from __future__ import annotations

import math

import numpy as np

import adjoint as ad
from adjoint.data.readers.images import PILLOW, in_strips, opened
from adjoint.engine.core.availability.libraries import need
from adjoint.engine.core.files.budget import Budget
from adjoint.engine.tensor.tensor import Tensor
from adjoint.onnx.reading import OnnxError
from adjoint.onnx.table import operator
from adjoint.onnx.types import Value, array_of, number, numbers


@operator("NonMaxSuppression")
def non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    most: Value = None,
    iou_threshold: Value = None,
    score_threshold: Value = None,
    *,
    center_point_box: int = 0,
) -> Tensor:
    """The best boxes of each class that overlap no better one: (batch, class, box)."""
    limit = 0 if most is None else int(number(most))
    overlap = 0.0 if iou_threshold is None else float(number(iou_threshold))
    least = -math.inf if score_threshold is None else float(number(score_threshold))
    places, values = array_of(boxes), array_of(scores)
    chosen_boxes = []
    for batch, rows in enumerate(values):
        corners = _corners(places[batch], bool(center_point_box))
        for kind, row in enumerate(rows):
            chosen: list[int] = []
            for k in np.argsort(-row, kind="stable"):
                if len(chosen) >= limit or not row[k] > least:
                    break
                if not chosen or not (_overlaps(corners[k], corners[chosen]) > overlap).any():
                    chosen.append(int(k))
            chosen_boxes += [(batch, kind, k) for k in chosen]
    return ad.tensor(np.array(chosen_boxes, dtype=np.int64).reshape(-1, 3))


def _corners(boxes: np.ndarray, centred: bool) -> np.ndarray:
    """Boxes as least and largest coordinates."""
    if centred:
        x, y, w, h = boxes.T
        return np.stack([y - h / 2, x - w / 2, y + h / 2, x + w / 2], 1)
    first, second = boxes[:, :2], boxes[:, 2:]
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], 1)


def _overlaps(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Intersection over union with each of the others."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    common = np.prod(np.clip(high - low, 0, None), axis=1)
    area = np.prod(box[2:] - box[:2]) + np.prod(others[:, 2:] - others[:, :2], axis=1)
    return np.where(common > 0, common / np.maximum(area - common, 1e-30), 0.0)


@operator("RoiAlign")
def roi_align(
    x: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    """Regions pooled at places between elements."""
    half = coordinate_transformation_mode == "half_pixel"
    if not rois.shape[0]:
        return x.new_zeros((0, x.shape[1], output_height, output_width))
    images = batch_indices.long().tolist()
    pooled = [
        _region(
            x[image],
            numbers(roi),
            half,
            mode,
            output_height,
            output_width,
            sampling_ratio,
            spatial_scale,
        )
        for image, roi in zip(images, rois, strict=True)
    ]
    return ad.stack(pooled)


def _region(
    x: Tensor,
    roi: list[float],
    half: bool,
    mode: str,
    height: int,
    width: int,
    ratio: int,
    scale: float,
) -> Tensor:
    shift = 0.5 if half else 0.0
    left, top, right, bottom = (v * scale - shift for v in roi)
    across, down = right - left, bottom - top
    if not half:
        across, down = max(across, 1.0), max(down, 1.0)
    rows, row_steps = _samples(top, down / height, height, ratio, int(x.shape[1]))
    columns, column_steps = _samples(left, across / width, width, ratio, int(x.shape[2]))
    if mode == "max":  # the largest weighed corner, as the standard's definition has it
        return _largest(x, rows, columns, height, width, row_steps, column_steps)
    down_matrix = _matrix(rows, int(x.shape[1]), height, row_steps).to(x.dtype)
    across_matrix = _matrix(columns, int(x.shape[2]), width, column_steps).to(x.dtype)
    return ad.matmul(ad.matmul(down_matrix, x), across_matrix.transpose(0, 1))


def _samples(
    start: float, size: float, bins: int, ratio: int, limit: int
) -> tuple[list[list[tuple[int, float]]], int]:
    """Places sampled along an axis, each as elements and their weights."""
    steps = ratio if ratio > 0 else math.ceil(size)
    samples = []
    for k in range(bins):
        for i in range(steps):
            at = start + k * size + (i + 0.5) * size / steps
            if at < -1.0 or at > limit:
                samples.append([(0, 0.0), (0, 0.0)])
                continue
            at = max(at, 0.0)
            low = int(at)
            if low >= limit - 1:
                samples.append([(limit - 1, 1.0), (limit - 1, 0.0)])
            else:
                samples.append([(low, 1 - (at - low)), (low + 1, at - low)])
    return samples, steps


def _matrix(samples: list[list[tuple[int, float]]], size: int, bins: int, steps: int) -> Tensor:
    matrix = np.zeros((bins, size))
    for k, taps in enumerate(samples):
        for place, weight in taps:
            matrix[k // max(steps, 1), place] += weight / max(steps, 1)
    return ad.tensor(matrix)


def _largest(
    x: Tensor,
    rows: list[list[tuple[int, float]]],
    columns: list[list[tuple[int, float]]],
    height: int,
    width: int,
    row_steps: int,
    column_steps: int,
) -> Tensor:
    """Of every sample's four corners, weighed, the largest."""
    corners = []
    for a in range(2):
        for b in range(2):
            y, wy = zip(*[taps[a] for taps in rows], strict=True)
            z, wz = zip(*[taps[b] for taps in columns], strict=True)
            weights = ad.tensor(np.outer(wy, wz)).to(x.dtype)
            corners.append(x[:, list(y)][:, :, list(z)] * weights)
    best = ad.amax(ad.stack(corners), 0)
    return ad.amax(best.reshape(int(x.shape[0]), height, row_steps, width, column_steps), [2, 4])


@operator("ImageDecoder")
def image_decoder(encoded: Tensor, *, pixel_format: str = "RGB") -> Tensor:
    """An image file's bytes as (H, W, C)."""
    data = array_of(encoded).tobytes()
    shown = "L" if pixel_format == "Grayscale" else "RGB"
    library = need("PIL.Image", "onnx: ImageDecoder")
    try:
        budget = Budget(len(data), "onnx: ImageDecoder")
        with opened(library, data, budget, formats=(*PILLOW, "JPEG2000")) as image:
            pixels = in_strips(image.convert(shown))
    except RuntimeError as error:
        raise OnnxError(str(error)) from error
    if pixel_format == "Grayscale":
        pixels = pixels[:, :, None]
    return ad.tensor(np.ascontiguousarray(pixels[:, :, ::-1] if pixel_format == "BGR" else pixels))
