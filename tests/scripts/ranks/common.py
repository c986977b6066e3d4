"""Values that do not depend on who draws random numbers."""

import torch


def fill(module):
    for number, p in enumerate(module.parameters()):
        with torch.no_grad():
            n = p.numel()
            p.copy_(
                (torch.arange(n, dtype=torch.float32) * (0.7 + number)).sin().view(p.shape) * 0.3
            )
    return module


def data(n, *shape, seed=0):
    count = n
    for s in shape:
        count *= s
    return (torch.arange(count, dtype=torch.float32) * 0.37 + seed).cos().view(n, *shape)
