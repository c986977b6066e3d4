"""timm: every optimizer that it makes by name, its schedules, averages and losses."""

import timm.loss as losses
import torch
from common import fill, parts, picture
from timm.optim import create_optimizer_v2, list_optimizers
from timm.scheduler import create_scheduler_v2
from timm.utils import ModelEmaV2, ModelEmaV3, accuracy

F = torch.nn.functional
ELSEWHERE = ("bnb", "fused", "apex", "kron")  # compiled, or compiled by PyTorch's own compiler
LOOK_AHEAD = ("lbfgs", "bfgs")


def net():
    """A small network with weights that decay, and some that do not."""
    layers = [torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.GELU(), torch.nn.Linear(8, 2)]
    return fill(torch.nn.Sequential(*layers))


def steps_of(name):
    """Losses of a few steps."""
    model = net()
    optimizer = create_optimizer_v2(model, opt=name, lr=0.01, weight_decay=0.05, momentum=0.9)

    def closure():
        optimizer.zero_grad()
        loss = F.mse_loss(model(picture(6, 4)), picture(6, 2))
        loss.backward(create_graph="hessian" in name)
        return loss

    found = []
    for _ in range(4):
        found.append(float(closure()))
        optimizer.step(*[closure] if name in LOOK_AHEAD else [])
    return found


def optimizers():
    """All of them."""
    return [steps_of(name) for name in list_optimizers() if not name.startswith(ELSEWHERE)]


def schedules():
    """Rates over epochs, with a warm-up, by name."""
    found = []
    for name in ("cosine", "tanh", "step", "multistep", "plateau", "poly"):
        optimizer = torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), lr=0.1)
        further = {"decay_milestones": [2, 4]} if name == "multistep" else {}
        schedule, epochs = create_scheduler_v2(
            optimizer, sched=name, num_epochs=8, warmup_epochs=2, warmup_lr=1e-3, decay_epochs=3,
            cooldown_epochs=1, min_lr=1e-4, **further,
        )  # fmt: skip
        found.append(epochs)
        for epoch in range(8):
            schedule.step(epoch, metric=1.0 / (epoch + 1))
            found.append(optimizer.param_groups[0]["lr"])
    return found


def averages():
    """Averages of weights and running statistics."""
    model = fill(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)))
    plain, warmed = ModelEmaV2(model, decay=0.9), ModelEmaV3(model, decay=0.9, use_warmup=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        optimizer.zero_grad()
        model(picture(5, 4)).pow(2).sum().backward()
        optimizer.step()
        plain.update(model)
        warmed.update(model, step=step)
    return [plain.module(picture(3, 4)), warmed.module(picture(3, 4))]


def judged():
    """Losses of classes and of many labels; how often the answer is among the first."""
    scores, classes = picture(6, 4), torch.arange(6) % 4
    soft = F.one_hot(classes, 4).float() * 0.9 + 0.025
    return [
        losses.LabelSmoothingCrossEntropy(0.1)(scores, classes),
        losses.SoftTargetCrossEntropy()(scores, soft),
        losses.BinaryCrossEntropy(0.1)(scores, classes),
        losses.BinaryCrossEntropy(target_threshold=0.2)(scores, soft),
        losses.JsdCrossEntropy(num_splits=3)(scores, classes[:2]),
        losses.AsymmetricLossMultiLabel()(scores, soft.round()),
        losses.AsymmetricLossSingleLabel()(scores, classes),
        accuracy(scores, classes, topk=(1, 3)),
    ]


parts(optimizers, schedules, averages, judged)
