import gpytorch
import torch
from common import picture, say

x = torch.linspace(0, 1, 24).unsqueeze(-1)
y = torch.sin(6 * x).squeeze(-1)
found = []


class Sparse(gpytorch.models.ApproximateGP):
    """Inducing points."""

    def __init__(self, points):
        how = gpytorch.variational.CholeskyVariationalDistribution(points.shape[0])
        super().__init__(gpytorch.variational.VariationalStrategy(self, points, how))
        self.mean_module = gpytorch.means.LinearMean(1)
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=1.5))

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


model, likelihood = Sparse(x[::4].clone()), gpytorch.likelihoods.GaussianLikelihood()
with torch.no_grad():
    model.mean_module.weights.fill_(0.1)
    model.mean_module.bias.fill_(0.0)
    model.variational_strategy._variational_distribution.variational_mean.copy_(y[::4])
model.variational_strategy.variational_params_initialized.fill_(1)
bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=24)
optimizer = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.05)
for _ in range(5):
    optimizer.zero_grad()
    loss = -bound(model(x), y)
    loss.backward()
    optimizer.step()
    found.append(loss.item())


class Tasks(gpytorch.models.ExactGP):
    """Two tasks of one kernel."""

    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.MultitaskMean(gpytorch.means.ConstantMean(), num_tasks=2)
        kernel = gpytorch.kernels.RBFKernel() + gpytorch.kernels.PeriodicKernel()
        self.covar_module = gpytorch.kernels.MultitaskKernel(kernel, num_tasks=2, rank=1)
        with torch.no_grad():
            self.covar_module.task_covar_module.covar_factor.fill_(0.5)
            self.covar_module.task_covar_module.raw_var.fill_(0.1)

    def forward(self, x):
        return gpytorch.distributions.MultitaskMultivariateNormal(
            self.mean_module(x), self.covar_module(x)
        )


both = torch.stack([y, y.cos()], -1)
likelihood = gpytorch.likelihoods.MultitaskGaussianLikelihood(num_tasks=2)
tasks = Tasks(x, both, likelihood)
marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, tasks)
optimizer = torch.optim.Adam(tasks.parameters(), lr=0.05)
for _ in range(3):
    optimizer.zero_grad()
    loss = -marginal(tasks(x), both)
    loss.backward()
    optimizer.step()
    found.append(loss.item())
tasks.eval()
likelihood.eval()
with torch.no_grad(), gpytorch.settings.fast_pred_var():
    told = likelihood(tasks(torch.tensor([[0.33], [0.71]])))
    found += told.mean.flatten().tolist()
    lower, upper = told.confidence_region()
    found += [lower.sum(), upper.sum()]
for kernel in (
    gpytorch.kernels.RQKernel(), gpytorch.kernels.PolynomialKernel(2), gpytorch.kernels.CosineKernel(),
    gpytorch.kernels.LinearKernel(), gpytorch.kernels.RBFKernel(ard_num_dims=2) * gpytorch.kernels.MaternKernel(),
):  # fmt: skip
    found.append(kernel(picture(6, 2)).to_dense().sum())
found.append(
    gpytorch.kernels.RBFKernel()(picture(6, 2))
    .add_jitter(0.1)
    .inv_quad_logdet(picture(6, 1), logdet=True)[1]
)
say(*found)
