"""Images as Pillow has them: bit for bit for its images and for arrays of bytes."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageEnhance

import adjoint as ad
from adjoint.data import transforms as T
from adjoint.data.transforms import pillow
from adjoint.vision.transforms import functional as F

FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "nearest-exact": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "box": Image.Resampling.BOX,
    "hamming": Image.Resampling.HAMMING,
    "lanczos": Image.Resampling.LANCZOS,
}
SIDES = st.integers(1, 70)


def noise(height: int, width: int, channels: int = 3, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    shape = (height, width) if channels == 1 else (height, width, channels)
    # Black and white among the rest, where cubic weights overshoot.
    return rng.choice(np.array([0, 1, 7, 100, 128, 254, 255], np.uint8), shape)


@given(SIDES, SIDES, SIDES, SIDES, st.sampled_from([1, 3]), st.sampled_from(list(FILTERS)[:4]))
def test_resized_bytes_are_pillows(
    h: int, w: int, height: int, width: int, channels: int, mode: str
) -> None:
    pixels = noise(h, w, channels, h * 71 + w)
    image = Image.fromarray(pixels)
    want = np.asarray(image.resize((width, height), FILTERS[mode]))
    got = T.Resize((height, width), mode)(pixels)
    np.testing.assert_array_equal(got, want)
    # Without Pillow: one direction after the other, which Pillow itself may do the other way.
    across = image.resize((width, h), FILTERS[mode]).resize((width, height), FILTERS[mode])
    planes = pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)
    plain = pillow.resize_plain(planes, height, width, mode)
    plain = plain[0] if channels == 1 else plain.transpose(1, 2, 0)
    np.testing.assert_array_equal(plain, np.asarray(across))


def test_pictures_without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = noise(20, 24)
    want = T.Resize((20, 9))(pixels)
    monkeypatch.setitem(sys.modules, "PIL", None)
    np.testing.assert_array_equal(T.Resize((20, 9))(pixels), want)


@pytest.mark.parametrize("mode", FILTERS)
@pytest.mark.parametrize("kind", ["L", "RGB", "RGBA", "LA", "P", "1", "CMYK", "I;16"])
def test_resized_pictures_are_pillows(mode: str, kind: str) -> None:
    image = Image.fromarray(noise(19, 31)).convert("L" if kind == "I;16" else kind)
    image = image.convert("I").convert("I;16") if kind == "I;16" else image
    want = image.resize((12, 8), FILTERS[mode])
    for got in (
        T.Resize((8, 12), mode)(image),
        F.resize(image, [8, 12], F.InterpolationMode(mode)),
    ):
        assert got.mode == want.mode == kind
        assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(5, 4), (9, 7), (20, 31)])
@pytest.mark.parametrize("antialias", [True, False])
def test_resized_tensors_follow_interpolate(
    mode: str, size: tuple[int, int], antialias: bool
) -> None:
    smooth = mode.startswith("bi")
    options: Any = {"align_corners": False, "antialias": antialias} if smooth else {}
    x = ad.from_numpy(np.random.default_rng(0).random((2, 3, 11, 13), np.float32))
    want = ad.nn.functional.interpolate(x, size, mode=mode, **options)
    got = T.Resize(size, mode, antialias=antialias)(x)
    ad.testing.assert_close(got, want)
    whole = (x * 255).byte()
    want = ad.nn.functional.interpolate(whole.float(), size, mode=mode, **options)
    got = T.Resize(size, mode, antialias=antialias)(whole)
    assert got.dtype is ad.uint8
    assert ad.equal(got, want.round().clamp(0, 255).byte())


def test_tensors_refuse_what_only_pillow_has() -> None:
    for image in (ad.zeros(3, 4, 4), np.zeros((4, 4), np.uint8)):
        with pytest.raises(ValueError, match="'lanczos' is for PIL images"):
            T.Resize((2, 2), "lanczos")(image)
    with pytest.raises(ValueError, match="interpolation must be one of"):
        T.Resize(2, "cubic")


def test_resizing_a_tensor_has_a_gradient() -> None:
    x = ad.rand(1, 6, 6, requires_grad=True)
    T.Resize((3, 3))(x).sum().backward()
    ad.testing.assert_close(x.grad.sum(), ad.tensor(9.0))


@given(st.integers(0, 255), st.integers(0, 255), st.integers(0, 255))
def test_grey_is_pillows(r: int, g: int, b: int) -> None:
    pixels = np.array([[[r, g, b]]], np.uint8)
    want = np.asarray(Image.fromarray(pixels).convert("L"))
    np.testing.assert_array_equal(T.Grayscale()(pixels), want)
    assert (T.Grayscale(3)(pixels) == want[0, 0]).all()
    assert np.asarray(T.Grayscale()(Image.fromarray(pixels))).tolist() == want.tolist()
    three = T.Grayscale(3)(Image.fromarray(pixels))
    assert (three.mode, three.getpixel((0, 0))) == ("RGB", (want[0, 0],) * 3)
    # torchvision's tensors are cut off, not rounded.
    x = ad.from_numpy(pixels.transpose(2, 0, 1).copy())
    mixed = np.float32(0.2989) * np.float32(r) + np.float32(0.587) * np.float32(g)
    assert T.Grayscale()(x).item() == int(mixed + np.float32(0.114) * np.float32(b))


def test_other_kinds_of_grey() -> None:
    image = Image.fromarray(noise(5, 6))
    assert np.asarray(T.RandomGrayscale(1.0)(image)).shape == (5, 6, 3)
    assert T.RandomGrayscale(0.0)(image) is image
    assert T.RandomGrayscale(1.0)(image.convert("L")).mode == "L"
    assert T.Grayscale()(image.convert("RGBA")).mode == "L"
    with pytest.raises(ValueError, match="1 or 3"):
        T.Grayscale(2)


@pytest.mark.parametrize(
    ("adjust", "enhance"),
    [
        (F.adjust_brightness, ImageEnhance.Brightness),
        (F.adjust_contrast, ImageEnhance.Contrast),
        (F.adjust_saturation, ImageEnhance.Color),
    ],
)
def test_adjusted_pictures_are_pillows(adjust: Any, enhance: Any) -> None:
    image = Image.fromarray(noise(9, 8))
    for factor in (0.0, 0.4, 1.7):
        assert adjust(image, factor).tobytes() == enhance(image).enhance(factor).tobytes()


def test_hue_of_pictures() -> None:
    red = Image.new("RGB", (2, 2), (255, 0, 0))
    assert F.adjust_hue(red, 0.0).tobytes() == red.tobytes()
    turned = F.adjust_hue(red, -1 / 3).getpixel((0, 0))
    assert turned[2] > 240
    assert turned[0] < 16
    grey = red.convert("L")
    assert F.adjust_hue(grey, 0.2) is grey
    jittered = T.ColorJitter(0.5, 0.5, 0.5, 0.2)(red)
    assert (jittered.mode, jittered.size) == ("RGB", (2, 2))
    assert T.ColorJitter(brightness=(0.5, 0.5))(red).getpixel((0, 0)) == (127, 0, 0)


def test_turned_pictures() -> None:
    image = Image.fromarray(noise(6, 9))
    want = image.rotate(30, Image.Resampling.BILINEAR, True, (1, 2), fillcolor=(5, 5, 5))
    got = F.rotate(image, 30, F.InterpolationMode.BILINEAR, expand=True, center=(1, 2), fill=5)
    assert (got.size, got.tobytes()) == (want.size, want.tobytes())
    assert T.RandomRotation((90, 90))(image).tobytes() == image.rotate(90).tobytes()
    x = ad.arange(6.0).reshape(1, 2, 3)
    assert ad.equal(F.rotate(x, 180, expand=True), x.flip(1, 2))


def test_random_resized_crops_of_all_kinds_agree() -> None:
    pixels = noise(20, 24)
    made = []
    for image in (pixels, Image.fromarray(pixels)):
        ad.manual_seed(4)
        made.append(np.asarray(T.RandomResizedCrop(9)(image)))
    np.testing.assert_array_equal(*made)


@pytest.mark.parametrize("kind", ["P", "CMYK", "YCbCr", "LA", "1", "RGBA"])
def test_moved_pictures_keep_their_mode(kind: str) -> None:
    image = Image.fromarray(noise(4, 6)).convert(kind)
    for change, way in ((F.hflip, "FLIP_LEFT_RIGHT"), (F.vflip, "FLIP_TOP_BOTTOM")):
        want = image.transpose(Image.Transpose[way])
        got = change(image)
        assert got.mode == kind
        assert got.convert("RGB").tobytes() == want.convert("RGB").tobytes()


def test_one_bit_becomes_one() -> None:
    image = Image.fromarray(np.array([[0, 255]], np.uint8)).convert("1")
    assert T.ToTensor()(image).tolist() == [[[0.0, 1.0]]]
