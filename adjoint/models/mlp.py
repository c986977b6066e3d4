"""Multi-layer perceptron."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from adjoint import nn


class MLP(nn.Sequential):
    """Linear layers with an activation between them.

    Args:
        sizes: the width of the input, of each hidden layer and of the output.
        activation: makes the module between layers.
        dropout: probability of dropping a hidden value.

    Shape:
        (..., sizes[0]) -> (..., sizes[-1])

    Example:
        >>> import adjoint as ad
        >>> MLP([784, 128, 10])(ad.zeros(2, 784)).shape
        adjoint.Size([2, 10])
    """

    def __init__(
        self,
        sizes: Sequence[int],
        activation: Callable[[], nn.Module] = nn.ReLU,
        dropout: float = 0.0,
    ) -> None:
        if len(sizes) < 2:
            raise ValueError(f"MLP: sizes needs an input and an output width, got {list(sizes)}")
        layers: list[nn.Module] = []
        for fan_in, fan_out in pairwise(sizes[:-1]):
            layers += [nn.Linear(fan_in, fan_out), activation()]
            layers += [nn.Dropout(dropout)] if dropout else []
        super().__init__(*layers, nn.Linear(sizes[-2], sizes[-1]))
