"""`torch.optim._functional`: functional forms of optimizers, where older libraries import them."""

from __future__ import annotations

from adjoint.optim.adadelta import adadelta as adadelta
from adjoint.optim.adagrad import adagrad as adagrad
from adjoint.optim.adam import adam as adam
from adjoint.optim.adamax import adamax as adamax
from adjoint.optim.adamw import adamw as adamw
from adjoint.optim.asgd import asgd as asgd
from adjoint.optim.nadam import nadam as nadam
from adjoint.optim.radam import radam as radam
from adjoint.optim.rmsprop import rmsprop as rmsprop
from adjoint.optim.rprop import rprop as rprop
from adjoint.optim.sgd import sgd as sgd
from adjoint.optim.sparse_adam import SparseAdam
from adjoint.optim.stepping.functional_forms import Tensors, run


def sparse_adam(
    params: Tensors,
    grads: Tensors,
    exp_avgs: Tensors,
    exp_avg_sqs: Tensors,
    state_steps: list[int],
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: float,
    maximize: bool,
) -> None:
    """One step of SparseAdam in place; `state_steps` are ints and count this step already."""
    before = [step - 1 for step in state_steps]  # the rule counts; the caller's numbers stay
    run(
        SparseAdam,
        params,
        grads,
        {"step": before, "exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs},
        counter=int,
        eps=eps,
        betas=(beta1, beta2),
        lr=lr,
        maximize=maximize,
    )
