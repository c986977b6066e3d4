"""The inverse gamma distribution."""

from __future__ import annotations

import math
from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.gamma import Gamma
from adjoint.distributions.transformed_distribution import TransformedDistribution
from adjoint.distributions.transforms import PowerTransform
from adjoint.engine.ops.elementwise.condition import where
from adjoint.engine.tensor.tensor import Tensor


class InverseGamma(TransformedDistribution):
    """The reciprocal of a gamma-distributed number.

    Args:
        concentration: shape of the gamma.
        rate: its rate.
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        minus_one = -base.rate.new_ones(())
        super().__init__(base, PowerTransform(minus_one), validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        """Shape of the gamma."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """Rate of the gamma."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        a = self.concentration
        return where(a > 1, self.rate / (a - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        return where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()
