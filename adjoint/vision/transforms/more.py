"""Transforms that torchvision has besides Adjoint's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.data.transforms.basic import Transform
from adjoint.data.transforms.draw import chance, integer, uniform
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.ops.random.random import rand, randperm
from adjoint.engine.ops.shape.join import cat
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
        return F.gaussian_blur(img, self.kernel_size, self.get_params(*self.sigma))

    @staticmethod
    def get_params(sigma_min: float, sigma_max: float) -> float:
        """A random width."""
        return uniform(sigma_min, sigma_max)


class RandomInvert(Transform):
    """Black for white, with a probability."""

    def __init__(self, p: float = 0.5) -> None:
        self.p = p

    def __call__(self, img: Any) -> Any:
        return F.invert(img) if chance(self.p) else img


class RandomPosterize(Transform):
    """Only the highest bits, with a probability."""

    def __init__(self, bits: int, p: float = 0.5) -> None:
        self.bits = bits
        self.p = p

    def __call__(self, img: Any) -> Any:
        return F.posterize(img, self.bits) if chance(self.p) else img


class RandomSolarize(Transform):
    """Pixels from a threshold on inverted, with a probability."""

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        self.threshold = threshold
        self.p = p

    def __call__(self, img: Any) -> Any:
        return F.solarize(img, self.threshold) if chance(self.p) else img


class RandomAdjustSharpness(Transform):
    """Sharper or smoother, with a probability."""

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        self.sharpness_factor = sharpness_factor
        self.p = p

    def __call__(self, img: Any) -> Any:
        return F.adjust_sharpness(img, self.sharpness_factor) if chance(self.p) else img


class RandomAutocontrast(Transform):
    """The whole range of brightness, with a probability."""

    def __init__(self, p: float = 0.5) -> None:
        self.p = p

    def __call__(self, img: Any) -> Any:
        return F.autocontrast(img) if chance(self.p) else img


class RandomEqualize(Transform):
    """All brightnesses equally frequent, with a probability."""

    def __init__(self, p: float = 0.5) -> None:
        self.p = p

    def __call__(self, img: Any) -> Any:
        return F.equalize(img) if chance(self.p) else img


class RandomRotation(Transform):
    """A turn by a random angle, counter-clockwise.

    Args:
        degrees: bounds of the angle, or one number for both directions.
        interpolation: see `Resize`.
        expand: make room for all of the image.
        center: the point (x, y) it turns about.
        fill: what pixels from outside become.
    """

    def __init__(
        self,
        degrees: float | Sequence[float],
        interpolation: Any = F.InterpolationMode.NEAREST,
        expand: bool = False,
        center: Sequence[float] | None = None,
        fill: Any = 0,
    ) -> None:
        self.degrees = _both_ways("degrees", degrees)
        self.interpolation = interpolation
        self.expand = expand
        self.center = center
        self.fill = fill

    @staticmethod
    def get_params(degrees: Sequence[float]) -> float:
        """A random angle."""
        return uniform(degrees[0], degrees[1])

    def __call__(self, img: Any) -> Any:
        angle = self.get_params(self.degrees)
        return F.rotate(img, angle, self.interpolation, self.expand, self.center, self.fill)


def _both_ways(name: str, value: float | Sequence[float]) -> tuple[float, ...]:
    if isinstance(value, (int, float)):
        if value < 0:
            raise ValueError(f"If {name} is a single number, it must be positive.")
        return (-float(value), float(value))
    return tuple(float(part) for part in value)


class RandomPerspective(Transform):
    """Corners moved inwards at random, with a probability.

    Args:
        distortion_scale: how far, from 0 to 1.
        p: the probability.
        interpolation: see `Resize`.
        fill: what pixels from outside become.
    """

    def __init__(
        self,
        distortion_scale: float = 0.5,
        p: float = 0.5,
        interpolation: Any = F.InterpolationMode.BILINEAR,
        fill: Any = 0,
    ) -> None:
        self.distortion_scale = distortion_scale
        self.p = p
        self.interpolation = interpolation
        self.fill = fill

    @staticmethod
    def get_params(width: int, height: int, distortion_scale: float) -> tuple[Any, Any]:
        """The corners, and where they go."""
        far_x, far_y = (int(distortion_scale * (side // 2)) + 1 for side in (width, height))

        def near(far: int) -> int:
            return integer(0, far)

        ends = [
            [near(far_x), near(far_y)],
            [width - 1 - near(far_x), near(far_y)],
            [width - 1 - near(far_x), height - 1 - near(far_y)],
            [near(far_x), height - 1 - near(far_y)],
        ]
        starts = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]
        return starts, ends

    def __call__(self, img: Any) -> Any:
        if not chance(self.p):
            return img
        width, height = F.get_image_size(img)
        starts, ends = self.get_params(width, height, self.distortion_scale)
        return F.perspective(img, starts, ends, self.interpolation, self.fill)


class ElasticTransform(Transform):
    """Bent at random, as if seen through water.

    Args:
        alpha: how far.
        sigma: how smoothly.
        interpolation: see `Resize`.
        fill: what pixels from outside become.
    """

    def __init__(
        self,
        alpha: float | Sequence[float] = 50.0,
        sigma: float | Sequence[float] = 5.0,
        interpolation: Any = F.InterpolationMode.BILINEAR,
        fill: Any = 0,
    ) -> None:
        self.alpha = [alpha] * 2 if isinstance(alpha, (int, float)) else list(alpha)
        self.sigma = [sigma] * 2 if isinstance(sigma, (int, float)) else list(sigma)
        self.interpolation = interpolation
        self.fill = fill

    @staticmethod
    def get_params(alpha: Sequence[float], sigma: Sequence[float], size: Sequence[int]) -> Any:
        """Displacements (1, H, W, 2)."""
        parts = []
        for far, width, side in zip(alpha, sigma, size, strict=True):
            noise = rand(1, 1, int(size[0]), int(size[1])) * 2 - 1
            if width > 0:
                span = int(8 * width + 1)
                noise = F.gaussian_blur(noise, [span + 1 - span % 2] * 2, list(sigma))
            parts.append(noise * far / side)
        return cat(parts, 1).permute(0, 2, 3, 1)

    def __call__(self, img: Any) -> Any:
        width, height = F.get_image_size(img)
        displacement = self.get_params(self.alpha, self.sigma, [height, width])
        return F.elastic_transform(img, displacement, self.interpolation, self.fill)


class LinearTransformation(Transform):
    """A tensor flattened, less a mean, times a matrix: whitening."""

    def __init__(self, transformation_matrix: Any, mean_vector: Any) -> None:
        size = transformation_matrix.shape[0]
        if transformation_matrix.shape != (size, size) or mean_vector.shape[0] != size:
            raise ShapeValueError(
                "transformation_matrix should be square and mean_vector as long as its side, "
                f"received {tuple(transformation_matrix.shape)} and {tuple(mean_vector.shape)}"
            )
        self.transformation_matrix = transformation_matrix
        self.mean_vector = mean_vector

    def __call__(self, tensor: Any) -> Any:
        flat = tensor.reshape(-1, self.mean_vector.shape[0]) - self.mean_vector
        return (flat @ self.transformation_matrix).reshape(tensor.shape)


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

    @staticmethod
    def get_params(
        degrees: Sequence[float], translate: Sequence[float] | None,
        scale_ranges: Sequence[float] | None, shears: Sequence[float] | None,
        img_size: Sequence[int],
    ) -> tuple[float, tuple[int, int], float, tuple[float, float]]:  # fmt: skip
        """A random angle, shift, scale and shear, of an image (width, height)."""
        angle = uniform(degrees[0], degrees[1])
        shift = (0, 0)
        if translate is not None:
            across, down = translate[0] * img_size[0], translate[1] * img_size[1]
            shift = (round(uniform(-across, across)), round(uniform(-down, down)))
        scale = 1.0 if scale_ranges is None else uniform(scale_ranges[0], scale_ranges[1])
        shear = (0.0, 0.0)
        if shears is not None:
            level = uniform(shears[0], shears[1])
            shear = (level, uniform(shears[2], shears[3]) if len(shears) == 4 else 0.0)
        return angle, shift, scale, shear

    def __call__(self, img: Any) -> Any:
        angle, shift, scale, shear = self.get_params(
            self.degrees, self.translate, self.scale, self.shear, F.get_image_size(img)
        )
        return F.affine(
            img, angle, list(shift), scale, list(shear), self.interpolation, self.fill, self.center
        )
