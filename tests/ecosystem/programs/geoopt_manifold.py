import geoopt
import torch
from common import picture, say

ball = geoopt.PoincareBall()
point = geoopt.ManifoldParameter(picture(3, 2) * 0.2, manifold=ball)
optimizer, found = geoopt.optim.RiemannianSGD([point], lr=0.1), []
for _ in range(3):
    optimizer.zero_grad()
    loss = ball.dist(point, torch.zeros(2)).sum()
    loss.backward()
    optimizer.step()
    found.append(loss.item())
say(*found)
