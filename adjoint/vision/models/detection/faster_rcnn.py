"""Faster R-CNN (Ren et al., 2015), on pyramids (Lin et al., 2016)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from adjoint import nn
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.vision.models.detection._utils import overwrite_eps
from adjoint.vision.models.detection.anchor_utils import AnchorGenerator
from adjoint.vision.models.detection.backbone_utils import (
    BackboneWithFPN,
    _mobilenet_extractor,
    _resnet_fpn_extractor,
    _validate_trainable_layers,
    trunk,
)
from adjoint.vision.models.detection.generalized_rcnn import GeneralizedRCNN
from adjoint.vision.models.detection.roi_heads import RoIHeads
from adjoint.vision.models.detection.rpn import RegionProposalNetwork, RPNHead
from adjoint.vision.models.detection.transform import GeneralizedRCNNTransform
from adjoint.vision.models.registry import network, weights_in
from adjoint.vision.ops.misc import Conv2dNormActivation, FrozenBatchNorm2d
from adjoint.vision.ops.regions import MultiScaleRoIAlign

IMAGENET_MEAN, IMAGENET_STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
COCO_CLASSES = 91


def _default_anchorgen() -> AnchorGenerator:
    sizes = ((32,), (64,), (128,), (256,), (512,))
    return AnchorGenerator(sizes, ((0.5, 1.0, 2.0),) * len(sizes))


def check_kind(name: str, given: Any, kind: type) -> None:
    """Refuse what is neither None nor of a class."""
    if not isinstance(given, (kind, type(None))):
        raise TypeError(
            f"{name} should be of type {kind.__name__} or None instead of {type(given)}"
        )


class FasterRCNN(GeneralizedRCNN):
    """Detection in two stages.

    Args:
        backbone: makes levels of `backbone.out_channels` channels.
        num_classes: with the background; None if `box_predictor` is given.
        min_size, max_size, image_mean, image_std: see `GeneralizedRCNNTransform`.
        rpn_anchor_generator, rpn_head: the parts of the first stage.
        rpn_pre_nms_top_n_train, rpn_pre_nms_top_n_test: proposals of a level before `nms`.
        rpn_post_nms_top_n_train, rpn_post_nms_top_n_test: proposals of an image after it.
        rpn_nms_thresh, rpn_fg_iou_thresh, rpn_bg_iou_thresh, rpn_batch_size_per_image,
        rpn_positive_fraction, rpn_score_thresh: see `RegionProposalNetwork`.
        box_roi_pool, box_head, box_predictor: the parts of the second stage.
        box_score_thresh, box_nms_thresh, box_detections_per_img, box_fg_iou_thresh,
        box_bg_iou_thresh, box_batch_size_per_image, box_positive_fraction,
        bbox_reg_weights: see `RoIHeads`.
        kwargs: further options of the transform.
    """

    def __init__(
        self, backbone: Any, num_classes: int | None = None, min_size: Any = 800,
        max_size: int = 1333, image_mean: list[float] | None = None,
        image_std: list[float] | None = None,
        rpn_anchor_generator: AnchorGenerator | None = None, rpn_head: nn.Module | None = None,
        rpn_pre_nms_top_n_train: int = 2000, rpn_pre_nms_top_n_test: int = 1000,
        rpn_post_nms_top_n_train: int = 2000, rpn_post_nms_top_n_test: int = 1000,
        rpn_nms_thresh: float = 0.7, rpn_fg_iou_thresh: float = 0.7,
        rpn_bg_iou_thresh: float = 0.3, rpn_batch_size_per_image: int = 256,
        rpn_positive_fraction: float = 0.5, rpn_score_thresh: float = 0.0,
        box_roi_pool: MultiScaleRoIAlign | None = None, box_head: nn.Module | None = None,
        box_predictor: nn.Module | None = None, box_score_thresh: float = 0.05,
        box_nms_thresh: float = 0.5, box_detections_per_img: int = 100,
        box_fg_iou_thresh: float = 0.5, box_bg_iou_thresh: float = 0.5,
        box_batch_size_per_image: int = 512, box_positive_fraction: float = 0.25,
        bbox_reg_weights: tuple[float, float, float, float] | None = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        width = backbone_width(backbone)
        check_kind("rpn_anchor_generator", rpn_anchor_generator, AnchorGenerator)
        check_kind("box_roi_pool", box_roi_pool, MultiScaleRoIAlign)
        if (num_classes is None) == (box_predictor is None):
            wanted = "not be None when box_predictor is not" if num_classes is None else (
                "be None when box_predictor is"
            )  # fmt: skip
            raise ValueError(f"num_classes should {wanted} specified")
        anchors = rpn_anchor_generator or _default_anchorgen()
        if rpn_head is None:
            rpn_head = RPNHead(width, anchors.num_anchors_per_location()[0])
        rpn = RegionProposalNetwork(
            anchors, rpn_head,
            rpn_fg_iou_thresh, rpn_bg_iou_thresh, rpn_batch_size_per_image, rpn_positive_fraction,
            {"training": rpn_pre_nms_top_n_train, "testing": rpn_pre_nms_top_n_test},
            {"training": rpn_post_nms_top_n_train, "testing": rpn_post_nms_top_n_test},
            rpn_nms_thresh, score_thresh=rpn_score_thresh,
        )  # fmt: skip
        pool = box_roi_pool or MultiScaleRoIAlign(["0", "1", "2", "3"], 7, 2)
        if box_head is None:
            box_head = TwoMLPHead(width * pool.output_size[0] ** 2, 1024)
        if box_predictor is None and num_classes is not None:
            box_predictor = FastRCNNPredictor(1024, num_classes)
        heads = RoIHeads(
            pool, box_head, cast(nn.Module, box_predictor),
            box_fg_iou_thresh, box_bg_iou_thresh, box_batch_size_per_image, box_positive_fraction,
            bbox_reg_weights, box_score_thresh, box_nms_thresh, box_detections_per_img,
        )  # fmt: skip
        transform = GeneralizedRCNNTransform(
            min_size, max_size, image_mean or IMAGENET_MEAN, image_std or IMAGENET_STD, **kwargs
        )
        super().__init__(backbone, rpn, heads, transform)


def backbone_width(backbone: Any) -> int:
    """The channels of each level of a backbone."""
    if not hasattr(backbone, "out_channels"):
        raise ValueError(
            "backbone should contain an attribute out_channels specifying the number of output "
            "channels (assumed to be the same for all the levels)"
        )
    return int(backbone.out_channels)


class TwoMLPHead(nn.Module):
    """Two layers on a box's features.

    Args:
        in_channels: channels times bins.
        representation_size: the layers' width.
    """

    def __init__(self, in_channels: int, representation_size: int) -> None:
        super().__init__()
        self.fc6 = nn.Linear(in_channels, representation_size)
        self.fc7 = nn.Linear(representation_size, representation_size)

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, representation_size)."""
        return F.relu(self.fc7(F.relu(self.fc6(x.flatten(start_dim=1)))))


class FastRCNNConvFCHead(nn.Sequential):
    """Convolutions and linear layers on a box's features.

    Args:
        input_size: channels, height and width of the features.
        conv_layers: channels of the convolutions.
        fc_layers: widths of the linear layers.
        norm_layer: makes normalisations; None for none.
    """

    def __init__(
        self, input_size: tuple[int, int, int], conv_layers: list[int], fc_layers: list[int],
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:  # fmt: skip
        width, height, across = input_size
        blocks: list[nn.Module] = []
        for channels in conv_layers:
            blocks.append(Conv2dNormActivation(width, channels, norm_layer=norm_layer))
            width = channels
        blocks.append(nn.Flatten())
        width *= height * across
        for features in fc_layers:
            blocks += [nn.Linear(width, features), nn.ReLU(inplace=True)]
            width = features
        super().__init__(*blocks)
        start_convolutions(self)


def start_convolutions(module: nn.Module) -> None:
    """Weights of convolutions by the width of their result (He et al., 2015); biases 0."""
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


class FastRCNNPredictor(nn.Module):
    """Classes and differences of boxes.

    Args:
        in_channels: the width of a box's features.
        num_classes: with the background.
    """

    def __init__(self, in_channels: int, num_classes: int) -> None:
        super().__init__()
        self.cls_score = nn.Linear(in_channels, num_classes)
        self.bbox_pred = nn.Linear(in_channels, num_classes * 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(N, C) or (N, C, 1, 1) -> (N, classes) and (N, classes * 4)."""
        if x.ndim == 4 and tuple(x.shape[2:]) != (1, 1):
            raise AssertionError(
                "x has the wrong shape, expecting the last two dimensions to be [1,1] instead of "
                f"{list(x.shape[2:])}"
            )
        x = x.flatten(start_dim=1)
        return self.cls_score(x), self.bbox_pred(x)


def backbone_weights(weights: Any, has_weights: bool, legacy: bool | None) -> Any:
    """Published weights that a backbone starts with: none where the whole network has some."""
    if legacy is not None:  # pretrained_backbone, the argument's name before
        weights = "IMAGENET1K_V1" if legacy else None
    return None if has_weights else weights


def resnet50_pyramid(
    weights: Any, has_weights: bool, train: int | None, legacy: bool | None = None,
    frozen: bool = True, **options: Any,
) -> BackboneWithFPN:  # fmt: skip
    """ResNet-50 with a pyramid; its normalisations stay fixed if it was trained before."""
    weights = backbone_weights(weights, has_weights, legacy)
    trained = has_weights or weights is not None
    train = _validate_trainable_layers(trained, train, 5, 3)
    norm = FrozenBatchNorm2d if frozen and trained else nn.BatchNorm2d
    return _resnet_fpn_extractor(trunk("resnet50", weights, norm_layer=norm), train, **options)


@network
def fasterrcnn_resnet50_fpn(
    num_classes: int | None = None, weights_backbone: Any = "IMAGENET1K_V1",
    trainable_backbone_layers: int | None = None, pretrained_backbone: bool | None = None,
    has_weights: bool = False, **kwargs: Any,
) -> FasterRCNN:  # fmt: skip
    """Faster R-CNN on ResNet-50 with a pyramid."""
    backbone = resnet50_pyramid(
        weights_backbone, has_weights, trainable_backbone_layers, pretrained_backbone
    )
    model = FasterRCNN(backbone, num_classes or COCO_CLASSES, **kwargs)
    if has_weights:
        overwrite_eps(model, 0.0)
    return model


def second_version(backbone: BackboneWithFPN) -> dict[str, Any]:
    """The heads of the second version (Li et al., 2021)."""
    anchors, width = _default_anchorgen(), backbone.out_channels
    return {
        "rpn_anchor_generator": anchors,
        "rpn_head": RPNHead(width, anchors.num_anchors_per_location()[0], conv_depth=2),
        "box_head": FastRCNNConvFCHead((width, 7, 7), [256] * 4, [1024], nn.BatchNorm2d),
    }


@network
def fasterrcnn_resnet50_fpn_v2(
    num_classes: int | None = None, weights_backbone: Any = None,
    trainable_backbone_layers: int | None = None, pretrained_backbone: bool | None = None,
    has_weights: bool = False, **kwargs: Any,
) -> FasterRCNN:  # fmt: skip
    """Faster R-CNN on ResNet-50 with a pyramid, the second version."""
    backbone = resnet50_pyramid(
        weights_backbone, has_weights, trainable_backbone_layers, pretrained_backbone,
        frozen=False, norm_layer=nn.BatchNorm2d,
    )  # fmt: skip
    options = {**second_version(backbone), **kwargs}
    return FasterRCNN(backbone, num_classes or COCO_CLASSES, **options)


def _on_mobilenet(
    num_classes: int | None, weights: Any, train: int | None, legacy: bool | None,
    has_weights: bool, **kwargs: Any,
) -> FasterRCNN:  # fmt: skip
    weights = backbone_weights(weights, has_weights, legacy)
    trained = has_weights or weights is not None
    train = _validate_trainable_layers(trained, train, 6, 3)
    norm = FrozenBatchNorm2d if trained else nn.BatchNorm2d
    layers = trunk("mobilenet_v3_large", weights, norm_layer=norm)
    anchors = AnchorGenerator(((32, 64, 128, 256, 512),) * 3, ((0.5, 1.0, 2.0),) * 3)
    options = {"rpn_anchor_generator": anchors, "rpn_score_thresh": 0.05, **kwargs}
    backbone = _mobilenet_extractor(layers, True, train)
    return FasterRCNN(backbone, num_classes or COCO_CLASSES, **options)


@network
def fasterrcnn_mobilenet_v3_large_fpn(
    num_classes: int | None = None, weights_backbone: Any = "IMAGENET1K_V1",
    trainable_backbone_layers: int | None = None, pretrained_backbone: bool | None = None,
    has_weights: bool = False, **kwargs: Any,
) -> FasterRCNN:  # fmt: skip
    """Faster R-CNN on MobileNetV3-Large with a pyramid."""
    return _on_mobilenet(
        num_classes, weights_backbone, trainable_backbone_layers, pretrained_backbone,
        has_weights, **kwargs,
    )  # fmt: skip


@network
def fasterrcnn_mobilenet_v3_large_320_fpn(
    num_classes: int | None = None, weights_backbone: Any = "IMAGENET1K_V1",
    trainable_backbone_layers: int | None = None, pretrained_backbone: bool | None = None,
    has_weights: bool = False, **kwargs: Any,
) -> FasterRCNN:  # fmt: skip
    """The same for small images and few proposals."""
    small = {"min_size": 320, "max_size": 640, "rpn_pre_nms_top_n_test": 150,
             "rpn_post_nms_top_n_test": 150}  # fmt: skip
    return _on_mobilenet(
        num_classes, weights_backbone, trainable_backbone_layers, pretrained_backbone,
        has_weights, **{**small, **kwargs},
    )  # fmt: skip


__getattr__ = weights_in(__name__)
