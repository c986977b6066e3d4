"""What images show, changed; masks and boxes stay."""

from __future__ import annotations

from typing import Any

from adjoint.data import transforms as plain_transforms
from adjoint.data.transforms.draw import chance, uniform
from adjoint.engine.core.errors import warn_user
from adjoint.engine.ops.random.random import randperm
from adjoint.engine.tensor.tensor import Tensor
from adjoint.random import get_rng_state, set_rng_state
from adjoint.vision.transforms import augment, more
from adjoint.vision.transforms.v2 import functional as F
from adjoint.vision.transforms.v2.kernels import is_pure_tensor, rewrapped
from adjoint.vision.transforms.v2.sample import Transform, is_image, query_chw
from adjoint.vision.tv_tensors import BoundingBoxes, Image, KeyPoints, Mask, Video, plain

SHOWING = (is_pure_tensor, Image, Video, is_image)


class _OfImages(Transform):
    """A transform of single images for all images of a sample: each is given the same draws."""

    _transformed_types = SHOWING
    _first: type[Any]
    _refused: tuple[type, ...] = ()
    _of_pictures = True

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        for part in flat_inputs:
            if isinstance(part, self._refused):
                raise TypeError(
                    f"Inputs of type {type(part).__name__} are not supported by "
                    f"{type(self).__name__}(); it is for images by themselves"
                )

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"state": get_rng_state() if len(flat_inputs) > 1 else None}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        if params["state"] is not None:
            set_rng_state(params["state"])
        if not self._of_pictures and is_image(inpt):
            warn_user(f"{type(self).__name__} is for tensors: pictures of a sample stay")
            return inpt
        given = plain(inpt) if isinstance(inpt, Tensor) else inpt
        return rewrapped(self._first.__call__(self, given), inpt)


def of_images(first: Any, refused: tuple[type, ...] = ()) -> type[Transform]:
    """The class of a transform of single images as one of samples, under the same name."""

    def start(self: Any, *args: Any, **kwargs: Any) -> None:
        Transform.__init__(self)
        first.__init__(self, *args, **kwargs)

    members = {
        "__init__": start,
        "__doc__": first.__doc__,
        "__module__": "adjoint.vision.transforms.v2",
        "_first": first,
        "_refused": refused,
        "_of_pictures": first is not plain_transforms.RandomErasing,
        "__repr__": Transform.__repr__,
    }
    return type(first.__name__, (_OfImages, first), members)


SHOWN = """
    ColorJitter Grayscale Normalize RandomErasing RandomGrayscale GaussianBlur
    LinearTransformation RandomAdjustSharpness RandomAutocontrast RandomEqualize RandomInvert
    RandomPosterize RandomSolarize
""".split()
ALONE = ("FiveCrop", "TenCrop", *augment.NAMES)

LAYERS: dict[str, Any] = {
    name: of_images(getattr(more, name, None) or getattr(plain_transforms, name)) for name in SHOWN
} | {
    name: of_images(
        getattr(more, name, None) or getattr(augment, name), (BoundingBoxes, Mask, KeyPoints)
    )
    for name in ALONE
}


class RGB(Transform):
    """Three channels of one; what has three stays."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._call_kernel(F.grayscale_to_rgb, inpt)


class GaussianNoise(Transform):
    """Noise added to images of floating-point numbers.

    Args:
        mean, sigma: of the noise.
        clip: keep to the range from 0 to 1.
    """

    def __init__(self, mean: float = 0.0, sigma: float = 0.1, clip: bool = True) -> None:
        super().__init__()
        self.mean = mean
        self.sigma = sigma
        self.clip = clip

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._call_kernel(F.gaussian_noise, inpt, self.mean, self.sigma, self.clip)


class RandomChannelPermutation(Transform):
    """Channels in a random order."""

    _transformed_types = SHOWING

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"permutation": randperm(query_chw(flat_inputs)[0]).tolist()}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._call_kernel(F.permute_channels, inpt, params["permutation"])


Bounds = tuple[float, float]


class RandomPhotometricDistort(Transform):
    """Brightness, contrast, saturation, hue and the order of channels, each with a probability.

    Args:
        brightness, contrast, saturation: bounds of the factors.
        hue: bounds of the turn.
        p: the probability of each.
    """

    _transformed_types = SHOWING

    def __init__(
        self,
        brightness: Bounds = (0.875, 1.125),
        contrast: Bounds = (0.5, 1.5),
        saturation: Bounds = (0.5, 1.5),
        hue: Bounds = (-0.05, 0.05),
        p: float = 0.5,
    ) -> None:
        super().__init__()
        self.brightness = brightness
        self.contrast = contrast
        self.saturation = saturation
        self.hue = hue
        self.p = p

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        channels = query_chw(flat_inputs)[0]
        contrast = self._drawn(F.adjust_contrast, self.contrast)
        colours = [
            *self._drawn(F.adjust_saturation, self.saturation),
            *self._drawn(F.adjust_hue, self.hue),
        ]
        steps = self._drawn(F.adjust_brightness, self.brightness)
        steps += contrast + colours if chance(0.5) else colours + contrast
        if chance(self.p):
            steps.append((F.permute_channels, randperm(channels).tolist()))
        return {"steps": steps}

    def _drawn(self, function: Any, bounds: Bounds) -> list[tuple[Any, Any]]:
        return [(function, uniform(*bounds))] if chance(self.p) else []

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        for function, amount in params["steps"]:
            inpt = self._call_kernel(function, inpt, amount)
        return inpt
