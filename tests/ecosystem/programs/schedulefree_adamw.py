import schedulefree
import torch
from common import fill, picture, say

net = fill(torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)))
x, y = picture(16, 6), picture(16, 1)
found = []
for kind in (schedulefree.AdamWScheduleFree, schedulefree.SGDScheduleFree):
    optimizer = kind(net.parameters(), lr=0.01, warmup_steps=2)
    optimizer.train()
    for _ in range(5):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    optimizer.eval()
    found.append(torch.nn.functional.mse_loss(net(x), y).item())
say(*found)
