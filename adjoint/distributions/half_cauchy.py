"""The half-Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.cauchy import Cauchy
from adjoint.distributions.transformed_distribution import TransformedDistribution
from adjoint.distributions.transforms import AbsTransform
from adjoint.engine.ops.elementwise.condition import where
from adjoint.engine.tensor.tensor import Tensor


class HalfCauchy(TransformedDistribution):
    """The size of a Cauchy number of median 0.

    Args:
        scale: the scale of the Cauchy number.
    """

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        base = Cauchy(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Tensor:
        """The scale of the Cauchy number."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return self.scale.new_full(self._extended_shape(), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.scale.new_zeros(self.scale.shape)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        inside = self.base_dist.log_prob(value) + math.log(2)
        return where(value >= 0, inside, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        self._checked(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob: Tensor) -> Tensor:
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)
