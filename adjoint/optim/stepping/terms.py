"""Terms that update rules share: weight decay and running averages."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.tensor.tensor import Tensor
from adjoint.optim.stepping.groups import ParamGroup


def decay(p: Tensor, grad: Tensor, lr: Any, group: ParamGroup) -> Tensor:
    """Weight decay: on the parameter itself if decoupled, else as part of the gradient."""
    rate = group["weight_decay"]
    if not is_tensor(rate) and rate == 0:
        return grad
    if group.get("decoupled_weight_decay"):
        p.mul_(1 - lr * rate)
        return grad
    return grad.add(p, alpha=rate)


def average(mean: Tensor, value: Tensor, beta: Any) -> None:
    """mean = beta mean + (1 - beta) value."""
    weight = 1 - beta
    mean.lerp_(value, weight.to(mean.dtype) if is_tensor(weight) else weight)


def average_square(mean: Tensor, value: Tensor, beta: Any) -> None:
    """mean = beta mean + (1 - beta) value^2."""
    mean.mul_(beta).addcmul_(value, value, value=1 - beta)
