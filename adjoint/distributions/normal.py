"""The normal distribution."""

from __future__ import annotations

import math
from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.exp_family import ExponentialFamily
from adjoint.distributions.utils import HALF_LOG_TAU, all_numbers, broadcast_all, standard_normal
from adjoint.engine.tensor.tensor import Tensor


class Normal(ExponentialFamily):
    r"""Normal numbers: density $\exp(-(x - \mu)^2 / 2 \sigma^2) / \sqrt{2 \pi \sigma^2}$.

    Args:
        loc: the mean.
        scale: the standard deviation.

    Example:
        >>> import adjoint as ad
        >>> ad.distributions.Normal(0.0, 1.0).log_prob(ad.tensor(0.0))
        tensor(-0.9189)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        shape = () if all_numbers(loc, scale) else self.loc.shape
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.pow(2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.loc + standard_normal(shape, self.loc.dtype, self.loc.device) * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        z = (value - self.loc) / self.scale
        return -0.5 * z * z - self.scale.log() - HALF_LOG_TAU

    def cdf(self, value: Tensor) -> Tensor:
        self._checked(value)
        return 0.5 * (1 + ((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)).erf())

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + HALF_LOG_TAU + self.scale.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.loc / self.scale.pow(2), -0.5 * self.scale.pow(2).reciprocal()

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        x, y = natural_params
        return -0.25 * x.pow(2) / y + 0.5 * (-math.pi / y).log()

    @property
    def _mean_carrier_measure(self) -> float:
        return 0.0
