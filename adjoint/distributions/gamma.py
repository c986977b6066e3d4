"""The gamma distribution."""

from __future__ import annotations

from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.exp_family import ExponentialFamily
from adjoint.distributions.utils import all_numbers, broadcast_all
from adjoint.engine.backends.array.interop import as_tensor
from adjoint.engine.core.numeric_limits import finfo
from adjoint.engine.ops.random.gamma_samples import standard_gamma
from adjoint.engine.ops.special.gamma_family import igamma
from adjoint.engine.tensor.tensor import Tensor


class Gamma(ExponentialFamily):
    r"""Density $\beta^\alpha x^{\alpha - 1} e^{-\beta x} / \Gamma(\alpha)$ for x > 0.

    Samples differentiate by both parameters (`engine.ops.random.gamma_samples`).

    Args:
        concentration: $\alpha$, the shape.
        rate: $\beta$.

    Example:
        >>> import adjoint as ad
        >>> ad.distributions.Gamma(3.0, 2.0).mean
        tensor(1.5000)
    """

    arg_constraints: Any = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        shape = () if all_numbers(concentration, rate) else self.concentration.shape
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        value = standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        return value.clamp(min=finfo(value.dtype).tiny)

    def log_prob(self, value: Any) -> Tensor:
        value = as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)  # numbers too
        self._checked(value)
        a, b = self.concentration, self.rate
        return a.xlogy(b) + (a - 1).xlogy(value) - b * value - a.lgamma()

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1.0 - a) * a.digamma()

    def cdf(self, value: Tensor) -> Tensor:
        self._checked(value)
        return igamma(self.concentration, self.rate * value)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        x, y = natural_params
        return (x + 1).lgamma() + (x + 1) * (-y.reciprocal()).log()

    @property
    def _mean_carrier_measure(self) -> float:
        return 0.0
