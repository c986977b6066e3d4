import timm
import torch
import torch.nn.functional as F
from common import fill, picture, say, train
from timm.data import Mixup, create_transform, resolve_data_config
from timm.loss import (
    AsymmetricLossMultiLabel,
    BinaryCrossEntropy,
    JsdCrossEntropy,
    SoftTargetCrossEntropy,
)
from timm.models import checkpoint_seq, model_parameters
from timm.optim import create_optimizer_v2
from timm.scheduler import create_scheduler_v2
from timm.utils import AverageMeter, ModelEmaV2, ModelEmaV3, accuracy, dispatch_clip_grad

x, y = picture(2, 3, 64, 64), torch.tensor([0, 2])
found = []
for name, options in (
    ("vit_tiny_patch16_224", {"img_size": 64}),
    ("mobilenetv4_conv_small", {}),
    ("resnetv2_50", {}),
    ("levit_128s", {"img_size": 64}),
    ("pit_ti_224", {"img_size": 64}),
    ("mobilevit_xxs", {}),
    ("ghostnet_050", {}),
    ("edgenext_xx_small", {}),
    ("eva02_tiny_patch14_224", {"img_size": 56}),
    ("maxvit_rmlp_pico_rw_256", {"img_size": 64}),
    ("seresnext26d_32x4d", {}),
    ("poolformer_s12", {}),
    ("xcit_nano_12_p16_224", {"img_size": 64}),
    ("beit_base_patch16_224", {"img_size": 32, "depth": 2, "embed_dim": 32, "num_heads": 2}),
):
    model = fill(timm.create_model(name, num_classes=3, **options)).eval()
    size = options.get("img_size", 64)
    given = x[:, :, :size, :size].contiguous()
    found += train(model, lambda: F.cross_entropy(model(given), y), steps=1, lr=0.01)
    with torch.no_grad():
        found += [model(given).sum(), *model.forward_features(given).shape]
for name in ("lamb", "lion", "adan", "rmsprop_tf", "nadamw", "adafactor", "lookahead_sgd", "muon"):
    model = fill(torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)))
    optimizer = create_optimizer_v2(model, opt=name, lr=1e-2, weight_decay=0.01, momentum=0.9)
    plan, _ = create_scheduler_v2(
        optimizer, sched="cosine", num_epochs=6, warmup_epochs=2, min_lr=1e-4
    )
    average, second = ModelEmaV2(model, decay=0.5), ModelEmaV3(model, decay=0.5)
    rows = picture(4, 6)
    for epoch in range(3):
        optimizer.zero_grad()
        loss = SoftTargetCrossEntropy()(model(rows), picture(4, 3).softmax(-1))
        loss.backward()
        dispatch_clip_grad(model.parameters(), 0.5, mode="agc" if name == "lion" else "norm")
        optimizer.step()
        plan.step(epoch + 1)
        average.update(model)
        second.update(model, step=epoch)
        found.append(loss.item())
    found += [
        average.module(rows).sum(),
        second.module(rows).sum(),
        optimizer.param_groups[0]["lr"],
    ]
scores, aims = picture(6, 5), torch.arange(6) % 5
meter = AverageMeter()
meter.update(accuracy(scores, aims, topk=(1, 2))[1].item(), 6)
found += [meter.avg, BinaryCrossEntropy(smoothing=0.1)(scores, aims)]
found += [
    JsdCrossEntropy(num_splits=3)(scores, aims),
    AsymmetricLossMultiLabel()(scores, (picture(6, 5) > 0).float()),
]
mixed, labels = Mixup(mixup_alpha=1.0, num_classes=3, prob=0.0)(x.clone(), y)
found += [mixed.sum(), labels.sum()]
model = timm.create_model("resnet10t", pretrained=False, num_classes=3)
found.append(resolve_data_config({}, model=model)["input_size"][1])
model.reset_classifier(7)
found += [
    *model(x).shape,
    len(timm.list_models("vit_*")) > 50,
    sum(1 for _ in model_parameters(model)),
]
say(*found)
