"""How a loss is reduced, and the checks that losses share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.errors import warn_user
from adjoint.engine.core.spec import broadcast_shapes

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

NUMBERED = {0: "none", 1: "mean", 2: "sum"}


def reduction_of(
    name: str, reduction: Any, size_average: bool | None = None, reduce: bool | None = None
) -> str:
    """The reduction meant, PyTorch's two deprecated flags and its numbers included."""
    if size_average is not None or reduce is not None:
        average = size_average is None or size_average
        reduction = ("mean" if average else "sum") if reduce is None or reduce else "none"
        warn_user(
            f"{name}: size_average and reduce args will be deprecated, please use "
            f"reduction='{reduction}' instead."
        )
    reduction = NUMBERED.get(reduction, reduction) if isinstance(reduction, int) else reduction
    if reduction not in ("none", "mean", "sum"):
        if reduction == "elementwise_mean":  # PyTorch's word before 1.0
            warn_user(
                f"{name}: reduction='elementwise_mean' is deprecated. Please use reduction='mean' "
                "instead."
            )
            return "mean"
        raise ValueError(f"{name}: {reduction} is not a valid value for reduction")
    return str(reduction)


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """All of the losses, their mean or their sum."""
    if reduction == "none":
        return loss
    return loss.mean() if reduction == "mean" else loss.sum()


def broadcast_pair(name: str, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Input and target in one shape, with PyTorch's warning where they differ."""
    if input.shape == target.shape:
        return input, target
    warn_user(
        f"{name}: Using a target size ({target.shape}) that is different to the input size "
        f"({input.shape}). This will likely lead to incorrect results due to broadcasting. Please "
        "ensure they have the same size."
    )
    shape = broadcast_shapes(name, tuple(input.shape), tuple(target.shape))
    return input.expand(shape), target.expand(shape)
