# A critic with a gradient penalty, sharpness-aware steps, and an average of the weights.
import copy

import torch
import torch.nn as nn
from torch import autograd, optim
from torch.optim.lr_scheduler import CosineAnnealingWarmRestarts, LinearLR, SequentialLR


class Sharp(optim.Optimizer):
    def __init__(self, params, base, rho=0.05, **kwargs):
        super().__init__(params, dict(rho=rho, **kwargs))
        self.base = base(self.param_groups, **kwargs)
        self.param_groups = self.base.param_groups

    @torch.no_grad()
    def climb(self):
        norms = [p.grad.norm(2) for g in self.param_groups for p in g["params"]]
        scale = self.param_groups[0]["rho"] / (torch.stack(norms).norm(2) + 1e-12)
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["old"] = p.data.clone()
                p.add_(p.grad * scale)
        self.zero_grad()

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.data = self.state[p]["old"]
        self.base.step()
        self.zero_grad()


critic = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
with torch.no_grad():
    for i, p in enumerate(critic.parameters()):
        p.copy_(torch.sin(torch.arange(p.numel()) * 1.3 + i).view_as(p))
average = copy.deepcopy(critic).requires_grad_(False)
real = torch.sin(torch.arange(16.0)).view(8, 2)
fake = torch.cos(torch.arange(16.0) * 2).view(8, 2)


def penalty():
    mix = torch.linspace(0, 1, 8).unsqueeze(1)
    between = (mix * real + (1 - mix) * fake).requires_grad_(True)
    out = critic(between)
    (slope,) = autograd.grad(
        outputs=out,
        inputs=between,
        grad_outputs=torch.ones_like(out),
        create_graph=True,
        retain_graph=True,
        only_inputs=True,
    )
    return ((slope.norm(2, dim=1) - 1) ** 2).mean()


def loss_of():
    return critic(fake).mean() - critic(real).mean() + 10 * penalty()


optimizer = Sharp(critic.parameters(), optim.SGD, lr=0.02, momentum=0.9)
first = LinearLR(optimizer.base, start_factor=0.1, total_iters=3)
then = CosineAnnealingWarmRestarts(optimizer.base, T_0=4)
scheduler = SequentialLR(optimizer.base, [first, then], milestones=[3])
for step in range(8):
    loss = loss_of()
    loss.backward()
    optimizer.climb()
    loss_of().backward()
    optimizer.step()
    scheduler.step()
    for a, p in zip(average.parameters(), critic.parameters()):
        a.lerp_(p, 0.1)
    print("%d %.4f %.5f" % (step, loss.item(), scheduler.get_last_lr()[0]))
print("%.4f %.4f" % (average(real).mean().item(), critic(real).mean().item()))
