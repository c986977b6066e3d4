import torch
from common import fill, picture, say
from pytorch_optimizer import AdaBelief, Lion

found = []
for kind in (Lion, AdaBelief):
    net = fill(torch.nn.Linear(4, 2))
    optimizer, x = kind(net.parameters(), lr=0.01), picture(3, 4)
    for _ in range(3):
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
say(*found)
