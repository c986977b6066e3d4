"""torchvision: segmentation and detection networks trained a step, features by name."""

import torch
import torch.nn.functional as F
import torchvision
from common import fill, picture, say, train
from torchvision.models import detection, segmentation
from torchvision.models._utils import IntermediateLayerGetter
from torchvision.models.feature_extraction import create_feature_extractor

found = []
x = picture(2, 3, 64, 64)
classes = (torch.arange(2 * 64 * 64).reshape(2, 64, 64) // 97) % 3
for make in (segmentation.deeplabv3_mobilenet_v3_large, segmentation.lraspp_mobilenet_v3_large):
    extra = {} if make is segmentation.lraspp_mobilenet_v3_large else {"aux_loss": True}
    net = fill(make(weights=None, weights_backbone=None, num_classes=3, **extra)).eval()

    def loss():
        """Of all heads."""
        return sum(F.cross_entropy(out, classes) for out in net(x).values())

    found += train(net, loss, steps=1, lr=1e-3)
    with torch.no_grad():
        found.append(net(x)["out"].abs().mean())
boxes = [
    torch.tensor([[4.0, 6.0, 30.0, 40.0], [20.0, 10.0, 60.0, 50.0]]),
    torch.tensor([[8.0, 8.0, 40.0, 56.0]]),
]
aims = [{"boxes": each, "labels": torch.arange(len(each)) + 1, "masks": torch.ones(len(each), 64, 64, dtype=torch.uint8),
         "keypoints": torch.cat([each[:, None, :2] + 5, torch.ones(len(each), 1, 1)], -1)} for each in boxes]  # fmt: skip
for make, extra in (
    (detection.fasterrcnn_mobilenet_v3_large_320_fpn, {}), (detection.ssdlite320_mobilenet_v3_large, {}),
):  # fmt: skip
    size = {} if "ssd" in make.__name__ else {"min_size": 64, "max_size": 64}
    count = 2 if "keypoint" in make.__name__ else 4
    given = [{**each, "labels": each["labels"].clamp(max=count - 1)} for each in aims]
    all_of_them = (
        {
            "rpn_batch_size_per_image": 10**6,
            "rpn_pre_nms_top_n_train": 10**6,
            "rpn_post_nms_top_n_train": 10**6,
            "rpn_nms_thresh": 1.0,
            "box_fg_iou_thresh": 0.37,
            "box_bg_iou_thresh": 0.37,
            "box_batch_size_per_image": 10**6,
        }
        if "rcnn" in make.__name__
        else {}
    )
    net = fill(
        make(weights=None, weights_backbone=None, num_classes=count, **extra, **size, **all_of_them)
    ).train()
    net.backbone.eval()
    told = net(list(x), given)
    sum(told.values()).backward()
    found += [value.item() for value in told.values()]
    found += [sum(p.grad.double().abs().sum() for p in net.parameters() if p.grad is not None)]
    net.eval()
    with torch.no_grad():
        found += [len(net(list(x))), *sorted(len(k) for k in net(list(x))[0])]
net = fill(torchvision.models.mobilenet_v2()).eval()
body = create_feature_extractor(net, {"features.3.conv": "low", "features.10": "high"})
found += [each.abs().sum() for each in body(x).values()]
inner = IntermediateLayerGetter(
    fill(torchvision.models.resnet18()).eval(), {"layer1": "a", "layer3": "b"}
)
found += [each.abs().sum() for each in inner(x).values()]
say(*found)
