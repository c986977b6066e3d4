"""Distances as layers."""

from __future__ import annotations

from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.nn.modules.module import Module


class PairwiseDistance(Module):
    r"""$\|x_1 - x_2 + \epsilon\|_p$ of corresponding vectors.

    Args:
        p: the norm.
        eps: what keeps the gradient of a distance of zero finite.
        keepdim: keep the last dimension, of size 1.

    Shape:
        (N, D) or (D) twice -> (N) or ().

    Example:
        >>> import adjoint as ad
        >>> ad.nn.PairwiseDistance()(ad.tensor([0.0, 0.0]), ad.tensor([3.0, 4.0]))
        tensor(5.0000)
    """

    __constants__ = ["norm", "eps", "keepdim"]

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along `dim`.

    Shape:
        (..., D, ...) twice -> the shape without `dim`.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.CosineSimilarity(dim=0)(ad.tensor([1.0, 0.0]), ad.tensor([1.0, 1.0]))
        tensor(0.7071)
    """

    __constants__ = ["dim", "eps"]

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
