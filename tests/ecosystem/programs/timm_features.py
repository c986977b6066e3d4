"""timm: ten further networks, a step and features each; EMA, checkpoints, schedules, layers."""

import tempfile

import timm
import torch
import torch.nn.functional as F
from common import fill, picture, say, train
from timm.layers import (
    AttentionPool2d,
    BlurPool2d,
    GroupNorm1,
    PatchEmbed,
    SelectAdaptivePool2d,
    create_act_layer,
    resample_abs_pos_embed,
)
from timm.models import load_checkpoint
from timm.optim import create_optimizer_v2
from timm.utils import AverageMeter, ModelEmaV3, accuracy, dispatch_clip_grad

x, y = picture(2, 3, 64, 64), torch.tensor([0, 2])
found = []
for name, options in (
    ("resnetv2_50", {}), ("mobilenetv4_conv_small", {}), ("vit_tiny_r_s16_p8_224", {"img_size": 64}), ("edgenext_xx_small", {}), ("poolformerv2_s12", {}),
    ("pvt_v2_b0", {}), ("mobilevit_xxs", {}), ("eva02_tiny_patch14_224", {"img_size": 56}), ("hrnet_w18_small", {}), ("fastvit_t8", {}),
):  # fmt: skip
    given = x if "eva02" not in name else x[..., :56, :56]
    net = fill(timm.create_model(name, num_classes=3, **options)).eval()
    found += train(net, lambda: F.cross_entropy(net(given), y), steps=1, lr=1e-3)
    with torch.no_grad():
        deep = net.forward_features(given)
        found += [
            deep.abs().mean(),
            net.forward_head(deep).sum(),
            sum(p.numel() for p in net.parameters()),
        ]
for name, places in (
    ("mobilenetv3_small_050", (1, 3)),
    ("convnext_femto", (0, 2)),
    ("efficientnet_b0", (2, 4)),
):
    body = fill(timm.create_model(name, features_only=True, out_indices=places)).eval()
    found += [each.abs().mean() for each in body(x)] + [
        *body.feature_info.channels(),
        *body.feature_info.reduction(),
    ]
between = fill(
    timm.create_model("vit_small_patch16_224", img_size=64, depth=3, num_classes=0)
).eval()
found += [
    each.abs().mean()
    for each in between.forward_intermediates(x, indices=2, norm=True, intermediates_only=True)
]
for optimizer in ("lamb", "adopt", "nadamw", "lion", "adafactorbv", "laprop", "mars"):
    net = fill(torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.Linear(8, 3)))
    steps = create_optimizer_v2(
        net, opt=optimizer, lr=1e-2, weight_decay=0.02, filter_bias_and_bn=True
    )
    mean = ModelEmaV3(net, decay=0.8)
    for _ in range(3):
        loss = F.cross_entropy(net(picture(4, 6)), torch.arange(4) % 3)
        steps.zero_grad()
        loss.backward()
        dispatch_clip_grad(net.parameters(), 0.5, mode="agc" if optimizer == "lamb" else "norm")
        steps.step()
        mean.update(net)
    found += [loss, mean.module[0].weight.sum()]
with tempfile.TemporaryDirectory() as folder:
    net = fill(timm.create_model("resnet10t", num_classes=3)).eval()
    torch.save(
        {"state_dict": {"module." + k: v for k, v in net.state_dict().items()}},
        folder + "/kept.pth",
    )
    other = timm.create_model("resnet10t", num_classes=3).eval()
    load_checkpoint(other, folder + "/kept.pth")
    found.append((net(x) - other(x)).abs().max())
meter = AverageMeter()
for place, share in enumerate(accuracy(picture(6, 5), torch.arange(6) % 5, (1, 3))):
    meter.update(share.item(), place + 1)
found.append(meter.avg)
for layer, given in (
    (AttentionPool2d(8, feat_size=4, num_heads=2), picture(2, 8, 4, 4)), (BlurPool2d(4), picture(2, 4, 8, 8)), (PatchEmbed(16, 4, 3, 8), picture(2, 3, 16, 16)),
    (SelectAdaptivePool2d(pool_type="catavgmax"), picture(2, 4, 5, 5)), (GroupNorm1(4), picture(2, 4, 3, 3)), (create_act_layer("hard_swish"), picture(3, 4)),
):  # fmt: skip
    found.append(fill(layer).eval()(given).abs().sum())
found.append(resample_abs_pos_embed(picture(1, 17, 8), (6, 6)).abs().sum())
say(*found)
