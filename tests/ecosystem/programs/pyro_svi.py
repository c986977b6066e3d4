import pyro
import pyro.distributions as dist
import torch
from common import picture, say
from pyro.infer import SVI

data = picture(20) + 1
pyro.clear_param_store()


def model(data):
    mean = pyro.sample("mean", dist.Delta(pyro.param("m", torch.tensor(0.0))))
    with pyro.plate("data", len(data)):
        pyro.sample("obs", dist.Normal(mean, 1.0), obs=data)


def guide(data):
    pyro.sample("mean", dist.Delta(pyro.param("q", torch.tensor(0.5))))


svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.05}), loss=pyro.infer.Trace_ELBO())
say(*(svi.step(data) for _ in range(3)))
