"""Neural operators, physics by DeepXDE and many objectives by torchjd."""

import os

os.environ["DDE_BACKEND"] = "pytorch"
import deepxde as dde
import numpy as np
import torch
from common import fill, picture, say, train
from neuralop.layers.channel_mlp import ChannelMLP
from neuralop.layers.spectral_convolution import SpectralConv
from neuralop.losses import H1Loss, LpLoss
from neuralop.models import FNO
from torchjd.aggregation import MGDA, Mean
from torchjd.autojac import backward, jac_to_grad

found = []
x, y = picture(2, 1, 16, 16), picture(2, 1, 16, 16).flip(-1)
net = fill(
    FNO(
        n_modes=(6, 6),
        hidden_channels=8,
        in_channels=1,
        out_channels=1,
        n_layers=2,
        lifting_channel_ratio=2,
        projection_channel_ratio=2,
    )
)
for loss in (LpLoss(d=2, p=2), H1Loss(d=2)):
    found += train(net, lambda: loss(net(x), y), steps=2, lr=1e-2)
conv = fill(SpectralConv(4, 4, n_modes=(4, 4), separable=False))
found += train(conv, lambda: conv(picture(2, 4, 8, 8)).square().mean(), steps=2)
found.append(fill(ChannelMLP(4, 4, hidden_channels=8))(picture(2, 4, 8, 8)).sum())
dde.config.set_default_float("float32")
space = dde.geometry.Interval(-1, 1)


def law(x, u):
    """u'' = -pi^2 sin(pi x)."""
    return dde.grad.hessian(u, x) + np.pi**2 * torch.sin(np.pi * x)


edge = dde.icbc.DirichletBC(space, lambda x: np.sin(np.pi * x), lambda _, on: on)
data = dde.data.PDE(
    space,
    law,
    edge,
    num_domain=12,
    num_boundary=2,
    num_test=9,
    train_distribution="uniform",
    solution=lambda x: np.sin(np.pi * x),
)
net = dde.nn.FNN([1, 12, 12, 1], "tanh", "Glorot uniform")
model = dde.Model(data, fill(net))
model.compile("adam", lr=1e-2, metrics=["l2 relative error"], loss_weights=[1, 10])
history, state = model.train(iterations=20, display_every=10, verbose=0)
found += [number for row in history.loss_train for number in row] + [
    float(np.ravel(each)[0]) for each in history.metrics_test
]
found.append(model.predict(np.linspace(-1, 1, 5).reshape(-1, 1).astype("float32")).sum())
model.compile("L-BFGS")
dde.optimizers.config.set_LBFGS_options(maxiter=5)
for way in (MGDA(), Mean()):
    body = fill(torch.nn.Linear(4, 3))
    steps = torch.optim.SGD(body.parameters(), lr=0.1)
    for _ in range(3):
        out = body(picture(6, 4))
        aims = [
            (out[:, 0] - 1).square().mean(),
            (out[:, 1] + 1).square().mean(),
            (out.sum(1) - 0.5).abs().mean(),
        ]
        steps.zero_grad()
        backward(aims)
        jac_to_grad(body.parameters(), way)
        steps.step()
    found += [body.weight.sum(), *(float(aim) for aim in aims)]
say(*found)
