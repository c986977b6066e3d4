"""What all losses share: the reduction, and weights of classes."""

from __future__ import annotations

from adjoint.engine.ops.nn.losses.loss_reduction import reduction_of
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.module import Module

Flag = bool | None


class _Loss(Module):
    """A loss with its reduction: "none", "mean" or "sum"."""

    __constants__ = ["reduction"]
    reduction: str

    def __init__(
        self, size_average: Flag = None, reduce: Flag = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        if isinstance(size_average, Tensor):
            name = type(self).__name__
            raise TypeError(f"{name}: call the loss after it is made: {name}()(input, target)")
        if size_average is None and reduce is None:
            self.reduction = reduction
        else:
            self.reduction = reduction_of(type(self).__name__, reduction, size_average, reduce)


class _WeightedLoss(_Loss):
    """A loss with a weight, kept as a buffer."""

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: Flag = None,
        reduce: Flag = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
