import torch
import torchsde
from common import fill, picture, say


class Drift(torch.nn.Module):
    """A small stochastic differential equation."""

    noise_type, sde_type = "diagonal", "ito"

    def __init__(self):
        super().__init__()
        self.mean, self.spread = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

    def f(self, t, y):
        return self.mean(y)

    def g(self, t, y):
        return torch.sigmoid(self.spread(y)) * 0.1


class Steady:
    """A path that is the same on both sides."""

    levy_area_approximation, shape = "none", (4, 3)
    dtype, device = torch.float32, torch.device("cpu")

    def __call__(self, ta, tb, return_U=False, return_A=False):
        return torch.sin(torch.as_tensor(tb * 7.0)) * (tb - ta) ** 0.5 * torch.ones(4, 3)


sde = fill(Drift())
times = torch.linspace(0, 1, 5)
out = torchsde.sdeint(sde, picture(4, 3), times, bm=Steady(), dt=0.1, method="euler")
out.square().sum().backward()
say(*out[-1].flatten(), sde.mean.weight.grad.sum(), sde.spread.weight.grad.sum())
