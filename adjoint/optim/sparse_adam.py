"""SparseAdam: Adam on the rows a sparse gradient has."""

from __future__ import annotations

from math import sqrt
from typing import Any

from adjoint.engine.core.errors import DTypeValueError
from adjoint.engine.ops.create.creation import zeros_like
from adjoint.engine.tensor.tensor import Tensor
from adjoint.optim.optimizer import ParamsT
from adjoint.optim.stepping.groups import ParamGroup
from adjoint.optim.stepping.options import OPTIONS, Option, checked
from adjoint.optim.stepping.rules import RuleOptimizer, own_rule
from adjoint.optim.stepping.scalars import scalar

# PyTorch's SparseAdam refuses zeros that its Adam takes.
OWN = {
    **OPTIONS,
    "lr": Option("Invalid learning rate: {}", lambda lr: lr > 0),
    "eps": Option("Invalid epsilon value: {}", lambda eps: eps > 0, constant=True),
}


@own_rule
class SparseAdam(RuleOptimizer):
    """Adam that touches only the rows a sparse gradient has; dense gradients are refused.

    Rows without a gradient keep their averages and do not move, where Adam's would.

    Args:
        params: parameters or groups.
        lr: the learning rate.
        betas: decay rates of the averages of the gradient and its square.
        eps: added to the denominator.
        maximize: ascend.

    Example:
        >>> import adjoint as ad
        >>> table = ad.nn.Embedding(4, 2, sparse=True)
        >>> optimizer = ad.optim.SparseAdam(table.parameters(), lr=0.5)
        >>> before = table.weight.detach().clone()
        >>> table(ad.tensor([1, 1, 3])).sum().backward()
        >>> optimizer.step()
        >>> (table.weight - before).detach()
        tensor([[ 0.0000,  0.0000],
                [-0.5000, -0.5000],
                [ 0.0000,  0.0000],
                [-0.5000, -0.5000]])
    """

    sparse = True

    elementwise = False

    steps_are_tensors = False

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, checked(OWN, lr=lr, betas=betas, eps=eps, maximize=maximize))
        all_params = [p for group in self.param_groups for p in group["params"]]
        layouts = [
            [g, i]
            for g, group in enumerate(self.param_groups)
            for i, p in enumerate(group["params"])
            if p.is_sparse
        ]
        if layouts:
            raise ValueError(
                f"Sparse params at indices {layouts}: SparseAdam requires dense parameter tensors"
            )
        wrong = [i for i, p in enumerate(all_params) if p.dtype.is_complex]
        if wrong:
            raise DTypeValueError(
                f"Complex params at indices {wrong}: SparseAdam does not support complex parameters"
            )

    def create(self, p: Tensor, group: ParamGroup) -> dict[str, Any]:
        return {"step": 0, "exp_avg": zeros_like(p), "exp_avg_sq": zeros_like(p)}

    def _apply(
        self, p: Tensor, grad: Tensor, group: ParamGroup, repeats: Any = None, large: Any = None
    ) -> None:
        if not grad.is_sparse:
            raise RuntimeError(
                "SparseAdam does not support dense gradients, please consider Adam instead"
            )
        super()._apply(p, grad, group, repeats, large)

    def update_sparse(self, p: Tensor, grad: Any, state: dict[str, Any], group: ParamGroup) -> None:
        state["step"] += 1
        grad = grad.coalesce()
        rows = grad._values()
        if not rows.numel():
            return
        beta1, beta2 = group["betas"]
        mean = _averaged(state["exp_avg"], grad, rows, beta1)
        square = _averaged(state["exp_avg_sq"], grad, rows * rows, beta2)
        step = state["step"]
        rate = scalar(group["lr"]) * sqrt(1 - beta2**step) / (1 - beta1**step)
        p.add_(grad.with_elements(-rate * (mean / (square.sqrt() + group["eps"]))))


def _averaged(average: Tensor, grad: Any, rows: Tensor, beta: float) -> Tensor:
    """The rows of a running average that the gradient has, with its own worked in."""
    old = average.sparse_mask(grad)._values()
    change = (rows - old) * (1 - beta)
    average.add_(grad.with_elements(change))
    return old + change
