"""SparseAdam: Adam for sparse gradients, which Adjoint's tensors do not have yet."""

from __future__ import annotations

from typing import Any

from adjoint.optim.groups import ParamGroup
from adjoint.optim.optimizer import ParamsT, check_betas, check_range, check_rate
from adjoint.optim.rules import RuleOptimizer
from adjoint.tensor.tensor import Tensor


class SparseAdam(RuleOptimizer):
    """Adam that touches only the rows a sparse gradient has; dense gradients are refused.

    Gradients are always dense as yet (`Embedding(sparse=True)` says so when it is differentiated),
    so a step with any gradient raises PyTorch's error for dense ones.

    Args:
        params: parameters or groups.
        lr: the learning rate.
        betas: decay rates of the averages of the gradient and its square.
        eps: added to the denominator.
        maximize: ascend.
    """

    elementwise = False

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check_rate(lr)
        if lr == 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        check_range("epsilon value", eps, 0.0)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        held = [p for group in self.param_groups for p in group["params"]]
        found = [i for i, p in enumerate(held) if p.dtype.is_complex]
        if found:
            raise ValueError(
                f"Complex params at indices {found}: SparseAdam does not support complex parameters"
            )

    def _apply(self, p: Tensor, grad: Tensor, group: ParamGroup) -> None:
        raise RuntimeError(
            "SparseAdam does not support dense gradients, please consider Adam instead"
        )
