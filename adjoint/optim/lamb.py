"""LAMB: Adam's direction, with the length of each tensor's step set by the tensor's own."""

from __future__ import annotations

from typing import Any

from adjoint.engine.ops.create.creation import zeros_like
from adjoint.engine.ops.elementwise.condition import where
from adjoint.engine.tensor.tensor import Tensor
from adjoint.optim.optimizer import ParamsT
from adjoint.optim.stepping.groups import ParamGroup
from adjoint.optim.stepping.options import checked
from adjoint.optim.stepping.rules import RuleOptimizer, own_rule
from adjoint.optim.stepping.scalars import advance, move, new_counter, scalar
from adjoint.optim.stepping.terms import average, average_square


@own_rule
class LAMB(RuleOptimizer):
    r"""LAMB (You et al., 2020), for large batches.

    .. math::
        r_t = \frac{\hat m_t}{\sqrt{\hat v_t} + \epsilon} + \lambda \theta_{t-1}, \quad
        \theta_t = \theta_{t-1} - \gamma \frac{\lVert \theta_{t-1} \rVert}{\lVert r_t \rVert} r_t

    Args:
        params: parameters or groups.
        lr: the learning rate, a number or a one-element tensor.
        betas: decay rates of the averages of the gradient and its square.
        eps: added to the denominator.
        weight_decay: the factor lambda.
        maximize: ascend.
        foreach, capturable, differentiable: accepted as elsewhere; one rule serves them all.

    Example:
        >>> import adjoint as ad
        >>> w = ad.tensor([3.0, 4.0], requires_grad=True)
        >>> optimizer = ad.optim.LAMB([w], lr=0.1, weight_decay=0)
        >>> w.sum().backward()
        >>> optimizer.step()
        >>> w
        tensor([2.6464, 3.6464], requires_grad=True)
    """

    elementwise = False

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 1e-2,
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
        beta1, beta2 = group["betas"]
        step = advance(state["step"])
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        average(mean, grad, beta1)
        average_square(square, grad, beta2)
        below = (square / (1 - beta2**step)).sqrt().add(group["eps"])
        direction = mean / (1 - beta1**step) / below + p * group["weight_decay"]
        length, wanted = direction.norm(), p.norm()
        trust = where((length > 0) & (wanted > 0), wanted / length, 1.0)
        move(p, direction * trust, -scalar(group["lr"]))
