"""Models of click rates, networks of splines, Bayesian layers, low-bit weights."""

import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from common import fill, flat, picture, say, train
from torch import nn


def data(n=16, d=4):
    """Points and their classes."""
    x = picture(n, d)
    return x, (x.sum(1) > 0).long()


def deepctr():
    """Deepctr."""
    from deepctr_torch.inputs import SparseFeat, DenseFeat, get_feature_names
    from deepctr_torch.models import DeepFM, DCN, xDeepFM, AutoInt, NFM, WDL

    cols = [
        SparseFeat("a", 5, embedding_dim=4),
        SparseFeat("b", 6, embedding_dim=4),
        DenseFeat("c", 1),
    ]
    feed = {
        "a": np.arange(16) % 5,
        "b": np.arange(16) % 6,
        "c": np.sin(np.arange(16)).astype("float32"),
    }
    y = (np.arange(16) % 2).astype("float32")
    out = []
    for K in (DeepFM, DCN, xDeepFM, AutoInt, WDL):
        m = K(
            linear_feature_columns=cols,
            dnn_feature_columns=cols,
            task="binary",
            device="cpu",
            **{} if K is not AutoInt else {"att_layer_num": 1, "att_head_num": 2},
        )
        fill(m)
        m.compile(torch.optim.SGD(m.parameters(), 0.1), "binary_crossentropy", metrics=["auc"])
        h = m.fit(feed, y, batch_size=8, epochs=2, verbose=0, shuffle=False)
        out += h.history["loss"] + [float(m.predict(feed, 8).sum())]
    return out


def kan():
    """Kan."""
    from kan import KAN

    m = KAN(width=[2, 3, 1], grid=3, k=3, seed=0, auto_save=False, device="cpu")
    x = picture(20, 2)
    r = []
    with torch.no_grad():
        for p in m.parameters():
            if p.dtype.is_floating_point:
                p.copy_((torch.sin(torch.arange(p.numel()) * 0.37) * 0.1).reshape(p.shape))
    r += train(m, lambda: (m(x) - x.sum(1, keepdim=True)).pow(2).mean())
    return r


def blitz():
    """Blitz."""
    from blitz.modules import BayesianLinear, BayesianConv2d
    from blitz.utils import variational_estimator

    @variational_estimator
    class N(nn.Module):
        def __init__(s):
            super().__init__()
            s.a = BayesianLinear(4, 8)
            s.b = BayesianLinear(8, 2)

        def forward(s, x):
            return s.b(torch.relu(s.a(x)))

    m = N()
    fill(m)
    m.freeze_()
    x, y = data()
    out = [m(x).sum()]
    m.unfreeze_()
    return out


def torchbnn():
    """Torchbnn."""
    import torchbnn as bnn

    m = nn.Sequential(bnn.BayesLinear(0, 0.1, 4, 8), nn.ReLU(), bnn.BayesLinear(0, 0.1, 8, 2))
    fill(m)
    with torch.no_grad():
        for k in (0, 2):
            m[k].freeze() if hasattr(m[k], "freeze") else None
    return [bnn.BKLLoss(reduction="mean")(m)]


def hqq():
    """Hqq."""
    from hqq.core.quantize import HQQLinear, BaseQuantizeConfig, Quantizer

    l = fill(nn.Linear(64, 32))
    q, meta = Quantizer.quantize(
        l.weight.data, nbits=4, group_size=32, device="cpu", compute_dtype=torch.float32
    )
    r = Quantizer.dequantize(q, meta)
    h = HQQLinear(
        l,
        BaseQuantizeConfig(nbits=4, group_size=32),
        compute_dtype=torch.float32,
        device="cpu",
        del_orig=False,
    )
    return [q.sum(), r.sum(), (r - l.weight).abs().sum(), h(picture(2, 64)).sum()]


found = []
for part in (deepctr, kan, blitz, torchbnn, hqq):
    torch.manual_seed(0)
    found += flat(part())
say(*found)
