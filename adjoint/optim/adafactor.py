"""Adafactor: second moments kept as rows and columns, steps relative to the parameter."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.errors import DTypeError
from adjoint.engine.core.numeric_limits import finfo
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.ops.create.creation import zeros_like
from adjoint.engine.ops.elementwise.bounds import minimum
from adjoint.engine.tensor.tensor import Tensor
from adjoint.optim.optimizer import ParamsT
from adjoint.optim.stepping.functional_forms import Tensors, run
from adjoint.optim.stepping.groups import ParamGroup
from adjoint.optim.stepping.options import OPTIONS, Option, checked, not_negative
from adjoint.optim.stepping.rules import RuleOptimizer, own_rule
from adjoint.optim.stepping.scalars import advance, compute, new_counter, scalar

OWN = {
    **OPTIONS,
    "lr": Option("Learning rate should be >= 0 but is: {}", not_negative),
    "weight_decay": Option("weight_decay should be >= 0 but is: {}", not_negative),
    "eps": Option(
        "epsilon{n} should be >= 0 but is: {}",
        lambda eps: eps is None or eps >= 0,
        pair=True,
        constant=True,
    ),
}


def _mean_square(x: Tensor, dim: int) -> Tensor:
    return x.norm(dim=dim, keepdim=True).square() / x.shape[dim]


@own_rule
class Adafactor(RuleOptimizer):
    r"""Adafactor (Shazeer and Stern, 2018).

    The second moment of a matrix is the outer product of its rows' and columns' means; the step
    is relative to the parameter's root mean square and clipped.

    Args:
        params: parameters or groups.
        lr: the bound of the relative step size, a number or a one-element tensor.
        beta2_decay: the power of t by which the second moment forgets.
        eps: added to the second moment (None: the dtype's epsilon), and the least scale of a
            parameter.
        d: the clipping threshold.
        weight_decay: the rate, times `lr`, by which parameters shrink.
        foreach: as PyTorch's; one rule serves both.
        maximize: ascend.
    """

    elementwise = False

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        defaults = checked(
            OWN,
            lr=lr,
            beta2_decay=beta2_decay,
            eps=eps,
            d=d,
            weight_decay=weight_decay,
            foreach=foreach,
            maximize=maximize,
        )
        super().__init__(params, defaults)

    def create(self, p: Tensor, group: ParamGroup) -> dict[str, Any]:
        if p.dtype.is_complex:
            raise DTypeError("Adafactor does not support complex parameters")
        if p.ndim > 1:
            shape = tuple(p.shape)
            return {
                "step": new_counter(),
                "row_var": p.new_zeros((*shape[:-1], 1)),
                "col_var": p.new_zeros((*shape[:-2], 1, shape[-1])),
            }
        return {"step": new_counter(), "variance": zeros_like(p)}

    def update(self, p: Tensor, grad: Tensor, state: dict[str, Any], group: ParamGroup) -> None:
        lr, (eps1, eps2), d = scalar(group["lr"]), group["eps"], group["d"]
        eps1 = finfo(p.dtype).eps if eps1 is None else eps1
        step = advance(state["step"])
        forget = step ** group["beta2_decay"]
        if is_tensor(lr):
            rate = minimum(lr, zeros_like(lr) + step**-0.5)
        else:
            rate = compute(min, lr, 1 / step**0.5)
        scale = (p.norm(2).double() / p.numel() ** 0.5).clamp(min=eps2) * rate
        if group["weight_decay"] != 0:
            p.mul_(1 - lr * group["weight_decay"])
        if grad.ndim > 1:
            rows, columns = state["row_var"], state["col_var"]
            rows.lerp_(_mean_square(grad, -1), forget)
            columns.lerp_(_mean_square(grad, -2), forget)
            variance = rows @ columns / rows.mean(dim=-2, keepdim=True).clamp(min=eps1)
        else:
            variance = state["variance"].lerp_(grad * grad, forget)
        change = variance.clamp(min=eps1 * eps1).rsqrt() * grad
        excess = (change.norm(2).double() / (change.numel() ** 0.5 * d)).clamp(min=1.0)
        p.add_(change, alpha=-scale / excess)


def adafactor(
    params: Tensors,
    grads: Tensors,
    row_vars: list[Tensor | None],
    col_vars: list[Tensor | None],
    variances: list[Tensor | None],
    state_steps: Tensors,
    foreach: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    *,
    d: float,
    lr: Any,
    beta2_decay: float,
    weight_decay: float,
    eps1: float,
    eps2: float,
    maximize: bool,
) -> None:
    """One step of Adafactor in place; vectors have a variance, others those of rows and columns."""
    if has_complex or any(p.dtype.is_complex for p in params):
        raise DTypeError("adafactor does not support complex parameters")
    run(
        Adafactor,
        params,
        grads,
        {"step": state_steps, "row_var": row_vars, "col_var": col_vars, "variance": variances},
        grad_scale=grad_scale,
        found_inf=found_inf,
        foreach=foreach,
        d=d,
        lr=lr,
        beta2_decay=beta2_decay,
        weight_decay=weight_decay,
        eps=(eps1, eps2),
        maximize=maximize,
    )
