"""Densities of parameters by sbi, filter banks by asteroid, liquid networks by ncps, memories by titans."""

from asteroid_filterbanks import make_enc_dec
from common import fill, parts, picture, train
from ncps.torch import LTC, CfC
from ncps.wirings import AutoNCP
from sbi.neural_nets.net_builders import build_mdn, build_nsf
from titans_pytorch import NeuralMemory


def densities():
    """How likely parameters are, given what was seen; a gradient."""
    found = []
    for build, flows in ((build_nsf, {"num_transforms": 2}), (build_mdn, {})):  # which draw nothing
        estimator = fill(build(picture(20, 2), picture(20, 3), hidden_features=8, **flows))
        found.append(estimator.log_prob(picture(1, 5, 2), picture(5, 3)).mean())
        estimator.loss(picture(5, 2), picture(5, 3)).mean().backward()
        grads = [p.grad for p in estimator.parameters() if p.grad is not None]
        found.append(sum(g.abs().sum() for g in grads))
    return found


def filters():
    """Sound through banks of filters and back."""
    found = []
    for kind in ("stft", "free", "analytic_free", "param_sinc"):
        encode, decode = make_enc_dec(kind, n_filters=16, kernel_size=16, stride=8)
        if kind != "stft":
            fill(encode), fill(decode)
        seen = encode(picture(1, 1, 64))
        found += [seen, decode(seen)]
    return found


def liquid():
    """Networks wired sparsely, in time that flows."""
    found = []
    for make in (CfC, LTC):
        model = fill(make(3, AutoNCP(12, 2, seed=1), batch_first=True))
        found += train(model, lambda: model(picture(2, 5, 3))[0].pow(2).mean(), steps=2)  # noqa: B023
    return found


def remembered():
    """A memory that learns while it reads."""
    return fill(NeuralMemory(dim=16, chunk_size=4))(picture(1, 8, 16))[0]


parts(densities, filters, liquid, remembered)
