"""torchopt: optimizers of modules, of functions, differentiable ones, schedules, chains, states; optuna's trials."""

import optuna
import torch
import torch.nn.functional as F
import torchopt
from common import fill, parts, picture
from torch import nn

x, y = picture(6, 4), picture(6, 2)


def network():
    """Two layers."""
    return fill(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)))


def loss_of(net):
    """The error of a network."""
    return F.mse_loss(net(x), y)


def plain():
    """Optimizers as PyTorch's are called."""
    found = []
    for make in (
        torchopt.SGD,
        torchopt.Adam,
        torchopt.AdamW,
        torchopt.Adamax,
        torchopt.RAdam,
        torchopt.RMSProp,
        torchopt.AdaGrad,
        torchopt.AdaDelta,
    ):
        net = network()
        steps = make(net.parameters(), lr=0.05)
        for _ in range(3):
            loss = loss_of(net)
            steps.zero_grad()
            loss.backward()
            steps.step()
            found.append(loss.detach())
    return found


def differentiable():
    """Steps that are differentiated, and states that are put back."""
    found = []
    for make in (
        torchopt.MetaSGD,
        torchopt.MetaAdam,
        torchopt.MetaAdamW,
        torchopt.MetaRMSProp,
        torchopt.MetaAdaMax,
        torchopt.MetaRAdam,
    ):
        net = network()
        scale = torch.tensor(1.0, requires_grad=True)
        steps = make(net, lr=0.05)
        kept, state = torchopt.extract_state_dict(net), steps.state_dict()
        for _ in range(2):
            steps.step(loss_of(net) * scale)
        outer = loss_of(net)
        found += [outer.detach(), torch.autograd.grad(outer, scale)[0]]
        torchopt.recover_state_dict(net, kept)
        steps.load_state_dict(state)
        torchopt.stop_gradient(net)
        found.append(loss_of(net).detach())
    return found


def functional():
    """Updates of trees: schedules, masks, clipping, chains."""
    found = []
    for make in (
        torchopt.adam(torchopt.schedule.polynomial_schedule(0.1, 0.01, 1.0, 5)), torchopt.chain(torchopt.clip.clip_grad_norm(0.5), torchopt.sgd(0.1, momentum=0.9, nesterov=True)),
        torchopt.adamw(0.05, weight_decay=0.1), torchopt.sgd(torchopt.schedule.exponential_decay(0.1, decay_rate=0.5, transition_steps=1)),
    ):  # fmt: skip
        net = network()
        named = dict(net.named_parameters())
        step = torchopt.FuncOptimizer(make)
        for _ in range(3):
            loss = F.mse_loss(torch.func.functional_call(net, named, (x,)), y)
            named = step.step(loss, named)
            found.append(loss.detach())
    return found


def trials():
    """A search by optuna over a training."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def attempt(trial):
        rate = trial.suggest_float("rate", 0.01, 0.1, step=0.03)
        net = network()
        steps = torch.optim.SGD(net.parameters(), lr=rate)
        for epoch in range(3):
            loss = loss_of(net)
            steps.zero_grad()
            loss.backward()
            steps.step()
            trial.report(float(loss.detach()), epoch)
        return float(loss.detach())

    study = optuna.create_study(
        sampler=optuna.samplers.GridSampler({"rate": [0.01, 0.04, 0.07, 0.1]})
    )
    study.optimize(attempt, n_trials=4)
    return [study.best_value, study.best_params["rate"], sorted(t.value for t in study.trials)]


parts(plain, differentiable, functional, trials)
