"""Boxes, regions and layers of detection networks, by closed forms and NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import adjoint as ad
from adjoint.nn import functional as F
from adjoint.testing import assert_close
from adjoint.vision import ops
from adjoint.vision.ops.feature_pyramid_network import LastLevelMaxPool, LastLevelP6P7


def ramp(height: int, width: int) -> ad.Tensor:
    """An image whose value is 10 y + x."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    return ad.tensor((10 * y + x)[None, None])


def test_aligned_regions_of_a_plane_are_exact() -> None:
    """Samples of a linear function, averaged, are its value in the middle of the bin."""
    box = ad.tensor([[0.0, 2.5, 1.5, 8.5, 7.5]])
    out = ops.roi_align(ramp(12, 14), box, 3, sampling_ratio=2, aligned=True)
    y, x = np.meshgrid(1.0 + 2 * np.arange(3) + 1, 2.0 + 2 * np.arange(3) + 1, indexing="ij")
    assert_close(out[0, 0], ad.tensor((10 * y + x).astype(np.float32)))
    plain = ops.roi_align(ramp(12, 14), [box[:, 1:]], 3, sampling_ratio=-1)
    assert_close(plain[0, 0], ad.tensor((10 * (y + 0.5) + x + 0.5).astype(np.float32)))


def test_regions_beyond_the_image_are_zero() -> None:
    image = ad.ones(1, 2, 5, 5)
    out = ops.roi_align(image, ad.tensor([[0.0, 20, 20, 30, 30]]), 2)
    assert out.tolist() == [[[[0.0, 0.0], [0.0, 0.0]]] * 2]


def test_pooled_regions() -> None:
    image = ramp(6, 8)
    out = ops.roi_pool(image, ad.tensor([[0.0, 1, 2, 4, 5]]), 2)
    assert out[0, 0].tolist() == [[32.0, 34.0], [52.0, 54.0]]
    one = ad.cat([image + 100 * k for k in range(4)], 1)  # a channel for each bin
    made = ops.ps_roi_pool(one, ad.tensor([[0.0, 0, 0, 4, 4]]), 2)
    assert made[0, 0].tolist() == [[5.5, 107.5], [225.5, 327.5]]
    aligned = ops.ps_roi_align(one, ad.tensor([[0.0, 0.5, 0.5, 4.5, 4.5]]), 2, sampling_ratio=2)
    assert_close(aligned[0, 0], ad.tensor([[11.0, 113.0], [231.0, 333.0]]))


def test_regions_are_differentiable() -> None:
    box = ad.tensor([[0.0, 0.7, 1.2, 4.1, 3.9]], dtype=ad.float64)
    image = ad.randn(1, 2, 6, 6, dtype=ad.float64, requires_grad=True)
    assert ad.autograd.gradcheck(lambda x: ops.roi_align(x, box, 2, aligned=True), (image,))


def test_a_convolution_that_is_not_deformed() -> None:
    ad.manual_seed(0)
    x, weight = ad.randn(2, 4, 7, 8), ad.randn(6, 2, 3, 3)
    still = ad.zeros(2, 2 * 9, 4, 4)
    want = F.conv2d(x, weight, stride=2, padding=1, groups=2)
    got = ops.deform_conv2d(x, still, weight, stride=2, padding=1)
    assert_close(got, want, rtol=1e-4, atol=1e-4)
    moved = ad.zeros(2, 2 * 9, 5, 6)
    moved[:, 1::2] = 1.0  # every tap a pixel to the right
    right = ops.deform_conv2d(x, moved, weight)
    assert_close(right[..., :-1], F.conv2d(x, weight, groups=2)[..., 1:], rtol=1e-4, atol=1e-4)
    half = ops.deform_conv2d(x, ad.zeros_like(moved), weight, mask=ad.full((2, 9, 5, 6), 0.5))
    assert_close(half, 0.5 * F.conv2d(x, weight, groups=2), rtol=1e-4, atol=1e-4)
    with pytest.raises(RuntimeError, match="does not fit"):
        ops.deform_conv2d(x, ad.zeros(2, 18, 3, 3), weight)


def test_overlaps() -> None:
    one, two = ad.tensor([[0.0, 0, 2, 2]]), ad.tensor([[1.0, 0, 3, 2], [4.0, 0, 6, 2]])
    assert_close(ops.box_iou(one, two), ad.tensor([[1 / 3, 0.0]]))
    assert_close(ops.generalized_box_iou(one, two), ad.tensor([[1 / 3, -1 / 3]]))
    assert_close(ops.distance_box_iou(one, two), ad.tensor([[1 / 3 - 1 / 13, -16 / 40]]))
    assert_close(ops.complete_box_iou(one, two), ops.distance_box_iou(one, two))  # all square
    assert_close(ops.generalized_box_iou_loss(one, two[:1], "sum"), ad.tensor(2 / 3))
    assert_close(ops.complete_box_iou_loss(one, one, "mean"), ad.tensor(0.0))
    with pytest.raises(ValueError, match="reduction"):
        ops.distance_box_iou_loss(one, one, "median")


def test_which_boxes_are_kept() -> None:
    boxes = ad.tensor([[0.0, 0, 4, 4], [0, 0, 4, 5], [10, 10, 14, 14], [0, 0, 4, 4.5]])
    scores = ad.tensor([0.5, 0.9, 0.1, 0.7])
    assert ops.nms(boxes, scores, 0.5).tolist() == [1, 2]
    assert ops.batched_nms(boxes, scores, ad.tensor([0, 1, 0, 1]), 0.5).tolist() == [1, 0, 2]
    assert ops.remove_small_boxes(boxes, 4.2).tolist() == []
    assert ops.clip_boxes_to_image(boxes, (12, 13))[2].tolist() == [10, 10, 13, 12]
    masks = ad.zeros(1, 6, 7, dtype=ad.bool)
    masks[0, 2:4, 3:6] = True
    assert ops.masks_to_boxes(masks).tolist() == [[3, 2, 5, 3]]
    with pytest.raises(ValueError, match="empty"):
        ops.masks_to_boxes(ad.zeros(1, 3, 3))


def test_pyramids() -> None:
    levels = {"a": ad.randn(1, 3, 8, 8), "b": ad.randn(1, 5, 4, 4)}
    net = ops.FeaturePyramidNetwork([3, 5], 4, LastLevelMaxPool())
    assert list(net.state_dict())[:2] == ["inner_blocks.0.0.weight", "inner_blocks.0.0.bias"]
    sizes = {name: tuple(value.shape) for name, value in net(levels).items()}
    assert sizes == {"a": (1, 4, 8, 8), "b": (1, 4, 4, 4), "pool": (1, 4, 2, 2)}
    assert list(ops.FeaturePyramidNetwork([3, 5], 4, LastLevelP6P7(4, 4))(levels))[2:] == [
        "p6",
        "p7",
    ]
    boxes = [ad.tensor([[0.0, 0, 8, 8], [0, 0, 30, 30]])]
    pooled = ops.MultiScaleRoIAlign(["a", "b"], 2, 2)(net(levels), boxes, [(32, 32)])
    assert pooled.shape == (2, 4, 2, 2)


def test_dropped_blocks() -> None:
    ad.manual_seed(0)
    x = ad.ones(4, 8, 16, 16)
    out = ops.drop_block2d(x, 0.3, 3)
    assert 0.4 < float((out == 0).float().mean()) ** 0.5 < 0.75
    assert_close(out.sum(), x.sum(), rtol=1e-4, atol=0)
    assert ops.DropBlock2d(0.3, 3).eval()(x) is x
    with pytest.raises(ValueError, match="5 dimensional"):
        ops.drop_block3d(x, 0.3, 3)


def test_boxes_and_scores_that_do_not_go_together() -> None:
    for boxes in (ad.zeros(2, 5), ad.zeros(4), ad.zeros(1, 2, 4)):
        with pytest.raises(RuntimeError, match=r"nms: boxes should be \(N, 4\), received"):
            ops.nms(boxes, ad.zeros(2), 0.5)
    for scores in (ad.zeros(3), ad.zeros(1), ad.zeros(2, 1)):
        with pytest.raises(RuntimeError, match="nms: scores should be one for each of 2 boxes"):
            ops.nms(ad.zeros(2, 4), scores, 0.5)
