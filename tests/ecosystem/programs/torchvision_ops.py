"""torchvision: boxes and their losses, pools of regions, bent convolutions, transforms v2, drawings."""

import torch
import torchvision
from common import fill, picture, say, train
from torchvision import ops, tv_tensors
from torchvision.transforms import v2

found = []
x = picture(2, 3, 64, 64)
left, right = picture(5, 4).abs() * 20, picture(4, 4).abs().flip(0) * 20
left, right = ops.box_convert(left, "cxcywh", "xyxy"), ops.box_convert(right, "xywh", "xyxy")
found += [
    each.sum()
    for each in (
        ops.box_iou(left, right),
        ops.generalized_box_iou(left, right),
        ops.distance_box_iou(left, right),
        ops.complete_box_iou(left, right),
    )
]
found += [
    loss(left[:4], right, reduction="mean")
    for loss in (ops.generalized_box_iou_loss, ops.distance_box_iou_loss, ops.complete_box_iou_loss)
]
found += ops.batched_nms(left, picture(5), torch.tensor([0, 0, 1, 1, 0]), 0.3).tolist()
maps, rois = picture(2, 8, 12, 12), torch.tensor([[0, 1.0, 2.0, 8.0, 9.0], [1, 0.0, 0.0, 6.0, 6.0]])
found += [
    ops.roi_pool(maps, rois, 2).sum(),
    ops.roi_align(maps, rois, 2, 0.5, 2, True).sum(),
    ops.ps_roi_align(maps, rois, 2).sum(),
    ops.ps_roi_pool(maps, rois, 2).sum(),
]
bent = fill(ops.DeformConv2d(8, 4, 3, padding=1))
found += train(
    bent,
    lambda: bent(maps, picture(2, 18, 12, 12), picture(2, 9, 12, 12).sigmoid()).square().mean(),
    steps=2,
)
pyramid = fill(ops.FeaturePyramidNetwork([8, 8], 4)).eval()
found += [each.sum() for each in pyramid({"a": maps, "b": picture(2, 8, 6, 6)}).values()]
found.append(ops.sigmoid_focal_loss(picture(4, 3), (picture(4, 3) > 0).float(), reduction="sum"))
found.append(ops.masks_to_boxes(torch.eye(6).reshape(1, 6, 6) > 0).sum())
image = tv_tensors.Image((picture(3, 20, 24) * 127 + 127).to(torch.uint8))
marks = tv_tensors.BoundingBoxes(
    torch.tensor([[2, 3, 10, 12]]), format="XYXY", canvas_size=(20, 24)
)
mask = tv_tensors.Mask(torch.ones(1, 20, 24, dtype=torch.uint8))
steps = v2.Compose([v2.Resize((16, 16), antialias=True), v2.RandomHorizontalFlip(1.0), v2.Pad(2), v2.CenterCrop(14), v2.ToDtype(torch.float32, scale=True),
                    v2.Normalize([0.5] * 3, [0.2] * 3), v2.ClampBoundingBoxes()])  # fmt: skip
for each in steps(image, marks, mask):
    found += [each.float().sum(), *each.shape]
for step in (v2.functional.rotate, v2.functional.affine):
    extra = (
        {"translate": [1, 2], "scale": 1.1, "shear": [3.0, 0.0]}
        if step is v2.functional.affine
        else {}
    )
    found += [step(each, angle=20.0, **extra).float().sum() for each in (image, marks, mask)]
for step in (
    v2.functional.adjust_hue,
    v2.functional.adjust_contrast,
    v2.functional.adjust_gamma,
    v2.functional.posterize,
    v2.functional.solarize,
):
    found.append(
        step(
            image,
            3
            if step is v2.functional.posterize
            else 100
            if step is v2.functional.solarize
            else 0.3,
        )
        .float()
        .sum()
    )
grid = torchvision.utils.make_grid(x, nrow=2, normalize=True)
drawn = torchvision.utils.draw_bounding_boxes(image, marks, width=2, colors="red")
found += [
    grid.sum(),
    drawn.float().sum(),
    torchvision.utils.draw_segmentation_masks(image, mask > 0, alpha=0.3).float().sum(),
]
say(*found)
