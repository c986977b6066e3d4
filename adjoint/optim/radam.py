"""RAdam: Adam that waits for its second moment to settle."""

from __future__ import annotations

from typing import Any

from adjoint.engine.ops.create.creation import zeros_like
from adjoint.engine.tensor.tensor import Tensor
from adjoint.optim.optimizer import ParamsT
from adjoint.optim.stepping.functional_forms import Tensors, run
from adjoint.optim.stepping.groups import ParamGroup
from adjoint.optim.stepping.options import checked
from adjoint.optim.stepping.rules import RuleOptimizer, own_rule
from adjoint.optim.stepping.scalars import advance, compute, new_counter, scalar, select
from adjoint.optim.stepping.terms import average, average_square, decay


@own_rule
class RAdam(RuleOptimizer):
    r"""Rectified Adam: plain momentum while the variance of Adam's rate is unbounded.

    .. math::
        \rho_t = \rho_\infty - \frac{2 t \beta_2^t}{1 - \beta_2^t}, \quad
        r_t = \sqrt{\frac{(\rho_t - 4)(\rho_t - 2) \rho_\infty}
            {(\rho_\infty - 4)(\rho_\infty - 2) \rho_t}} \;\text{if}\; \rho_t > 5

    Args:
        params: parameters or groups.
        lr: the learning rate, a number or a one-element tensor.
        betas: decay rates of the averages of the gradient and its square.
        eps: added to the denominator.
        weight_decay: added to the gradient times the parameter.
        decoupled_weight_decay: shrink the parameter itself, as AdamW does.
        maximize: ascend.
        foreach, capturable, differentiable: as PyTorch's; one rule serves them all.
    """

    listed = ("exp_avg", "exp_avg_sq", "step")

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
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
            maximize=maximize,
            foreach=foreach,
            capturable=capturable,
            decoupled_weight_decay=decoupled_weight_decay,
            differentiable=differentiable,
        )
        super().__init__(params, defaults)

    def create(self, p: Tensor, group: ParamGroup) -> dict[str, Any]:
        return {
            "step": new_counter(p.device if self._counts_on_device(group) else None),
            "exp_avg": zeros_like(p),
            "exp_avg_sq": zeros_like(p),
        }

    def update(self, p: Tensor, grad: Tensor, state: dict[str, Any], group: ParamGroup) -> None:
        lr, (beta1, beta2) = scalar(group["lr"]), group["betas"]
        step = advance(state["step"])
        grad = decay(p, grad, lr, group)
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        average(mean, grad, beta1)
        average_square(square, grad, beta2)
        change = mean / (1 - beta1**step) * lr
        trust = compute(rectifier, step, beta2)
        scaled = change * ((1 - beta2**step) ** 0.5 / square.sqrt().add(group["eps"])) * trust
        p.sub_(select(trust, scaled, change))


def rectifier(step: float, beta2: float) -> float:
    """How far the average of squares can be trusted; 0 for not at all."""
    longest = 2 / (1 - beta2) - 1
    length = longest - 2 * step * beta2**step / (1 - beta2**step)
    if length <= 5.0:
        return 0.0
    return float(
        ((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)) ** 0.5
    )


def radam(
    params: Tensors,
    grads: Tensors,
    exp_avgs: Tensors,
    exp_avg_sqs: Tensors,
    state_steps: Tensors,
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float,
    weight_decay: float,
    eps: float,
) -> None:
    """One step of RAdam in place."""
    run(
        RAdam,
        params,
        grads,
        {"step": state_steps, "exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs},
        decoupled_weight_decay=decoupled_weight_decay,
        foreach=foreach,
        differentiable=differentiable,
        capturable=capturable,
        maximize=maximize,
        betas=(beta1, beta2),
        lr=lr,
        weight_decay=weight_decay,
        eps=eps,
    )
