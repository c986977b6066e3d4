"""Adadelta: steps in the units of the parameters, from two running averages."""

from __future__ import annotations

from typing import Any

from adjoint.engine.ops.create.creation import zeros_like
from adjoint.engine.tensor.tensor import Tensor
from adjoint.optim.optimizer import ParamsT
from adjoint.optim.stepping.functional_forms import Tensors, run
from adjoint.optim.stepping.groups import ParamGroup
from adjoint.optim.stepping.options import checked
from adjoint.optim.stepping.rules import RuleOptimizer, own_rule
from adjoint.optim.stepping.scalars import advance, move, new_counter, scalar
from adjoint.optim.stepping.terms import average_square, decay


@own_rule
class Adadelta(RuleOptimizer):
    r"""Adadelta.

    .. math::
        v_t = \rho v_{t-1} + (1 - \rho) g_t^2, \quad
        d_t = \frac{\sqrt{u_{t-1} + \epsilon}}{\sqrt{v_t + \epsilon}} g_t, \quad
        u_t = \rho u_{t-1} + (1 - \rho) d_t^2, \quad
        \theta_t = \theta_{t-1} - \gamma d_t

    Args:
        params: parameters or groups.
        lr: the factor of the step, a number or a one-element tensor.
        rho: decay rate of the averages.
        eps: added under the roots.
        weight_decay: added to the gradient times the parameter.
        maximize: ascend.
        foreach, capturable, differentiable: as PyTorch's; one rule serves them all.
    """

    listed = ("square_avg", "acc_delta", "step")

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = checked(
            lr=lr,
            rho=rho,
            eps=eps,
            weight_decay=weight_decay,
            maximize=maximize,
            capturable=capturable,
            foreach=foreach,
            differentiable=differentiable,
        )
        super().__init__(params, defaults)

    def create(self, p: Tensor, group: ParamGroup) -> dict[str, Any]:
        return {
            "step": new_counter(p.device if self._counts_on_device(group) else None),
            "square_avg": zeros_like(p),
            "acc_delta": zeros_like(p),
        }

    def update(self, p: Tensor, grad: Tensor, state: dict[str, Any], group: ParamGroup) -> None:
        lr, rho, eps = scalar(group["lr"]), group["rho"], group["eps"]
        advance(state["step"])
        grad = decay(p, grad, lr, group)
        average_square(state["square_avg"], grad, rho)
        delta = state["acc_delta"].add(eps).sqrt() / state["square_avg"].add(eps).sqrt() * grad
        average_square(state["acc_delta"], delta, rho)
        move(p, delta, -lr)


def adadelta(
    params: Tensors,
    grads: Tensors,
    square_avgs: Tensors,
    acc_deltas: Tensors,
    state_steps: Tensors,
    capturable: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float,
    rho: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """One step of Adadelta in place."""
    run(
        Adadelta,
        params,
        grads,
        {"step": state_steps, "square_avg": square_avgs, "acc_delta": acc_deltas},
        capturable=capturable,
        foreach=foreach,
        differentiable=differentiable,
        lr=lr,
        rho=rho,
        eps=eps,
        weight_decay=weight_decay,
        maximize=maximize,
    )
