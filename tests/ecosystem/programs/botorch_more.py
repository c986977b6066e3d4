import torch
from botorch.acquisition import (
    ExpectedImprovement,
    UpperConfidenceBound,
    qExpectedImprovement,
    qLogNoisyExpectedImprovement,
)
from botorch.fit import fit_gpytorch_mll
from botorch.models import ModelListGP, SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from botorch.utils.multi_objective import is_non_dominated
from botorch.utils.multi_objective.hypervolume import Hypervolume
from common import picture, say
from gpytorch.mlls import ExactMarginalLogLikelihood, SumMarginalLogLikelihood

torch.set_default_dtype(torch.float64)
x = (picture(10, 2).double() + 1) / 2
y = torch.sin(6 * x[:, :1]) * torch.cos(4 * x[:, 1:]) - (x - 0.4).square().sum(-1, keepdim=True)
model = SingleTaskGP(x, y, input_transform=Normalize(2), outcome_transform=Standardize(1))
fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
at = torch.tensor([[0.3, 0.4], [0.8, 0.1]])
told = model.posterior(at)
found = [*told.mean.flatten().tolist(), *told.variance.flatten().tolist()]
for value in (ExpectedImprovement(model, best_f=y.max()), UpperConfidenceBound(model, beta=0.2)):
    found += value(at.unsqueeze(1)).tolist()
draws = SobolQMCNormalSampler(torch.Size([64]), seed=1)
many = qExpectedImprovement(model, best_f=y.max(), sampler=draws)
found.append(many(at).item() >= 0)
noisy = qLogNoisyExpectedImprovement(model, x, sampler=draws)
found.append(bool(torch.isfinite(noisy(at))))
starts = torch.tensor([[[0.2, 0.2]], [[0.7, 0.6]]])
best, worth = optimize_acqf(
    UpperConfidenceBound(model, beta=0.2),
    torch.tensor([[0.0, 0.0], [1.0, 1.0]]),
    q=1,
    num_restarts=2,
    batch_initial_conditions=starts,
)
found += [*best.flatten().tolist(), worth]
both = ModelListGP(SingleTaskGP(x, y), SingleTaskGP(x, y.sin()))
fit_gpytorch_mll(SumMarginalLogLikelihood(both.likelihood, both))
found += [*both.posterior(at).mean.shape]
points = picture(12, 2).double() + 1
front = points[is_non_dominated(points)]
found += [len(front), Hypervolume(torch.zeros(2)).compute(front)]
say(*found)
