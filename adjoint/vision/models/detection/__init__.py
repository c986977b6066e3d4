"""Networks that find objects: where they are, what they are, their masks and points."""

import sys
from typing import Any

from adjoint.vision import models as _models
from adjoint.vision.models.detection.faster_rcnn import FasterRCNN as FasterRCNN
from adjoint.vision.models.detection.faster_rcnn import (
    fasterrcnn_mobilenet_v3_large_320_fpn as fasterrcnn_mobilenet_v3_large_320_fpn,
)
from adjoint.vision.models.detection.faster_rcnn import (
    fasterrcnn_mobilenet_v3_large_fpn as fasterrcnn_mobilenet_v3_large_fpn,
)
from adjoint.vision.models.detection.faster_rcnn import (
    fasterrcnn_resnet50_fpn as fasterrcnn_resnet50_fpn,
)
from adjoint.vision.models.detection.faster_rcnn import (
    fasterrcnn_resnet50_fpn_v2 as fasterrcnn_resnet50_fpn_v2,
)
from adjoint.vision.models.detection.fcos import FCOS as FCOS
from adjoint.vision.models.detection.fcos import fcos_resnet50_fpn as fcos_resnet50_fpn
from adjoint.vision.models.detection.keypoint_rcnn import KeypointRCNN as KeypointRCNN
from adjoint.vision.models.detection.keypoint_rcnn import (
    keypointrcnn_resnet50_fpn as keypointrcnn_resnet50_fpn,
)
from adjoint.vision.models.detection.mask_rcnn import MaskRCNN as MaskRCNN
from adjoint.vision.models.detection.mask_rcnn import maskrcnn_resnet50_fpn as maskrcnn_resnet50_fpn
from adjoint.vision.models.detection.mask_rcnn import (
    maskrcnn_resnet50_fpn_v2 as maskrcnn_resnet50_fpn_v2,
)
from adjoint.vision.models.detection.retinanet import RetinaNet as RetinaNet
from adjoint.vision.models.detection.retinanet import (
    retinanet_resnet50_fpn as retinanet_resnet50_fpn,
)
from adjoint.vision.models.detection.retinanet import (
    retinanet_resnet50_fpn_v2 as retinanet_resnet50_fpn_v2,
)
from adjoint.vision.models.detection.ssd import ssd300_vgg16 as ssd300_vgg16
from adjoint.vision.models.detection.ssdlite import (
    ssdlite320_mobilenet_v3_large as ssdlite320_mobilenet_v3_large,
)


def __getattr__(name: str) -> Any:
    if name.endswith("_Weights"):
        return getattr(_models, name)
    raise AttributeError(
        f"module 'torchvision.models.detection' has no attribute {name!r}",
        name=name,
        obj=sys.modules[__name__],
    )
