"""Surroundings of atoms by torchani; tables by tab-transformer-pytorch; factors of fields by torchfm."""

import torch
import torch.nn.functional as F
import torchani
from common import fill, parts, picture, train
from tab_transformer_pytorch import FTTransformer, TabTransformer
from torch import nn
from torchfm.model.afm import AttentionalFactorizationMachineModel
from torchfm.model.dcn import DeepCrossNetworkModel
from torchfm.model.dfm import DeepFactorizationMachineModel
from torchfm.model.fm import FactorizationMachineModel


def atoms():
    """Numbers of each atom's surroundings, and their derivative by the places."""
    kinds, places = torch.tensor([[0, 1, 0, 2]]), (picture(1, 4, 3) * 2).requires_grad_()
    made = torchani.aev.AEVComputer.like_1x(num_species=4)(kinds, places)
    made = made if isinstance(made, torch.Tensor) else made[1]
    made.pow(2).sum().backward()
    return made, places.grad


def tables():
    """Transformers of rows: three steps each."""
    found = []
    shape = {"categories": (4, 3), "num_continuous": 2, "dim": 8, "dim_out": 1, "depth": 2}
    quiet = {"heads": 2, "attn_dropout": 0.0, "ff_dropout": 0.0}
    for model in (
        TabTransformer(**shape, **quiet, mlp_hidden_mults=(2, 1), mlp_act=nn.ReLU()),
        FTTransformer(**shape, **quiet),
    ):
        fill(model)
        classes, numbers = torch.tensor([[0, 1], [3, 2]]), picture(2, 2)
        found += train(model, lambda: model(classes, numbers).pow(2).mean())  # noqa: B023
    return found


def factors():
    """Factorization machines of several kinds: three steps each."""
    rows, clicked, fields = (
        torch.tensor([[0, 1, 2], [3, 0, 1]]),
        torch.tensor([0.0, 1.0]),
        [4, 3, 3],
    )
    found = []
    for model in (
        FactorizationMachineModel(fields, 4),
        DeepFactorizationMachineModel(fields, 4, (8,), 0.0),
        AttentionalFactorizationMachineModel(fields, 4, 4, (0.0, 0.0)),
        DeepCrossNetworkModel(fields, 4, 2, (8,), 0.0),
    ):
        fill(model)
        found += train(model, lambda: F.binary_cross_entropy(model(rows), clicked))  # noqa: B023
    return found


parts(atoms, tables, factors)
