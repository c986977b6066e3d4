import torch
from common import fill, picture, say, train
from einx import rearrange
from ema_pytorch import EMA
from entmax import entmax15, sparsemax
from lion_pytorch import Lion
from torch_ema import ExponentialMovingAverage

net = fill(torch.nn.Linear(6, 3))
x, y = picture(5, 6), torch.tensor([0, 1, 2, 0, 1])
found = []
for function in (sparsemax, entmax15):
    found += train(net, lambda: -(function(net(x), dim=-1)[range(5), y] + 1e-2).log().mean())
optimizer = Lion(net.parameters(), lr=1e-3, weight_decay=1e-2)
average, other = EMA(net, beta=0.9, update_after_step=0, update_every=1), None
other = ExponentialMovingAverage(net.parameters(), decay=0.9)
for _ in range(3):
    loss = torch.nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average.update()
    other.update()
    found.append(loss.item())
found.append(average(x).sum().item())
with other.average_parameters():
    found.append(net(x).sum().item())
found.append(rearrange("(a b) c -> a (b c)", picture(6, 4), a=2)[1].sum().item())
say(*found)
