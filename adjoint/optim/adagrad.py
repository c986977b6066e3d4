"""Adagrad: steps divided by the root of the sum of squared gradients."""

from __future__ import annotations

from typing import Any

from adjoint.engine.ops.create.creation import full_like
from adjoint.engine.tensor.tensor import Tensor
from adjoint.optim.optimizer import ParamsT
from adjoint.optim.stepping.functional_forms import Tensors, run
from adjoint.optim.stepping.groups import ParamGroup
from adjoint.optim.stepping.options import checked
from adjoint.optim.stepping.rules import RuleOptimizer, own_rule
from adjoint.optim.stepping.scalars import advance, move_quotient, new_counter, scalar
from adjoint.optim.stepping.terms import decay


@own_rule
class Adagrad(RuleOptimizer):
    r"""Adagrad.

    .. math::
        s_t = s_{t-1} + g_t^2, \quad
        \theta_t = \theta_{t-1}
            - \frac{\gamma}{1 + (t - 1) \eta} \frac{g_t}{\sqrt{s_t} + \epsilon}

    Args:
        params: parameters or groups.
        lr: the learning rate, a number or a one-element tensor.
        lr_decay: the rate eta at which it decays.
        weight_decay: added to the gradient times the parameter.
        initial_accumulator_value: where the sum starts.
        eps: added to the denominator.
        maximize: ascend.
        foreach, differentiable, fused: as PyTorch's; one rule serves them all.
    """

    sparse = True
    listed = ("sum", "step")

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        defaults = checked(
            lr=lr,
            lr_decay=lr_decay,
            eps=eps,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            foreach=foreach,
            maximize=maximize,
            differentiable=differentiable,
            fused=fused,
        )
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p].update(self.create(p, group))

    def _told(self, sparse: bool, complex_: bool) -> Any:
        return sparse, complex_

    def create(self, p: Tensor, group: ParamGroup) -> dict[str, Any]:
        start = group["initial_accumulator_value"]
        value = complex(start, start) if p.dtype.is_complex else start
        return {
            "step": new_counter(p.device if group["fused"] else None),
            "sum": full_like(p, value, requires_grad=False),
        }

    def share_memory(self) -> None:
        """Put the state in shared memory."""
        for state in self.state.values():
            state["sum"].share_memory_()

    def update(self, p: Tensor, grad: Tensor, state: dict[str, Any], group: ParamGroup) -> None:
        lr = scalar(group["lr"])
        step = advance(state["step"])
        grad = decay(p, grad, lr, group)
        state["sum"].addcmul_(grad, grad, value=1)
        below = state["sum"].sqrt().add(group["eps"])
        move_quotient(p, grad, below, -lr / (1 + (step - 1) * group["lr_decay"]))

    def update_sparse(self, p: Tensor, grad: Any, state: dict[str, Any], group: ParamGroup) -> None:
        if group["fused"]:
            raise RuntimeError("`fused` does not support sparse grad or complex param")
        if group["weight_decay"] != 0:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        step = advance(state["step"])
        grad = grad.coalesce()
        rows = grad._values()
        state["sum"].add_(grad.with_elements(rows * rows))
        below = state["sum"].sparse_mask(grad)._values().sqrt().add(group["eps"])
        rate = -scalar(group["lr"]) / (1 + (step - 1) * group["lr_decay"])
        p.add_(grad.with_elements(rows / below), alpha=rate)


def adagrad(
    params: Tensors,
    grads: Tensors,
    state_sums: Tensors,
    state_steps: Tensors,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float,
    weight_decay: float,
    lr_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """One step of Adagrad in place."""
    run(
        Adagrad,
        params,
        grads,
        {"step": state_steps, "sum": state_sums},
        grad_scale=grad_scale,
        found_inf=found_inf,
        fused=fused,
        foreach=foreach,
        differentiable=differentiable,
        lr=lr,
        weight_decay=weight_decay,
        lr_decay=lr_decay,
        eps=eps,
        maximize=maximize,
    )
