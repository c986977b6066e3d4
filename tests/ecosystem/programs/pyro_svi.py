import pyro
import pyro.distributions as dist
import torch
from common import picture, say
from pyro.infer import SVI, Predictive, TraceMeanField_ELBO
from torch.distributions import constraints

data = picture(20) + 1
pyro.clear_param_store()


def model(data):
    mean = pyro.sample("mean", dist.Normal(0.0, 10.0))
    with pyro.plate("data", len(data)):
        pyro.sample("obs", dist.Normal(mean, 1.0), obs=data)


def guide(data):
    place = pyro.param("place", torch.tensor(0.5))
    spread = pyro.param("spread", torch.tensor(1.0), constraint=constraints.positive)
    # Next to no spread: the sample is the same whatever the numbers drawn.
    pyro.sample("mean", dist.Normal(place, spread * 1e-5))


svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.05}), loss=TraceMeanField_ELBO())
losses = [svi.step(data) for _ in range(5)]
drawn = Predictive(model, guide=guide, num_samples=3)(data)["mean"]
say(*losses, pyro.param("place"), pyro.param("spread"), drawn.mean())
