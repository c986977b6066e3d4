import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from common import say
from gpytorch.mlls import ExactMarginalLogLikelihood

x = torch.linspace(0, 1, 8, dtype=torch.float64).unsqueeze(-1)
y = torch.sin(6 * x) + 0.1 * x
model = SingleTaskGP(x, y)
fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
mean = model.posterior(torch.tensor([[0.33], [0.77]], dtype=torch.float64)).mean
improvement = LogExpectedImprovement(model, best_f=y.max())
starts = torch.tensor([[[0.2]], [[0.4]], [[0.9]]], dtype=torch.float64)
bounds = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
best, value = optimize_acqf(
    improvement, bounds, q=1, num_restarts=3, batch_initial_conditions=starts
)
say(*mean.flatten(), best, value)
