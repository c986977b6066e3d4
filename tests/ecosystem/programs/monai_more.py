import numpy as np
import torch
from common import fill, picture, say, train
from monai.data import CacheDataset, DataLoader, Dataset, decollate_batch
from monai.inferers import sliding_window_inference
from monai.losses import DiceCELoss, DiceLoss, FocalLoss, GeneralizedDiceLoss, TverskyLoss
from monai.metrics import DiceMetric, HausdorffDistanceMetric, ROCAUCMetric, compute_surface_dice
from monai.networks.nets import (
    SegResNet,
    SwinUNETR,
    UNETR,
    AttentionUnet,
    BasicUNet,
    DenseNet121,
    UNet,
    VNet,
)
from monai.transforms import (
    AsDiscrete,
    Compose,
    CropForegroundd,
    EnsureChannelFirstd,
    EnsureTyped,
    Flipd,
    NormalizeIntensityd,
    RandFlipd,
    RandRotate90d,
    RandSpatialCropd,
    Resized,
    Rotate90d,
    ScaleIntensityRanged,
    Spacingd,
)

found = []
volume = ((np.sin(np.arange(4096) * 0.31) + 1) / 2).astype("float32").reshape(16, 16, 16)
items = [{"image": volume * (i + 1), "label": (volume > 0.5).astype("float32")} for i in range(3)]
keys = ["image", "label"]
steps = Compose(
    [
        EnsureChannelFirstd(keys, channel_dim="no_channel"), ScaleIntensityRanged("image", 0, 3, 0, 1, clip=True), NormalizeIntensityd("image"),
        Spacingd(keys, (1.5, 1.5, 1.5), mode=("bilinear", "nearest")), Resized(keys, (16, 16, 16), mode=("trilinear", "nearest")),
        Flipd(keys, 0), Rotate90d(keys), CropForegroundd(keys, source_key="image", allow_smaller=True), EnsureTyped(keys),
        RandFlipd(keys, prob=0.0), RandRotate90d(keys, prob=0.0), RandSpatialCropd(keys, (8, 8, 8), random_center=False, random_size=False),
    ]
)  # fmt: skip
loader = DataLoader(CacheDataset(items, steps, progress=False), batch_size=2)
for batch in loader:
    found += [batch["image"].sum(), batch["label"].sum(), *batch["image"].shape]
    parts = decollate_batch(batch)
    found.append(len(parts))
found.append(len(Dataset(items, steps)))
x, y = picture(2, 1, 8, 8, 8), (picture(2, 1, 8, 8, 8) > 0).float()
net = fill(UNet(3, 1, 2, channels=(4, 8), strides=(2,), num_res_units=1))
for loss in (
    DiceLoss(to_onehot_y=True, softmax=True), DiceCELoss(to_onehot_y=True, softmax=True), FocalLoss(to_onehot_y=True),
    TverskyLoss(to_onehot_y=True, softmax=True), GeneralizedDiceLoss(to_onehot_y=True, softmax=True),
):  # fmt: skip
    found += train(net, lambda: loss(net(x), y), steps=2)
dice = DiceMetric(include_background=False)
discrete = AsDiscrete(to_onehot=2, argmax=True)
predicted = torch.stack([discrete(each) for each in net(x)])
aims = torch.stack([AsDiscrete(to_onehot=2)(each) for each in y])
dice(predicted, aims)
found.append(dice.aggregate())
distance = HausdorffDistanceMetric()
shifted = torch.roll(aims, 1, -1)
distance(shifted, aims)
found += [distance.aggregate(), compute_surface_dice(shifted, aims, [1.0]).sum()]
area = ROCAUCMetric()
area(torch.tensor([0.1, 0.9, 0.4, 0.6]), torch.tensor([0, 1, 1, 0]))
found.append(area.aggregate())
with torch.no_grad():
    found.append(
        sliding_window_inference(
            picture(1, 1, 12, 12, 12), (8, 8, 8), 2, net.eval(), overlap=0.25, mode="gaussian"
        ).sum()
    )
small = picture(1, 1, 32, 32, 32)
for each, given in (
    (SegResNet(3, init_filters=8, out_channels=2, blocks_down=(1, 1), blocks_up=(1,)), x), (BasicUNet(2, 1, 2, features=(4, 4, 8, 8, 8, 4)), picture(1, 1, 32, 32)),
    (AttentionUnet(2, 1, 2, (4, 8), (2,)), picture(1, 1, 16, 16)), (DenseNet121(2, 1, 2, init_features=8, growth_rate=4, block_config=(1, 1)), picture(1, 1, 32, 32)),
    (UNETR(1, 2, (16, 16, 16), feature_size=4, hidden_size=16, mlp_dim=16, num_heads=2), picture(1, 1, 16, 16, 16)),
):  # fmt: skip
    fill(each).eval()
    found.append(each(given).sum())
say(*found)
