"""Where things are, changed alike in images, videos, masks and boxes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from adjoint.data import transforms as plain
from adjoint.data.transforms.draw import integer, uniform
from adjoint.vision.transforms import more
from adjoint.vision.transforms.v2 import functional as F
from adjoint.vision.transforms.v2.boxes import borders
from adjoint.vision.transforms.v2.functional import BILINEAR, NEAREST
from adjoint.vision.transforms.v2.sample import (
    RandomTransform,
    Transform,
    fill_of,
    query_size,
)


def pair(name: str, size: Any) -> tuple[int, int]:
    """Height and width of one number or two."""
    given = (size,) if isinstance(size, int) else tuple(size)
    if len(given) not in (1, 2):
        raise ValueError(f"{name}: size must have 1 or 2 numbers, received {size}")
    return given[0], given[-1]


class RandomHorizontalFlip(RandomTransform):
    """Left and right exchanged with a probability.

    Example:
        >>> from adjoint.vision.tv_tensors import BoundingBoxes
        >>> boxes = BoundingBoxes([[1, 2, 3, 4]], format="XYXY", canvas_size=(10, 10))
        >>> RandomHorizontalFlip(p=1)({"boxes": boxes, "label": 5})["boxes"].tolist()
        [[7, 2, 9, 4]]
    """

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._call_kernel(F.horizontal_flip, inpt)


class RandomVerticalFlip(RandomTransform):
    """Top and bottom exchanged with a probability."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._call_kernel(F.vertical_flip, inpt)


class _Resizing(Transform):
    """What resizes to a size that `make_params` finds."""

    def __init__(self, interpolation: Any = BILINEAR, antialias: bool | None = True) -> None:
        super().__init__()
        self.interpolation = interpolation
        self.antialias = antialias

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        options = {"interpolation": self.interpolation, "antialias": self.antialias}
        return self._call_kernel(F.resize, inpt, **params, **options)


class Resize(_Resizing):
    """Another size: (H, W), or a number for the shorter side with the ratio of sides kept.

    Args:
        size: the size; None for a longer side of `max_size`.
        interpolation: of images; masks keep their numbers.
        max_size: the most the longer side may become, where `size` is a number.
        antialias: when shrinking a tensor, average over all pixels that fall on one.
    """

    def __init__(
        self,
        size: Any,
        interpolation: Any = BILINEAR,
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        super().__init__(interpolation, antialias)
        if size is None and not isinstance(max_size, int):
            raise ValueError(f"max_size must be an integer when size is None, but got {max_size}.")
        self.size = [size] if isinstance(size, int) else size
        self.max_size = max_size

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"size": self.size, "max_size": self.max_size}


class ScaleJitter(_Resizing):
    """A random scale of a target size, the ratio of sides kept (Ghiasi et al., 2020).

    Args:
        target_size: the size at scale 1.
        scale_range: bounds of the scale.
        interpolation, antialias: see `Resize`.
    """

    def __init__(
        self,
        target_size: tuple[int, int],
        scale_range: tuple[float, float] = (0.1, 2.0),
        interpolation: Any = BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__(interpolation, antialias)
        self.target_size = target_size
        self.scale_range = scale_range

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        h, w = query_size(flat_inputs)
        # torchvision, which the results follow, takes the second number for the height.
        ratio = min(self.target_size[1] / h, self.target_size[0] / w) * uniform(*self.scale_range)
        return {"size": (int(h * ratio), int(w * ratio))}


class RandomShortestSize(_Resizing):
    """One of several lengths of the shorter side.

    Args:
        min_size: the lengths.
        max_size: the most the longer side may become.
        interpolation, antialias: see `Resize`.
    """

    def __init__(
        self,
        min_size: int | Sequence[int],
        max_size: int | None = None,
        interpolation: Any = BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__(interpolation, antialias)
        self.min_size = [min_size] if isinstance(min_size, int) else list(min_size)
        self.max_size = max_size

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        h, w = query_size(flat_inputs)
        ratio = self.min_size[integer(0, len(self.min_size))] / min(h, w)
        if self.max_size is not None:
            ratio = min(ratio, self.max_size / max(h, w))
        return {"size": (int(h * ratio), int(w * ratio))}


class RandomResize(_Resizing):
    """A length of the shorter side from `min_size` up to `max_size`, which is left out."""

    def __init__(
        self,
        min_size: int,
        max_size: int,
        interpolation: Any = BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__(interpolation, antialias)
        self.min_size = min_size
        self.max_size = max_size

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"size": [integer(self.min_size, self.max_size)]}


class CenterCrop(Transform):
    """The middle of the image, with a border where it is smaller."""

    def __init__(self, size: Any) -> None:
        super().__init__()
        self.size = pair("CenterCrop", size)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._call_kernel(F.center_crop, inpt, list(self.size))


class Pad(Transform):
    """A border.

    Args:
        padding: one number for all sides, two (left and right, top and bottom), or four (left,
            top, right, bottom).
        fill: what it holds; one value, one per channel, or a dict of them by kind of thing.
        padding_mode: "constant", "edge", "reflect" or "symmetric"; boxes know the first only.
    """

    def __init__(self, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> None:
        super().__init__()
        borders(padding)
        if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
            raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
        self.padding = padding
        self.fill = fill
        self.padding_mode = padding_mode

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        fill = fill_of(self.fill, inpt)
        return self._call_kernel(F.pad, inpt, list(borders(self.padding)), fill, self.padding_mode)


class RandomCrop(Transform):
    """A rectangle at a random place.

    Args:
        size: its size.
        padding: a border added before, see `Pad`.
        pad_if_needed: add a border where the image is smaller than the rectangle.
        fill, padding_mode: see `Pad`.
    """

    get_params = staticmethod(plain.RandomCrop.get_params)

    def __init__(
        self,
        size: Any,
        padding: Any = None,
        pad_if_needed: bool = False,
        fill: Any = 0,
        padding_mode: str = "constant",
    ) -> None:
        super().__init__()
        self.size = pair("RandomCrop", size)
        self.padding = padding
        self.pad_if_needed = pad_if_needed
        self.fill = fill
        self.padding_mode = padding_mode

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        h, w = query_size(flat_inputs)
        (height, width) = self.size
        left, top, right, bottom = (0,) * 4 if self.padding is None else borders(self.padding)
        if self.pad_if_needed:
            down = max(height - (h + top + bottom), 0)
            across = max(width - (w + left + right), 0)
            left, top, right, bottom = left + across, top + down, right + across, bottom + down
        h, w = h + top + bottom, w + left + right
        if h < height or w < width:
            raise ValueError(
                f"Required crop size {(height, width)} is larger than input image size {(h, w)}. "
                "Pass padding, or pad_if_needed=True."
            )
        place = (integer(0, h - height + 1), integer(0, w - width + 1))
        cuts = (h, w) != (height, width)
        return {
            "padding": [left, top, right, bottom],
            "rectangle": (*place, height, width) if cuts else None,
        }

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        if any(params["padding"]):
            fill = fill_of(self.fill, inpt)
            inpt = self._call_kernel(F.pad, inpt, params["padding"], fill, self.padding_mode)
        if params["rectangle"] is None:
            return inpt
        return self._call_kernel(F.crop, inpt, *params["rectangle"])


class RandomResizedCrop(Transform):
    """A rectangle of random area and ratio of sides, resized.

    Args:
        size: the size of the result.
        scale: bounds of the area, as a part of the image's.
        ratio: bounds of width over height.
        interpolation, antialias: see `Resize`.
    """

    get_params = staticmethod(plain.RandomResizedCrop.get_params)

    def __init__(
        self,
        size: Any,
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        interpolation: Any = BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.size = pair("RandomResizedCrop", size)
        self.scale = scale
        self.ratio = ratio
        self.interpolation = interpolation
        self.antialias = antialias

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        h, w = query_size(flat_inputs)
        for _ in range(10):
            area = h * w * uniform(*self.scale)
            ratio = math.exp(uniform(math.log(self.ratio[0]), math.log(self.ratio[1])))
            width, height = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < width <= w and 0 < height <= h:
                place = (integer(0, h - height + 1), integer(0, w - width + 1))
                return {"rectangle": (*place, height, width)}
        ratio = min(max(w / h, self.ratio[0]), self.ratio[1])  # the middle, within the bounds
        width, height = min(w, round(h * ratio)), min(h, round(w / ratio))
        return {"rectangle": ((h - height) // 2, (w - width) // 2, height, width)}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        options = {"interpolation": self.interpolation, "antialias": self.antialias}
        size = list(self.size)
        return self._call_kernel(F.resized_crop, inpt, *params["rectangle"], size, **options)


class RandomRotation(Transform):
    """A turn by a random angle, counter-clockwise.

    Args:
        degrees: bounds of the angle, or one number for both directions.
        interpolation: of images; masks keep their numbers.
        expand: make room for all of the image.
        center: the point (x, y) it turns about.
        fill: see `Pad`.
    """

    get_params = staticmethod(more.RandomRotation.get_params)

    def __init__(
        self,
        degrees: float | Sequence[float],
        interpolation: Any = NEAREST,
        expand: bool = False,
        center: Sequence[float] | None = None,
        fill: Any = 0,
    ) -> None:
        super().__init__()
        self.degrees = more._both_ways("degrees", degrees)
        self.interpolation = interpolation
        self.expand = expand
        self.center = center
        self.fill = fill

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"angle": uniform(self.degrees[0], self.degrees[1])}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        options = {"expand": self.expand, "center": self.center, "fill": fill_of(self.fill, inpt)}
        return self._call_kernel(F.rotate, inpt, params["angle"], self.interpolation, **options)


class RandomAffine(Transform):
    """A random turn, shift, scale and shear about the middle.

    Args:
        degrees: bounds of the angle, or one number for both directions.
        translate: the largest shift across and down, as parts of the sides.
        scale: bounds of the scale.
        shear: bounds of the shear across (and down) in degrees, or one number.
        interpolation: of images; masks keep their numbers.
        fill: see `Pad`.
        center: the point (x, y) it turns about.
    """

    get_params = staticmethod(more.RandomAffine.get_params)

    def __init__(
        self,
        degrees: float | Sequence[float],
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: float | Sequence[float] | None = None,
        interpolation: Any = NEAREST,
        fill: Any = 0,
        center: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self.degrees = more._both_ways("degrees", degrees)
        self.translate = translate
        self.scale = scale
        self.shear = None if shear is None else more._both_ways("shear", shear)
        self.interpolation = interpolation
        self.fill = fill
        self.center = center

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        height, width = query_size(flat_inputs)
        across, down = self.translate or (0.0, 0.0)
        shear = [0.0, 0.0]
        if self.shear is not None:
            shear[0] = uniform(self.shear[0], self.shear[1])
            if len(self.shear) == 4:
                shear[1] = uniform(self.shear[2], self.shear[3])
        return {
            "angle": uniform(self.degrees[0], self.degrees[1]),
            "translate": [
                round(uniform(-across * width, across * width)),
                round(uniform(-down * height, down * height)),
            ],
            "scale": 1.0 if self.scale is None else uniform(self.scale[0], self.scale[1]),
            "shear": shear,
        }

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        options = {"interpolation": self.interpolation, "fill": fill_of(self.fill, inpt)}
        return self._call_kernel(F.affine, inpt, **params, **options, center=self.center)


class RandomPerspective(RandomTransform):
    """Corners moved inwards at random, with a probability.

    Args:
        distortion_scale: how far, from 0 to 1.
        p: the probability.
        interpolation: of images; masks keep their numbers.
        fill: see `Pad`.
    """

    get_params = staticmethod(more.RandomPerspective.get_params)

    def __init__(
        self,
        distortion_scale: float = 0.5,
        p: float = 0.5,
        interpolation: Any = BILINEAR,
        fill: Any = 0,
    ) -> None:
        super().__init__(p)
        if not 0 <= distortion_scale <= 1:
            raise ValueError("Argument distortion_scale value should be between 0 and 1")
        self.distortion_scale = distortion_scale
        self.interpolation = interpolation
        self.fill = fill

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        h, w = query_size(flat_inputs)
        starts, ends = more.RandomPerspective.get_params(w, h, self.distortion_scale)
        return {"startpoints": starts, "endpoints": ends}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        options = {"interpolation": self.interpolation, "fill": fill_of(self.fill, inpt)}
        return self._call_kernel(F.perspective, inpt, **params, **options)


class ElasticTransform(Transform):
    """Bent at random, as if seen through water.

    Args:
        alpha: how far.
        sigma: how smoothly.
        interpolation: of images; masks keep their numbers.
        fill: see `Pad`.
    """

    get_params = staticmethod(more.ElasticTransform.get_params)

    def __init__(
        self,
        alpha: float | Sequence[float] = 50.0,
        sigma: float | Sequence[float] = 5.0,
        interpolation: Any = BILINEAR,
        fill: Any = 0,
    ) -> None:
        super().__init__()
        self.alpha = [alpha] * 2 if isinstance(alpha, (int, float)) else list(alpha)
        self.sigma = [sigma] * 2 if isinstance(sigma, (int, float)) else list(sigma)
        self.interpolation = interpolation
        self.fill = fill

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        size = query_size(flat_inputs)
        return {"displacement": more.ElasticTransform.get_params(self.alpha, self.sigma, size)}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        options = {"interpolation": self.interpolation, "fill": fill_of(self.fill, inpt)}
        return self._call_kernel(F.elastic, inpt, **params, **options)
