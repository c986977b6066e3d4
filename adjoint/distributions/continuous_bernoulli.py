"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math
from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.binary import Binary
from adjoint.distributions.exp_family import ExponentialFamily
from adjoint.distributions.utils import (
    broadcast_all,
    clamp_probs,
    lazy_property,
    log_of_bernoulli,
    logits_to_probs,
    open_uniform,
)
from adjoint.engine.ops.elementwise.condition import where
from adjoint.engine.tensor.tensor import Tensor


class ContinuousBernoulli(Binary, ExponentialFamily):
    r"""Numbers of [0, 1]: density proportional to $\lambda^x (1 - \lambda)^{1 - x}$.

    (Loaiza-Ganem, Cunningham 2019: The continuous Bernoulli.) Formulas have a removable pole at
    1/2, around which a Taylor polynomial is used.

    Args:
        probs: $\lambda$.
        logits: or its logit.
        lims: the interval around 1/2 of the polynomial.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        shape = self._set_parameter(probs, logits)
        self._lims = lims
        super().__init__(shape, validate_args=validate_args)
        if probs is not None:
            self.__dict__["probs"] = clamp_probs(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """The probability, kept off 0 and 1."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _expand_rest(self, expanded: Any, batch_shape: Any) -> None:
        expanded._lims = self._lims

    def _outside(self) -> Tensor:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self) -> Tensor:
        """The parameter, moved off the pole where the polynomial is used."""
        return where(self._outside(), self.probs, self._lims[0])

    def _log_constant(self) -> Tensor:
        cut = self._cut_probs()
        below = where(cut <= 0.5, cut, 0.0)
        above = where(cut >= 0.5, cut, 1.0)
        log_norm = ((-cut).log1p() - cut.log()).abs().log() - where(
            cut <= 0.5, (-2.0 * below).log1p(), (2.0 * above - 1.0).log()
        )
        x = (self.probs - 0.5).pow(2)
        taylor = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
        return where(self._outside(), log_norm, taylor)

    @property
    def mean(self) -> Tensor:
        cut = self._cut_probs()
        mus = cut / (2.0 * cut - 1.0) + 1.0 / ((-cut).log1p() - cut.log())
        x = self.probs - 0.5
        taylor = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2)) * x
        return where(self._outside(), mus, taylor)

    @property
    def variance(self) -> Tensor:
        cut = self._cut_probs()
        exact = cut * (cut - 1.0) / (1.0 - 2.0 * cut).pow(2) + 1.0 / (
            (-cut).log1p() - cut.log()
        ).pow(2)
        x = (self.probs - 0.5).pow(2)
        taylor = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x
        return where(self._outside(), exact, taylor)

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.icdf(open_uniform(self._extended_shape(sample_shape), self.probs))

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        return log_of_bernoulli(logits, value) + self._log_constant()

    def cdf(self, value: Tensor) -> Tensor:
        self._checked(value)
        cut = self._cut_probs()
        inner = cut.pow(value) * (1.0 - cut).pow(1.0 - value) + cut - 1.0
        exact = inner / (2.0 * cut - 1.0)
        unbounded = where(self._outside(), exact, value)
        return where(value <= 0.0, 0.0, where(value >= 1.0, 1.0, unbounded))

    def icdf(self, value: Tensor) -> Tensor:
        cut = self._cut_probs()
        exact = ((-cut + value * (2.0 * cut - 1.0)).log1p() - (-cut).log1p()) / (
            cut.log() - (-cut).log1p()
        )
        return where(self._outside(), exact, value)

    def entropy(self) -> Tensor:
        log_probs0, log_probs1 = (-self.probs).log1p(), self.probs.log()
        return self.mean * (log_probs0 - log_probs1) - self._log_constant() - log_probs0

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        (x,) = natural_params
        outside = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        cut = where(outside, x, self._lims[0] - 0.5)
        log_norm = ((cut.exp() - 1.0) / cut).abs().log()
        taylor = 0.5 * x + x.pow(2) / 24.0 - x.pow(4) / 2880.0
        return where(outside, log_norm, taylor)

    @property
    def _mean_carrier_measure(self) -> float:
        return 0.0
