"""Transforms that torchvision has besides Adjoint's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.data.transforms.basic import Transform
from adjoint.data.transforms.draw import chance, uniform
from adjoint.engine.ops.random.random import randperm
from adjoint.vision.transforms import functional as F


class ToPILImage(Transform):
    """A tensor (C, H, W) or array (H, W, C) as a PIL image."""

    def __init__(self, mode: str | None = None) -> None:
        self.mode = mode

    def __call__(self, pic: Any) -> Any:
        return F.to_pil_image(pic, self.mode)


class FiveCrop(Transform):
    """The four corners and the middle of an image."""

    def __init__(self, size: Any) -> None:
        self.size = size

    def __call__(self, img: Any) -> Any:
        return F.five_crop(img, self.size)


class TenCrop(Transform):
    """The four corners and the middle of an image and of its mirror image."""

    def __init__(self, size: Any, vertical_flip: bool = False) -> None:
        self.size = size
        self.vertical_flip = vertical_flip

    def __call__(self, img: Any) -> Any:
        return F.ten_crop(img, self.size, self.vertical_flip)


class GaussianBlur(Transform):
    """Smoothing by a bell curve of random width.

    Args:
        kernel_size: how many pixels it spans, odd.
        sigma: its width, or bounds of it.
    """

    def __init__(self, kernel_size: Any, sigma: float | Sequence[float] = (0.1, 2.0)) -> None:
        self.kernel_size = kernel_size
        self.sigma = (sigma, sigma) if isinstance(sigma, (int, float)) else tuple(sigma)

    def __call__(self, img: Any) -> Any:
        return F.gaussian_blur(img, self.kernel_size, uniform(*self.sigma))


class RandomInvert(Transform):
    """Black for white, with a probability."""

    def __init__(self, p: float = 0.5) -> None:
        self.p = p

    def __call__(self, img: Any) -> Any:
        return F.invert(img) if chance(self.p) else img


class RandomOrder(Transform):
    """Transforms in a random order."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = transforms

    def __call__(self, img: Any) -> Any:
        for i in randperm(len(self.transforms)).tolist():
            img = self.transforms[i](img)
        return img


class RandomAffine(Transform):
    """A random turn, shift, scale and shear about the middle.

    Args:
        degrees: bounds of the angle, or one number for both directions.
        translate: the largest shift across and down, as parts of the sides.
        scale: bounds of the scale.
        shear: bounds of the shear across (and down) in degrees, or one number.
        interpolation: see `Resize`.
        fill: what pixels from outside become.
    """

    def __init__(
        self,
        degrees: float | Sequence[float],
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: float | Sequence[float] | None = None,
        interpolation: Any = F.InterpolationMode.NEAREST,
        fill: Any = 0,
        center: Any = None,
    ) -> None:
        self.degrees = (-degrees, degrees) if isinstance(degrees, (int, float)) else degrees
        self.translate = translate
        self.scale = scale
        self.shear = (-shear, shear) if isinstance(shear, (int, float)) else shear
        self.interpolation = interpolation
        self.fill = fill
        self.center = center

    def __call__(self, img: Any) -> Any:
        width, height = F.get_image_size(img)
        angle = uniform(self.degrees[0], self.degrees[1])
        shift = [0, 0]
        if self.translate is not None:
            across, down = self.translate[0] * width, self.translate[1] * height
            shift = [round(uniform(-across, across)), round(uniform(-down, down))]
        scale = 1.0 if self.scale is None else uniform(self.scale[0], self.scale[1])
        shear = [0.0, 0.0]
        if self.shear is not None:
            shear[0] = uniform(self.shear[0], self.shear[1])
            if len(self.shear) == 4:
                shear[1] = uniform(self.shear[2], self.shear[3])
        return F.affine(img, angle, shift, scale, shear, self.interpolation, self.fill, self.center)
