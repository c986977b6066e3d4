"""pyro: flows that are modules and transforms at once, trained by likelihood."""

import pyro.distributions as dist
import pyro.distributions.transforms as flows
import torch
from common import fill, parts, picture, train
from pyro.nn import AutoRegressiveNN, DenseNN

rows = picture(8, 3)
order = torch.arange(3)


def autoregressive(width):
    """A network whose order is told, not drawn."""
    return AutoRegressiveNN(3, [8], param_dims=width, permutation=order)


def likelihood(flow):
    """Losses of a flow between a normal distribution and the rows."""
    fill(flow)
    base = dist.Normal(torch.zeros(3), torch.ones(3)).to_event(1)

    def loss():
        moved = flow(rows.clone())
        return (
            moved.pow(3).mean() - dist.TransformedDistribution(base, [flow]).log_prob(moved).mean()
        )

    found = train(flow, loss)
    return [*found, flow(rows), len(list(flow.parameters()))]


def residual():
    """Planes, spheres, mirrors, matrices."""
    return [
        likelihood(flow)
        for flow in (
            flows.Planar(3), flows.Radial(3), flows.Householder(3, 2), flows.Sylvester(3, 2),
            flows.MatrixExponential(3),
        )
    ]  # fmt: skip


def splines():
    """Splines, alone and by networks."""
    coupled = flows.SplineCoupling(
        3, 1, DenseNN(1, [8], [2 * 4, 2 * 4, 2 * 3, 2 * 4]), count_bins=4
    )
    return [likelihood(flows.Spline(3, count_bins=4)), [p.numel() for p in coupled.parameters()]]


def coupled():
    """Parts that move others."""
    flow = flows.AffineCoupling(1, DenseNN(1, [8], [2, 2]))
    return likelihood(flow)


def composed():
    """One after the other, turned round, and saved."""
    first, second = fill(flows.Planar(3)), fill(flows.Householder(3))
    both = flows.ComposeTransformModule([first, second])
    again = flows.ComposeTransformModule([flows.Planar(3), flows.Householder(3)])
    again.load_state_dict(both.state_dict())
    moved = flows.Permute(torch.tensor([2, 0, 1]))
    return [both(rows), again(rows), moved(rows), moved.inv(moved(rows))]


parts(residual, splines, coupled, composed)
