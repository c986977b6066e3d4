# Checkpoints as many programs write them: arguments, a whole module, histories, an optimizer.
import argparse
import os
import tempfile
from collections import OrderedDict, defaultdict
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    width: int = 6
    rate: float = 0.05


class Net(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.body = nn.Sequential(nn.Linear(3, config.width), nn.LayerNorm(config.width))
        self.head = nn.Linear(config.width, 2)
        self.activation = F.gelu
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        return self.head(self.activation(self.body(x)))


def fill(model):
    with torch.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(torch.sin(torch.arange(p.numel()) * 0.7 + i).view_as(p))


args = argparse.Namespace(epochs=4, name="demo")
net = Net(Config())
fill(net)
optimizer = torch.optim.Adam(net.parameters(), lr=net.config.rate)
history = defaultdict(list)
x = torch.cos(torch.arange(24.0)).view(8, 3)
y = torch.arange(8) % 2
folder = tempfile.mkdtemp()
path = os.path.join(folder, "checkpoint.pt")

for epoch in range(args.epochs):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    history["loss"].append(loss.item())
    torch.save(
        {
            "epoch": epoch,
            "args": args,
            "net": net,
            "state": net.state_dict(),
            "optimizer": optimizer.state_dict(),
            "history": history,
            "best": np.float64(min(history["loss"])),
            "curve": np.array(history["loss"]),
        },
        path,
    )

try:
    torch.load(path)
except Exception as error:
    print("refused:", type(error).__name__)
saved = torch.load(path, weights_only=False)
again = saved["net"]
print(type(again).__name__, again.config, saved["args"], saved["epoch"], int(again.calls))
print(["%.4f" % v for v in saved["history"]["loss"]], saved["curve"].shape)
print("%.4f" % saved["best"], torch.equal(again(x), net(x)))

other = torch.optim.Adam(again.parameters(), lr=1.0)
other.load_state_dict(saved["optimizer"])
other.zero_grad()
F.cross_entropy(again(x), y).backward()
other.step()
print("%.4f" % F.cross_entropy(again(x), y).item(), other.param_groups[0]["lr"])

renamed = OrderedDict(("module." + k, v) for k, v in saved["state"].items())
fresh = Net(Config())
print(fresh.load_state_dict({k[len("module.") :]: v for k, v in renamed.items()}))
with torch.serialization.safe_globals([argparse.Namespace]):
    torch.save(args, path)
    print(torch.load(path))
