from common import fill, picture, say, train
from nflows.distributions.normal import StandardNormal
from nflows.flows.base import Flow
from nflows.transforms.autoregressive import MaskedAffineAutoregressiveTransform
from nflows.transforms.base import CompositeTransform
from nflows.transforms.permutations import ReversePermutation

layers = []
for _ in range(3):
    layers += [
        ReversePermutation(features=2),
        MaskedAffineAutoregressiveTransform(features=2, hidden_features=4),
    ]
flow = fill(Flow(CompositeTransform(layers), StandardNormal([2])))
x = picture(32, 2)
say(*train(flow, lambda: -flow.log_prob(inputs=x).mean(), steps=4))
