"""Key points and turned boxes as torchvision moves them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")

import torchvision  # noqa: E402
import torchvision.transforms.v2  # noqa: E402

import adjoint as ad  # noqa: E402
from adjoint import vision  # noqa: E402

pytestmark = pytest.mark.compare
CANVAS = (20, 30)
RNG = np.random.default_rng(0)
# Corners of an image, points in it, on its edges and outside; singly and in groups.
SINGLE = np.concatenate([RNG.uniform(-5, 35, (12, 2)), [[0, 0], [29, 19], [30, 20], [0, 20]]])
POINTS = {"single": SINGLE, "groups": SINGLE.reshape(2, 4, 2, 2), "one": SINGLE[0]}
CORNERS = [[0, 0], [29, 0], [29, 19], [0, 19]]
MOVED = [[2, 1], [27, 3], [25, 18], [1, 16]]
BENT = (RNG.normal(size=(1, *CANVAS, 2)) * 0.1).astype(np.float32)

CHANGES: dict[str, Any] = {
    "hflip": lambda F, x, t: F.horizontal_flip(x),
    "vflip": lambda F, x, t: F.vertical_flip(x),
    "resize": lambda F, x, t: F.resize(x, [33, 47]),
    "resize one": lambda F, x, t: F.resize(x, [10], max_size=14),
    "crop": lambda F, x, t: F.crop(x, 3, 5, 10, 12),
    "center crop": lambda F, x, t: F.center_crop(x, [10, 41]),
    "resized crop": lambda F, x, t: F.resized_crop(x, 3, 5, 10, 12, [30, 24]),
    "pad": lambda F, x, t: F.pad(x, [1, 2, 3, 4]),
    "affine": lambda F, x, t: F.affine(x, 20, [3, -4], 1.2, [10.0, 5.0]),
    "affine about": lambda F, x, t: F.affine(x, -70, [0, 0], 0.7, [0.0, 0.0], center=[3, 4]),
    "rotate": lambda F, x, t: F.rotate(x, 35),
    "rotate about": lambda F, x, t: F.rotate(x, -35, center=[3, 4]),
    "rotate expand": lambda F, x, t: F.rotate(x, 125, expand=True),
    "perspective": lambda F, x, t: F.perspective(x, CORNERS, MOVED),
    "elastic": lambda F, x, t: F.elastic(x, t(BENT)),
    "dtype": lambda F, x, t: F.to_dtype(x, x.dtype),
}


def told(x: Any) -> tuple[Any, ...]:
    """What a thing is and knows, but for the size of its image."""
    known = getattr(x, "format", None)
    return (type(x).__name__, str(x.dtype).split(".")[-1], known and known.name)


def compare(name: str, make: Any, tolerance: float) -> None:
    F, G = torchvision.transforms.v2.functional, vision.transforms.v2.functional
    theirs = CHANGES[name](F, make(torchvision.tv_tensors, torch.from_numpy), torch.from_numpy)
    ours = CHANGES[name](G, make(vision.tv_tensors, ad.from_numpy), ad.from_numpy)
    assert told(ours) == told(theirs)
    # That of the image itself: torchvision's points and boxes may say one more or less if it grows.
    image = CHANGES[name](F, torch.zeros(3, *CANVAS), torch.from_numpy)
    assert tuple(ours.canvas_size) == tuple(image.shape[-2:])
    got, want = (np.asarray(x.tolist(), float) for x in (ours, theirs))
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=tolerance)


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("points", POINTS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_points(name: str, points: str, dtype: str) -> None:
    data = POINTS[points].astype(dtype)
    tolerance = 1e-4 if dtype != "int64" else float(name == "perspective")  # 24.9999 or 25
    compare(name, lambda tv, t: tv.KeyPoints(t(data), canvas_size=CANVAS), tolerance)


@pytest.mark.parametrize("points", POINTS)
def test_points_in_the_image(points: str) -> None:
    def run(module: Any, from_numpy: Any) -> list[Any]:
        F = module.transforms.v2.functional
        x = module.tv_tensors.KeyPoints(from_numpy(POINTS[points]), canvas_size=CANVAS)
        kept, valid = F.sanitize_keypoints(x)
        return [F.clamp_keypoints(x).tolist(), kept.tolist(), valid.tolist(), told(kept)]

    assert run(vision, ad.from_numpy) == run(torchvision, torch.from_numpy)


TURNED = np.stack(
    [
        RNG.uniform(6, 24, 40),
        RNG.uniform(6, 14, 40),
        RNG.uniform(1, 9, 40),
        RNG.uniform(1, 9, 40),
        RNG.uniform(-85, 170, 40),  # below -90 its boxes around sheared ones may leave parts out
    ],
    -1,
)


def corners(boxes: Any, kind: str) -> Any:
    """Corners (N, 4, 2) by torchvision, from the lowest of each box on: the same box may be told
    from another corner on."""
    formats = torchvision.tv_tensors.BoundingBoxFormat
    found = torchvision.transforms.v2.functional.convert_bounding_box_format(
        torch.tensor(boxes.tolist(), dtype=torch.float64), formats[kind], formats.XYXYXYXY
    )
    points = found.numpy().reshape(-1, 4, 2)
    order = np.lexsort((points[..., 1].round(3), points[..., 0].round(3)), axis=-1)
    return np.take_along_axis(points, order[..., None], 1)


@pytest.mark.parametrize("name", sorted({*CHANGES} - {"dtype"}))
@pytest.mark.parametrize("kind", ["XYWHR", "CXCYWHR", "XYXYXYXY"])
def test_turned_boxes(name: str, kind: str) -> None:
    F, G = torchvision.transforms.v2.functional, vision.transforms.v2.functional

    def make(module: Any, lib: Any) -> Any:
        formats = module.tv_tensors.BoundingBoxFormat
        data = module.transforms.v2.functional.convert_bounding_box_format(
            lib.tensor(TURNED, dtype=lib.float64), formats.CXCYWHR, formats[kind]
        )
        about = {"canvas_size": CANVAS, "clamping_mode": None}
        return module.tv_tensors.BoundingBoxes(data, format=kind, **about)

    theirs = CHANGES[name](F, make(torchvision, torch), torch.from_numpy)
    ours = CHANGES[name](G, make(vision, ad), ad.from_numpy)
    assert told(ours) == told(theirs)
    np.testing.assert_allclose(corners(ours, kind), corners(theirs, kind), 1e-4, 1e-3)


@pytest.mark.parametrize("given", ["xywhr", "cxcywhr", "xyxyxyxy"])
@pytest.mark.parametrize("wanted", ["xywhr", "cxcywhr", "xyxyxyxy"])
def test_formats_of_turned_boxes(given: str, wanted: str) -> None:
    convert = torchvision.ops.box_convert
    for boxes in (TURNED, TURNED.round().astype(np.int64)):
        x = convert(torch.from_numpy(boxes), "cxcywhr", given)
        ours = vision.ops.box_convert(ad.from_numpy(x.numpy()), given, wanted)
        np.testing.assert_allclose(ours.numpy(), convert(x, given, wanted).numpy(), atol=1e-9)
