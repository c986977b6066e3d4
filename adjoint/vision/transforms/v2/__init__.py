"""torchvision's second transforms: of samples of any structure, by one draw for all their parts.

Images, videos, masks and boxes (see `adjoint.vision.tv_tensors`) in a tuple, list or dict are
changed alike; labels and whatever else there is stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.vision.transforms.augment import AutoAugmentPolicy as AutoAugmentPolicy
from adjoint.vision.transforms.functional import InterpolationMode as InterpolationMode
from adjoint.vision.transforms.v2 import functional as functional
from adjoint.vision.transforms.v2.color import LAYERS
from adjoint.vision.transforms.v2.color import RGB as RGB
from adjoint.vision.transforms.v2.color import GaussianNoise as GaussianNoise
from adjoint.vision.transforms.v2.color import RandomChannelPermutation as RandomChannelPermutation
from adjoint.vision.transforms.v2.color import RandomPhotometricDistort as RandomPhotometricDistort
from adjoint.vision.transforms.v2.containers import Compose as Compose
from adjoint.vision.transforms.v2.containers import Lambda as Lambda
from adjoint.vision.transforms.v2.containers import RandomApply as RandomApply
from adjoint.vision.transforms.v2.containers import RandomChoice as RandomChoice
from adjoint.vision.transforms.v2.containers import RandomOrder as RandomOrder
from adjoint.vision.transforms.v2.conversion import ClampBoundingBoxes as ClampBoundingBoxes
from adjoint.vision.transforms.v2.conversion import ClampKeyPoints as ClampKeyPoints
from adjoint.vision.transforms.v2.conversion import (
    ConvertBoundingBoxFormat as ConvertBoundingBoxFormat,
)
from adjoint.vision.transforms.v2.conversion import ConvertImageDtype as ConvertImageDtype
from adjoint.vision.transforms.v2.conversion import Identity as Identity
from adjoint.vision.transforms.v2.conversion import PILToTensor as PILToTensor
from adjoint.vision.transforms.v2.conversion import SetClampingMode as SetClampingMode
from adjoint.vision.transforms.v2.conversion import ToDtype as ToDtype
from adjoint.vision.transforms.v2.conversion import ToImage as ToImage
from adjoint.vision.transforms.v2.conversion import ToPILImage as ToPILImage
from adjoint.vision.transforms.v2.conversion import ToPureTensor as ToPureTensor
from adjoint.vision.transforms.v2.conversion import ToTensor as ToTensor
from adjoint.vision.transforms.v2.conversion import (
    UniformTemporalSubsample as UniformTemporalSubsample,
)
from adjoint.vision.transforms.v2.detection import RandomIoUCrop as RandomIoUCrop
from adjoint.vision.transforms.v2.detection import RandomZoomOut as RandomZoomOut
from adjoint.vision.transforms.v2.detection import SanitizeBoundingBoxes as SanitizeBoundingBoxes
from adjoint.vision.transforms.v2.detection import SanitizeKeyPoints as SanitizeKeyPoints
from adjoint.vision.transforms.v2.geometry import CenterCrop as CenterCrop
from adjoint.vision.transforms.v2.geometry import ElasticTransform as ElasticTransform
from adjoint.vision.transforms.v2.geometry import Pad as Pad
from adjoint.vision.transforms.v2.geometry import RandomAffine as RandomAffine
from adjoint.vision.transforms.v2.geometry import RandomCrop as RandomCrop
from adjoint.vision.transforms.v2.geometry import RandomHorizontalFlip as RandomHorizontalFlip
from adjoint.vision.transforms.v2.geometry import RandomPerspective as RandomPerspective
from adjoint.vision.transforms.v2.geometry import RandomResize as RandomResize
from adjoint.vision.transforms.v2.geometry import RandomResizedCrop as RandomResizedCrop
from adjoint.vision.transforms.v2.geometry import RandomRotation as RandomRotation
from adjoint.vision.transforms.v2.geometry import RandomShortestSize as RandomShortestSize
from adjoint.vision.transforms.v2.geometry import RandomVerticalFlip as RandomVerticalFlip
from adjoint.vision.transforms.v2.geometry import Resize as Resize
from adjoint.vision.transforms.v2.geometry import ScaleJitter as ScaleJitter
from adjoint.vision.transforms.v2.mixing import CutMix as CutMix
from adjoint.vision.transforms.v2.mixing import MixUp as MixUp
from adjoint.vision.transforms.v2.sample import Transform as Transform
from adjoint.vision.transforms.v2.sample import check_type as check_type
from adjoint.vision.transforms.v2.sample import get_bounding_boxes as get_bounding_boxes
from adjoint.vision.transforms.v2.sample import get_keypoints as get_keypoints
from adjoint.vision.transforms.v2.sample import has_all as has_all
from adjoint.vision.transforms.v2.sample import has_any as has_any
from adjoint.vision.transforms.v2.sample import query_chw as query_chw
from adjoint.vision.transforms.v2.sample import query_size as query_size

if TYPE_CHECKING:
    from adjoint.vision.transforms import AugMix as AugMix
    from adjoint.vision.transforms import AutoAugment as AutoAugment
    from adjoint.vision.transforms import ColorJitter as ColorJitter
    from adjoint.vision.transforms import FiveCrop as FiveCrop
    from adjoint.vision.transforms import GaussianBlur as GaussianBlur
    from adjoint.vision.transforms import Grayscale as Grayscale
    from adjoint.vision.transforms import LinearTransformation as LinearTransformation
    from adjoint.vision.transforms import Normalize as Normalize
    from adjoint.vision.transforms import RandAugment as RandAugment
    from adjoint.vision.transforms import RandomAdjustSharpness as RandomAdjustSharpness
    from adjoint.vision.transforms import RandomAutocontrast as RandomAutocontrast
    from adjoint.vision.transforms import RandomEqualize as RandomEqualize
    from adjoint.vision.transforms import RandomErasing as RandomErasing
    from adjoint.vision.transforms import RandomGrayscale as RandomGrayscale
    from adjoint.vision.transforms import RandomInvert as RandomInvert
    from adjoint.vision.transforms import RandomPosterize as RandomPosterize
    from adjoint.vision.transforms import RandomSolarize as RandomSolarize
    from adjoint.vision.transforms import TenCrop as TenCrop
    from adjoint.vision.transforms import TrivialAugmentWide as TrivialAugmentWide
else:
    globals().update(LAYERS)
