"""Forecasts, scores, explanations, spikes, equations and loops of a dozen smaller libraries."""

import os

import numpy as np
import torch
import torcheval.metrics as scores
import torcheval.metrics.functional as score
from common import fill, parts, picture
from torch import nn

os.environ["DDE_BACKEND"] = "pytorch"


def taken(module, loss):
    """A loss, and the size of its gradients."""
    module.zero_grad()
    loss.backward()
    return loss, sum(p.grad.abs().sum() for p in module.parameters() if p.grad is not None)


def forecasts():
    from neuralforecast.models import MLP, NBEATS, NHITS, DLinear, PatchTST

    small = {"patch_len": 4, "stride": 2, "hidden_size": 16, "n_heads": 2}
    small |= {"linear_hidden_size": 16, "encoder_layers": 1}
    given = {"insample_y": picture(3, 12, 1), "insample_mask": torch.ones(3, 12)}
    given |= {"futr_exog": None, "hist_exog": None, "stat_exog": None}
    found = []
    for kind, options in ((NHITS, {}), (NBEATS, {}), (MLP, {}), (DLinear, {}), (PatchTST, small)):
        model = fill(kind(h=4, input_size=12, max_steps=1, **options)).eval()
        out = model(given)
        found += taken(model, (out[-1] if isinstance(out, tuple) else out).square().mean())
    return found


def gated_networks():
    from pytorch_forecasting.metrics import SMAPE, QuantileLoss
    from pytorch_forecasting.models.temporal_fusion_transformer.sub_modules import (
        GatedResidualNetwork,
        InterpretableMultiHeadAttention,
    )

    x = picture(2, 5, 8)
    gated = fill(GatedResidualNetwork(8, 16, 4, dropout=0.0))
    attention = fill(InterpretableMultiHeadAttention(2, 8, dropout=0.0))
    return [
        taken(gated, gated(x).square().mean()),
        taken(attention, attention(x, x, x)[0].square().mean()),
        SMAPE()(picture(3, 4), picture(3, 4) + 1),
        QuantileLoss([0.1, 0.5, 0.9])(picture(2, 3, 3), picture(2, 3)),
    ]


def likelihoods():
    from gluonts.torch.distributions import StudentTOutput
    from gluonts.torch.model.simple_feedforward.module import SimpleFeedForwardModel

    model = fill(
        SimpleFeedForwardModel(
            prediction_length=3,
            context_length=6,
            hidden_dimensions=[8],
            distr_output=StudentTOutput(),
        )
    )
    arguments, loc, scale = model(picture(2, 6) + 2)
    distribution = model.distr_output.distribution(arguments, loc, scale)
    return taken(model, -distribution.log_prob(picture(2, 3)).mean()), distribution.mean


def scored():
    right = scores.MulticlassAccuracy()
    right.update(torch.tensor([0, 2, 1]), torch.tensor([0, 1, 1]))
    area = scores.BinaryAUROC()
    area.update(torch.tensor([0.1, 0.6, 0.3]), torch.tensor([0, 1, 1]))
    return right.compute(), area.compute(), score.r2_score(picture(5), picture(5) * 0.9)


def explained():
    import shap

    model = fill(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)))
    deep = shap.DeepExplainer(model, picture(10, 4))
    return np.abs(deep.shap_values(picture(3, 4) * 2)).sum(), deep.expected_value[0]


def trees():
    import hummingbird.ml
    from sklearn.ensemble import RandomForestClassifier

    x = np.random.RandomState(0).randn(60, 5).astype("f")
    forest = RandomForestClassifier(5, max_depth=3, random_state=0)
    model = hummingbird.ml.convert(forest.fit(x, x[:, 0] + x[:, 1] > 0), "pytorch")
    return model.predict_proba(x).sum(0)[1]


def spikes():
    import norse.torch

    cell, state, total = norse.torch.LIFCell(), None, 0.0
    x = (picture(6, 2, 4) * 3).requires_grad_()
    for step in x:
        out, state = cell(step, state)
        total = total + out.sum() + state.v.sum()
    total.backward()
    return total, x.grad.abs().sum()


def equations():
    import deepxde as dde

    space = dde.geometry.Interval(-1, 1)

    def residual(x, y):
        return -dde.grad.hessian(y, x) - np.pi**2 * torch.sin(np.pi * x)

    edge = dde.icbc.DirichletBC(space, lambda x: 0 * x[:, :1], lambda _, on: on)
    data = dde.data.PDE(space, residual, edge, 16, 2, train_distribution="uniform")
    network = fill(dde.nn.FNN([1, 8, 8, 1], "tanh", "Glorot uniform"))
    model = dde.Model(data, network)
    model.compile("adam", lr=0.001, verbose=0)
    history, _ = model.train(iterations=5, verbose=0, display_every=5)
    return [sum(map(float, losses)) for losses in history.loss_train]


def runner():
    from mmengine.model import BaseModel
    from mmengine.optim import build_optim_wrapper

    class Model(BaseModel):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 1)

        def forward(self, inputs, data_samples=None, mode="tensor"):
            out = self.linear(inputs)
            return {"loss": out.square().mean()} if mode == "loss" else out

    model = fill(Model())
    wrapper = build_optim_wrapper(
        model, {"type": "OptimWrapper", "optimizer": {"type": "SGD", "lr": 0.1}}
    )
    return [model.train_step({"inputs": picture(4, 3)}, wrapper)["loss"] for _ in range(3)]


def values_of_actions():
    from pfrl.q_functions import DiscreteActionValueHead

    model = fill(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)))
    found = DiscreteActionValueHead()(model(picture(3, 4)))
    return found.max, found.greedy_actions, found.evaluate_actions(torch.tensor([0, 1, 0]))


parts(forecasts, gated_networks, likelihoods, scored, explained, trees, spikes, equations, runner,
      values_of_actions)  # fmt: skip
