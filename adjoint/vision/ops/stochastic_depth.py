"""Stochastic depth (Huang et al., 2016)."""

from __future__ import annotations

from typing import Any

from adjoint import nn
from adjoint.engine.tensor.tensor import Tensor


def stochastic_depth(input: Tensor, p: float, mode: str, training: bool = True) -> Tensor:
    """Zero rows (mode "row") or the whole batch ("batch") with a probability, while training."""
    if not 0 <= p <= 1 or mode not in ("batch", "row"):
        raise ValueError(f"stochastic_depth: p in [0, 1] and mode batch or row, got {p}, {mode!r}")
    if not training or p == 0.0:
        return input
    size = [input.shape[0] if mode == "row" else 1] + [1] * (input.ndim - 1)
    noise = input.new_empty(size).bernoulli_(1 - p)
    return input * (noise / (1 - p) if p < 1 else noise)


class StochasticDepth(nn.Module):
    """`stochastic_depth` as a layer."""

    def __init__(self, p: float, mode: str) -> None:
        super().__init__()
        self.p = p
        self.mode = mode

    def forward(self, input: Any) -> Tensor:
        return stochastic_depth(input, self.p, self.mode, self.training)
