import torch
from common import fill, picture, say, train
from einops import rearrange, reduce
from einops.layers.torch import Rearrange

net = fill(torch.nn.Sequential(Rearrange("b c h w -> b (c h w)"), torch.nn.Linear(12, 2)))
x = picture(2, 3, 2, 2)
say(
    *train(net, lambda: net(x).square().mean()),
    reduce(rearrange(x, "b c h w -> b h w c"), "b h w c -> b c", "max").sum(),
)
