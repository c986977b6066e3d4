"""Dropout as layers: active in training, the identity in evaluation."""

from __future__ import annotations

from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.nn.modules.module import Module


class _DropoutNd(Module):
    """What the dropout layers share."""

    __constants__ = ["p", "inplace"]
    p: float
    inplace: bool

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(
                f"{type(self).__name__}: dropout probability has to be between 0 and 1, but got {p}"
            )
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Zeroes elements with probability `p` in training, scaling the rest by 1 / (1 - p).

    Args:
        p: the probability.
        inplace: write the result into the input.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.Dropout(0.5).eval()(ad.ones(2))
        tensor([1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Zeroes whole channels of (N, C, L) or (C, L).

    Shape:
        (N, C, L) or (C, L) -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> result = ad.nn.Dropout1d(0.5)(ad.ones(1, 8, 2))
        >>> all(channel.min() == channel.max() for channel in result[0])  # wholly kept or zero
        True
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Zeroes whole channels of (N, C, H, W).

    Shape:
        (N, C, H, W) or (N, C, L) -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> result = ad.nn.Dropout2d(0.5)(ad.ones(1, 8, 2, 2))
        >>> all(channel.min() == channel.max() for channel in result[0])  # wholly kept or zero
        True
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Zeroes whole channels of (N, C, D, H, W) or (C, D, H, W).

    Shape:
        (N, C, D, H, W) or (C, D, H, W) -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> result = ad.nn.Dropout3d(0.5)(ad.ones(1, 8, 2, 2, 2))
        >>> all(channel.min() == channel.max() for channel in result[0])  # wholly kept or zero
        True
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean and variance, for networks of `SELU`.

    Shape:
        any shape -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.AlphaDropout(0.2).eval()(ad.tensor([-1.0, 0.0, 2.0]))
        tensor([-1.,  0.,  2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """`AlphaDropout` of whole channels.

    Shape:
        (N, C, ...) -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.FeatureAlphaDropout(0.2)(ad.randn(4, 8, 5)).shape
        adjoint.Size([4, 8, 5])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training)
