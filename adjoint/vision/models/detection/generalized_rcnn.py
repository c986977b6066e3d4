"""Networks of two stages: proposals, then what they show."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from adjoint import nn
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.models.detection._utils import check_targets, refuse_degenerate


class GeneralizedRCNN(nn.Module):
    """Images into a batch, features, proposals and detections.

    Args:
        backbone: makes the features, a dictionary of levels or one tensor.
        rpn: proposes boxes.
        roi_heads: looks at them.
        transform: makes the batch, and brings detections back to the images.
    """

    def __init__(
        self, backbone: nn.Module, rpn: nn.Module, roi_heads: nn.Module, transform: nn.Module
    ) -> None:
        super().__init__()
        self.transform, self.backbone = transform, backbone
        self.rpn, self.roi_heads = rpn, roi_heads

    def forward(self, images: Sequence[Tensor], targets: list[dict[str, Any]] | None = None) -> Any:
        """Images (C, H, W) -> a dictionary of losses while training, else one for each image."""
        if self.training:
            check_targets(targets)
        sizes = [(int(image.shape[-2]), int(image.shape[-1])) for image in images]
        batch, targets = self.transform(images, targets)
        refuse_degenerate(targets)
        features = self.backbone(batch.tensors)
        if isinstance(features, Tensor):
            features = OrderedDict([("0", features)])
        proposals, losses = self.rpn(batch, features, targets)
        detections, further = self.roi_heads(features, proposals, batch.image_sizes, targets)
        if self.training:
            return {**further, **losses}
        return self.transform.postprocess(detections, batch.image_sizes, sizes)
