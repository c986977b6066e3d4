"""The generalised Pareto distribution."""

from __future__ import annotations

import math
from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.utils import all_numbers, broadcast_all, uniform_like
from adjoint.engine.ops.elementwise.condition import where
from adjoint.engine.tensor.tensor import Tensor


class GeneralizedPareto(Distribution):
    r"""Excesses over a threshold: cdf $1 - (1 + k z)^{-1/k}$, z = (x - loc) / scale.

    Args:
        loc: the least value.
        scale: the width.
        concentration: k; 0 is the exponential distribution.
    """

    arg_constraints = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True

    def __init__(
        self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        shape = () if all_numbers(loc, scale, concentration) else self.loc.shape
        super().__init__(shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """From loc on, bounded above where the concentration is negative."""
        upper = where(self.concentration < 0, self.loc - self.scale / self.concentration, math.inf)
        return constraints.interval(self.loc, upper)

    def _flat(self) -> Tensor:
        """Where the concentration is so near 0 that the exponential formula holds."""
        return self.concentration.isclose(self.concentration.new_zeros(()))

    def _safe(self) -> Tensor:
        return where(self._flat(), 1.0, self.concentration)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.icdf(uniform_like(self._extended_shape(sample_shape), self.loc))

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        z = (value - self.loc) / self.scale
        k = self._safe()
        y = 1 / k + z.new_ones(z.shape)
        general = -y * (k * z).log1p() - self.scale.log()
        return where(self._flat(), -z - self.scale.log(), general)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of more than a value."""
        self._checked(value)
        z = (value - self.loc) / self.scale
        k = self._safe()
        return where(self._flat(), -z, -(k * z).log1p() / k)

    def log_cdf(self, value: Tensor) -> Tensor:
        """The logarithm of the cdf."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return self.log_cdf(value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        k = self._safe()
        log_rest = (-value).log1p()
        general = self.loc + self.scale * (-k * log_rest).expm1() / k
        return where(self._flat(), self.loc - self.scale * log_rest, general)

    @property
    def mean(self) -> Tensor:
        k = self.concentration
        valid = k < 1
        return where(valid, self.loc + self.scale / (1 - where(valid, k, 0.5)), math.nan)

    @property
    def variance(self) -> Tensor:
        k = self.concentration
        valid = k < 0.5
        safe = where(valid, k, 0.25)
        value = self.scale**2 / ((1 - safe) ** 2 * (1 - 2 * safe))
        return where(valid, value, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    def entropy(self) -> Tensor:
        return (self.scale.log() + self.concentration + 1).expand(self._batch_shape)
