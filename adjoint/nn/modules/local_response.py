"""Normalisation across neighbouring channels."""

from __future__ import annotations

from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.ops.image.resample import resampled
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.nn.modules.module import Module


class LocalResponseNorm(Module):
    r"""$x / (k + \alpha \bar{x^2})^\beta$ with the mean over `size` neighbouring channels.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.LocalResponseNorm(2)(ad.randn(32, 5, 24, 24)).shape
        adjoint.Size([32, 5, 24, 24])
    """

    __constants__ = ["size", "alpha", "beta", "k"]

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    r"""$x (k + \alpha / size \sum x^2)^{-\beta}$ over the channels around each.

    The window is symmetric: an even `size` looks at one channel fewer. As in PyTorch, the first
    channel counts for all.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.CrossMapLRN2d(3)(ad.randn(2, 5, 4, 4)).shape
        adjoint.Size([2, 5, 4, 4])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim != 4:
            raise ShapeValueError(
                f"CrossMapLRN2d: expected input to be 4D, got {input.ndim}D instead."
            )
        reach, channels = (self.size - 1) // 2, input.shape[1]
        around = ("sum", channels, channels, 2 * reach + 1, 1, -reach)
        squares = input * input
        total = resampled(squares, {1: around})
        if channels > reach + 1:
            far = total[:, reach + 1 :] + squares[:, :1]
            total = cat([total[:, : reach + 1], far], 1)
        return input * (total * (self.alpha / self.size) + self.k).pow(-self.beta)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
