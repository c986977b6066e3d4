"""timm: further networks, optimizers, plans, losses, averages of weights, data, agc, attention of pools."""

import tempfile

import timm
import torch
import torch.nn.functional as F
from common import fill, parts, picture, train
from timm.loss import (
    AsymmetricLossMultiLabel,
    BinaryCrossEntropy,
    JsdCrossEntropy,
    SoftTargetCrossEntropy,
)
from timm.optim import create_optimizer_v2
from timm.scheduler import (
    MultiStepLRScheduler,
    PlateauLRScheduler,
    PolyLRScheduler,
    StepLRScheduler,
    TanhLRScheduler,
)
from timm.utils import (
    ModelEmaV2,
    ModelEmaV3,
    accuracy,
    adaptive_clip_grad,
    dispatch_clip_grad,
    freeze,
    get_state_dict,
    unfreeze,
)

x, y = picture(2, 3, 64, 64), torch.tensor([0, 2])


def networks():
    """A step of each."""
    found = []
    for name, options in (
        ("edgenext_xx_small", {}), ("xcit_nano_12_p16_224", {"img_size": 64, "depth": 2}), ("cait_xxs24_224", {"img_size": 64, "depth": 2}),
        ("beit_base_patch16_224", {"img_size": 64, "depth": 1, "embed_dim": 48, "num_heads": 3}), ("eva02_tiny_patch14_224", {"img_size": 56, "depth": 2}), ("pvt_v2_b0", {}), ("ghostnet_050", {}),
        ("mnasnet_050", {}), ("fastvit_t8", {}), ("vgg11", {"num_classes": 3}), ("hardcorenas_a", {}), ("lcnet_035", {}), ("mobilenetv4_conv_small_050", {}), ("poolformer_s12", {}), ("nf_resnet26", {}),
    ):  # fmt: skip
        model = fill(timm.create_model(name, **{"num_classes": 3, **options})).eval()
        given = picture(2, 3, 56, 56) if "eva02" in name else x
        out = model(given)
        loss = F.cross_entropy(out, y)
        loss.backward()
        found += [
            loss.detach(),
            sum(p.grad.square().sum() for p in model.parameters() if p.grad is not None).sqrt(),
        ]
    return found


def steps():
    """Optimizers by name."""
    found = []
    for name in (
        "lamb",
        "adafactor",
        "lookahead_adam",
        "nadamw",
        "lion",
        "adopt",
        "madgrad",
        "sgdp",
        "adamp",
        "novograd",
        "rmsproptf",
        "adan",
        "lars",
        "laprop",
        "mars",
        "kron",
    ):
        if name == "kron":
            continue  # draws
        net = fill(
            torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))
        )
        optimizer = create_optimizer_v2(net, opt=name, lr=0.01, weight_decay=0.01)
        for _ in range(3):
            loss = F.mse_loss(net(picture(5, 4)), picture(5, 2))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.detach())
    layered = create_optimizer_v2(
        fill(timm.create_model("resnet10t", num_classes=3)), opt="adamw", lr=1e-3, layer_decay=0.7
    )
    return [
        *found,
        len(layered.param_groups),
        [group.get("lr_scale", 1.0) for group in layered.param_groups],
    ]


def plans():
    """Plans of rates."""
    found = []
    for make, options in (
        (MultiStepLRScheduler, {"decay_t": [2, 4], "decay_rate": 0.5}), (PolyLRScheduler, {"t_initial": 6}), (StepLRScheduler, {"decay_t": 2, "decay_rate": 0.5, "warmup_t": 1}),
        (TanhLRScheduler, {"t_initial": 6}), (PlateauLRScheduler, {"patience_t": 1, "decay_rate": 0.5}),
    ):  # fmt: skip
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
        plan = make(optimizer, **options)
        for epoch in range(6):
            plan.step(epoch, metric=1.0) if make is PlateauLRScheduler else plan.step(epoch)
            found.append(optimizer.param_groups[0]["lr"])
    return found


def losses():
    """Losses."""
    logits = picture(6, 4)
    soft = picture(6, 4).softmax(-1)
    return [
        SoftTargetCrossEntropy()(logits, soft), BinaryCrossEntropy(smoothing=0.1)(logits, torch.arange(6) % 4), JsdCrossEntropy(num_splits=3)(logits, torch.arange(6) % 4),
        AsymmetricLossMultiLabel()(logits, (soft > 0.25).float()), *accuracy(logits, torch.arange(6) % 4, topk=(1, 2)),
    ]  # fmt: skip


def averages():
    """Averaged weights, clipped gradients, frozen layers, files."""
    net = fill(timm.create_model("resnet10t", num_classes=3))
    second, third = ModelEmaV2(net, 0.5), ModelEmaV3(net, 0.5)
    found = train(net, lambda: F.cross_entropy(net(x), y), steps=1, lr=0.01)
    second.update(net)
    third.update(net)
    found += [second.module.fc.weight, third.module.fc.weight]
    F.cross_entropy(net(x), y).backward()
    adaptive_clip_grad(net.parameters(), 0.01)
    found.append(net.fc.weight.grad)
    dispatch_clip_grad(net.parameters(), 0.1, mode="norm")
    found.append(net.fc.weight.grad)
    freeze(net, ["layer1", "conv1"])
    found.append(sum(p.requires_grad for p in net.parameters()))
    unfreeze(net)
    with tempfile.TemporaryDirectory() as folder:
        torch.save(get_state_dict(net), folder + "/net.pth")
        again = timm.create_model(
            "resnet10t", num_classes=3, checkpoint_path=folder + "/net.pth"
        ).eval()
    net.eval()
    return [
        *found,
        again(x),
        net(x),
        net.forward_features(x),
        net.forward_head(net.forward_features(x), pre_logits=True),
        net.get_classifier().weight.sum(),
    ]


def changed():
    """Heads replaced, pools chosen, features by layer, other numbers of channels, groups of parameters."""
    net = fill(
        timm.create_model("resnet10t", num_classes=3, in_chans=1, global_pool="catavgmax")
    ).eval()
    found = [net(x[:, :1])]
    net.reset_classifier(5, "avg")
    found.append(fill(net)(x[:, :1]).shape[1])
    parts_of = fill(
        timm.create_model("vit_tiny_patch16_224", img_size=64, num_classes=0, depth=3)
    ).eval()
    found += [
        parts_of(x),
        *parts_of.forward_intermediates(x, indices=[0, 2], intermediates_only=True),
    ]
    found += [
        len(parts_of.group_matcher()),
        parts_of.no_weight_decay() is not None,
    ]
    return [
        *found,
        len(timm.list_models("resnet*")) > 10,
        timm.is_model("resnet18"),
        True,
    ]


parts(networks, steps, plans, losses, averages, changed)
