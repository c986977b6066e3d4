"""Lion: steps along the sign of an interpolated momentum."""

from __future__ import annotations

from typing import Any

from adjoint.engine.ops.create.creation import zeros_like
from adjoint.engine.tensor.tensor import Tensor
from adjoint.optim.optimizer import ParamsT
from adjoint.optim.stepping.groups import ParamGroup
from adjoint.optim.stepping.options import checked
from adjoint.optim.stepping.rules import RuleOptimizer, own_rule
from adjoint.optim.stepping.scalars import move, scalar
from adjoint.optim.stepping.terms import average, decay


@own_rule
class Lion(RuleOptimizer):
    r"""Lion (Chen et al., 2023): one momentum, and steps of equal size in every coordinate.

    .. math::
        \theta_t = (1 - \gamma \lambda) \theta_{t-1}
            - \gamma \, \mathrm{sign}(\beta_1 m_{t-1} + (1 - \beta_1) g_t), \quad
        m_t = \beta_2 m_{t-1} + (1 - \beta_2) g_t

    Args:
        params: parameters or groups.
        lr: the learning rate, a number or a one-element tensor; a third to a tenth of Adam's.
        betas: the interpolation for the step, and the decay rate of the momentum.
        weight_decay: the rate, times `lr`, by which parameters shrink.
        maximize: ascend.
        foreach, capturable, differentiable: accepted as elsewhere; one rule serves them all.

    Example:
        >>> import adjoint as ad
        >>> w = ad.tensor([1.0, -2.0], requires_grad=True)
        >>> optimizer = ad.optim.Lion([w], lr=0.5)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w
        tensor([ 0.5000, -1.5000], requires_grad=True)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = checked(
            lr=lr,
            betas=betas,
            weight_decay=weight_decay,
            maximize=maximize,
            foreach=foreach,
            capturable=capturable,
            differentiable=differentiable,
            decoupled_weight_decay=True,
        )
        super().__init__(params, defaults)

    def create(self, p: Tensor, group: ParamGroup) -> dict[str, Any]:
        return {"exp_avg": zeros_like(p)}

    def update(self, p: Tensor, grad: Tensor, state: dict[str, Any], group: ParamGroup) -> None:
        lr, (beta1, beta2) = scalar(group["lr"]), group["betas"]
        decay(p, grad, lr, group)
        mean = state["exp_avg"]
        move(p, mean.lerp(grad, 1 - beta1).sign(), -lr)
        average(mean, grad, beta2)
