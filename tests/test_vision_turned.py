"""Turned boxes: formats, changes of their images, and what is cut off at the edges."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.vision.ops import box_convert
from adjoint.vision.transforms.v2 import functional as F
from adjoint.vision.tv_tensors import BoundingBoxes, BoundingBoxFormat

Array = np.ndarray[Any, Any]
HEIGHT, WIDTH = 20, 30
KINDS = ("XYWHR", "CXCYWHR", "XYXYXYXY")


def drawn(count: int = 60, seed: int = 0) -> Array:
    """Middles, sides and angles."""
    rng = np.random.default_rng(seed)
    low, high = [0.0, 0.0, 1.0, 1.0, -180.0], [WIDTH, HEIGHT, 12.0, 12.0, 180.0]
    return rng.uniform(low, high, (count, 5))


def corners(boxes: Array) -> Array:
    """The corners (N, 4, 2) of boxes by middles: offsets turned against the y that goes down."""
    x, y, w, h, angle = boxes.T
    turn = np.deg2rad(angle)
    cos, sin = np.cos(turn), np.sin(turn)
    out = [
        np.stack([x + i * w / 2 * cos + j * h / 2 * sin, y - i * w / 2 * sin + j * h / 2 * cos], -1)
        for i, j in ((-1, -1), (1, -1), (1, 1), (-1, 1))
    ]
    return np.stack(out, 1)


def made(kind: str, mode: str | None = None, boxes: Array | None = None) -> BoundingBoxes:
    data = ad.tensor(drawn() if boxes is None else boxes)
    moved = F.convert_bounding_box_format(data, "CXCYWHR", kind)
    size = (HEIGHT, WIDTH)
    return BoundingBoxes(moved, format=kind, canvas_size=size, clamping_mode=mode)


def places(boxes: Any) -> Array:
    """The corners of boxes as they say."""
    flat = F.convert_bounding_box_format(boxes, new_format="XYXYXYXY")
    found: Array = np.asarray(flat.numpy()).reshape(-1, 4, 2)
    return found


@pytest.mark.parametrize(("given", "wanted"), itertools.product(KINDS, KINDS))
def test_formats(given: str, wanted: str) -> None:
    boxes = made(given)
    converted = F.convert_bounding_box_format(boxes, new_format=wanted)
    assert converted.format is BoundingBoxFormat[wanted]
    np.testing.assert_allclose(places(converted), corners(drawn()), atol=1e-9)
    named = box_convert(ad.Tensor(boxes), given.lower(), wanted.lower())
    np.testing.assert_allclose(named.numpy(), converted.numpy(), atol=1e-9)


# What becomes of a point (x, y), where angles and lengths are kept.
RIGID: dict[str, tuple[Any, Any]] = {
    "hflip": (F.horizontal_flip, lambda p: np.stack([WIDTH - p[..., 0], p[..., 1]], -1)),
    "vflip": (F.vertical_flip, lambda p: np.stack([p[..., 0], HEIGHT - p[..., 1]], -1)),
    "crop": (lambda b: F.crop(b, 3, 4, 9, 11), lambda p: p - [4, 3]),
    "pad": (lambda b: F.pad(b, [1, 2, 3, 4]), lambda p: np.add(p, [1, 2])),
    "double": (lambda b: F.resize(b, [2 * HEIGHT, 2 * WIDTH]), lambda p: 2 * p),
    "quarter": (
        lambda b: F.rotate(b, 90),
        lambda p: np.stack([p[..., 1] + 5, WIDTH - p[..., 0] - 5], -1),
    ),
}


def sorted_corners(points: Array) -> Array:
    """From the lowest corner on: a box may be told from any of them."""
    order = np.lexsort((points[..., 1].round(3), points[..., 0].round(3)), axis=-1)
    return np.take_along_axis(points, order[..., None], 1)


@pytest.mark.parametrize("name", RIGID)
@pytest.mark.parametrize("kind", KINDS)
def test_rigid_changes(name: str, kind: str) -> None:
    change, expected = RIGID[name]
    moved = change(made(kind))
    assert moved.format.name == kind
    want = sorted_corners(expected(corners(drawn())))
    np.testing.assert_allclose(sorted_corners(places(moved)), want, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_boxes_around_sheared_ones_leave_nothing_out(kind: str) -> None:
    around = places(F.resize(made(kind), [HEIGHT * 3, WIDTH]))
    first, right, down = (around[:, i] for i in (0, 1, 3))
    for axis in (right - first, down - first):
        length = np.linalg.norm(axis, axis=-1, keepdims=True)
        at = np.einsum("npk,nk->np", corners(drawn()) * [1, 3] - first[:, None], axis / length)
        assert (at > -1e-6).all()
        assert (at < length + 1e-6).all()


def clipped(polygon: Array) -> Array:
    """What a polygon and the image share, edge by edge (Sutherland and Hodgman)."""
    points = list(polygon)
    for axis, edge, sign in ((0, 0, 1), (0, WIDTH, -1), (1, 0, 1), (1, HEIGHT, -1)):
        kept: list[Array] = []
        for p, q in zip(points, points[1:] + points[:1], strict=True):
            a, b = (p[axis] - edge) * sign, (q[axis] - edge) * sign
            if a >= 0:
                kept.append(p)
            if (a >= 0) != (b >= 0):
                kept.append(p + (q - p) * (a / (a - b)))
        points = kept
    return np.array(points)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_cut_off_at_the_edges(kind: str) -> None:
    """The smallest box at the angle around what is seen, or the box itself if all is."""
    boxes = drawn(120, 1)
    given, got = corners(boxes), places(F.clamp_bounding_boxes(made(kind, "soft", boxes)))
    inside = ((given >= 0) & (given <= [WIDTH, HEIGHT])).all((1, 2))
    assert 0 < inside.sum() < len(boxes)
    np.testing.assert_allclose(got[inside], given[inside], atol=1e-9)
    for box, found in zip(given[~inside], got[~inside], strict=True):
        seen, first = clipped(box), box[0]
        axes = [(box[i] - first) / np.linalg.norm(box[i] - first) for i in (1, 3)]
        low, high = (
            [reduce((seen - first) @ axis) for axis in axes] for reduce in (np.min, np.max)
        )
        pairs = ((low[0], low[1]), (high[0], low[1]), (high[0], high[1]), (low[0], high[1]))
        want = [first + axes[0] * s + axes[1] * t for s, t in pairs]
        np.testing.assert_allclose(found, want, atol=1e-5)


def test_boxes_outside_and_refusals() -> None:
    far = made("CXCYWHR", "soft", np.array([[90.0, 90.0, 3.0, 3.0, 30.0]]))
    assert F.clamp_bounding_boxes(far)[0, 2:4].tolist() == [0.0, 0.0]
    few = np.array([[15.0, 10.0, 6.0, 4.0, 45.0], [0.0, 0.0, 6.0, 4.0, 45.0]])
    kept, valid = F.sanitize_bounding_boxes(made("XYWHR", None, few))
    assert (valid.tolist(), len(kept)) == ([True, False], 1)
    with pytest.raises(NotImplementedError, match="'hard' is not supported for turned boxes"):
        F.clamp_bounding_boxes(far, clamping_mode="hard")
    with pytest.raises(ValueError, match="between rotated and unrotated"):
        F.convert_bounding_box_format(far, new_format="XYXY")
    with pytest.raises(ValueError, match="floating point"):
        BoundingBoxes([[1, 2, 3, 4, 5]], format="XYWHR", canvas_size=(9, 9))
