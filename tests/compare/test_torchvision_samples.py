"""Boxes and masks go where torchvision moves them, given the same parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")

from torchvision import tv_tensors as their_tensors  # noqa: E402
from torchvision.transforms.v2 import functional as theirs  # noqa: E402

import adjoint as ad  # noqa: E402
from adjoint.vision import tv_tensors as our_tensors  # noqa: E402
from adjoint.vision.transforms.v2 import functional as ours  # noqa: E402

pytestmark = pytest.mark.compare
RNG = np.random.default_rng(0)
HEIGHT, WIDTH = 23, 31
PLACES, SIDES = RNG.uniform(-3, 20, (6, 2)), RNG.uniform(0.5, 14, (6, 2))
BOXES = {
    "XYXY": np.concatenate([PLACES, PLACES + SIDES], 1),
    "XYWH": np.concatenate([PLACES, SIDES], 1),
    "CXCYWH": np.concatenate([PLACES + SIDES / 2, SIDES], 1),
}
MASKS = RNG.integers(0, 21, (2, HEIGHT, WIDTH))
BENT = RNG.uniform(-0.2, 0.2, (1, HEIGHT, WIDTH, 2)).astype(np.float32)
STARTS = [[0, 0], [30, 0], [30, 22], [0, 22]]
ENDS = [[3, 4], [26, 2], [28, 20], [2, 18]]

# Functions of (functional, library, thing).
MOVES: dict[str, Any] = {
    "flipped": lambda f, t, x: f.horizontal_flip(x),
    "upside down": lambda f, t, x: f.vertical_flip(x),
    "resized": lambda f, t, x: f.resize(x, [40, 17]),
    "shorter side": lambda f, t, x: f.resize(x, [20], max_size=25),
    "longer side": lambda f, t, x: f.resize(x, None, max_size=50),
    "cropped": lambda f, t, x: f.crop(x, 3, 4, 10, 12),
    "reaching out": lambda f, t, x: f.crop(x, -3, -4, 30, 40),
    "middle": lambda f, t, x: f.center_crop(x, [11, 14]),
    "larger middle": lambda f, t, x: f.center_crop(x, [30, 40]),
    "cropped and resized": lambda f, t, x: f.resized_crop(x, 2, 3, 12, 14, [30, 20]),
    "bordered": lambda f, t, x: f.pad(x, [1, 2, 3, 4]),
    "affine": lambda f, t, x: f.affine(x, 20.0, [3, -4], 1.2, [10.0, 5.0]),
    "affine about": lambda f, t, x: f.affine(x, -70.0, [3, -4], 0.7, [9.0, 5.0], center=[3.0, 4.0]),
    "turned": lambda f, t, x: f.rotate(x, 33.0),
    "turned with room": lambda f, t, x: f.rotate(x, 33.0, expand=True),
    "perspective": lambda f, t, x: f.perspective(x, STARTS, ENDS),
    "bent": lambda f, t, x: f.elastic(x, t.tensor(BENT)),
}
OF_BOXES: dict[str, Any] = {
    **MOVES,
    "clamped": lambda f, t, x: f.clamp_bounding_boxes(x),
    "sound": lambda f, t, x: f.sanitize_bounding_boxes(x)[0],
    **{
        f"as {form}": lambda f, t, x, form=form: f.convert_bounding_box_format(x, new_format=form)
        for form in BOXES
    },
}


@pytest.mark.parametrize("name", sorted(OF_BOXES))
@pytest.mark.parametrize("form", sorted(BOXES))
def test_boxes(name: str, form: str) -> None:
    for dtype in (np.float32, np.int64):
        for mode in ("soft", None):
            known: Any = {"format": form, "canvas_size": (HEIGHT, WIDTH), "clamping_mode": mode}
            data = BOXES[form].astype(dtype)
            want = OF_BOXES[name](theirs, torch, their_tensors.BoundingBoxes(data, **known))
            got = OF_BOXES[name](ours, ad, our_tensors.BoundingBoxes(data, **known))
            assert isinstance(got, our_tensors.BoundingBoxes)
            assert tuple(got.canvas_size) == tuple(want.canvas_size)
            assert (got.format.name, got.clamping_mode) == (want.format.name, want.clamping_mode)
            assert got.numpy().dtype == want.numpy().dtype
            np.testing.assert_allclose(got.numpy(), want.numpy(), atol=1e-3)


@pytest.mark.parametrize("name", sorted(MOVES))
@pytest.mark.parametrize("dtype", ["uint8", "int64", "bool", "float32"])
def test_masks(name: str, dtype: str) -> None:
    for pixels in (MASKS.astype(dtype), MASKS[0].astype(dtype)):
        want = MOVES[name](theirs, torch, their_tensors.Mask(pixels))
        got = MOVES[name](ours, ad, our_tensors.Mask(pixels))
        assert isinstance(got, our_tensors.Mask)
        assert got.numpy().dtype == want.numpy().dtype
        np.testing.assert_array_equal(got.numpy(), want.numpy())


def test_they_print_alike() -> None:
    data = np.arange(12).reshape(3, 4)
    known: Any = {"format": "XYXY", "canvas_size": (9, 9)}
    assert repr(our_tensors.Mask(data)) == repr(their_tensors.Mask(data))
    assert repr(our_tensors.Image(data)) == repr(their_tensors.Image(data))
    assert repr(our_tensors.BoundingBoxes(data, **known)) == repr(
        their_tensors.BoundingBoxes(data, **known)
    )
