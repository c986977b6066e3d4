import segmentation_models_pytorch as smp
import torch
import ttach
from common import fill, picture, say, train
from segmentation_models_pytorch import losses, metrics

x, y = picture(2, 3, 64, 64), (picture(2, 1, 64, 64) > 0).float()
found = []
for name, encoder in (
    ("Unet", "mobilenet_v2"), ("UnetPlusPlus", "resnet18"), ("FPN", "resnet18"), ("Linknet", "resnet18"), ("PSPNet", "resnet18"),
    ("DeepLabV3Plus", "resnet18"), ("PAN", "resnet18"), ("MAnet", "resnet18"), ("Segformer", "mit_b0"), ("UPerNet", "resnet18"),
):  # fmt: skip
    model = fill(smp.create_model(name, encoder, encoder_weights=None, classes=1)).eval()
    found += train(model, lambda: losses.DiceLoss("binary")(model(x), y), steps=1, lr=0.01)
head = fill(torch.nn.Conv2d(3, 4, 1))
labels = torch.arange(2 * 64 * 64).reshape(2, 64, 64) % 4
for loss in (
    losses.JaccardLoss("multiclass"), losses.FocalLoss("multiclass"), losses.LovaszLoss("multiclass"), losses.TverskyLoss("multiclass"),
    losses.SoftCrossEntropyLoss(smooth_factor=0.1), losses.MCCLoss(),
):  # fmt: skip
    if isinstance(loss, losses.MCCLoss):
        found.append(loss(head(x)[:, :1].sigmoid(), y))
    else:
        found += train(head, lambda: loss(head(x), labels), steps=1)
tp, fp, fn, tn = metrics.get_stats(head(x).argmax(1), labels, mode="multiclass", num_classes=4)
found += [
    metrics.iou_score(tp, fp, fn, tn, reduction="micro"),
    metrics.f1_score(tp, fp, fn, tn, reduction="macro"),
]
with torch.no_grad():
    turned = ttach.SegmentationTTAWrapper(
        fill(torch.nn.Conv2d(3, 1, 3, padding=1)), ttach.aliases.d4_transform(), merge_mode="mean"
    )
    found.append(turned(x).sum())
say(*found)
