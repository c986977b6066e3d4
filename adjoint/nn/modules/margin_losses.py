"""Losses that want a margin: between classes, pairs or triplets."""

from __future__ import annotations

from collections.abc import Callable

from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.nn.modules.distance import PairwiseDistance
from adjoint.nn.modules.loss_base import Flag, _Loss, _WeightedLoss


class SoftMarginLoss(_Loss):
    r"""$\log(1 + e^{-y x})$ for targets of 1 or -1.

    Shape:
        two tensors of one shape -> a number, or their shape with reduction="none".

    Example:
        >>> import adjoint as ad
        >>> ad.nn.SoftMarginLoss()(ad.tensor([0.0, 0.0]), ad.tensor([1.0, -1.0]))
        tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """Margins between a sample's classes and all others.

    Shape:
        (N, C) or (C), class indices of the same shape ended by -1 -> a number.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.MultiLabelMarginLoss()(ad.tensor([0.1, 0.2, 0.4, 0.8]), ad.tensor([3, 0, -1, 1]))
        tensor(0.8500)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class HingeEmbeddingLoss(_Loss):
    r"""x where the target is 1, $\max(0, margin - x)$ where it is -1.

    Shape:
        two tensors of one shape -> a number, or their shape with reduction="none".

    Example:
        >>> import adjoint as ad
        >>> ad.nn.HingeEmbeddingLoss()(ad.tensor([0.3, 0.4]), ad.tensor([1.0, -1.0]))
        tensor(0.4500)
    """

    __constants__ = ["margin", "reduction"]

    def __init__(
        self,
        margin: float = 1.0,
        size_average: Flag = None,
        reduce: Flag = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_Loss):
    """How far the cosine of two vectors is from 1, or above `margin`.

    Shape:
        (N, D) twice, targets 1 or -1 (N) -> a number.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.CosineEmbeddingLoss()(ad.eye(2), ad.eye(2), ad.tensor([1.0, -1.0]))
        tensor(0.5000)
    """

    __constants__ = ["margin", "reduction"]

    def __init__(
        self,
        margin: float = 0.0,
        size_average: Flag = None,
        reduce: Flag = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class MarginRankingLoss(_Loss):
    """Whether the right one of two is larger, by a margin.

    Shape:
        three tensors of one shape -> a number.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.MarginRankingLoss()(
        ...     ad.tensor([1.0, 2.0]), ad.tensor([2.0, 1.0]), ad.tensor([1.0, 1.0])
        ... )
        tensor(0.5000)
    """

    __constants__ = ["margin", "reduction"]

    def __init__(
        self,
        margin: float = 0.0,
        size_average: Flag = None,
        reduce: Flag = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class TripletMarginLoss(_Loss):
    """Whether an anchor is nearer to the positive than to the negative, by a margin.

    Shape:
        (N, D) three times: anchor, positive, negative -> a number.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.TripletMarginLoss()(ad.zeros(1, 2), ad.zeros(1, 2), ad.full((1, 2), 0.5))
        tensor(0.2929)
    """

    __constants__ = ["margin", "p", "eps", "swap", "reduction"]

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: Flag = None,
        reduce: Flag = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginLoss: expected margin to be greater than 0, got {margin}"
            )
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """Cross entropy of each of several labels, averaged.

    Shape:
        (N, C) twice -> a number.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.MultiLabelSoftMarginLoss()(ad.zeros(1, 2), ad.tensor([[1.0, 0.0]]))
        tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(
            input, target, weight=self.weight, reduction=self.reduction
        )


class MultiMarginLoss(_WeightedLoss):
    """Whether the true class scores highest, by a margin.

    Shape:
        (N, C) or (C), classes (N) or () -> a number.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.MultiMarginLoss()(ad.tensor([[0.1, 0.2, 0.4, 0.8]]), ad.tensor([3]))
        tensor(0.3250)
    """

    __constants__ = ["p", "margin", "reduction"]

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: Flag = None,
        reduce: Flag = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError(f"MultiMarginLoss: only p == 1 and p == 2 supported, received {p}")
        self.p = p
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(
            input,
            target,
            p=self.p,
            margin=self.margin,
            weight=self.weight,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """`TripletMarginLoss` with a distance of one's own.

    Shape:
        (N, D) three times: anchor, positive, negative -> a number.

    Example:
        >>> import adjoint as ad
        >>> loss = ad.nn.TripletMarginWithDistanceLoss(
        ...     distance_function=lambda a, b: (a - b).abs().sum(-1)
        ... )
        >>> loss(ad.zeros(1, 2), ad.zeros(1, 2), ad.full((1, 2), 0.25))
        tensor(0.5000)
    """

    __constants__ = ["margin", "swap", "reduction"]

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin}"
            )
        self.distance_function = (
            distance_function if distance_function is not None else PairwiseDistance()
        )
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )
