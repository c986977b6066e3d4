"""Key points: they go where the pixels they mark go."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.vision.transforms import v2
from adjoint.vision.transforms.v2 import functional as F
from adjoint.vision.tv_tensors import BoundingBoxes, Image, KeyPoints, set_return_type

HEIGHT, WIDTH = 12, 18
MARKED = [[3, 4], [11, 2], [17, 11], [0, 0], [8, 7]]


def points(data: Any = MARKED, **options: Any) -> KeyPoints:
    return KeyPoints(data, **({"canvas_size": (HEIGHT, WIDTH)} | options))


def picture() -> Image:
    """An image in which the pixel of point i is i + 1."""
    out = np.zeros((1, HEIGHT, WIDTH), np.int64)
    for i, (x, y) in enumerate(MARKED):
        out[0, y, x] = i + 1
    return Image(out)


# Changes that take pixels to pixels.
EXACT: dict[str, Any] = {
    "hflip": F.horizontal_flip,
    "vflip": F.vertical_flip,
    "crop": lambda x: F.crop(x, 1, 2, 9, 10),
    "crop beyond": lambda x: F.crop(x, -3, -2, 20, 30),
    "center crop": lambda x: F.center_crop(x, [8, 10]),
    "pad": lambda x: F.pad(x, [1, 2, 3, 4]),
    "larger": lambda x: F.resize(x, [HEIGHT * 2, WIDTH * 3], interpolation=v2.InterpolationMode.NEAREST),
    "shift": lambda x: F.affine(x, 0.0, [2, 3], 1.0, [0.0, 0.0]),
}  # fmt: skip


@pytest.mark.parametrize("name", EXACT)
def test_points_go_with_their_pixels(name: str) -> None:
    image, moved = EXACT[name](picture()), EXACT[name](points())
    assert moved.canvas_size == tuple(image.shape[-2:])
    assert isinstance(moved, KeyPoints)
    height, width = moved.canvas_size
    for i, (x, y) in enumerate(moved.tolist()):
        inside = 0 <= x < width and 0 <= y < height
        assert inside == bool((image == i + 1).any())
        if inside:
            assert image[0, y, x].item() == i + 1


def test_turned_points() -> None:
    """Of places, the middle of the image stays; a quarter to the left takes right to the top."""
    middle = [WIDTH / 2, HEIGHT / 2]
    given = points([middle, [middle[0] + 3, middle[1]]], dtype=ad.float64)
    np.testing.assert_allclose(
        F.rotate(given, 90).numpy(), [middle, [middle[0], middle[1] - 3]], atol=1e-5
    )
    larger = F.rotate(given, 90, expand=True)
    assert larger.canvas_size == (WIDTH, HEIGHT)
    np.testing.assert_allclose(larger.numpy()[0], middle[::-1], atol=1e-5)
    scaled = F.affine(given, 0.0, [0, 0], 2.0, [0.0, 0.0])
    np.testing.assert_allclose(scaled.numpy()[1], [middle[0] + 6, middle[1]], atol=1e-5)


def test_bent_points() -> None:
    corners = [[0, 0], [17, 0], [17, 11], [0, 11]]
    to = [[1, 2], [15, 1], [16, 10], [2, 11]]
    moved = F.perspective(points(corners, dtype=ad.float64), corners, to)
    np.testing.assert_allclose(moved.numpy(), to, atol=1e-4)
    shift = ad.zeros(1, HEIGHT, WIDTH, 2)
    shift[..., 0] = -4 / WIDTH  # two pixels to the right
    moved = F.elastic(points(dtype=ad.float32), shift)
    np.testing.assert_allclose(moved.numpy(), np.add(MARKED, [2, 0]), atol=1e-5)
    with pytest.raises(ValueError, match="displacement shape"):
        F.elastic(points(), shift[:, 1:])


def test_points_outside() -> None:
    given = points([[[-1, 3], [4, 5]], [[17, 11], [0, 0]], [[18, 3], [2, 2]]])
    assert F.clamp_keypoints(given).tolist() == [[[0, 3], [4, 5]], [[17, 11], [0, 0]], [[17, 3], [2, 2]]]  # fmt: skip
    kept, valid = F.sanitize_keypoints(given)
    assert (kept.tolist(), valid.tolist()) == ([[[17, 11], [0, 0]]], [False, True, False])
    single = ad.tensor([[0, 0], [18, 0], [0, 12], [17, 11]])
    assert F.sanitize_keypoints(single, (HEIGHT, WIDTH))[1].tolist() == [True, False, False, True]
    assert v2.ClampKeyPoints()(points([[99, -4]])).tolist() == [[17, 0]]
    sample = {"points": given, "labels": ad.tensor([1, 2, 3]), "image": picture()}
    clean = v2.SanitizeKeyPoints("default")(sample)
    assert (clean["labels"].tolist(), len(clean["points"])) == ([2], 1)
    assert v2.SanitizeKeyPoints()(sample)["labels"] is sample["labels"]
    with pytest.raises(ValueError, match="must match the number of labels"):
        v2.SanitizeKeyPoints(lambda s: s["labels"][:2])(sample)
    with pytest.raises(ValueError, match="canvas_size` must not be passed"):
        F.clamp_keypoints(given, (3, 4))
    with pytest.raises(ValueError, match="has to be passed"):
        F.clamp_keypoints(single)


def test_one_draw_moves_image_points_and_boxes_alike() -> None:
    x, y = MARKED[0]
    box = BoundingBoxes([[x, y, x + 1, y + 1]], format="XYXY", canvas_size=(HEIGHT, WIDTH))
    change = v2.Compose([v2.RandomHorizontalFlip(1.0), v2.Pad(3), v2.RandomCrop((10, 15))])
    for _ in range(4):
        image, moved, around = change(picture(), points([MARKED[0]]), box)
        if (image == 1).any():
            x, y = moved.tolist()[0]
            assert image[0, y, x].item() == 1
            assert around.tolist() == [[x, y, x + 1, y + 1]]


def test_what_points_are() -> None:
    given = points()
    assert repr(points([[1, 2]])) == "KeyPoints([[1, 2]], canvas_size=(12, 18))"
    assert points([1, 2]).shape == (1, 2)
    assert [type(x).__name__ for x in (given + 1, given.clone(), copy.deepcopy(given))] == [
        "Tensor",
        "KeyPoints",
        "KeyPoints",
    ]
    with set_return_type("TVTensor"):
        assert (given + 1).canvas_size == (HEIGHT, WIDTH)  # type: ignore[attr-defined]
    assert F.get_size(given) == [HEIGHT, WIDTH]
    assert v2.query_size([given]) == (HEIGHT, WIDTH)
    assert v2.get_keypoints([1, given]) is given
    assert F.to_dtype(given, ad.float64).dtype is ad.float64
    with pytest.raises(ValueError, match="shape"):
        points([[1, 2, 3]])
    with pytest.raises(ValueError, match="not supported with KeyPoints"):
        F.pad(given, 2, padding_mode="edge")
    with pytest.raises(ValueError, match="No keypoints"):
        v2.get_keypoints([])
