"""Transforms under torchvision's names: Pillow and closed forms judge them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.vision import transforms
from adjoint.vision.transforms import functional as F
from adjoint.vision.transforms import v2

Image = pytest.importorskip("PIL.Image")
ImageOps = pytest.importorskip("PIL.ImageOps")
PIXELS = np.random.default_rng(0).integers(0, 256, (12, 17, 3)).astype(np.uint8)
PICTURE = Image.fromarray(PIXELS)
TENSOR = ad.tensor(np.ascontiguousarray(PIXELS.transpose(2, 0, 1)))


def pixels(image: Any) -> Any:
    """(H, W, C), of either kind."""
    if isinstance(image, ad.Tensor):
        return image.numpy().transpose(1, 2, 0)
    return np.asarray(image)


# What Pillow does to its images, tensors of bytes become as well.
EXACT: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "invert": (F.invert, ImageOps.invert(PICTURE)),
    "posterize": (lambda i: F.posterize(i, 3), ImageOps.posterize(PICTURE, 3)),
    "solarize": (lambda i: F.solarize(i, 100), ImageOps.solarize(PICTURE, 100)),
    "equalize": (F.equalize, ImageOps.equalize(PICTURE)),
    "crop": (lambda i: F.crop(i, -2, -3, 9, 30), PICTURE.crop((-3, -2, 27, 7))),
    "half": (lambda i: F.rotate(i, 180), PICTURE.rotate(180)),
    "shift": (lambda i: F.affine(i, 0, [3, -2], 1.0, [0, 0]),
              PICTURE.transform(PICTURE.size, Image.Transform.AFFINE, (1, 0, -3, 0, 1, 2))),
    "pad": (lambda i: F.pad(i, [1, 2, 3, 4], fill=7), ImageOps.expand(PICTURE, (1, 2, 3, 4), (7, 7, 7))),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(EXACT))
def test_both_kinds_become_pillows(name: str) -> None:
    change, want = EXACT[name]
    np.testing.assert_array_equal(pixels(change(PICTURE)), np.asarray(want))
    np.testing.assert_array_equal(pixels(change(TENSOR)), np.asarray(want))


# Pillow rounds, tensors are cut off: they differ by one.
NEAR: dict[str, Callable[[Any], Any]] = {
    "brightness": lambda i: F.adjust_brightness(i, 1.4),
    "contrast": lambda i: F.adjust_contrast(i, 0.6),
    "saturation": lambda i: F.adjust_saturation(i, 0.5),
    "sharpness": lambda i: F.adjust_sharpness(i, 1.5),
    "gamma": lambda i: F.adjust_gamma(i, 1.7),
    "autocontrast": F.autocontrast,
    "blur": lambda i: F.gaussian_blur(i, [5, 3], [1.5, 0.7]),
}


@pytest.mark.parametrize("name", sorted(NEAR))
def test_both_kinds_agree(name: str) -> None:
    apart = pixels(NEAR[name](PICTURE)).astype(int) - pixels(NEAR[name](TENSOR)).astype(int)
    assert np.abs(apart).max() <= (2 if name == "sharpness" else 1)


def test_colours_turn_round_the_circle() -> None:
    red = ad.tensor([1.0, 0.0, 0.0]).reshape(3, 1, 1).expand(3, 4, 4)
    third = F.adjust_hue(red, 1 / 3)
    np.testing.assert_allclose(third[:, 0, 0].numpy(), [0.0, 1.0, 0.0], atol=1e-5)
    random = ad.rand(3, 5, 6)
    np.testing.assert_allclose(F.adjust_hue(random, 0.0).numpy(), random.numpy(), atol=1e-5)
    with pytest.raises(ValueError, match="hue_factor"):
        F.adjust_hue(red, 0.7)


def test_warps_that_change_nothing() -> None:
    corners = [[0, 0], [16, 0], [16, 11], [0, 11]]
    image = ad.rand(3, 12, 17)
    for made in (
        F.perspective(image, corners, corners),
        F.affine(image, 0.0, [0, 0], 1.0, [0.0, 0.0], transforms.InterpolationMode.BILINEAR),
        F.elastic_transform(image, ad.zeros(1, 12, 17, 2)),
    ):
        np.testing.assert_allclose(made.numpy(), image.numpy(), atol=1e-4)


def test_what_lies_outside_is_filled() -> None:
    made = F.rotate(ad.zeros(3, 9, 9), 45, fill=[1.0, 0.5, 0.25])
    assert made[:, 0, 0].tolist() == [1.0, 0.5, 0.25]
    assert F.rotate(PICTURE, 45, fill=(1, 2, 3)).getpixel((0, 0)) == (1, 2, 3)
    with pytest.raises(ValueError, match="number of channels"):
        F.rotate(PICTURE, 45, fill=(1, 2))


def test_dtypes_carry_their_range() -> None:
    whole = ad.tensor([0, 128, 255], dtype=ad.uint8)
    assert F.convert_image_dtype(whole, ad.int16).tolist() == [0, 128 * 128, 255 * 128]
    assert F.convert_image_dtype(ad.tensor([0.0, 1.0]), ad.uint8).tolist() == [0, 255]
    assert F.convert_image_dtype(whole, ad.float64).tolist() == [0.0, 128 / 255, 1.0]
    with pytest.raises(RuntimeError, match="safely"):
        F.convert_image_dtype(ad.tensor([0.5]), ad.int32)


POLICIES = ["AutoAugment", "RandAugment", "TrivialAugmentWide", "AugMix"]
RANDOM = [
    *POLICIES,
    "RandomPerspective",
    "ElasticTransform",
    "RandomEqualize",
    "RandomAutocontrast",
]


@pytest.mark.parametrize("name", RANDOM)
def test_random_transforms_keep_the_kind(name: str) -> None:
    ad.manual_seed(1)
    change = getattr(transforms, name)(**({"sigma": 0.5} if name == "ElasticTransform" else {}))
    for _ in range(8):
        made = change(TENSOR)
        assert (made.shape, made.dtype) == (TENSOR.shape, ad.uint8)
        shown = change(PICTURE)
        assert (shown.size, shown.mode) == (PICTURE.size, "RGB")
    assert name in repr(change)


def test_policies_of_no_strength_change_nothing() -> None:
    ad.manual_seed(0)
    change = transforms.RandAugment(num_ops=1, magnitude=0)
    quiet = {"Identity", "ShearX", "Rotate", "TranslateX", "Brightness", "Contrast", "Solarize"}
    for kind in quiet:
        magnitudes, _ = change.space(TENSOR)[kind]
        made = change.alter(TENSOR, kind, float(np.ravel(magnitudes)[0]))
        if kind != "Solarize":  # at white, only white is inverted
            assert ad.equal(made, TENSOR), kind


@pytest.mark.parametrize("kind", [v2.MixUp, v2.CutMix])
def test_mixed_batches(kind: Any) -> None:
    ad.manual_seed(0)
    images = ad.stack([ad.full((1, 8, 8), float(i)) for i in range(3)])
    made, shares = kind(num_classes=3)(images, ad.tensor([0, 1, 2]))
    np.testing.assert_allclose(shares.sum(1).numpy(), 1.0, atol=1e-6)
    # Each image is as much of class i as its mean says: image i holds the number i.
    want = (shares * ad.tensor([0.0, 1.0, 2.0])).sum(1)
    np.testing.assert_allclose(made.mean((1, 2, 3)).numpy(), want.numpy(), atol=1e-5)
    with pytest.raises(ValueError, match="num_classes"):
        kind()(images, ad.tensor([0, 1, 2]))


PARAMETERS = {
    "RandomCrop": (lambda T, x: T.RandomCrop.get_params(x, (5, 6)), 4),
    "RandomResizedCrop": (lambda T, x: T.RandomResizedCrop.get_params(x, [0.2, 1], [0.7, 1.3]), 4),
    "ColorJitter": (
        lambda T, x: T.ColorJitter.get_params((0.8, 1.2), None, (0.8, 1.2), (-0.1, 0.1)), 5
    ),
    "RandomAffine": (
        lambda T, x: T.RandomAffine.get_params((-9, 9), (0.1, 0.1), None, (-5, 5), (30, 20)), 4
    ),
    "RandomErasing": (
        lambda T, x: T.RandomErasing.get_params(x, (0.02, 0.3), (0.3, 3.3), [0.0]), 5
    ),
    "AutoAugment": (lambda T, x: T.AutoAugment.get_params(25), 3),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(PARAMETERS))
@pytest.mark.parametrize("second", [False, True])
def test_parameters_are_drawn_for_more_than_one_image(name: str, second: bool) -> None:
    """One draw for an image and its mask, as programs for segmentation make it."""
    call, count = PARAMETERS[name]
    module = transforms.v2 if second else transforms
    drawn = call(module, ad.rand(3, 20, 30))
    assert len(drawn) == count
    if name in ("RandomCrop", "RandomResizedCrop"):
        top, left, height, width = drawn
        assert 0 <= top <= 20 - height
        assert 0 <= left <= 30 - width
    if name == "RandomCrop":
        assert drawn[2:] == (5, 6)
        with pytest.raises(ValueError, match="larger than input image"):
            module.RandomCrop.get_params(ad.rand(3, 4, 4), (5, 6))


@pytest.mark.parametrize("shape", [(3, 0, 7), (1, 5, 0), (0, 3, 5, 7)])
@pytest.mark.parametrize("dtype", [ad.uint8, ad.float32])
def test_images_without_pixels(shape: tuple[int, ...], dtype: Any) -> None:
    image = ad.zeros(shape, dtype=dtype)
    for change in (v2.functional.equalize, v2.functional.autocontrast):
        assert change(image).shape == shape
    if dtype is ad.uint8:
        assert F.equalize(image).shape == shape


def test_grey_images_of_one_channel() -> None:
    """torchvision's first transforms leave the channel alone, its second make three of it."""
    image = ad.arange(6, dtype=ad.uint8).reshape(1, 2, 3)
    for functions, channels in ((F, 1), (v2.functional, 3)):
        grey = functions.rgb_to_grayscale(image, num_output_channels=3)
        assert grey.tolist() == image.expand(channels, 2, 3).tolist()
        assert functions.rgb_to_grayscale(image).tolist() == image.tolist()


@pytest.mark.parametrize("dtype", [ad.int8, ad.int16, ad.uint8])
def test_colours_of_whole_numbers(dtype: Any) -> None:
    top = ad.iinfo(dtype).max
    colour = ad.tensor([top, 0, 0], dtype=dtype).reshape(3, 1, 1)
    turned = F.adjust_hue(colour, 1 / 3)  # red to green
    assert turned.dtype is dtype
    assert turned.flatten().tolist() == [0, top, 0]
    grey = v2.functional.adjust_saturation(colour, 0.0).flatten().tolist()
    assert len(set(grey)) == 1
    assert abs(grey[0] - 0.2989 * top) <= 1
    halved = transforms.ConvertImageDtype(ad.float32)(colour)
    assert halved.flatten().tolist() == [1.0, 0.0, 0.0]
    assert transforms.ConvertImageDtype(dtype)(halved).tolist() == colour.tolist()
