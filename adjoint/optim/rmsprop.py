"""RMSprop: steps divided by the root of a running average of squared gradients."""

from __future__ import annotations

from typing import Any

from adjoint.engine.ops.create.creation import zeros_like
from adjoint.engine.tensor.tensor import Tensor
from adjoint.optim.optimizer import ParamsT
from adjoint.optim.stepping.functional_forms import Tensors, run
from adjoint.optim.stepping.groups import ParamGroup
from adjoint.optim.stepping.options import checked
from adjoint.optim.stepping.rules import RuleOptimizer, own_rule
from adjoint.optim.stepping.scalars import advance, move, move_quotient, new_counter, scalar
from adjoint.optim.stepping.terms import average, average_square, decay


@own_rule
class RMSprop(RuleOptimizer):
    r"""RMSprop.

    .. math::
        v_t = \alpha v_{t-1} + (1 - \alpha) g_t^2, \quad
        \theta_t = \theta_{t-1} - \gamma \frac{g_t}{\sqrt{v_t} + \epsilon}

    Args:
        params: parameters or groups.
        lr: the learning rate, a number or a one-element tensor.
        alpha: decay rate of the average.
        eps: added to the denominator.
        weight_decay: added to the gradient times the parameter.
        momentum: factor of the sum of past steps.
        centered: divide by the standard deviation.
        maximize: ascend.
        foreach, capturable, differentiable: as PyTorch's; one rule serves them all.
    """

    listed = ("square_avg", "momentum_buffer", "grad_avg", "step")

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = checked(
            lr=lr,
            momentum=momentum,
            alpha=alpha,
            eps=eps,
            centered=centered,
            weight_decay=weight_decay,
            capturable=capturable,
            foreach=foreach,
            maximize=maximize,
            differentiable=differentiable,
        )
        super().__init__(params, defaults)

    def create(self, p: Tensor, group: ParamGroup) -> dict[str, Any]:
        state = {
            "step": new_counter(p.device if self._counts_on_device(group) else None),
            "square_avg": zeros_like(p),
        }
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros_like(p)
        if group["centered"]:
            state["grad_avg"] = zeros_like(p)
        return state

    def update(self, p: Tensor, grad: Tensor, state: dict[str, Any], group: ParamGroup) -> None:
        lr, alpha = scalar(group["lr"]), group["alpha"]
        advance(state["step"])
        grad = decay(p, grad, lr, group)
        square = state["square_avg"]
        average_square(square, grad, alpha)
        if group["centered"]:
            mean = state["grad_avg"]
            average(mean, grad, alpha)
            square = square.addcmul(mean, mean, value=-1)
        below = square.sqrt().add(group["eps"])
        if group["momentum"] > 0:
            buffer = state["momentum_buffer"].mul_(group["momentum"]).addcdiv_(grad, below)
            move(p, buffer, -lr)
        else:
            move_quotient(p, grad, below, -lr)


def rmsprop(
    params: Tensors,
    grads: Tensors,
    square_avgs: Tensors,
    grad_avgs: Tensors,
    momentum_buffer_list: Tensors,
    state_steps: Tensors,
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lr: float,
    alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float,
    centered: bool,
) -> None:
    """One step of RMSprop in place."""
    states = {"step": state_steps, "square_avg": square_avgs}
    if momentum > 0:
        states["momentum_buffer"] = momentum_buffer_list
    if centered:
        states["grad_avg"] = grad_avgs
    run(
        RMSprop,
        params,
        grads,
        states,
        foreach=foreach,
        maximize=maximize,
        differentiable=differentiable,
        capturable=capturable,
        lr=lr,
        alpha=alpha,
        eps=eps,
        weight_decay=weight_decay,
        momentum=momentum,
        centered=centered,
    )
