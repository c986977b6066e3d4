"""ASGD: descent with a decaying rate, and the average of the parameters along the way."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.create.creation import ones, zeros_like
from adjoint.engine.ops.elementwise.condition import where
from adjoint.engine.tensor.tensor import Tensor
from adjoint.optim.optimizer import ParamsT
from adjoint.optim.stepping.functional_forms import Tensors, run
from adjoint.optim.stepping.groups import ParamGroup
from adjoint.optim.stepping.options import OPTIONS, Option, checked
from adjoint.optim.stepping.rules import RuleOptimizer, own_rule
from adjoint.optim.stepping.scalars import (
    advance,
    compute,
    counter_dtype,
    new_counter,
    number_in,
    scalar,
)
from adjoint.optim.stepping.terms import decay

OWN = {**OPTIONS, "alpha": Option()}  # a power here


@own_rule
class ASGD(RuleOptimizer):
    r"""Averaged stochastic gradient descent; the average is `state[p]["ax"]`.

    .. math::
        \theta_t = (1 - \lambda \eta_t) \theta_{t-1} - \eta_t g_t, \quad
        \eta_{t+1} = \gamma / (1 + \lambda \gamma t)^\alpha

    Args:
        params: parameters or groups.
        lr: the learning rate, a number or a one-element tensor.
        lambd: the decay term.
        alpha: the power of the decaying rate.
        t0: the step at which averaging starts.
        weight_decay: added to the gradient times the parameter.
        maximize: ascend.
        foreach, capturable, differentiable: as PyTorch's; one rule serves them all.
    """

    numbers = frozenset({"step", "eta", "mu"})
    listed = ("mu", "ax", "eta", "step")

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        defaults = checked(
            OWN,
            lr=lr,
            lambd=lambd,
            alpha=alpha,
            t0=t0,
            weight_decay=weight_decay,
            foreach=foreach,
            maximize=maximize,
            differentiable=differentiable,
            capturable=capturable,
        )
        super().__init__(params, defaults)

    def create(self, p: Tensor, group: ParamGroup) -> dict[str, Any]:
        rate = ones((), dtype=counter_dtype(), device=p.device)
        return {
            "step": new_counter(p.device),
            "eta": rate * scalar(group["lr"]),
            "mu": rate,
            "ax": zeros_like(p),
        }

    def update(self, p: Tensor, grad: Tensor, state: dict[str, Any], group: ParamGroup) -> None:
        lr, lambd = scalar(group["lr"]), group["lambd"]
        eta, mu, ax = state["eta"], state["mu"], state["ax"]
        step = advance(state["step"])
        grad = decay(p, grad, lr, group)
        rate = number_in(eta)
        p.mul_(1 - rate * lambd)
        p.add_(grad, alpha=-rate)
        if CONTEXT.capture is not None:
            ax.copy_(where(mu == 1, p, ax + (p - ax) * mu))
        elif mu.item() != 1:
            ax.add_((p - ax) * mu)
        else:
            ax.copy_(p)
        new_eta = lr / (1 + lr * lambd * step) ** group["alpha"]
        eta.copy_(new_eta) if is_tensor(new_eta) else eta.fill_(0).add_(new_eta)
        mu.fill_(0).add_(compute(averaging_weight, step, group["t0"]))


def averaging_weight(step: float, start: float) -> float:
    """How much of the average a step is, once averaging has started."""
    return 1 / max(1, step - start)


def asgd(
    params: Tensors,
    grads: Tensors,
    axs: Tensors,
    mus: Tensors,
    etas: Tensors,
    state_steps: Tensors,
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lambd: float,
    lr: float,
    t0: float,
    alpha: float,
    weight_decay: float,
) -> None:
    """One step of ASGD in place."""
    run(
        ASGD,
        params,
        grads,
        {"step": state_steps, "eta": etas, "mu": mus, "ax": axs},
        foreach=foreach,
        maximize=maximize,
        differentiable=differentiable,
        capturable=capturable,
        lambd=lambd,
        lr=lr,
        t0=t0,
        alpha=alpha,
        weight_decay=weight_decay,
    )
