"""Detection networks: weights' names, closed forms of their parts, training and refusals."""

from __future__ import annotations

import zlib
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import hub, nn
from adjoint.vision import models
from adjoint.vision.models import detection
from adjoint.vision.models.detection import _utils as parts
from adjoint.vision.models.detection.anchor_utils import AnchorGenerator, DefaultBoxGenerator
from adjoint.vision.models.detection.backbone_utils import resnet_fpn_backbone
from adjoint.vision.models.detection.fcos import FCOSHead
from adjoint.vision.models.detection.image_list import ImageList
from adjoint.vision.models.detection.mask_rcnn import MaskRCNNHeads
from adjoint.vision.models.detection.roi_heads import paste_masks_in_image
from adjoint.vision.models.detection.rpn import RPNHead
from adjoint.vision.models.detection.ssd import SSD
from adjoint.vision.models.detection.transform import GeneralizedRCNNTransform
from adjoint.vision.ops import MultiScaleRoIAlign

# CRC-32 of the names and shapes of torchvision 0.28's state_dict, in its order.
WEIGHTS = {
    "fasterrcnn_resnet50_fpn": 2714946570,
    "fasterrcnn_resnet50_fpn_v2": 394402479,
    "fasterrcnn_mobilenet_v3_large_320_fpn": 370487503,
    "maskrcnn_resnet50_fpn": 1498530098,
    "maskrcnn_resnet50_fpn_v2": 157289763,
    "keypointrcnn_resnet50_fpn": 809753133,
    "retinanet_resnet50_fpn": 614150913,
    "retinanet_resnet50_fpn_v2": 3933392153,
    "fcos_resnet50_fpn": 1587739932,
    "ssd300_vgg16": 3023651914,
    "ssdlite320_mobilenet_v3_large": 3225951219,
}


@pytest.mark.parametrize("name", sorted(WEIGHTS))
def test_weights_have_torchvisions_names(name: str) -> None:
    with ad.device("meta"):
        model = models.get_model(name, weights=None, weights_backbone=None)
    described = repr([(key, tuple(value.shape)) for key, value in model.state_dict().items()])
    assert zlib.crc32(described.encode()) == WEIGHTS[name]


class Small(nn.Module):
    """Two levels of eight channels, or as many as said."""

    def __init__(self, out_channels: int | list[int] = 8) -> None:
        super().__init__()
        width = out_channels if isinstance(out_channels, int) else out_channels[0]
        self.one, self.two = nn.Conv2d(3, width, 3, 4, 1), nn.Conv2d(width, width, 3, 2, 1)
        self.out_channels = out_channels

    def forward(self, x: Any) -> Any:
        first = self.one(x).relu()
        return OrderedDict([("0", first), ("1", self.two(first).relu())])


def small(kind: str, **options: Any) -> Any:
    anchors = AnchorGenerator(((12,), (32,)), ((0.5, 1.0),) * 2)
    sizes = {"min_size": 32, "max_size": 48, **options}
    if kind == "RetinaNet":
        return detection.RetinaNet(Small(), 3, anchor_generator=anchors, **sizes)
    if kind == "FCOS":
        squares = AnchorGenerator(((4,), (8,)), ((1.0,),) * 2)
        trunk = Small(32)
        return detection.FCOS(
            trunk, 3, anchor_generator=squares, head=FCOSHead(32, 1, 3, 1), **sizes
        )
    if kind == "SSD":
        trunk = Small([8, 8])
        return SSD(trunk, DefaultBoxGenerator([[2], [2, 3]], 0.3, 0.6), (40, 32), 3, **options)
    made: dict[str, Any] = {
        "rpn_anchor_generator": anchors,
        "box_roi_pool": MultiScaleRoIAlign(["0", "1"], 2, 2),
        "rpn_post_nms_top_n_train": 20,
        "rpn_post_nms_top_n_test": 20,
    }
    if kind == "MaskRCNN":
        made["mask_roi_pool"] = MultiScaleRoIAlign(["0", "1"], 2, 2)
        made["mask_head"] = MaskRCNNHeads(8, (256,), 1)
    return getattr(detection, kind)(Small(), 3, **made, **sizes)


def example() -> tuple[list[Any], list[dict[str, Any]]]:
    masks = ad.zeros(1, 32, 40, dtype=ad.uint8)
    masks[:, 8:24, 6:26] = 1
    target = {"boxes": ad.tensor([[6.0, 8, 26, 24]]), "labels": ad.tensor([1]), "masks": masks}
    empty = {"boxes": ad.zeros(0, 4), "labels": ad.zeros(0, dtype=ad.int64)}
    empty["masks"] = ad.zeros(0, 30, 30, dtype=ad.uint8)
    return [ad.rand(3, 32, 40), ad.rand(3, 30, 30)], [target, empty]


@pytest.mark.parametrize("kind", ["FasterRCNN", "MaskRCNN", "RetinaNet", "FCOS", "SSD"])
def test_networks_train_and_detect(kind: str) -> None:
    ad.manual_seed(0)
    model, (images, targets) = small(kind), example()
    optimizer = ad.optim.SGD(model.parameters(), lr=0.02)
    totals = []
    for _ in range(4):
        loss = sum(model(images, targets).values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        totals.append(loss.item())
    assert all(p.grad is not None for p in model.parameters())
    assert totals[-1] < totals[0]
    assert targets[0]["boxes"].tolist() == [[6.0, 8.0, 26.0, 24.0]]  # given ones are kept
    for found, image in zip(model.eval()(images), images, strict=True):
        count = len(found["scores"])
        assert found["boxes"].shape == (count, 4)
        assert found["labels"].dtype == ad.int64
        if kind == "MaskRCNN":
            assert found["masks"].shape == (count, 1, *image.shape[1:])


def test_boxes_are_decoded_as_they_were_encoded() -> None:
    rng = np.random.default_rng(0)
    low = rng.random((2, 9, 2)) * 50
    one, two = ad.tensor(np.concatenate([low, low + 1 + rng.random((2, 9, 2)) * 30], -1))
    coder = parts.BoxCoder((10.0, 10.0, 5.0, 5.0))
    codes = coder.encode([one[:4], one[4:]], [two[:4], two[4:]])
    assert [len(c) for c in codes] == [4, 5]
    back = coder.decode(ad.cat(list(codes)), [two[:4], two[4:]])
    np.testing.assert_allclose(back[:, 0].numpy(), one.numpy(), rtol=1e-9)
    assert coder.decode(ad.zeros(0, 12), [ad.zeros(0, 4)]).shape == (0, 3, 4)


@pytest.mark.parametrize("low_quality", [False, True])
def test_matches(low_quality: bool) -> None:
    quality = np.random.default_rng(1).random((4, 30)).round(1) * 0.9
    found = parts.Matcher(0.7, 0.4, low_quality)(ad.tensor(quality)).numpy()
    for column in range(30):
        best = quality[:, column].argmax()
        value = quality[best, column]
        wanted = best if value >= 0.7 else -2 if value >= 0.4 else -1
        if low_quality and (quality[:, column] == quality.max(1)).any():
            wanted = best
        assert found[column] == wanted


def test_samples_are_balanced() -> None:
    labels = ad.tensor([1] * 10 + [0] * 50 + [-1] * 5)
    for fraction, positives in ((0.25, 5), (0.9, 10)):
        (one,), (zero,) = parts.BalancedPositiveNegativeSampler(20, fraction)([labels])
        assert int(one.sum()) == positives
        assert int(zero.sum()) == 20 - positives
        assert set(labels[one.bool()].tolist()) == {1}
        assert set(labels[zero.bool()].tolist()) == {0}


def test_anchors() -> None:
    images = ImageList(ad.zeros(2, 3, 32, 64), [(32, 64), (30, 60)])
    levels = [ad.zeros(2, 1, 2, 4), ad.zeros(2, 1, 1, 1)]
    found = AnchorGenerator(((8,), (16,)), ((1.0, 4.0),) * 2)(images, levels)
    assert [each.shape for each in found] == [(18, 4)] * 2
    assert found[0][:2].tolist() == [[-4, -4, 4, 4], [-2, -8, 2, 8]]
    assert found[0][14].tolist() == [48 - 4, 16 - 4, 48 + 4, 16 + 4]  # the last of level 0
    with pytest.raises(AssertionError, match="1 levels but sizes and aspect_ratios of 2"):
        AnchorGenerator(((8,), (16,)), ((1.0,),) * 2)(images, levels[:1])


def test_batches_and_the_way_back() -> None:
    transform = GeneralizedRCNNTransform(20, 30, [0.0] * 3, [1.0] * 3, size_divisible=16).eval()
    batch, _ = transform([ad.ones(3, 10, 12), ad.ones(3, 10, 40)])
    assert batch.image_sizes == [(20, 24), (7, 30)]
    assert batch.tensors.shape == (2, 3, 32, 32)
    assert float(batch.tensors.sum()) == 3 * (20 * 24 + 7 * 30)
    found = transform.postprocess(
        [{"boxes": ad.tensor([[2.0, 4, 12, 20]])}], batch.image_sizes[:1], [(10, 12)]
    )
    assert found[0]["boxes"].tolist() == [[1.0, 2.0, 6.0, 10.0]]


def test_masks_lie_in_their_boxes() -> None:
    boxes = ad.tensor([[2.0, 3, 8, 7], [-4.0, 5, 3, 20]])
    masks = paste_masks_in_image(ad.ones(2, 1, 28, 28), boxes, (10, 12))
    assert masks.shape == (2, 1, 10, 12)
    seen = (masks[:, 0] > 0.5).numpy()
    assert seen[0, 3:7, 2:8].all()
    assert not seen[0, :2].any()
    assert not seen[0, :, 9:].any()
    assert seen[1, 6:, :3].all()


def test_weights_of_earlier_versions() -> None:
    head = RPNHead(4, 2)
    state = head.state_dict()
    old = OrderedDict((k.replace("conv.0.0.", "conv."), v + 1) for k, v in state.items())
    head.load_state_dict(old)
    assert ad.equal(head.conv[0][0].weight, old["conv.weight"])


def test_refusals(tmp_path: Path) -> None:
    model, (images, targets) = small("FasterRCNN"), example()
    with pytest.raises(AssertionError, match="targets should not be none"):
        model(images)
    flat = {**targets[0], "boxes": ad.tensor([[6.0, 8, 6, 24]])}
    with pytest.raises(AssertionError, match="positive height and width.*index 0"):
        model(images[:1], [flat])
    with pytest.raises(TypeError, match="labels must of int64"):
        model(images[:1], [{**targets[0], "labels": ad.tensor([1.0])}])
    with pytest.raises(TypeError, match="floating type"):
        model([ad.zeros(3, 8, 8, dtype=ad.uint8)], targets[:1])
    with pytest.raises(ValueError, match="out_channels"):
        detection.FasterRCNN(nn.Identity(), 2)
    with pytest.raises(ValueError, match="num_classes should not be None"):
        detection.FasterRCNN(Small())
    with pytest.raises(TypeError, match="no_such"):
        small("FasterRCNN", no_such=1)
    two_at_a_place = AnchorGenerator(((4, 8),), ((1.0,),))
    with pytest.raises(ValueError, match="should be 1 instead of 2"):
        detection.FCOS(Small(), 2, anchor_generator=two_at_a_place)
    with pytest.raises(ValueError, match=r"backbone \(2\) do not match .* \(1\)"):
        SSD(Small([8, 8]), DefaultBoxGenerator([[2]]), (32, 32), 2)
    before = hub.get_dir()
    hub.set_dir(str(tmp_path))
    try:
        with ad.device("meta"), pytest.raises(FileNotFoundError, match="weights_backbone=None"):
            detection.fasterrcnn_resnet50_fpn(num_classes=2)
    finally:
        hub.set_dir(before)
    with ad.device("meta"), pytest.warns(UserWarning, match="trainable_backbone_layers"):
        detection.retinanet_resnet50_fpn(weights_backbone=None, trainable_backbone_layers=2)


def test_parts_of_a_backbone_are_frozen() -> None:
    with ad.device("meta"):
        backbone = resnet_fpn_backbone(backbone_name="resnet18", weights=None, trainable_layers=2)
    train = {n.split(".")[1] for n, p in backbone.body.named_parameters("body") if p.requires_grad}
    assert train == {"layer3", "layer4"}
    assert [block[0].in_channels for block in backbone.fpn.inner_blocks] == [64, 128, 256, 512]


def test_models_are_found_by_name() -> None:
    names = models.list_models(module=detection)
    assert set(WEIGHTS) <= set(names)
    weights = detection.FasterRCNN_ResNet50_FPN_Weights.COCO_V1
    assert weights == models.get_weight("FasterRCNN_ResNet50_FPN_Weights.COCO_V1")
