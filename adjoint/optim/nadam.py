"""NAdam: Adam with Nesterov momentum."""

from __future__ import annotations

from typing import Any

from adjoint.engine.ops.create.creation import ones, zeros_like
from adjoint.engine.tensor.tensor import Tensor
from adjoint.optim.optimizer import ParamsT
from adjoint.optim.stepping.functional_forms import Tensors, run
from adjoint.optim.stepping.groups import ParamGroup
from adjoint.optim.stepping.options import checked
from adjoint.optim.stepping.rules import RuleOptimizer, own_rule
from adjoint.optim.stepping.scalars import (
    advance,
    counter_dtype,
    move_quotient,
    new_counter,
    number_in,
    scalar,
)
from adjoint.optim.stepping.terms import average, average_square, decay


@own_rule
class NAdam(RuleOptimizer):
    r"""Adam with Nesterov momentum, whose momentum mu grows towards beta1 over the steps.

    .. math::
        \mu_t = \beta_1 (1 - \tfrac12 0.96^{t \psi}), \quad
        \hat m_t = \frac{\mu_{t+1} m_t}{1 - \prod_{i \le t+1} \mu_i}
            + \frac{(1 - \mu_t) g_t}{1 - \prod_{i \le t} \mu_i}

    Args:
        params: parameters or groups.
        lr: the learning rate, a number or a one-element tensor.
        betas: decay rates of the averages of the gradient and its square.
        eps: added to the denominator.
        weight_decay: added to the gradient times the parameter.
        momentum_decay: the rate psi.
        decoupled_weight_decay: shrink the parameter itself, as AdamW does.
        maximize: ascend.
        foreach, capturable, differentiable: as PyTorch's; one rule serves them all.
    """

    numbers = frozenset({"step", "mu_product"})
    listed = ("exp_avg", "exp_avg_sq", "mu_product", "step")

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = checked(
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            momentum_decay=momentum_decay,
            decoupled_weight_decay=decoupled_weight_decay,
            maximize=maximize,
            foreach=foreach,
            capturable=capturable,
            differentiable=differentiable,
        )
        super().__init__(params, defaults)

    def create(self, p: Tensor, group: ParamGroup) -> dict[str, Any]:
        device = p.device if self._counts_on_device(group) else None
        return {
            "step": new_counter(device),
            "mu_product": ones((), dtype=counter_dtype(), device=device),
            "exp_avg": zeros_like(p),
            "exp_avg_sq": zeros_like(p),
        }

    def update(self, p: Tensor, grad: Tensor, state: dict[str, Any], group: ParamGroup) -> None:
        lr, (beta1, beta2) = scalar(group["lr"]), group["betas"]
        step, psi = advance(state["step"]), group["momentum_decay"]
        grad = decay(p, grad, lr, group)
        mu = beta1 * (1.0 - 0.5 * (0.96 ** (step * psi)))
        mu_next = beta1 * (1.0 - 0.5 * (0.96 ** ((step + 1) * psi)))
        product = number_in(state["mu_product"].mul_(mu))
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        average(mean, grad, beta1)
        average_square(square, grad, beta2)
        below = square.div(1 - beta2**step).sqrt().add(group["eps"])
        move_quotient(p, grad, below, -lr * (1.0 - mu) / (1.0 - product))
        above = mean.clone() if group["differentiable"] else mean
        move_quotient(p, above, below, -lr * mu_next / (1.0 - product * mu_next))


def nadam(
    params: Tensors,
    grads: Tensors,
    exp_avgs: Tensors,
    exp_avg_sqs: Tensors,
    mu_products: Tensors,
    state_steps: Tensors,
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float,
    weight_decay: float,
    momentum_decay: float,
    eps: float,
) -> None:
    """One step of NAdam in place."""
    run(
        NAdam,
        params,
        grads,
        {
            "step": state_steps,
            "mu_product": mu_products,
            "exp_avg": exp_avgs,
            "exp_avg_sq": exp_avg_sqs,
        },
        decoupled_weight_decay=decoupled_weight_decay,
        foreach=foreach,
        capturable=capturable,
        differentiable=differentiable,
        maximize=maximize,
        betas=(beta1, beta2),
        lr=lr,
        weight_decay=weight_decay,
        momentum_decay=momentum_decay,
        eps=eps,
    )
