"""The Weibull distribution."""

from __future__ import annotations

from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.exponential import Exponential
from adjoint.distributions.transformed_distribution import TransformedDistribution
from adjoint.distributions.transforms import AffineTransform, PowerTransform
from adjoint.distributions.utils import broadcast_all, euler_constant
from adjoint.engine.tensor.tensor import Tensor


class Weibull(TransformedDistribution):
    r"""Life times: distribution function $1 - \exp(-(x / \lambda)^k)$.

    Args:
        scale: $\lambda$.
        concentration: k.
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(self.scale.new_ones(self.scale.shape), validate_args=validate_args)
        super().__init__(base, self._parts(), validate_args=validate_args)

    def _parts(self) -> list[Any]:
        return [PowerTransform(self.concentration_reciprocal), AffineTransform(0, self.scale)]

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        expanded = self._like(batch_shape, _instance)
        expanded.scale = self.scale.expand(expanded._batch_shape)
        expanded.concentration = self.concentration.expand(expanded._batch_shape)
        expanded.concentration_reciprocal = expanded.concentration.reciprocal()
        expanded.base_dist = self.base_dist.expand(expanded._batch_shape)
        expanded.transforms = expanded._parts()
        return expanded

    @property
    def mean(self) -> Tensor:
        return self.scale * (1 + self.concentration_reciprocal).lgamma().exp()

    @property
    def mode(self) -> Tensor:
        k = self.concentration
        return self.scale * ((k - 1) / k) ** self.concentration_reciprocal

    @property
    def variance(self) -> Tensor:
        r = self.concentration_reciprocal
        return self.scale.pow(2) * ((1 + 2 * r).lgamma().exp() - (2 * (1 + r).lgamma()).exp())

    def entropy(self) -> Tensor:
        r = self.concentration_reciprocal
        return euler_constant * (1 - r) + (self.scale * r).log() + 1
