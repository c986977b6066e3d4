"""Muon: momentum made orthogonal, for the matrices of hidden layers."""

from __future__ import annotations

import math
from typing import Any

from adjoint.engine.core.errors import DTypeError, ShapeValueError
from adjoint.engine.ops.create.creation import zeros_like
from adjoint.engine.ops.products.derived_products import addmm
from adjoint.engine.tensor.tensor import Tensor
from adjoint.optim.optimizer import ParamsT
from adjoint.optim.stepping.functional_forms import Tensors, run
from adjoint.optim.stepping.groups import ParamGroup
from adjoint.optim.stepping.options import OPTIONS, Option, checked, not_negative
from adjoint.optim.stepping.rules import RuleOptimizer, own_rule
from adjoint.optim.stepping.scalars import move, scalar
from adjoint.optim.stepping.terms import average

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # steepest at zero; singular values end in about 0.7-1.2
ADJUSTMENTS = ("original", "match_rms_adamw")
OWN = {
    **OPTIONS,
    "lr": Option("Learning rate should be >= 0 but is: {}", not_negative),
    "momentum": Option("momentum should be >= 0 but is: {}", not_negative),
    "weight_decay": Option("weight decay should be >= 0 but is: {}", not_negative),
    "eps": Option(constant=True),
    "adjust_lr_fn": Option(
        "Adjust learning rate function {} is not supported",
        lambda name: name is None or name in ADJUSTMENTS,
    ),
}


def orthogonalise(x: Tensor, coefficients: tuple[float, ...], steps: int, eps: float) -> Tensor:
    """The nearest orthogonal matrix, roughly, by a quintic Newton-Schulz iteration in bfloat16."""
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if x.ndim != 2:
        raise ShapeValueError("Input tensor gradient must be a 2D matrix")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    tall = x.shape[0] > x.shape[1]
    y = x.bfloat16()
    y = y.t() if tall else y
    y = y / y.norm().clamp(min=eps)
    for _ in range(steps):
        gram = y @ y.t()
        y = addmm(y, addmm(gram, gram, gram, beta=b, alpha=c), y, beta=a)
    return y.t() if tall else y


@own_rule
class Muon(RuleOptimizer):
    r"""Muon, for 2-D parameters; give the others to AdamW.

    .. math::
        B_t = \mu B_{t-1} + (1 - \mu) G_t, \quad
        \theta_t = (1 - \gamma \lambda) \theta_{t-1} - \gamma' \, \mathrm{orthogonal}(B_t)

    Args:
        params: matrices, or groups of them.
        lr: the learning rate, a number or a one-element tensor.
        weight_decay: the rate, times `lr`, by which parameters shrink.
        momentum: the factor mu.
        nesterov: orthogonalise `(1 - mu) G + mu B`.
        ns_coefficients: of the quintic iteration.
        eps: the least norm divided by.
        ns_steps: iterations.
        adjust_lr_fn: "original" scales the step by the root of max(1, rows / columns),
            "match_rms_adamw" by 0.2 times the root of the longer side.

    Example:
        >>> import adjoint as ad
        >>> w = ad.eye(2).requires_grad_()
        >>> optimizer = ad.optim.Muon([w], lr=0.1, weight_decay=0.0)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> bool(w[0, 0] < 1)
        True
    """

    elementwise = False

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = COEFFICIENTS,
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        defaults = checked(
            OWN,
            lr=lr,
            weight_decay=weight_decay,
            momentum=momentum,
            nesterov=nesterov,
            ns_coefficients=ns_coefficients,
            eps=eps,
            ns_steps=ns_steps,
            adjust_lr_fn=adjust_lr_fn,
        )
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ShapeValueError(
                        "Muon only supports 2D parameters whereas we found a parameter with size: "
                        f"{p.shape}"
                    )

    def create(self, p: Tensor, group: ParamGroup) -> dict[str, Any]:
        if p.dtype.is_complex:
            raise DTypeError("Muon does not support complex parameters")
        return {"momentum_buffer": zeros_like(p)}

    def update(self, p: Tensor, grad: Tensor, state: dict[str, Any], group: ParamGroup) -> None:
        lr, momentum, buffer = scalar(group["lr"]), group["momentum"], state["momentum_buffer"]
        average(buffer, grad, momentum)
        change = grad.lerp(buffer, momentum) if group["nesterov"] else buffer
        change = orthogonalise(change, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rows, columns = p.shape
        if group["adjust_lr_fn"] == "match_rms_adamw":
            factor = 0.2 * math.sqrt(max(rows, columns))
        else:
            factor = math.sqrt(max(1, rows / columns))
        p.mul_(1 - lr * group["weight_decay"])
        move(p, change, -lr * factor)


def muon(
    params: Tensors,
    grads: Tensors,
    muon_momentum_bufs: Tensors,
    *,
    foreach: bool | None = None,
    lr: float,
    weight_decay: float,
    momentum: float,
    nesterov: bool,
    ns_coefficients: tuple[float, float, float],
    ns_steps: int,
    eps: float,
    adjust_lr_fn: str | None,
    has_complex: bool,
) -> None:
    """One step of Muon in place."""
    if foreach:
        raise RuntimeError("muon: there is no form of it for many tensors; leave out foreach")
    if has_complex or any(p.dtype.is_complex for p in params):
        raise DTypeError("muon does not support complex parameters")
    run(
        Muon,
        params,
        grads,
        {"momentum_buffer": muon_momentum_bufs},
        lr=lr,
        weight_decay=weight_decay,
        momentum=momentum,
        nesterov=nesterov,
        ns_coefficients=ns_coefficients,
        ns_steps=ns_steps,
        eps=eps,
        adjust_lr_fn=adjust_lr_fn,
    )
