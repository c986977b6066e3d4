"""gpytorch and botorch: classes, deep kernels, several goals, mixed inputs, costs, lists of models, sampled paths."""

import gpytorch
import torch
from botorch.acquisition import (
    LogExpectedImprovement,
    PosteriorMean,
    ProbabilityOfImprovement,
    qSimpleRegret,
)
from botorch.models import MixedSingleTaskGP, ModelListGP, SingleTaskGP
from botorch.sampling import SobolQMCNormalSampler
from botorch.test_functions import Branin, Hartmann
from botorch.utils.multi_objective import Hypervolume, is_non_dominated
from botorch.utils.multi_objective.box_decompositions import NondominatedPartitioning
from common import fill, parts, picture

x = torch.linspace(0, 1, 12, dtype=torch.float64).unsqueeze(-1)
y = torch.sin(6 * x)


def deep():
    """A network before the kernel."""

    class Model(gpytorch.models.ExactGP):
        """Features by two layers."""

        def __init__(self, x, y, likelihood):
            super().__init__(x, y, likelihood)
            self.features = fill(
                torch.nn.Sequential(torch.nn.Linear(1, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))
            ).double()
            self.mean, self.kernel = (
                gpytorch.means.ConstantMean(),
                gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=2)),
            )

        def forward(self, x):
            hidden = self.features(x)
            return gpytorch.distributions.MultivariateNormal(self.mean(hidden), self.kernel(hidden))

    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    model = Model(x, y.squeeze(-1), likelihood).double()
    marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    found = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = -marginal(model(x), y.squeeze(-1))
        loss.backward()
        optimizer.step()
        found.append(loss.detach())
    model.eval()
    told = model(x[:3] + 0.03)
    return [
        *found,
        told.mean.detach(),
        told.variance.detach(),
        model.state_dict()["kernel.raw_outputscale"],
    ]


def classes():
    """Two classes by a bound."""

    class Model(gpytorch.models.ApproximateGP):
        """Inducing points."""

        def __init__(self):
            how = gpytorch.variational.CholeskyVariationalDistribution(6)
            super().__init__(
                gpytorch.variational.UnwhitenedVariationalStrategy(
                    self, x[::2].float(), how, learn_inducing_locations=False
                )
            )
            self.mean, self.kernel = (
                gpytorch.means.ConstantMean(),
                gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=2.5)),
            )

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    model, likelihood = Model(), gpytorch.likelihoods.BernoulliLikelihood()
    with torch.no_grad():
        model.variational_strategy._variational_distribution.variational_mean.copy_(picture(6))
    model.variational_strategy.variational_params_initialized.fill_(1)
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, 12)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    found = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = -bound(model(x.float()), (y.squeeze(-1) > 0).float())
        loss.backward()
        optimizer.step()
        found.append(loss.detach())
    return [*found, likelihood(model.eval()(x[:3].float())).mean.detach()]


def kernels():
    """Kernels, sums, products, structures."""
    rows = picture(6, 2).double()
    found = []
    for kernel in (
        gpytorch.kernels.PiecewisePolynomialKernel(q=2), gpytorch.kernels.ArcKernel(gpytorch.kernels.RBFKernel(), ard_num_dims=2, angle_prior=None, radius_prior=None), gpytorch.kernels.SpectralMixtureKernel(num_mixtures=2, ard_num_dims=2),
        gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(active_dims=[0])) + gpytorch.kernels.MaternKernel(nu=0.5, active_dims=[1]), gpytorch.kernels.ConstantKernel(), gpytorch.kernels.AdditiveStructureKernel(gpytorch.kernels.RBFKernel(), 2) if hasattr(gpytorch.kernels, "AdditiveStructureKernel") else gpytorch.kernels.RBFKernel(),
    ):  # fmt: skip
        kernel = kernel.double()
        if isinstance(kernel, (gpytorch.kernels.SpectralMixtureKernel, gpytorch.kernels.ArcKernel)):
            fill(kernel)
        found.append(kernel(rows).to_dense().detach())
    grown = gpytorch.kernels.RBFKernel().double()(rows)
    found += [
        grown.add_jitter(0.1).cholesky().to_dense().detach(),
        grown.add_jitter(0.1).solve(rows).detach(),
        grown.diagonal(dim1=-1, dim2=-2).detach(),
    ]
    return found


def fitted(train_x, train_y, **given):
    """A model whose settings nobody searched."""
    return SingleTaskGP(train_x, train_y, outcome_transform=None, **given).eval()


def gains():
    """What is gained by trying a place."""
    model = fitted(x, y)
    at = torch.tensor([[[0.21]], [[0.77]]], dtype=torch.float64)
    found = [
        each(model, best_f=0.5)(at).detach()
        for each in (LogExpectedImprovement, ProbabilityOfImprovement)
    ]
    found.append(PosteriorMean(model)(at).detach())
    found.append(
        qSimpleRegret(model, sampler=SobolQMCNormalSampler(torch.Size([8]), seed=3))(at).shape[0]
    )
    fixed = SingleTaskGP(x, y, torch.full_like(y, 0.01), outcome_transform=None).eval()
    found += [fixed.posterior(at).mean.detach(), fixed.posterior(at).variance.detach()]
    mixed = MixedSingleTaskGP(
        torch.cat([x, (x > 0.5).double()], 1), y, cat_dims=[1], outcome_transform=None
    ).eval()
    found.append(
        mixed.posterior(torch.tensor([[0.3, 0.0], [0.7, 1.0]], dtype=torch.float64)).mean.detach()
    )
    both = ModelListGP(model, fitted(x, y.cos()))
    found.append(both.posterior(at).mean.detach())
    again = model.condition_on_observations(
        torch.tensor([[0.5]], dtype=torch.float64), torch.tensor([[0.1]], dtype=torch.float64)
    )
    found += [
        again.posterior(at).mean.detach(),
        model.subset_output([0]).posterior(at).mean.detach(),
    ]
    return found


def goals():
    """Several goals at once."""
    points = torch.tensor([[1.0, 2.0], [2.0, 1.0], [0.5, 0.5], [1.5, 1.5]], dtype=torch.float64)
    reference = torch.zeros(2, dtype=torch.float64)
    parted = NondominatedPartitioning(reference, points)
    found = [
        is_non_dominated(points).float(),
        Hypervolume(reference).compute(points[is_non_dominated(points)]),
        parted.compute_hypervolume(),
    ]
    found += [
        Branin()(torch.tensor([[1.0, 2.0]])),
        Hartmann()(torch.full((1, 6), 0.3)),
        Branin().optimal_value,
    ]
    return found


parts(deep, classes, kernels, gains, goals)
