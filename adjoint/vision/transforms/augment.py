"""Policies of random changes: AutoAugment, RandAugment, TrivialAugmentWide, AugMix."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import numpy as np

from adjoint.data.transforms.basic import Transform, to_channels_first
from adjoint.data.transforms.draw import chance, integer
from adjoint.data.transforms.pillow import is_picture
from adjoint.engine.ops.random.random import rand, randint
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.transforms import functional as F
from adjoint.vision.transforms.functional import InterpolationMode

NAMES = ("AutoAugment", "RandAugment", "TrivialAugmentWide", "AugMix")


class AutoAugmentPolicy(Enum):
    """Which data a policy was found on."""

    IMAGENET = "imagenet"
    CIFAR10 = "cifar10"
    SVHN = "svhn"


def _shear_x(img: Any, m: float, how: Any, fill: Any) -> Any:
    degrees = math.degrees(math.atan(m))
    return F.affine(img, 0.0, [0, 0], 1.0, [degrees, 0.0], how, fill, [0, 0])


def _shear_y(img: Any, m: float, how: Any, fill: Any) -> Any:
    degrees = math.degrees(math.atan(m))
    return F.affine(img, 0.0, [0, 0], 1.0, [0.0, degrees], how, fill, [0, 0])


def _shift(img: Any, x: float, y: float, how: Any, fill: Any) -> Any:
    return F.affine(img, 0.0, [int(x), int(y)], 1.0, [0.0, 0.0], how, fill)


# Name -> (image, magnitude, interpolation, fill) -> image
CHANGES: dict[str, Callable[[Any, float, Any, Any], Any]] = {
    "ShearX": _shear_x,
    "ShearY": _shear_y,
    "TranslateX": lambda img, m, how, fill: _shift(img, m, 0, how, fill),
    "TranslateY": lambda img, m, how, fill: _shift(img, 0, m, how, fill),
    "Rotate": lambda img, m, how, fill: F.rotate(img, m, how, fill=fill),
    "Brightness": lambda img, m, how, fill: F.adjust_brightness(img, 1.0 + m),
    "Color": lambda img, m, how, fill: F.adjust_saturation(img, 1.0 + m),
    "Contrast": lambda img, m, how, fill: F.adjust_contrast(img, 1.0 + m),
    "Sharpness": lambda img, m, how, fill: F.adjust_sharpness(img, 1.0 + m),
    "Posterize": lambda img, m, how, fill: F.posterize(img, int(m)),
    "Solarize": lambda img, m, how, fill: F.solarize(img, m),
    "AutoContrast": lambda img, m, how, fill: F.autocontrast(img),
    "Equalize": lambda img, m, how, fill: F.equalize(img),
    "Invert": lambda img, m, how, fill: F.invert(img),
    "Identity": lambda img, m, how, fill: img,
}
Space = dict[str, tuple[Any, bool]]  # name -> (magnitudes, whether they have a sign)


def _posterize(bins: int, most: int) -> Any:
    return 8 - np.round(np.arange(bins) / ((bins - 1) / most)).astype(int)


def _bound(img: Any) -> float:
    return 1.0 if isinstance(img, Tensor) and img.dtype.is_floating_point else 255.0


def _pick(magnitudes: Any, index: int, signed: bool) -> float:
    value = float(magnitudes[index]) if np.ndim(magnitudes) else 0.0
    return -value if signed and integer(0, 2) else value


class _Policy(Transform):
    """What the policies share."""

    interpolation: Any
    fill: Any

    def alter(self, img: Any, name: str, magnitude: float) -> Any:
        """One change of an image."""
        return CHANGES[name](img, magnitude, self.interpolation, self.fill)


class RandAugment(_Policy):
    """A number of changes in a row, each drawn from all, all as strong.

    Args:
        num_ops: how many.
        magnitude: how strong, of `num_magnitude_bins`.
        interpolation: see `Resize`.
        fill: what pixels from outside become.
    """

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: Any = InterpolationMode.NEAREST,
        fill: Any = None,
    ) -> None:
        self.num_ops = num_ops
        self.magnitude = magnitude
        self.num_magnitude_bins = num_magnitude_bins
        self.interpolation = interpolation
        self.fill = fill

    def space(self, img: Any) -> Space:
        """The changes with their magnitudes."""
        bins = self.num_magnitude_bins
        width, height = F.get_image_size(img)
        return {
            "Identity": (0.0, False),
            "ShearX": (np.linspace(0.0, 0.3, bins), True),
            "ShearY": (np.linspace(0.0, 0.3, bins), True),
            "TranslateX": (np.linspace(0.0, 150.0 / 331.0 * width, bins), True),
            "TranslateY": (np.linspace(0.0, 150.0 / 331.0 * height, bins), True),
            "Rotate": (np.linspace(0.0, 30.0, bins), True),
            "Brightness": (np.linspace(0.0, 0.9, bins), True),
            "Color": (np.linspace(0.0, 0.9, bins), True),
            "Contrast": (np.linspace(0.0, 0.9, bins), True),
            "Sharpness": (np.linspace(0.0, 0.9, bins), True),
            "Posterize": (_posterize(bins, 4), False),
            "Solarize": (np.linspace(_bound(img), 0.0, bins), False),
            "AutoContrast": (0.0, False),
            "Equalize": (0.0, False),
        }

    def __call__(self, img: Any) -> Any:
        for _ in range(self.num_ops):
            changes = self.space(img)
            name = list(changes)[integer(0, len(changes))]
            magnitudes, signed = changes[name]
            img = self.alter(img, name, _pick(magnitudes, self.magnitude, signed))
        return img


class TrivialAugmentWide(_Policy):
    """One change, drawn from all, of a random strength.

    Args:
        num_magnitude_bins: how many strengths there are.
        interpolation: see `Resize`.
        fill: what pixels from outside become.
    """

    def __init__(
        self,
        num_magnitude_bins: int = 31,
        interpolation: Any = InterpolationMode.NEAREST,
        fill: Any = None,
    ) -> None:
        self.num_magnitude_bins = num_magnitude_bins
        self.interpolation = interpolation
        self.fill = fill

    def space(self, img: Any) -> Space:
        """The changes with their magnitudes."""
        bins = self.num_magnitude_bins
        wide = (np.linspace(0.0, 0.99, bins), True)
        return {
            "Identity": (0.0, False),
            "ShearX": wide,
            "ShearY": wide,
            "TranslateX": (np.linspace(0.0, 32.0, bins), True),
            "TranslateY": (np.linspace(0.0, 32.0, bins), True),
            "Rotate": (np.linspace(0.0, 135.0, bins), True),
            "Brightness": wide,
            "Color": wide,
            "Contrast": wide,
            "Sharpness": wide,
            "Posterize": (_posterize(bins, 6), False),
            "Solarize": (np.linspace(_bound(img), 0.0, bins), False),
            "AutoContrast": (0.0, False),
            "Equalize": (0.0, False),
        }

    def __call__(self, img: Any) -> Any:
        changes = self.space(img)
        name = list(changes)[integer(0, len(changes))]
        magnitudes, signed = changes[name]
        index = integer(0, len(magnitudes)) if np.ndim(magnitudes) else 0
        return self.alter(img, name, _pick(magnitudes, index, signed))


class AugMix(_Policy):
    """Several chains of changes mixed with each other and with the image.

    Args:
        severity: how strong the changes may be, from 1 to 10.
        mixture_width: how many chains.
        chain_depth: how long they are; at random from 1 to 3 if not positive.
        alpha: how evenly the mixtures are drawn.
        all_ops: whether brightness, contrast, colour and sharpness are among the changes.
        interpolation: see `Resize`.
        fill: what pixels from outside become.
    """

    def __init__(
        self,
        severity: int = 3,
        mixture_width: int = 3,
        chain_depth: int = -1,
        alpha: float = 1.0,
        all_ops: bool = True,
        interpolation: Any = InterpolationMode.BILINEAR,
        fill: Any = None,
    ) -> None:
        if not 1 <= severity <= 10:
            raise ValueError(f"The severity must be between [1, 10]. Got {severity} instead.")
        self.severity = severity
        self.mixture_width = mixture_width
        self.chain_depth = chain_depth
        self.alpha = alpha
        self.all_ops = all_ops
        self.interpolation = interpolation
        self.fill = fill

    def space(self, img: Any) -> Space:
        """The changes with their magnitudes."""
        bins = 10
        width, height = F.get_image_size(img)
        changes: Space = {
            "ShearX": (np.linspace(0.0, 0.3, bins), True),
            "ShearY": (np.linspace(0.0, 0.3, bins), True),
            "TranslateX": (np.linspace(0.0, width / 3.0, bins), True),
            "TranslateY": (np.linspace(0.0, height / 3.0, bins), True),
            "Rotate": (np.linspace(0.0, 30.0, bins), True),
            "Posterize": (4 - np.round(np.arange(bins) / ((bins - 1) / 4)).astype(int), False),
            "Solarize": (np.linspace(_bound(img), 0.0, bins), False),
            "AutoContrast": (0.0, False),
            "Equalize": (0.0, False),
        }
        if self.all_ops:
            for name in ("Brightness", "Color", "Contrast", "Sharpness"):
                changes[name] = (np.linspace(0.0, 0.9, bins), True)
        return changes

    def __call__(self, orig_img: Any) -> Any:
        img = orig_img if isinstance(orig_img, Tensor) else to_channels_first(orig_img)
        source = np.random.default_rng(integer(0, 2**31 - 1))
        keep, change = source.dirichlet([self.alpha, self.alpha])
        shares = source.dirichlet([self.alpha] * self.mixture_width) * change
        mixed = keep * img.float()
        for share in shares:
            out, depth = img, self.chain_depth if self.chain_depth > 0 else integer(1, 4)
            for _ in range(depth):
                changes = self.space(out)
                name = list(changes)[integer(0, len(changes))]
                magnitudes, signed = changes[name]
                index = integer(0, self.severity) if np.ndim(magnitudes) else 0
                out = self.alter(out, name, _pick(magnitudes, index, signed))
            mixed = mixed + float(share) * out.float()
        result = mixed.to(img.dtype)
        if isinstance(orig_img, Tensor):
            return result
        return F.to_pil_image(result, orig_img.mode) if is_picture(orig_img) else result


def _policy(text: str) -> list[list[tuple[str, float, int]]]:
    """Pairs of changes: name, probability, magnitude ("-" for none)."""
    out = []
    for line in text.strip().splitlines():
        words = line.split()
        pair = [words[:3], words[3:]]
        out.append([(n, float(p), -1 if m == "-" else int(m)) for n, p, m in pair])
    return out


# The policies of the paper (Cubuk et al., 2018), a pair a line.
POLICIES = {
    "imagenet": """
Posterize 0.4 8 Rotate 0.6 9
Solarize 0.6 5 AutoContrast 0.6 -
Equalize 0.8 - Equalize 0.6 -
Posterize 0.6 7 Posterize 0.6 6
Equalize 0.4 - Solarize 0.2 4
Equalize 0.4 - Rotate 0.8 8
Solarize 0.6 3 Equalize 0.6 -
Posterize 0.8 5 Equalize 1.0 -
Rotate 0.2 3 Solarize 0.6 8
Equalize 0.6 - Posterize 0.4 6
Rotate 0.8 8 Color 0.4 0
Rotate 0.4 9 Equalize 0.6 -
Equalize 0.0 - Equalize 0.8 -
Invert 0.6 - Equalize 1.0 -
Color 0.6 4 Contrast 1.0 8
Rotate 0.8 8 Color 1.0 2
Color 0.8 8 Solarize 0.8 7
Sharpness 0.4 7 Invert 0.6 -
ShearX 0.6 5 Equalize 1.0 -
Color 0.4 0 Equalize 0.6 -
Equalize 0.4 - Solarize 0.2 4
Solarize 0.6 5 AutoContrast 0.6 -
Invert 0.6 - Equalize 1.0 -
Color 0.6 4 Contrast 1.0 8
Equalize 0.8 - Equalize 0.6 -
""",
    "cifar10": """
Invert 0.1 - Contrast 0.2 6
Rotate 0.7 2 TranslateX 0.3 9
Sharpness 0.8 1 Sharpness 0.9 3
ShearY 0.5 8 TranslateY 0.7 9
AutoContrast 0.5 - Equalize 0.9 -
ShearY 0.2 7 Posterize 0.3 7
Color 0.4 3 Brightness 0.6 7
Sharpness 0.3 9 Brightness 0.7 9
Equalize 0.6 - Equalize 0.5 -
Contrast 0.6 7 Sharpness 0.6 5
Color 0.7 7 TranslateX 0.5 8
Equalize 0.3 - AutoContrast 0.4 -
TranslateY 0.4 3 Sharpness 0.2 6
Brightness 0.9 6 Color 0.2 8
Solarize 0.5 2 Invert 0.0 -
Equalize 0.2 - AutoContrast 0.6 -
Equalize 0.2 - Equalize 0.6 -
Color 0.9 9 Equalize 0.6 -
AutoContrast 0.8 - Solarize 0.2 8
Brightness 0.1 3 Color 0.7 0
Solarize 0.4 5 AutoContrast 0.9 -
TranslateY 0.9 9 TranslateY 0.7 9
AutoContrast 0.9 - Solarize 0.8 3
Equalize 0.8 - Invert 0.1 -
TranslateY 0.7 9 AutoContrast 0.9 -
""",
    "svhn": """
ShearX 0.9 4 Invert 0.2 -
ShearY 0.9 8 Invert 0.7 -
Equalize 0.6 - Solarize 0.6 6
Invert 0.9 - Equalize 0.6 -
Equalize 0.6 - Rotate 0.9 3
ShearX 0.9 4 AutoContrast 0.8 -
ShearY 0.9 8 Invert 0.4 -
ShearY 0.9 5 Solarize 0.2 6
Invert 0.9 - AutoContrast 0.8 -
Equalize 0.6 - Rotate 0.9 3
ShearX 0.9 4 Solarize 0.3 3
ShearY 0.8 8 Invert 0.7 -
Equalize 0.9 - TranslateY 0.6 6
Invert 0.9 - Equalize 0.6 -
Contrast 0.3 3 Rotate 0.8 4
Invert 0.8 - TranslateY 0.0 2
ShearY 0.7 6 Solarize 0.4 8
Invert 0.6 - Rotate 0.8 4
ShearY 0.3 7 TranslateX 0.9 3
ShearX 0.1 6 Invert 0.6 -
Solarize 0.7 2 TranslateY 0.6 7
ShearY 0.8 4 Invert 0.8 -
ShearX 0.7 9 TranslateY 0.8 3
ShearY 0.8 5 AutoContrast 0.7 -
ShearX 0.7 2 Invert 0.1 -
""",
}


class AutoAugment(_Policy):
    """A pair of changes from a policy, each with its probability and strength.

    Args:
        policy: which one.
        interpolation: see `Resize`.
        fill: what pixels from outside become.
    """

    def __init__(
        self,
        policy: AutoAugmentPolicy = AutoAugmentPolicy.IMAGENET,
        interpolation: Any = InterpolationMode.NEAREST,
        fill: Sequence[float] | float | None = None,
    ) -> None:
        self.policy = policy
        self.interpolation = interpolation
        self.fill = fill
        self.policies = _policy(POLICIES[policy.value])

    def space(self, img: Any) -> Space:
        """The changes with their magnitudes."""
        return {**RandAugment(num_magnitude_bins=10).space(img), "Invert": (0.0, False)}

    @staticmethod
    def get_params(transform_num: int) -> tuple[int, Tensor, Tensor]:
        """A random pair of a policy, the chances of its two changes and their signs."""
        return integer(0, transform_num), rand(2), randint(2, (2,))

    def __call__(self, img: Any) -> Any:
        for name, probability, strength in self.policies[integer(0, len(self.policies))]:
            if chance(probability):
                magnitudes, signed = self.space(img)[name]
                img = self.alter(img, name, _pick(magnitudes, max(strength, 0), signed))
        return img
