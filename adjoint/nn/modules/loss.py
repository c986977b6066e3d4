"""Losses as layers."""

from __future__ import annotations

from typing import Any

from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.nn.modules.loss_base import Flag, _Loss, _WeightedLoss
from adjoint.nn.modules.margin_losses import CosineEmbeddingLoss as CosineEmbeddingLoss
from adjoint.nn.modules.margin_losses import HingeEmbeddingLoss as HingeEmbeddingLoss
from adjoint.nn.modules.margin_losses import MarginRankingLoss as MarginRankingLoss
from adjoint.nn.modules.margin_losses import MultiLabelMarginLoss as MultiLabelMarginLoss
from adjoint.nn.modules.margin_losses import MultiLabelSoftMarginLoss as MultiLabelSoftMarginLoss
from adjoint.nn.modules.margin_losses import MultiMarginLoss as MultiMarginLoss
from adjoint.nn.modules.margin_losses import SoftMarginLoss as SoftMarginLoss
from adjoint.nn.modules.margin_losses import TripletMarginLoss as TripletMarginLoss
from adjoint.nn.modules.margin_losses import (
    TripletMarginWithDistanceLoss as TripletMarginWithDistanceLoss,
)


class L1Loss(_Loss):
    """Absolute differences: $|x - y|$.

    Shape:
        two tensors of one shape -> a number, or their shape with reduction="none".

    Example:
        >>> import adjoint as ad
        >>> ad.nn.L1Loss()(ad.tensor([0.0, 2.0]), ad.tensor([0.0, 0.0]))
        tensor(1.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """Squared differences: $(x - y)^2$.

    Args:
        reduction: "none", "mean" or "sum".

    Example:
        >>> import adjoint as ad
        >>> ad.nn.MSELoss()(ad.ones(2), ad.zeros(2))
        tensor(1.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Squared below `beta`, absolute above.

    Shape:
        two tensors of one shape -> a number, or their shape with reduction="none".

    Example:
        >>> import adjoint as ad
        >>> ad.nn.SmoothL1Loss()(ad.tensor([0.0, 2.0]), ad.tensor([0.0, 0.0]))
        tensor(0.7500)
    """

    __constants__ = ["beta", "reduction"]

    def __init__(
        self,
        size_average: Flag = None,
        reduce: Flag = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, beta=self.beta, reduction=self.reduction)


class PoissonNLLLoss(_Loss):
    """Negative log likelihood of counts of a Poisson law.

    Shape:
        two tensors of one shape -> a number, or their shape with reduction="none".

    Example:
        >>> import adjoint as ad
        >>> ad.nn.PoissonNLLLoss()(ad.tensor([0.0, 0.0]), ad.tensor([1.0, 2.0]))
        tensor(1.)
    """

    __constants__ = ["log_input", "full", "eps", "reduction"]

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: Flag = None,
        eps: float = 1e-8,
        reduce: Flag = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(
            log_input,
            target,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
        )


class KLDivLoss(_Loss):
    """The Kullback-Leibler divergence of log probabilities from a target.

    Shape:
        two tensors of one shape -> a number, or their shape with reduction="none".

    Example:
        >>> import adjoint as ad
        >>> ad.nn.KLDivLoss(reduction="sum")(ad.tensor([0.5, 0.5]).log(), ad.tensor([0.25, 0.75]))
        tensor(0.1308)
    """

    __constants__ = ["log_target", "reduction"]

    def __init__(
        self,
        size_average: Flag = None,
        reduce: Flag = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, log_target=self.log_target, reduction=self.reduction)


class NLLLoss(_WeightedLoss):
    """Minus the log probability of the true class.

    Args:
        weight: (C,), a factor of each class.
        ignore_index: a target that does not count.

    Shape:
        log probabilities (N, C, ...) or (C,), classes (N, ...) or ()

    Example:
        >>> import adjoint as ad
        >>> ad.nn.NLLLoss()(ad.tensor([[0.25, 0.75]]).log(), ad.tensor([1]))
        tensor(0.2877)
    """

    __constants__ = ["ignore_index", "reduction"]

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: Flag = None,
        ignore_index: int = -100,
        reduce: Flag = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )


class CrossEntropyLoss(_WeightedLoss):
    """Minus the log probability that softmax gives the true class.

    Args:
        weight: (C,), a factor of each class.
        ignore_index: a target that does not count.
        label_smoothing: how much of the target is spread evenly over all classes.

    Shape:
        logits (N, C, ...) or (C,), classes (N, ...) or (), or probabilities like the logits

    Example:
        >>> import adjoint as ad
        >>> ad.nn.CrossEntropyLoss()(ad.zeros(1, 2), ad.tensor([0]))
        tensor(0.6931)
    """

    __constants__ = ["ignore_index", "label_smoothing", "reduction"]

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: Flag = None,
        ignore_index: int = -100,
        reduce: Flag = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            reduction=self.reduction,
        )


class BCELoss(_WeightedLoss):
    """Cross entropy of events given their probabilities.

    Shape:
        two tensors of one shape -> a number, or their shape with reduction="none".

    Example:
        >>> import adjoint as ad
        >>> ad.nn.BCELoss()(ad.tensor([0.5, 0.5]), ad.tensor([0.0, 1.0]))
        tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class NLLLoss2d(NLLLoss):
    """`NLLLoss`, under the name it once had for images.

    Shape:
        (N, C, H, W), classes (N, H, W) -> a number.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.NLLLoss2d()(ad.zeros(1, 3, 2, 2).log_softmax(1), ad.zeros(1, 2, 2, dtype=ad.long))
        tensor(1.0986)
    """


class GaussianNLLLoss(_Loss):
    """Negative log likelihood of a normal law.

    Args:
        full: add the constant of the normal law.
        eps: the least variance.

    Shape:
        input, target and variance of one shape (the variance's last may be 1 or absent) -> a
        number.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.GaussianNLLLoss()(ad.zeros(2), ad.ones(2), ad.ones(2))
        tensor(0.5000)
    """

    __constants__ = ["full", "eps", "reduction"]

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(None, None, reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Any) -> Tensor:
        return F.gaussian_nll_loss(
            input, target, var, full=self.full, eps=self.eps, reduction=self.reduction
        )


class HuberLoss(_Loss):
    """Squared below `delta`, linear above.

    Shape:
        two tensors of one shape -> a number, or their shape with reduction="none".

    Example:
        >>> import adjoint as ad
        >>> ad.nn.HuberLoss(delta=1.0)(ad.tensor([0.0, 2.0]), ad.tensor([0.0, 0.0]))
        tensor(0.7500)
    """

    __constants__ = ["reduction", "delta"]

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class BCEWithLogitsLoss(_Loss):
    """Cross entropy of events given their logits.

    Args:
        weight: a factor of each loss.
        pos_weight: a factor of the losses of events that happened.

    Shape:
        two tensors of one shape -> a number, or their shape with reduction="none".

    Example:
        >>> import adjoint as ad
        >>> ad.nn.BCEWithLogitsLoss()(ad.tensor([0.0, 0.0]), ad.tensor([0.0, 1.0]))
        tensor(0.6931)
    """

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: Flag = None,
        reduce: Flag = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class CTCLoss(_Loss):
    """Connectionist temporal classification.

    Args:
        blank: the class of no label.
        reduction: "mean" divides each loss by its target's length first.
        zero_infinity: losses of targets too long to align become 0.

    Shape:
        log probabilities (T, N, C) or (T, C); targets (N, S) or all in one vector; lengths (N,)

    Example:
        >>> import adjoint as ad
        >>> scores = ad.zeros(4, 1, 3).log_softmax(2)
        >>> ad.nn.CTCLoss()(scores, ad.tensor([[1, 2]]), ad.tensor([4]), ad.tensor([2]))
        tensor(0.8432)
    """

    __constants__ = ["blank", "reduction"]

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(
        self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any
    ) -> Tensor:
        return F.ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            self.blank,
            self.reduction,
            self.zero_infinity,
        )
