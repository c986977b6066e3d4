import torch
from captum.attr import IntegratedGradients, Saliency
from common import fill, picture, say

model = fill(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)))
x = picture(2, 4)
given = IntegratedGradients(model).attribute(x, target=1, n_steps=20)
say(*given.flatten().tolist(), *Saliency(model).attribute(x, target=0).flatten().tolist())
