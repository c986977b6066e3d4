"""Detection as torchvision has it: weights' names, detections, losses and their gradients."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
torchvision = pytest.importorskip("torchvision")

import adjoint as ad  # noqa: E402
from adjoint import vision  # noqa: E402

pytestmark = [pytest.mark.compare, pytest.mark.filterwarnings("ignore")]
BUILDERS = [
    "fasterrcnn_resnet50_fpn",
    "fasterrcnn_resnet50_fpn_v2",
    "fasterrcnn_mobilenet_v3_large_fpn",
    "fasterrcnn_mobilenet_v3_large_320_fpn",
    "maskrcnn_resnet50_fpn",
    "maskrcnn_resnet50_fpn_v2",
    "keypointrcnn_resnet50_fpn",
    "retinanet_resnet50_fpn",
    "retinanet_resnet50_fpn_v2",
    "fcos_resnet50_fpn",
    "ssd300_vgg16",
    "ssdlite320_mobilenet_v3_large",
]
# So many are drawn at random that all are.
EVERY = {"rpn_batch_size_per_image": 100_000, "box_batch_size_per_image": 100_000}


def described(model: Any) -> list[tuple[str, tuple[int, ...], bool]]:
    trains = {name for name, p in model.named_parameters() if p.requires_grad}
    return [(k, tuple(v.shape), k in trains) for k, v in model.state_dict().items()]


@pytest.mark.parametrize("name", BUILDERS)
def test_weights(name: str) -> None:
    with torch.device("meta"), ad.device("meta"):
        want = torchvision.models.get_model(name, weights=None, weights_backbone=None)
        got = vision.models.get_model(name, weights=None, weights_backbone=None)
    assert described(got) == described(want)
    assert repr(got.transform) == repr(want.transform)


def backbone(nn: Any, levels: int, width: int = 8) -> Any:
    """Two levels of so many channels, or one tensor."""

    class Small(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Conv2d(3, width, 3, 4, 1)
            self.two = nn.Conv2d(width, width, 3, 2, 1)
            self.out_channels = width

        def forward(self, x: Any) -> Any:
            first = self.one(x).relu()
            second = self.two(first).relu()
            return second if levels == 1 else OrderedDict([("0", first), ("1", second)])

    return Small()


def network(kind: str, theirs: bool, levels: int = 2, **options: Any) -> Any:
    models = torchvision.models.detection if theirs else vision.models.detection
    nn = torch.nn if theirs else ad.nn
    home = torchvision if theirs else vision
    anchors = models.anchor_utils.AnchorGenerator(((12,), (32,))[:levels], ((0.5, 1.0),) * levels)
    sizes = {"min_size": 64, "max_size": 96}
    trunk = backbone(nn, levels)
    if kind == "RetinaNet":
        return models.RetinaNet(trunk, 4, anchor_generator=anchors, **sizes, **options)
    if kind == "FCOS":
        squares = models.anchor_utils.AnchorGenerator(((4,), (8,))[-levels:], ((1.0,),) * levels)
        head = models.fcos.FCOSHead(64, 1, 4, num_convs=1)
        trunk = backbone(nn, levels, 64)
        return models.FCOS(trunk, 4, anchor_generator=squares, head=head, **sizes, **options)
    if kind == "SSD":
        boxes = models.anchor_utils.DefaultBoxGenerator([[2], [2, 3]][:levels], 0.2, 0.6)
        trunk.out_channels = [8, 8][:levels]
        return models.ssd.SSD(trunk, boxes, (96, 64), 4, **options)
    names = ["0", "1"][:levels]
    align = home.ops.MultiScaleRoIAlign
    parts = {"rpn_anchor_generator": anchors, "box_roi_pool": align(names, 3, 2)}
    if kind == "MaskRCNN":
        parts |= {
            "mask_roi_pool": align(names, 4, 2),
            "mask_head": models.mask_rcnn.MaskRCNNHeads(8, (256,), 1),
        }
    if kind == "KeypointRCNN":
        parts |= {
            "keypoint_roi_pool": align(names, 4, 2),
            "keypoint_head": models.keypoint_rcnn.KeypointRCNNHeads(8, (512,)),
            "num_keypoints": 2,
        }
    return getattr(models, kind)(trunk, 4, **sizes, **parts, **options)


def pair(kind: str, seed: int, **options: Any) -> tuple[Any, Any]:
    """The same network twice, with the same weights."""
    want, got = network(kind, True, **options), network(kind, False, **options)
    assert described(got) == described(want)
    rng = np.random.default_rng(seed)
    state = {
        key: rng.normal(0, 1.0 / np.sqrt(max(1, np.prod(v.shape[1:]))), v.shape).astype(np.float32)
        for key, v in want.state_dict().items()
    }
    state = {k: v * 0.2 if "bbox" in k else v for k, v in state.items()}  # boxes stay near anchors
    want.load_state_dict({k: torch.tensor(v) for k, v in state.items()})
    got.load_state_dict({k: ad.tensor(v) for k, v in state.items()})
    return want, got


def images(seed: int) -> list[Any]:
    """Of the size that networks look at: flat margins would give many boxes the same score."""
    rng = np.random.default_rng(seed)
    return [rng.random((3, 64, 96)).astype(np.float32) for _ in range(2)]


ONE_STAGE = ["RetinaNet", "FCOS", "SSD"]
KINDS = ["FasterRCNN", "MaskRCNN", "KeypointRCNN", *ONE_STAGE]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_detections(kind: str, levels: int, seed: int) -> None:
    want, got = pair(kind, seed, levels=levels)
    pictures = images(seed)
    with torch.no_grad(), ad.no_grad():
        one = want.eval()([torch.tensor(p) for p in pictures])
        two = got.eval()([ad.tensor(p) for p in pictures])
    for a, b in zip(one, two, strict=True):
        assert set(a) == set(b)
        assert len(a["boxes"]) > 3
        for key in a:
            x, y = a[key].numpy(), b[key].numpy()
            assert x.shape == y.shape, key
            assert x.dtype == y.dtype, key
            off = np.abs(x - y) > 2e-3 + 1e-3 * np.abs(x)
            # A corner that lies on a pixel's edge but for rounding moves a row of its mask.
            assert off.mean() <= (1e-3 if key == "masks" else 0), key


def test_batches() -> None:
    """Images of several sizes, resized and filled up."""
    pictures = [
        np.random.default_rng(0).random(s).astype(np.float32) for s in ((3, 50, 70), (3, 44, 41))
    ]
    boxes = np.array([[3.0, 4, 20, 30], [5, 6, 7, 8]], np.float32)
    masks = np.zeros((2, 50, 70), np.uint8)
    masks[:, 5:20, 7:30] = 1
    found = []
    for frame, home in ((torch, torchvision), (ad, vision)):
        transform = home.models.detection.transform.GeneralizedRCNNTransform(
            48, 60, [0.5, 0.4, 0.3], [0.2, 0.3, 0.4]
        ).eval()
        targets = [
            {"boxes": frame.tensor(boxes), "masks": frame.tensor(m)}
            for m in (masks, masks[:, :44, :41])
        ]
        batch, made = transform([frame.tensor(p) for p in pictures], targets)
        found.append(
            (
                batch.image_sizes,
                batch.tensors.numpy(),
                [t["boxes"].numpy() for t in made],
                [t["masks"].numpy() for t in made],
            )
        )
    assert [tuple(s) for s in found[0][0]] == found[1][0]
    np.testing.assert_allclose(found[1][1], found[0][1], atol=1e-4)
    for one, two in zip(found[0][2], found[1][2], strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-6)
    for one, two in zip(found[0][3], found[1][3], strict=True):
        np.testing.assert_array_equal(two, one)


def test_masks_are_laid_over_boxes() -> None:
    rng = np.random.default_rng(0)
    masks = rng.random((20, 1, 28, 28)).astype(np.float32)
    low = rng.random((20, 2)) * 30
    boxes = np.concatenate([low, low + rng.random((20, 2)) * 20], 1).astype(np.float32)
    one = torchvision.models.detection.roi_heads.paste_masks_in_image(
        torch.tensor(masks), torch.tensor(boxes), (45, 47)
    )
    two = vision.models.detection.roi_heads.paste_masks_in_image(
        ad.tensor(masks), ad.tensor(boxes), (45, 47)
    )
    np.testing.assert_allclose(two.numpy(), one.numpy(), atol=1e-4)


def truth(seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed + 100)
    found = []
    for count, (h, w) in ((3, (64, 96)), (1 if seed % 2 else 0, (64, 96))):
        low = rng.random((count, 2)) * (w - 25, h - 25)
        boxes = np.concatenate([low, low + 8 + rng.random((count, 2)) * 16], 1)
        masks = rng.integers(0, 2, (count, h, w)).astype(np.uint8)
        points = np.concatenate(
            [low[:, None] + rng.random((count, 2, 2)) * 12, np.ones((count, 2, 1))], 2
        )
        found.append(
            {
                "boxes": boxes.astype(np.float32),
                "labels": rng.integers(1, 4, count),
                "masks": masks,
                "keypoints": points.astype(np.float32),
            }
        )
    return found


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_losses(kind: str, seed: int) -> None:
    want, got = pair(kind, seed, **({} if kind in ONE_STAGE else EVERY))
    pictures, targets = images(seed), truth(seed)
    one = want.train()(
        [torch.tensor(p) for p in pictures],
        [{k: torch.tensor(v) for k, v in t.items()} for t in targets],
    )
    two = got.train()(
        [ad.tensor(p) for p in pictures],
        [{k: ad.tensor(v) for k, v in t.items()} for t in targets],
    )
    assert list(one) == list(two)
    for key in one:
        np.testing.assert_allclose(two[key].item(), one[key].item(), rtol=1e-4, err_msg=key)
    sum(one.values()).backward()
    sum(two.values()).backward()
    theirs = dict(want.named_parameters())
    for name, parameter in got.named_parameters():
        x, y = theirs[name].grad, parameter.grad
        assert (x is None) == (y is None), name
        if x is not None:
            scale = float(x.abs().max())
            off = np.abs(y.numpy() - x.numpy()) > 1e-3 * scale + 1e-6
            # A ReLU whose argument is 0 but for rounding passes one channel's part, or does not.
            assert off.mean() <= 2e-3, name
