import torch
from common import fill, picture, say, train
from vit_pytorch import ViT

net = fill(ViT(image_size=16, patch_size=4, num_classes=3, dim=16, depth=2, heads=2, mlp_dim=32))
x, y = picture(2, 3, 16, 16), torch.tensor([0, 2])
say(*train(net, lambda: torch.nn.functional.cross_entropy(net(x), y)))
