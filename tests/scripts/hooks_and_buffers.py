"""Hooks, buffers, parameter groups, freezing, state dict errors."""

import copy
from collections import OrderedDict

import torch
from torch import nn


class Running(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(2))
        self.scale = nn.Parameter(torch.ones(2))

    def forward(self, x):
        if self.training:
            self.mean.lerp_(x.detach().mean(0), 0.5)
        return (x - self.mean) * self.scale


net = nn.Sequential(OrderedDict([("norm", Running()), ("fc", nn.Linear(2, 2))]))
nn.init.eye_(net.fc.weight)
nn.init.ones_(net.fc.bias)
seen = []
handle = net.norm.register_forward_hook(lambda m, args, out: seen.append(tuple(out.shape)))
net.fc.weight.register_hook(lambda g: g * 2)
x = torch.arange(6.0).view(3, 2)
net(x).sum().backward()
handle.remove()
net(x)
print(seen, net.norm.mean, net.fc.weight.grad, net.norm.scale.grad)
for p in net.norm.parameters():
    p.requires_grad = False
print([n for n, p in net.named_parameters() if p.requires_grad])
twin = copy.deepcopy(net)
twin.norm.mean += 1
print(net.norm.mean, twin.norm.mean)
state = net.state_dict()
del state["fc.bias"]
state["extra"] = torch.zeros(1)
try:
    net.load_state_dict(state)
except RuntimeError as error:
    print("missing" in str(error).lower(), "extra" in str(error))
print(net.load_state_dict(state, strict=False))
