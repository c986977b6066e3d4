"""Finding and warming up learning rates: torch_lr_finder, pytorch_warmup, prodigyopt, dadaptation, came."""

import tempfile

import dadaptation
import pytorch_warmup as warmup
import torch
import torch.nn.functional as F
from adabelief_pytorch import AdaBelief
from came_pytorch import CAME
from common import fill, parts, picture
from prodigyopt import Prodigy
from ranger_adabelief import RangerAdaBelief
from torch.utils.data import DataLoader, TensorDataset
from torch_lr_finder import LRFinder

x, y = picture(12, 5), torch.arange(12) % 3


def net():
    return fill(torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)))


def steps(optimizer, module, count=4, after=None):
    """Losses of a few steps, and the sum of what was learnt."""
    losses = []
    for _ in range(count):
        optimizer.zero_grad()
        loss = F.cross_entropy(module(x), y)
        loss.backward()
        optimizer.step()
        if after is not None:
            after()
        losses.append(float(loss))
    return [*losses, *(p.abs().sum() for p in module.parameters())]


def range_test():
    """Losses for rising rates; the model comes back as it was."""
    found = []
    for mode in ("exp", "linear"):
        module = net()
        finder = LRFinder(
            module,
            torch.optim.SGD(module.parameters(), lr=1e-3),
            torch.nn.CrossEntropyLoss(),
            device="cpu",
        )
        loader = DataLoader(TensorDataset(x, y), batch_size=4)
        finder.range_test(loader, end_lr=1.0, num_iter=6, step_mode=mode, diverge_th=50)
        found += [*finder.history["lr"], *finder.history["loss"]]
        finder.reset()
        found += [p.abs().sum() for p in module.parameters()]
        with tempfile.TemporaryDirectory() as folder:
            kept = LRFinder(
                module,
                torch.optim.Adam(module.parameters()),
                torch.nn.CrossEntropyLoss(),
                memory_cache=False,
                cache_dir=folder,
            )
            kept.range_test(loader, val_loader=loader, end_lr=0.1, num_iter=3)
            found += kept.history["loss"]
            kept.reset()
    return found  # fmt: skip


def warmups():
    """Dampened rates before a schedule's own."""
    found = []
    for kind, options in (
        (warmup.LinearWarmup, {"warmup_period": 3}),
        (warmup.ExponentialWarmup, {"warmup_period": 3}),
        (warmup.UntunedLinearWarmup, {}),
        (warmup.UntunedExponentialWarmup, {}),
        (warmup.RAdamWarmup, {}),
    ):
        module = net()
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.05)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
        damp = kind(optimizer, **options)

        def after(damp=damp, schedule=schedule, optimizer=optimizer):
            with damp.dampening():
                schedule.step()
            found.append(optimizer.param_groups[0]["lr"])

        found += steps(optimizer, module, after=after)
        state = damp.state_dict()
        damp.load_state_dict(state)
    return found


def adapted():
    """Optimizers that find their rates."""
    found = []
    for make in (
        lambda p: Prodigy(p, lr=1.0, weight_decay=0.01),
        lambda p: Prodigy(p, lr=1.0, use_bias_correction=True, safeguard_warmup=True),
        lambda p: dadaptation.DAdaptAdam(p, lr=1.0),
        lambda p: dadaptation.DAdaptSGD(p, lr=1.0, momentum=0.9),
        lambda p: dadaptation.DAdaptAdaGrad(p, lr=1.0),
        lambda p: dadaptation.DAdaptLion(p, lr=1.0),
        lambda p: CAME(p, lr=0.01),
        lambda p: AdaBelief(p, lr=0.01, print_change_log=False),
        lambda p: AdaBelief(p, lr=0.01, rectify=False, amsgrad=True, print_change_log=False),
        lambda p: RangerAdaBelief(p, lr=0.01),
    ):
        module = net()
        optimizer = make(module.parameters())
        found += steps(optimizer, module, 3)
        other = make(module.parameters())
        other.load_state_dict(optimizer.state_dict())
        found += steps(other, module, 2)
    return found


parts(range_test, warmups, adapted)
