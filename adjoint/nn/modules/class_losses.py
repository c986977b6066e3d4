"""Losses that own the layer that scores the classes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.common.checks import require
from adjoint.engine.ops.elementwise.records import WHERE
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.nn.modules.container import ModuleList, Sequential
from adjoint.nn.modules.linear import Linear
from adjoint.nn.modules.loss_base import _WeightedLoss
from adjoint.nn.modules.module import Module


class LinearCrossEntropyLoss(_WeightedLoss):
    """The cross entropy of a linear layer's output, as one module.

    Args:
        in_features: size of each input.
        num_classes: how many classes there are.
        out_features: further dimensions of the scores, each with a class of its own.
        bias: whether the layer has one.
        weight: (num_classes,), a factor of each class.
        ignore_index: a target that does not count.
        label_smoothing: how much of the target is spread evenly over all classes.

    Shape:
        (N, in_features), classes (N) -> a number.

    Example:
        >>> import adjoint as ad
        >>> loss = ad.nn.LinearCrossEntropyLoss(16, 10)
        >>> loss(ad.randn(8, 16), ad.randint(0, 10, (8,))).shape
        adjoint.Size([])
    """

    __constants__ = ["num_classes", "out_features", "reduction", "ignore_index", "label_smoothing"]

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: DType | None = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: Any = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise ShapeError(
                f"LinearCrossEntropyLoss: expected weight shape to be {(num_classes,)}, got "
                f"{tuple(weight.shape)}"
            )
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(
                "LinearCrossEntropyLoss: expected label_smoothing to be in range [0, 1], got "
                f"{label_smoothing}"
            )
        super().__init__(weight, reduction=reduction)
        self.num_classes = num_classes
        self.out_features = tuple(out_features)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.options = options
        scores = prod(self.out_features, start=num_classes)
        self.linear = Linear(in_features, scores, bias=bias, device=device, dtype=dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        sizes = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape((*sizes, self.linear.in_features)),
            target,
            linear_bias=None if bias is None else bias.reshape(sizes),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
            f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )


class ASMoutput(NamedTuple):
    """The log probability of each target, and the mean loss."""

    output: Tensor
    loss: Tensor


def _known_empty(mask: Tensor) -> bool:
    """Whether a mask is known, now, to hold nowhere: not inside a transform or a capture."""
    return CONTEXT.capture is None and not CONTEXT.levels and not bool(mask.any())


class AdaptiveLogSoftmaxWithLoss(Module):
    """Softmax over many classes, rare ones reached through clusters of smaller layers.

    Classes must be numbered by falling frequency: those below the first cutoff are scored by the
    head, each further range by its own cluster, of `in_features / div_value ** i` features. A
    cluster no target falls in gets no gradient; in a compiled function, which runs for any
    targets, it gets one of zeros.

    Args:
        in_features: size of each input.
        n_classes: how many classes there are.
        cutoffs: where the clusters begin.
        div_value: how fast the clusters' layers shrink.
        head_bias: whether the head has a bias.

    Shape:
        (N, in_features) and (N,), or (in_features,) and () -> log probabilities (N,) and a loss

    Example:
        >>> import adjoint as ad
        >>> layer = ad.nn.AdaptiveLogSoftmaxWithLoss(16, 1000, cutoffs=[10, 100])
        >>> layer(ad.randn(8, 16), ad.randint(0, 1000, (8,))).output.shape
        adjoint.Size([8])
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        cuts = list(cutoffs)
        if not cuts:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (
            cuts != sorted(set(cuts))
            or cuts[0] <= 0
            or cuts[-1] > n_classes - 1
            or any(int(c) != c for c in cuts)
        ):
            raise ValueError(
                "AdaptiveLogSoftmaxWithLoss: cutoffs should be a sequence of unique, positive "
                "integers sorted in an increasing order, where each value is between 1 and "
                f"n_classes-1, received {cuts}"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cuts, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = cuts[0]
        self.n_clusters = len(cuts)
        self.head_size = self.shortlist_size + self.n_clusters
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **options)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(pairwise(self.cutoffs)):
            hidden = int(in_features // (div_value ** (i + 1)))
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, bias=False, **options),
                    Linear(hidden, high - low, bias=False, **options),
                )
            )

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        for layer in self.modules():
            if isinstance(layer, Linear):
                layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> ASMoutput:
        self._check(input_, target_)
        batched = target_.ndim == 1
        x = input_ if batched else input_.unsqueeze(0)
        y = target_ if batched else target_.unsqueeze(0)
        y = require(
            y,
            (y >= 0) & (y < self.n_classes),
            f"AdaptiveLogSoftmaxWithLoss: Target values should be in [0, {self.n_classes - 1}]",
        )
        # A cluster scores every row, so that no shape depends on values, unless none is its own.
        head = F.log_softmax(self.head(x), dim=1)
        place = y.clamp_max(self.shortlist_size - 1)
        inside = y.new_zeros(y.shape).to(x.dtype)
        for i, (low, high) in enumerate(pairwise(self.cutoffs)):
            here = (y >= low) & (y < high)
            if _known_empty(here):  # its weights get no gradient, rather than one of zeros
                continue
            scores = F.log_softmax(self.tail[i](x), dim=1)
            local = scores.gather(1, (y - low).clamp(0, high - low - 1).unsqueeze(1)).squeeze(1)
            inside = WHERE(here, local, inside)
            place = place.masked_fill(here, self.shortlist_size + i)
        output = inside + head.gather(1, place.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return ASMoutput(output if batched else output.squeeze(0), loss)

    def _check(self, input: Tensor, target: Tensor) -> None:
        if target.ndim not in (0, 1):
            raise ShapeError(
                "AdaptiveLogSoftmaxWithLoss: 0D or 1D target tensor expected, multi-target not "
                f"supported, received {tuple(target.shape)}"
            )
        if input.ndim != target.ndim + 1:
            raise ShapeError(
                f"AdaptiveLogSoftmaxWithLoss: {target.ndim}D target tensor expects "
                f"{target.ndim + 1}D input tensors, but found inputs with size {input.shape}"
            )
        if target.ndim and input.shape[0] != target.shape[0]:
            raise ShapeError(
                "AdaptiveLogSoftmaxWithLoss: Input and target should have the same size in the "
                f"batch dimension, received {input.shape[0]} and {target.shape[0]}."
            )

    def log_prob(self, input: Tensor) -> Tensor:
        """Log probabilities of all classes: (N, in_features) -> (N, n_classes)."""
        head = F.log_softmax(self.head(input), dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i in range(self.n_clusters):
            cluster = F.log_softmax(self.tail[i](input), dim=1)
            parts.append(cluster + head[:, self.shortlist_size + i].unsqueeze(1))
        return cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of each row.

        As in PyTorch, a row whose best entry of the head is a class is not searched further.
        """
        best = self.head(input).argmax(1)
        return WHERE(best < self.shortlist_size, best, self.log_prob(input).argmax(1))
