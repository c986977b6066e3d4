"""Networks that say what a video shows."""

import sys
from typing import Any

from adjoint.vision import models as _models
from adjoint.vision.models.video.mvit import MViT as MViT
from adjoint.vision.models.video.mvit import mvit_v1_b as mvit_v1_b
from adjoint.vision.models.video.mvit import mvit_v2_s as mvit_v2_s
from adjoint.vision.models.video.resnet import VideoResNet as VideoResNet
from adjoint.vision.models.video.resnet import mc3_18 as mc3_18
from adjoint.vision.models.video.resnet import r2plus1d_18 as r2plus1d_18
from adjoint.vision.models.video.resnet import r3d_18 as r3d_18
from adjoint.vision.models.video.s3d import S3D as S3D
from adjoint.vision.models.video.s3d import s3d as s3d
from adjoint.vision.models.video.swin_transformer import SwinTransformer3d as SwinTransformer3d
from adjoint.vision.models.video.swin_transformer import swin3d_b as swin3d_b
from adjoint.vision.models.video.swin_transformer import swin3d_s as swin3d_s
from adjoint.vision.models.video.swin_transformer import swin3d_t as swin3d_t


def __getattr__(name: str) -> Any:
    if name.endswith("_Weights"):
        return getattr(_models, name)
    raise AttributeError(
        f"module 'torchvision.models.video' has no attribute {name!r}",
        name=name,
        obj=sys.modules[__name__],
    )
