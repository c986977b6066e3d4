"""Joining dimensions and splitting one: Flatten, Unflatten."""

from __future__ import annotations

from typing import Any

from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.module import Module


class Flatten(Module):
    """Joins a range of dimensions into one; by default all but the batch.

    Args:
        start_dim: the first dimension to join.
        end_dim: the last one.

    Shape:
        (N, *) -> (N, the product of the rest)

    Example:
        >>> import adjoint as ad
        >>> ad.nn.Flatten()(ad.ones(32, 1, 5, 5)).shape
        adjoint.Size([32, 25])
    """

    __constants__ = ["start_dim", "end_dim"]

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits one dimension into several.

    Args:
        dim: the dimension to split.
        unflattened_size: the sizes it becomes, one of which may be -1.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.Unflatten(1, (2, 5, 5))(ad.ones(2, 50)).shape
        adjoint.Size([2, 2, 5, 5])
    """

    __constants__ = ["dim", "unflattened_size"]

    def __init__(self, dim: int | str, unflattened_size: Any) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError("invalid argument type for dim parameter")
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(
                "unflattened_size must be a tuple of ints, but found type "
                f"{type(unflattened_size).__name__}"
            )
        for place, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise TypeError(
                    "unflattened_size must be tuple of ints, but found element of type "
                    f"{type(size).__name__} at pos {place}"
                )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
