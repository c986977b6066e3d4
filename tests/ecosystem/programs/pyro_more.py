import pyro
import pyro.distributions as dist
import torch
from common import picture, say
from pyro.infer import (
    MCMC,
    NUTS,
    SVI,
    Predictive,
    TraceEnum_ELBO,
    TraceMeanField_ELBO,
    config_enumerate,
)
from pyro.infer.autoguide import AutoDelta, AutoDiagonalNormal, AutoNormal
from pyro.nn import PyroModule, PyroSample
from pyro.optim import ClippedAdam

data = picture(12) + 0.5
found = []


def model(data):
    """A mean and a scale."""
    middle = pyro.sample("middle", dist.Normal(0.0, 2.0))
    width = pyro.sample("width", dist.LogNormal(0.0, 0.5))
    with pyro.plate("rows", len(data)):
        pyro.sample("seen", dist.Normal(middle, width), obs=data)


pyro.clear_param_store()
guide = AutoDelta(model)
steps = SVI(model, guide, ClippedAdam({"lr": 0.1}), pyro.infer.Trace_ELBO())
found += [steps.step(data) for _ in range(10)][1:]
found += [guide.median()["middle"], guide.median()["width"]]
pyro.clear_param_store()


@config_enumerate
def mixture(data):
    """Two hidden kinds, summed over."""
    share = pyro.param("share", torch.tensor([0.4, 0.6]), constraint=dist.constraints.simplex)
    places = pyro.param("places", torch.tensor([-0.5, 0.8]))
    with pyro.plate("rows", len(data)):
        kind = pyro.sample("kind", dist.Categorical(share))
        pyro.sample("seen", dist.Normal(places[kind], 0.7), obs=data)


steps = SVI(
    mixture, lambda data: None, ClippedAdam({"lr": 0.05}), TraceEnum_ELBO(max_plate_nesting=1)
)
found += [steps.step(data) for _ in range(5)]
found += [*pyro.param("share").tolist(), *pyro.param("places").tolist()]
trace = pyro.poutine.trace(
    pyro.poutine.condition(model, {"middle": torch.tensor(0.3), "width": torch.tensor(1.1)})
)
found.append(trace.get_trace(data).log_prob_sum())
pyro.clear_param_store()
normal = AutoNormal(model)
SVI(model, normal, ClippedAdam({"lr": 0.01}), TraceMeanField_ELBO()).step(data)
drawn = Predictive(model, guide=normal, num_samples=5)(data)
found += [*drawn["seen"].shape]
full = AutoDiagonalNormal(model)
SVI(model, full, ClippedAdam({"lr": 0.01}), pyro.infer.Trace_ELBO()).step(data)
pyro.set_rng_seed(0)
chain = MCMC(NUTS(model), num_samples=120, warmup_steps=60, disable_progbar=True)
chain.run(data)
middle = chain.get_samples()["middle"]
found += [len(middle), abs(float(middle.mean()) - float(data.mean())) < 0.25]


class Bayes(PyroModule):
    """A line whose weights are drawn."""

    def __init__(self):
        super().__init__()
        self.line = PyroModule[torch.nn.Linear](3, 1)
        self.line.weight = PyroSample(dist.Normal(0.0, 1.0).expand([1, 3]).to_event(2))

    def forward(self, x):
        return self.line(x)


found += [*Bayes()(picture(4, 3)).shape]
for each, at in (
    (dist.Gamma(2.0, 3.0), 0.4), (dist.Beta(2.0, 3.0), 0.4), (dist.StudentT(4.0), 0.7), (dist.Poisson(3.0), 2.0),
    (dist.VonMises(0.0, 2.0), 0.3), (dist.Stable(1.5, 0.2), None), (dist.ZeroInflatedPoisson(2.0, gate=0.3), 1.0),
    (dist.MultivariateNormal(torch.zeros(2), torch.eye(2)), torch.ones(2)), (dist.LKJCholesky(2, 1.0), None),
    (dist.TransformedDistribution(dist.Normal(0.0, 1.0), [dist.transforms.AffineTransform(1.0, 2.0)]), 0.2),
    (dist.Dirichlet(torch.ones(3) * 2), torch.tensor([0.2, 0.3, 0.5])), (dist.NegativeBinomial(3.0, 0.4), 2.0),
):  # fmt: skip
    if at is None:
        found.append(each.sample().numel())
    else:
        found.append(each.log_prob(torch.as_tensor(at)).sum())
say(*found)
