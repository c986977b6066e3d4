"""Rprop: steps whose size follows the signs of successive gradients."""

from __future__ import annotations

from typing import Any

from adjoint.engine.ops.create.creation import full_like, zeros_like
from adjoint.engine.ops.elementwise.condition import where
from adjoint.engine.tensor.tensor import Tensor
from adjoint.optim.optimizer import ParamsT
from adjoint.optim.stepping.functional_forms import Tensors, run
from adjoint.optim.stepping.groups import ParamGroup
from adjoint.optim.stepping.options import checked
from adjoint.optim.stepping.rules import RuleOptimizer, own_rule
from adjoint.optim.stepping.scalars import advance, new_counter


@own_rule
class Rprop(RuleOptimizer):
    r"""Resilient backpropagation.

    A step grows while the gradient keeps its sign, shrinks when the sign changes, and is left out
    right after a change.

    Args:
        params: parameters or groups.
        lr: the first step size, a number or a one-element tensor.
        etas: factors by which steps shrink and grow.
        step_sizes: the smallest and the largest step.
        maximize: ascend.
        foreach, capturable, differentiable: as PyTorch's; one rule serves them all.
    """

    listed = ("prev", "step_size", "step")

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = checked(
            lr=lr,
            etas=etas,
            step_sizes=step_sizes,
            foreach=foreach,
            maximize=maximize,
            differentiable=differentiable,
            capturable=capturable,
        )
        super().__init__(params, defaults)

    def create(self, p: Tensor, group: ParamGroup) -> dict[str, Any]:
        lr = float(group["lr"])
        return {
            "step": new_counter(p.device if self._counts_on_device(group) else None),
            "prev": zeros_like(p),
            "step_size": full_like(
                p, complex(lr, lr) if p.dtype.is_complex else lr, requires_grad=False
            ),
        }

    def update(self, p: Tensor, grad: Tensor, state: dict[str, Any], group: ParamGroup) -> None:
        (shrink, grow), (least, most) = group["etas"], group["step_sizes"]
        advance(state["step"])
        prev, size = state["prev"], state["step_size"]
        sign = grad.mul(prev.clone() if group["differentiable"] else prev).sign()
        turned = sign < 0
        factor = where(sign > 0, grow, where(turned, shrink, where(sign == 0, 1, sign)))
        size.mul_(factor).clamp_(least, most)
        grad = grad.masked_fill(turned, 0)
        p.addcmul_(grad.sign(), size.clone() if group["differentiable"] else size, value=-1)
        prev.copy_(grad)


def rprop(
    params: Tensors,
    grads: Tensors,
    prevs: Tensors,
    step_sizes: Tensors,
    state_steps: Tensors,
    foreach: bool | None = None,
    capturable: bool = False,
    maximize: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    step_size_min: float,
    step_size_max: float,
    etaminus: float,
    etaplus: float,
) -> None:
    """One step of Rprop in place."""
    run(
        Rprop,
        params,
        grads,
        {"step": state_steps, "prev": prevs, "step_size": step_sizes},
        foreach=foreach,
        capturable=capturable,
        maximize=maximize,
        differentiable=differentiable,
        step_sizes=(step_size_min, step_size_max),
        etas=(etaminus, etaplus),
    )
