"""SGD: steps along the gradient, with momentum."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.create.creation import empty_like
from adjoint.engine.tensor.tensor import Tensor
from adjoint.optim.optimizer import ParamsT
from adjoint.optim.stepping.functional_forms import Tensors, run
from adjoint.optim.stepping.groups import ParamGroup
from adjoint.optim.stepping.options import checked
from adjoint.optim.stepping.rules import RuleOptimizer, own_rule
from adjoint.optim.stepping.scalars import move, scalar


@own_rule
class SGD(RuleOptimizer):
    r"""Stochastic gradient descent.

    .. math::
        b_t = \mu b_{t-1} + (1 - \tau) g_t, \quad \theta_t = \theta_{t-1} - \gamma b_t

    Args:
        params: parameters or groups.
        lr: the learning rate, a number or a one-element tensor.
        momentum: the factor mu.
        dampening: the factor tau, from the second step on.
        weight_decay: added to the gradient times the parameter.
        nesterov: step along `g + mu b`.
        maximize: ascend.
        foreach, differentiable, fused: as PyTorch's; one rule serves them all.

    Example:
        >>> import adjoint as ad
        >>> w = ad.ones(2, requires_grad=True)
        >>> optimizer = ad.optim.SGD([w], lr=0.1, momentum=0.9)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w
        tensor([0.8000, 0.8000], requires_grad=True)
    """

    sparse = True
    listed = ("momentum_buffer",)

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: Any = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = checked(
            lr=lr,
            momentum=momentum,
            dampening=dampening,
            weight_decay=weight_decay,
            nesterov=nesterov,
            maximize=maximize,
            foreach=foreach,
            differentiable=differentiable,
            fused=fused,
        )
        super().__init__(params, defaults)

    def stateless(self, group: ParamGroup) -> bool:
        return bool(group["momentum"] == 0)

    def is_started(self, state: dict[str, Any], group: ParamGroup) -> bool:
        return "momentum_buffer" in state or self.stateless(group)

    def _told(self, sparse: bool, complex_: bool) -> Any:
        return sparse

    def create(self, p: Tensor, group: ParamGroup) -> dict[str, Any]:
        return {}

    def update(self, p: Tensor, grad: Tensor, state: dict[str, Any], group: ParamGroup) -> None:
        rate = group["weight_decay"]
        if is_tensor(rate) and rate.requires_grad:
            grad = grad + p.clone() * rate
        elif rate != 0:
            grad = grad.add(p, alpha=rate)
        momentum = group["momentum"]
        if momentum != 0:
            buffer = self._accumulate(grad, state, group)
            grad = grad.add(buffer, alpha=momentum) if group["nesterov"] else buffer
        move(p, grad, -scalar(group["lr"]))

    def update_sparse(self, p: Tensor, grad: Any, state: dict[str, Any], group: ParamGroup) -> None:
        if group["fused"]:
            raise RuntimeError("`_fused_sgd` does not support sparse gradients")
        self.update(p, grad, state, group)

    @staticmethod
    def _accumulate(grad: Tensor, state: dict[str, Any], group: ParamGroup) -> Tensor:
        buffer = state.get("momentum_buffer")
        if buffer is not None:
            return buffer.mul_(group["momentum"]).add_(grad, alpha=1 - group["dampening"])
        if CONTEXT.capture is None:
            buffer = state["momentum_buffer"] = grad.detach().clone()
            return buffer
        # The first step starts the sum; what is recorded stands for this one call.
        CONTEXT.capture.guard(lambda: False, "the first step with momentum")
        with CONTEXT.having(capture=None):
            buffer = state["momentum_buffer"] = empty_like(grad)
        return buffer.copy_(grad)


def sgd(
    params: Tensors,
    d_p_list: Tensors,
    momentum_buffer_list: list[Tensor | None],
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    *,
    weight_decay: float,
    momentum: float,
    lr: float,
    dampening: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    """One step of SGD in place; a buffer that is None starts with this step."""
    run(
        SGD,
        params,
        d_p_list,
        {"momentum_buffer": momentum_buffer_list} if momentum else {},
        grad_scale=grad_scale,
        found_inf=found_inf,
        foreach=foreach,
        fused=fused,
        weight_decay=weight_decay,
        momentum=momentum,
        lr=lr,
        dampening=dampening,
        nesterov=nesterov,
        maximize=maximize,
    )


def _single_tensor_sgd(
    params: Tensors,
    grads: Tensors,
    momentum_buffer_list: list[Tensor | None],
    grad_scale: Tensor | None,
    found_inf: Tensor | None,
    *,
    weight_decay: float,
    momentum: float,
    lr: float,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    has_sparse_grad: bool,
) -> None:
    """`sgd` of one parameter after the other, as programs that copy PyTorch's call it."""
    sgd(
        params, grads, momentum_buffer_list, has_sparse_grad, False, None, grad_scale, found_inf,
        weight_decay=weight_decay, momentum=momentum, lr=lr, dampening=dampening,
        nesterov=nesterov, maximize=maximize,
    )  # fmt: skip
