"""Adamax: Adam with the largest recent gradient in place of the root mean square."""

from __future__ import annotations

from typing import Any

from adjoint.engine.ops.create.creation import zeros_like
from adjoint.engine.ops.elementwise.bounds import maximum
from adjoint.engine.tensor.tensor import Tensor
from adjoint.optim.optimizer import ParamsT
from adjoint.optim.stepping.functional_forms import Tensors, run
from adjoint.optim.stepping.groups import ParamGroup
from adjoint.optim.stepping.options import checked
from adjoint.optim.stepping.rules import RuleOptimizer, own_rule
from adjoint.optim.stepping.scalars import advance, move_quotient, new_counter, scalar
from adjoint.optim.stepping.terms import average, decay


@own_rule
class Adamax(RuleOptimizer):
    r"""Adamax.

    .. math::
        m_t = \beta_1 m_{t-1} + (1 - \beta_1) g_t, \quad
        u_t = \max(\beta_2 u_{t-1}, |g_t| + \epsilon), \quad
        \theta_t = \theta_{t-1} - \frac{\gamma}{1 - \beta_1^t} \frac{m_t}{u_t}

    Args:
        params: parameters or groups.
        lr: the learning rate, a number or a one-element tensor.
        betas: decay rates of the average and of the maximum.
        eps: added to the gradient's size.
        weight_decay: added to the gradient times the parameter.
        maximize: ascend.
        foreach, capturable, differentiable: as PyTorch's; one rule serves them all.
    """

    listed = ("exp_avg", "exp_inf", "step")

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        defaults = checked(
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            foreach=foreach,
            maximize=maximize,
            differentiable=differentiable,
            capturable=capturable,
        )
        super().__init__(params, defaults)

    def create(self, p: Tensor, group: ParamGroup) -> dict[str, Any]:
        return {
            "step": new_counter(p.device if self._counts_on_device(group) else None),
            "exp_avg": zeros_like(p),
            "exp_inf": zeros_like(p),
        }

    def update(self, p: Tensor, grad: Tensor, state: dict[str, Any], group: ParamGroup) -> None:
        lr, (beta1, beta2) = scalar(group["lr"]), group["betas"]
        step = advance(state["step"])
        grad = decay(p, grad, lr, group)
        mean, largest = state["exp_avg"], state["exp_inf"]
        average(mean, grad, beta1)
        largest.copy_(maximum(largest * beta2, grad.abs().add(group["eps"])))
        if group["differentiable"]:
            mean, largest = mean.clone(), largest.clone()
        move_quotient(p, mean, largest, -lr / (1 - beta1**step))


def adamax(
    params: Tensors,
    grads: Tensors,
    exp_avgs: Tensors,
    exp_infs: Tensors,
    state_steps: Tensors,
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: float,
    weight_decay: float,
) -> None:
    """One step of Adamax in place."""
    run(
        Adamax,
        params,
        grads,
        {"step": state_steps, "exp_avg": exp_avgs, "exp_inf": exp_infs},
        foreach=foreach,
        maximize=maximize,
        differentiable=differentiable,
        capturable=capturable,
        eps=eps,
        betas=(beta1, beta2),
        lr=lr,
        weight_decay=weight_decay,
    )
