"""Densities by zuko, normflows, nflows; transport by geomloss; integrals by torchquad; torchcde."""

import geomloss
import normflows
import torch
import torchcde
import zuko
from common import fill, picture, say, train
from torchdiffeq import odeint, odeint_adjoint, odeint_event

found = []
x = picture(8, 2)
for flow in (
    zuko.flows.MAF(2, transforms=2, hidden_features=(8,)), zuko.flows.NSF(2, transforms=1, hidden_features=(8,)),
    zuko.flows.NICE(2, transforms=2, hidden_features=(8,)), zuko.flows.GMM(2, components=3), zuko.flows.SOSPF(2, transforms=1, hidden_features=(8,)),
    zuko.flows.NAF(2, transforms=1, hidden_features=(8,)), zuko.flows.CNF(2, hidden_features=(8,)),
):  # fmt: skip
    fill(flow)
    found += train(flow, lambda: -flow().log_prob(x).mean(), steps=2)
layers = []
for _ in range(2):
    layers += [
        normflows.flows.AffineCouplingBlock(normflows.nets.MLP([1, 8, 2])),
        normflows.flows.Permute(2, mode="swap"),
    ]
model = fill(normflows.NormalizingFlow(normflows.distributions.base.DiagGaussian(2), layers))
found += train(model, lambda: model.forward_kld(x), steps=2)
found += [*model.sample(4)[0].shape]
spline = fill(normflows.flows.AutoregressiveRationalQuadraticSpline(2, 1, 8))
found += [each.sum() for each in spline(x * 0.1)]
for loss in ("sinkhorn", "energy", "gaussian"):
    measure = geomloss.SamplesLoss(loss, p=2, blur=0.1, backend="tensorized")
    points = picture(6, 2).requires_grad_()
    value = measure(points, picture(7, 2).cos())
    value.backward()
    found += [value, points.grad.abs().sum()]


class Field(torch.nn.Module):
    """A vector field."""

    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)
        )

    def forward(self, t, y):
        return self.net(y) * torch.cos(t)


field, times = fill(Field()), torch.linspace(0, 1, 4)
for method in ("dopri5", "rk4", "adaptive_heun", "bosh3", "implicit_adams", "midpoint", "dopri8"):
    found.append(odeint(field, x, times, method=method).square().sum())
found += train(field, lambda: odeint_adjoint(field, x, times).square().mean(), steps=2)
event, _ = odeint_event(
    lambda t, y: torch.ones_like(y),
    torch.zeros(1),
    torch.tensor(0.0),
    event_fn=lambda t, y: y[0] - 0.7,
)
found.append(event)
path = torchcde.CubicSpline(
    torchcde.hermite_cubic_coefficients_with_backward_differences(picture(2, 6, 3))
)
found += [path.evaluate(torch.tensor(2.5)).sum(), path.derivative(torch.tensor(1.2)).sum()]


class Controlled(torch.nn.Module):
    """A field driven by a path."""

    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 12)

    def forward(self, t, z):
        return self.net(z).tanh().reshape(*z.shape[:-1], 4, 3)


driven = fill(Controlled())
found += train(
    driven,
    lambda: (
        torchcde.cdeint(path, driven, picture(2, 4), path.interval, adjoint=False, method="rk4")
        .square()
        .mean()
    ),
    steps=2,
)
say(*found)
