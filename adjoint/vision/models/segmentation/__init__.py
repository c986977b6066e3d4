"""Networks that say of each pixel what it shows."""

import sys
from typing import Any

from adjoint.vision import models as _models
from adjoint.vision.models.segmentation.deeplabv3 import DeepLabV3 as DeepLabV3
from adjoint.vision.models.segmentation.deeplabv3 import (
    deeplabv3_mobilenet_v3_large as deeplabv3_mobilenet_v3_large,
)
from adjoint.vision.models.segmentation.deeplabv3 import deeplabv3_resnet50 as deeplabv3_resnet50
from adjoint.vision.models.segmentation.deeplabv3 import deeplabv3_resnet101 as deeplabv3_resnet101
from adjoint.vision.models.segmentation.fcn import FCN as FCN
from adjoint.vision.models.segmentation.fcn import fcn_resnet50 as fcn_resnet50
from adjoint.vision.models.segmentation.fcn import fcn_resnet101 as fcn_resnet101
from adjoint.vision.models.segmentation.lraspp import LRASPP as LRASPP
from adjoint.vision.models.segmentation.lraspp import (
    lraspp_mobilenet_v3_large as lraspp_mobilenet_v3_large,
)


def __getattr__(name: str) -> Any:
    if name.endswith("_Weights"):
        return getattr(_models, name)
    raise AttributeError(
        f"module 'torchvision.models.segmentation' has no attribute {name!r}",
        name=name,
        obj=sys.modules[__name__],
    )
