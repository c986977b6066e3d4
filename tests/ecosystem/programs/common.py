"""What every program of this folder needs: the same weights on both sides, and a way to say numbers."""

import json

import torch


def fill(module):
    """Weights that do not depend on a random number generator."""
    with torch.no_grad():
        for place, value in enumerate(list(module.parameters())):
            steps = torch.arange(value.numel(), dtype=torch.float32)
            value.copy_((torch.sin(steps * 0.37 + place) * 0.08).reshape(value.shape))
    return module


def picture(*shape):
    """Numbers that look random and are not."""
    count = 1
    for size in shape:
        count *= size
    return torch.sin(torch.arange(count, dtype=torch.float32) * 0.731).reshape(*shape)


def train(module, loss_of, steps=3, lr=0.05):
    """Losses of a few steps of SGD."""
    optimizer = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=lr)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return losses


def say(*numbers):
    """The program's results, on one line."""
    print("RESULT " + json.dumps([float(n) for n in numbers]))


def flat(found):
    """All numbers in what a program found; of large tensors, their sums."""
    if isinstance(found, dict):
        return [number for value in found.values() for number in flat(value)]
    if isinstance(found, (list, tuple)):
        return [number for value in found for number in flat(value)]
    if isinstance(found, torch.Tensor):
        value = found.detach().double()
        few = value.numel() <= 16
        return value.flatten().tolist() if few else [float(value.sum()), float(value.abs().sum())]
    return [float(found)]


def parts(*functions):
    """Say all that functions found, one after the other."""
    say(*(number for function in functions for number in flat(function())))
