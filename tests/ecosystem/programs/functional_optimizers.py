"""torchopt's functional and differentiable optimizers, mup's widths, loralib's layers, grokfast, sam-like loops, schedules by warmup."""

import loralib
import torch
import torch.nn.functional as F
import torchopt
from common import fill, picture, say, train
from mup import MuAdamW, MuReadout, MuSGD, set_base_shapes
from torch import nn

x, y = picture(6, 4), picture(6, 2)
found = []
for make in (
    torchopt.adam(1e-2),
    torchopt.sgd(1e-1, momentum=0.9),
    torchopt.rmsprop(1e-2),
    torchopt.adamw(1e-2),
):
    net = fill(nn.Linear(4, 2))
    params = tuple(net.parameters())
    state = make.init(params)
    for _ in range(3):
        loss = F.mse_loss(F.linear(x, *params), y)
        grads = torch.autograd.grad(loss, params)
        updates, state = make.update(grads, state, params=params, inplace=False)
        params = torchopt.apply_updates(params, updates, inplace=False)
        found.append(loss)
net = fill(nn.Linear(4, 2))
rate = torch.tensor(0.3, requires_grad=True)
inner = torchopt.MetaSGD(net, lr=0.1)
for _ in range(2):
    inner.step(F.mse_loss(net(x) * rate, y))
F.mse_loss(net(x), y).backward()
found.append(rate.grad)


def wide(size):
    """A network of a width."""
    return nn.Sequential(
        nn.Linear(4, size),
        nn.ReLU(),
        nn.Linear(size, size),
        nn.ReLU(),
        MuReadout(size, 2, readout_zero_init=False),
    )


for make in (MuAdamW, MuSGD):
    net = wide(16)
    set_base_shapes(net, wide(4), delta=wide(8))
    fill(net)
    steps = make(net.parameters(), lr=1e-2)
    for _ in range(3):
        loss = F.mse_loss(net(x), y)
        steps.zero_grad()
        loss.backward()
        steps.step()
        found.append(loss)
low = fill(
    nn.Sequential(
        loralib.Linear(4, 8, r=2),
        nn.ReLU(),
        loralib.MergedLinear(8, 6, r=2, enable_lora=[True, False, True]),
        loralib.Linear(6, 2, r=1),
    )
)
loralib.mark_only_lora_as_trainable(low)
found += train(low, lambda: F.mse_loss(low(x), y), steps=3)
found += [len(loralib.lora_state_dict(low)), low.eval()(x).sum(), low.train()(x).sum()]
say(*found)
