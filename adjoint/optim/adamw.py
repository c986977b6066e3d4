"""AdamW: Adam with weight decay apart from the gradient."""

from __future__ import annotations

from typing import Any

from adjoint.engine.tensor.tensor import Tensor
from adjoint.optim.adam import Adam, adam
from adjoint.optim.optimizer import ParamsT
from adjoint.optim.stepping.functional_forms import Tensors
from adjoint.optim.stepping.rules import own_rule


@own_rule
class AdamW(Adam):
    r"""Adam with decoupled weight decay: :math:`\theta \leftarrow (1 - \gamma \lambda) \theta`.

    Args:
        params: parameters or groups.
        lr: the learning rate, a number or a one-element tensor.
        betas: decay rates of the averages of the gradient and its square.
        eps: added to the denominator.
        weight_decay: the rate, times `lr`, by which parameters shrink.
        amsgrad: divide by the largest average so far.
        maximize: ascend.
        foreach, capturable, differentiable, fused: as PyTorch's; one rule serves them all.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


def adamw(
    params: Tensors,
    grads: Tensors,
    exp_avgs: Tensors,
    exp_avg_sqs: Tensors,
    max_exp_avg_sqs: Tensors,
    state_steps: Tensors,
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    *,
    amsgrad: bool,
    beta1: Any,
    beta2: Any,
    lr: Any,
    weight_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """One step of AdamW in place."""
    adam(
        params,
        grads,
        exp_avgs,
        exp_avg_sqs,
        max_exp_avg_sqs,
        state_steps,
        foreach,
        capturable,
        differentiable,
        fused,
        grad_scale,
        found_inf,
        has_complex,
        decoupled_weight_decay=True,
        amsgrad=amsgrad,
        beta1=beta1,
        beta2=beta2,
        lr=lr,
        weight_decay=weight_decay,
        eps=eps,
        maximize=maximize,
    )
