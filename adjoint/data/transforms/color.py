"""Transforms of what pixels show: brightness, contrast, saturation, hue, erasing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.data.transforms import pillow
from adjoint.data.transforms.basic import ImageTransform, Transform, to_channels_first
from adjoint.data.transforms.draw import chance, integer, uniform
from adjoint.engine.ops.random.random import randn, randperm
from adjoint.engine.tensor.tensor import Tensor, wrap

_LUMA = np.array([0.2989, 0.587, 0.114], np.float32).reshape(3, 1, 1)
Bounds = tuple[float, float]


def _bounds(name: str, value: float | Sequence[float], centre: float = 1) -> Bounds | None:
    if isinstance(value, (int, float)):
        if value < 0:
            raise ValueError(f"ColorJitter: {name} must not be negative, received {value}")
        low, high = centre - value, centre + value
        low = max(low, 0.0) if centre else low
    else:
        low, high = value
    if name == "hue" and not -0.5 <= low <= high <= 0.5:
        raise ValueError(f"ColorJitter: hue must lie within [-0.5, 0.5], received {value}")
    return None if low == high == centre else (float(low), float(high))


def _split(image: Tensor) -> tuple[Any, float, Any]:
    """The pixels as float32, what white is, and the dtype to return to."""
    array = image._array
    white = 255.0 if array.dtype == np.uint8 else 1.0
    return array.astype(np.float32), white, array.dtype


def _join(pixels: Any, white: float, dtype: Any) -> Tensor:
    pixels = pixels.clip(0, white)
    return wrap(pixels.astype(dtype))


def grey(pixels: Any) -> Any:
    """Brightness as the eye sees it, one channel."""
    if pixels.shape[-3] == 1:
        return pixels
    if pixels.shape[-3] != 3:
        raise ValueError(f"expected 1 or 3 channels, received {pixels.shape[-3]}")
    return (pixels * _LUMA).sum(-3, keepdims=True)


def shift_hue(pixels: Any, amount: float) -> Any:
    """Colours turned around the circle; pixels (..., 3, H, W) from 0 to 1."""
    r, g, b = (pixels[..., i, :, :] for i in range(3))
    high, low = pixels.max(-3), pixels.min(-3)
    span = high - low
    safe = np.where(span == 0, 1, span)
    hue = np.where(
        high == r, ((g - b) / safe) % 6, np.where(high == g, (b - r) / safe + 2, (r - g) / safe + 4)
    )
    hue = (np.where(span == 0, 0, hue) / 6 + amount) % 1.0
    saturation = np.where(high == 0, 0, span / np.where(high == 0, 1, high))
    channels = []
    for n in (5, 3, 1):
        k = (n + hue * 6) % 6
        channels.append(high - high * saturation * np.minimum(k, 4 - k).clip(0, 1))
    return np.stack(channels, -3).astype(pixels.dtype)


class ColorJitter(ImageTransform):
    """Brightness, contrast, saturation and hue changed at random, in random order.

    Args:
        brightness: the factor is drawn from 1 - x to 1 + x, or between two bounds.
        contrast: likewise.
        saturation: likewise.
        hue: the turn is drawn from -x to x, at most 0.5, or between two bounds.

    Example:
        >>> import adjoint as ad
        >>> ColorJitter(0.2, hue=0.1)(ad.rand(3, 4, 4)).shape
        adjoint.Size([3, 4, 4])
    """

    def __init__(
        self,
        brightness: float | Sequence[float] = 0,
        contrast: float | Sequence[float] = 0,
        saturation: float | Sequence[float] = 0,
        hue: float | Sequence[float] = 0,
    ) -> None:
        self.brightness = _bounds("brightness", brightness)
        self.contrast = _bounds("contrast", contrast)
        self.saturation = _bounds("saturation", saturation)
        self.hue = _bounds("hue", hue, 0)

    @staticmethod
    def get_params(
        brightness: Sequence[float] | None, contrast: Sequence[float] | None,
        saturation: Sequence[float] | None, hue: Sequence[float] | None,
    ) -> tuple[Tensor, float | None, float | None, float | None, float | None]:  # fmt: skip
        """A random order of the four changes, and a factor of each that has bounds."""
        order = randperm(4)
        one, two, three, four = (
            None if bounds is None else uniform(bounds[0], bounds[1])
            for bounds in (brightness, contrast, saturation, hue)
        )
        return order, one, two, three, four

    def change(self, image: Tensor) -> Tensor:
        pixels, white, dtype = _split(image)
        steps = (self._brighten, self._contrast, self._saturate, self._turn)
        for i in randperm(4).tolist():
            pixels = steps[i](pixels, white).clip(0, white)
        return _join(pixels, white, dtype)

    def change_picture(self, image: Any) -> Any:
        names = list(pillow.ADJUST)
        for i in randperm(4).tolist():
            bounds: Bounds | None = getattr(self, names[i])
            if bounds is not None:
                image = pillow.ADJUST[names[i]](image, uniform(*bounds))
        return image

    def _brighten(self, pixels: Any, white: float) -> Any:
        return pixels * uniform(*self.brightness) if self.brightness else pixels

    def _contrast(self, pixels: Any, white: float) -> Any:
        if not self.contrast:
            return pixels
        factor = uniform(*self.contrast)
        return factor * pixels + (1 - factor) * grey(pixels).mean((-3, -2, -1), keepdims=True)

    def _saturate(self, pixels: Any, white: float) -> Any:
        if not self.saturation or pixels.shape[-3] == 1:
            return pixels
        factor = uniform(*self.saturation)
        return factor * pixels + (1 - factor) * grey(pixels)

    def _turn(self, pixels: Any, white: float) -> Any:
        if not self.hue or pixels.shape[-3] == 1:
            return pixels
        return shift_hue(pixels / white, uniform(*self.hue)) * white


class Grayscale(ImageTransform):
    """Without colour, in one channel or three equal ones.

    PIL images and arrays of bytes are rounded as Pillow rounds; tensors of bytes are cut off, as
    torchvision does.
    """

    def __init__(self, num_output_channels: int = 1) -> None:
        if num_output_channels not in (1, 3):
            raise ValueError(
                f"Grayscale: num_output_channels must be 1 or 3, received {num_output_channels}"
            )
        self.num_output_channels = num_output_channels

    def change(self, image: Tensor) -> Tensor:
        pixels, white, dtype = _split(image)
        return _join(self._repeated(grey(pixels)), white, dtype)

    def change_bytes(self, pixels: Any) -> Any:
        return self._repeated(pillow.grey_bytes(pixels) if len(pixels) == 3 else grey(pixels))

    def change_picture(self, image: Any) -> Any:
        return pillow.grey_picture(image, self.num_output_channels)

    def _repeated(self, pixels: Any) -> Any:
        return np.tile(pixels, [1] * (pixels.ndim - 3) + [self.num_output_channels, 1, 1])


class RandomGrayscale(ImageTransform):
    """Without colour, with a probability."""

    def __init__(self, p: float = 0.1) -> None:
        self.p = p

    def __call__(self, image: Any) -> Any:
        if not chance(self.p):
            return image
        picture = pillow.is_picture(image)
        channels = len(image.getbands()) if picture else to_channels_first(image).shape[-3]
        return Grayscale(int(channels))(image)


class RandomErasing(Transform):
    """A rectangle replaced by a value or noise, with a probability.

    Args:
        p: the probability.
        scale: bounds of the rectangle's area, as a part of the image's.
        ratio: bounds of height over width.
        value: a number, one per channel, or "random".
        inplace: write into the tensor given.
    """

    def __init__(
        self,
        p: float = 0.5,
        scale: tuple[float, float] = (0.02, 0.33),
        ratio: tuple[float, float] = (0.3, 3.3),
        value: float | Sequence[float] | str = 0,
        inplace: bool = False,
    ) -> None:
        self.p = p
        self.scale = scale
        self.ratio = ratio
        self.value = value
        self.inplace = inplace

    def __call__(self, image: Tensor) -> Tensor:
        if not chance(self.p):
            return image
        place = _rectangle(image, self.scale, self.ratio)
        if place is None:
            return image
        top, left, height, width = place
        out = image if self.inplace else image.clone()
        part = out[..., top : top + height, left : left + width]
        part.copy_(self._filling(image.shape[-3], height, width))
        return out

    @staticmethod
    def get_params(
        img: Tensor, scale: Sequence[float], ratio: Sequence[float],
        value: Sequence[float] | None = None,
    ) -> tuple[int, int, int, int, Tensor]:  # fmt: skip
        """Top, left, height, width of a rectangle and what it becomes; None for noise."""
        channels, h, w = img.shape[-3:]
        place = _rectangle(img, scale, ratio)
        if place is None:
            return 0, 0, h, w, img
        if value is None:
            return *place, randn(channels, *place[2:])
        if len(value) not in (1, channels):
            raise ValueError(
                f"If value is a sequence, it should have either a single value or {channels} "
                f"(number of input channels), received {len(value)}"
            )
        return *place, wrap(np.asarray(value, np.float32).reshape(-1, 1, 1))

    def _filling(self, channels: int, height: int, width: int) -> Tensor:
        if self.value == "random":
            return randn(channels, height, width)
        numbers = np.asarray(self.value, np.float32).reshape(-1, 1, 1)
        return wrap(np.ascontiguousarray(np.broadcast_to(numbers, (channels, height, width))))


def _rectangle(
    image: Tensor, scale: Sequence[float], ratio: Sequence[float]
) -> tuple[int, int, int, int] | None:
    """Top, left, height and width; None where ten tries found none that fits."""
    h, w = image.shape[-2:]
    for _ in range(10):
        area = h * w * uniform(scale[0], scale[1])
        sides = math.exp(uniform(math.log(ratio[0]), math.log(ratio[1])))
        height, width = round(math.sqrt(area * sides)), round(math.sqrt(area / sides))
        if 0 < height < h and 0 < width < w:
            return integer(0, h - height + 1), integer(0, w - width + 1), height, width
    return None
