"""The Pareto distribution."""

from __future__ import annotations

from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.exponential import Exponential
from adjoint.distributions.transformed_distribution import TransformedDistribution
from adjoint.distributions.transforms import AffineTransform, ExpTransform
from adjoint.distributions.utils import broadcast_all
from adjoint.engine.tensor.tensor import Tensor


class Pareto(TransformedDistribution):
    r"""Density $\alpha s^\alpha / x^{\alpha + 1}$ for x >= s.

    Args:
        scale: s, the least value.
        alpha: the exponent.
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        parts = [ExpTransform(), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, parts, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        expanded = self._like(batch_shape, _instance)
        expanded.scale = self.scale.expand(expanded._batch_shape)
        expanded.alpha = self.alpha.expand(expanded._batch_shape)
        expanded.base_dist = self.base_dist.expand(expanded._batch_shape)
        expanded.transforms = [ExpTransform(), AffineTransform(loc=0, scale=expanded.scale)]
        return expanded

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """From the scale on."""
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha.clamp(min=2)
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())
