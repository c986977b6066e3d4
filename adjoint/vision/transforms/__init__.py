"""Transforms under torchvision's names; those of Adjoint are in `adjoint.data.transforms`.

Those that torchvision makes modules are modules here too: `nn.Sequential(Resize(32), ...)`.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from adjoint.data.transforms import Compose as Compose
from adjoint.data.transforms import Lambda as Lambda
from adjoint.data.transforms import PILToTensor as PILToTensor
from adjoint.data.transforms import RandomChoice as RandomChoice
from adjoint.data.transforms import ToTensor as ToTensor
from adjoint.vision.transforms import functional as functional
from adjoint.vision.transforms.augment import AutoAugmentPolicy as AutoAugmentPolicy
from adjoint.vision.transforms.functional import InterpolationMode as InterpolationMode
from adjoint.vision.transforms.layers import LAYERS
from adjoint.vision.transforms.more import RandomOrder as RandomOrder
from adjoint.vision.transforms.more import ToPILImage as ToPILImage

if TYPE_CHECKING:
    from adjoint.data.transforms import CenterCrop as CenterCrop
    from adjoint.data.transforms import ColorJitter as ColorJitter
    from adjoint.data.transforms import ConvertImageDtype as ConvertImageDtype
    from adjoint.data.transforms import Grayscale as Grayscale
    from adjoint.data.transforms import Normalize as Normalize
    from adjoint.data.transforms import Pad as Pad
    from adjoint.data.transforms import RandomApply as RandomApply
    from adjoint.data.transforms import RandomCrop as RandomCrop
    from adjoint.data.transforms import RandomErasing as RandomErasing
    from adjoint.data.transforms import RandomGrayscale as RandomGrayscale
    from adjoint.data.transforms import RandomHorizontalFlip as RandomHorizontalFlip
    from adjoint.data.transforms import RandomResizedCrop as RandomResizedCrop
    from adjoint.data.transforms import RandomVerticalFlip as RandomVerticalFlip
    from adjoint.data.transforms import Resize as Resize
    from adjoint.vision.transforms.augment import AugMix as AugMix
    from adjoint.vision.transforms.augment import AutoAugment as AutoAugment
    from adjoint.vision.transforms.augment import RandAugment as RandAugment
    from adjoint.vision.transforms.augment import TrivialAugmentWide as TrivialAugmentWide
    from adjoint.vision.transforms.more import ElasticTransform as ElasticTransform
    from adjoint.vision.transforms.more import FiveCrop as FiveCrop
    from adjoint.vision.transforms.more import GaussianBlur as GaussianBlur
    from adjoint.vision.transforms.more import LinearTransformation as LinearTransformation
    from adjoint.vision.transforms.more import RandomAdjustSharpness as RandomAdjustSharpness
    from adjoint.vision.transforms.more import RandomAffine as RandomAffine
    from adjoint.vision.transforms.more import RandomAutocontrast as RandomAutocontrast
    from adjoint.vision.transforms.more import RandomEqualize as RandomEqualize
    from adjoint.vision.transforms.more import RandomInvert as RandomInvert
    from adjoint.vision.transforms.more import RandomPerspective as RandomPerspective
    from adjoint.vision.transforms.more import RandomPosterize as RandomPosterize
    from adjoint.vision.transforms.more import RandomRotation as RandomRotation
    from adjoint.vision.transforms.more import RandomSolarize as RandomSolarize
    from adjoint.vision.transforms.more import TenCrop as TenCrop
else:
    globals().update(LAYERS)


def _setup_size(size: Any, error_msg: str) -> Any:
    """Height and width, where one number is both; other lengths are refused in the given words."""
    if isinstance(size, (int, float)):
        return int(size), int(size)
    if len(size) not in (1, 2):
        raise ValueError(error_msg)
    return (size[0], size[0]) if len(size) == 1 else size


def __getattr__(name: str) -> Any:
    if name == "v2":  # loaded when it is asked for
        return importlib.import_module("adjoint.vision.transforms.v2")
    raise AttributeError(
        f"module 'torchvision.transforms' has no attribute {name!r}",
        name=name,
        obj=sys.modules[__name__],
    )
