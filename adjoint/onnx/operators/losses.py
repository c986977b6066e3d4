"""Losses."""

from __future__ import annotations

import adjoint as ad
from adjoint.engine.tensor.tensor import Tensor
from adjoint.onnx.table import operator
from adjoint.onnx.types import Value


@operator("NegativeLogLikelihoodLoss")
def negative_log_likelihood(
    x: Tensor,
    target: Tensor,
    weight: Value = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Minus the log-probability of each target, weighed by its class."""
    index = target.long()
    counted = ad.ones_like(index, dtype=ad.bool) if ignore_index is None else index != ignore_index
    safe = ad.where(counted, index, ad.zeros_like(index))
    own = -ad.gather(x, 1, safe.unsqueeze(1)).squeeze(1)
    factor = (
        counted.to(x.dtype)
        if weight is None
        else ad.where(counted, weight[safe], ad.zeros((), dtype=x.dtype))
    )
    loss = own * factor
    if reduction == "none":
        return loss
    return ad.sum(loss) if reduction == "sum" else ad.sum(loss) / ad.sum(factor)


@operator("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(
    scores: Tensor,
    labels: Tensor,
    weights: Value = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> tuple[Tensor, Tensor]:
    """The negative log-likelihood of softmax, and the log-probabilities."""
    logs = ad.log_softmax(scores, 1)
    return negative_log_likelihood(
        logs, labels, weights, ignore_index=ignore_index, reduction=reduction
    ), logs
