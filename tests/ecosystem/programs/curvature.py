"""backpack, curvlinops and laplace: second-order quantities of a small network."""

import torch
from backpack import backpack, extend
from backpack.extensions import (
    KFAC,
    BatchGrad,
    BatchL2Grad,
    DiagGGNExact,
    DiagHessian,
    SumGradSquared,
    Variance,
)
from common import fill, picture, say
from curvlinops import EFLinearOperator, GGNLinearOperator, HessianLinearOperator
from laplace import Laplace

found = []
x, y = picture(6, 4), torch.arange(6) % 3


def net():
    """Two layers."""
    return fill(
        torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Sigmoid(), torch.nn.Linear(5, 3))
    )


model, measure = extend(net()), extend(torch.nn.CrossEntropyLoss())
with backpack(
    BatchGrad(), BatchL2Grad(), DiagGGNExact(), DiagHessian(), SumGradSquared(), Variance()
):
    measure(model(x), y).backward()
for value in model.parameters():
    found += [
        value.grad_batch.abs().sum(),
        value.batch_l2.sum(),
        value.diag_ggn_exact.sum(),
        value.diag_h.sum(),
    ]
    found += [value.sum_grad_squared.sum(), value.variance.sum()]
with backpack(KFAC()):
    measure(model(x), y).backward()
found.append(len(model[0].weight.kfac))
plain, rows = net(), [(x[:3], y[:3]), (x[3:], y[3:])]
values = list(plain.parameters())
for kind in (HessianLinearOperator, GGNLinearOperator, EFLinearOperator):
    operator = kind(plain, torch.nn.CrossEntropyLoss(), values, rows)
    vector = picture(operator.shape[1])
    found += [(operator @ vector).sum(), (operator @ vector).square().sum()]
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=3)
for structure, subset in (
    ("diag", "all"),
    ("full", "last_layer"),
    ("kron", "last_layer"),
    ("full", "all"),
):
    posterior = Laplace(
        net(), "classification", subset_of_weights=subset, hessian_structure=structure
    )
    posterior.fit(loader)
    found += posterior(x[:2], link_approx="probit").flatten().tolist()
    found.append(posterior.log_marginal_likelihood())
say(*found)
