"""nn.Module, nn.Sequential, SGD with momentum, MSELoss."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor, optim

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 8))
        self.head = nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.relu(self.body(x)))


net = Net()
with torch.no_grad():
    for i, p in enumerate(net.parameters()):
        p.copy_(torch.sin(torch.arange(p.numel(), dtype=p.dtype) + i).view_as(p) * 0.5)
print(net)
print(sum(p.numel() for p in net.parameters() if p.requires_grad))
grid = torch.linspace(-1, 1, 8)
x = torch.stack(torch.meshgrid(grid, grid, indexing="ij"), -1).reshape(-1, 2)
y = (x[:, :1] * x[:, 1:]).sin()
criterion = nn.MSELoss()
optimizer = optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
for step in range(args.steps):
    optimizer.zero_grad()
    loss = criterion(net(x), y)
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"{step:3d} {loss.item():.5f}")
print(list(net.state_dict().keys()))
