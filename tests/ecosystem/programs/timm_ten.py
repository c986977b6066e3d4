import timm
import torch
import torch.nn.functional as F
from common import fill, picture, say, train
from timm.data import Mixup
from timm.loss import LabelSmoothingCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler

x, y = picture(2, 3, 64, 64), torch.tensor([0, 2])
found = []
for name, options in (
    ("convnext_atto", {}),
    ("efficientnet_lite0", {}),
    ("regnetx_002", {}),
    ("densenet121", {}),
    ("swin_tiny_patch4_window7_224", {"img_size": 64, "window_size": 2}),
    ("deit_tiny_patch16_224", {"img_size": 64}),
    ("mixer_s32_224", {"img_size": 64}),
    ("repvgg_a0", {}),
    ("tf_mobilenetv3_small_minimal_100", {}),
    ("resnest14d", {}),
):
    model = fill(timm.create_model(name, num_classes=3, **options)).eval()
    found += train(model, lambda: F.cross_entropy(model(x), y), steps=1, lr=0.01)
    with torch.no_grad():
        found.append(model(x).sum().item())
model = fill(timm.create_model("resnet10t", num_classes=3))
optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
plan = CosineLRScheduler(optimizer, t_initial=5, warmup_t=1)
for step in range(2):
    loss = LabelSmoothingCrossEntropy()(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    plan.step(step)
    found.append(loss.item())
features = timm.create_model("resnet10t", features_only=True)
found += [each.shape[1] for each in features(x)]
say(*found)
