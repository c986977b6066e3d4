"""Continuous relaxations of Bernoulli numbers."""

from __future__ import annotations

from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.binary import Binary
from adjoint.distributions.transformed_distribution import TransformedDistribution
from adjoint.distributions.transforms import SigmoidTransform
from adjoint.distributions.utils import broadcast_all, clamp_probs, softplus, uniform_like
from adjoint.engine.tensor.tensor import Tensor


class LogitRelaxedBernoulli(Binary):
    """The logit of a relaxed Bernoulli number.

    (Maddison, Mnih, Teh 2017: The concrete distribution.)

    Args:
        temperature: how near samples are to 0 and 1.
        probs: the probability of 1.
        logits: or its logit.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    has_rsample = True

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        super().__init__(self._set_parameter(probs, logits), validate_args=validate_args)

    def _expand_rest(self, expanded: Any, batch_shape: Any) -> None:
        expanded.temperature = self.temperature

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(uniform_like(shape, probs))
        logits = u.log() - (-u).log1p() + probs.log() - (-probs).log1p()
        return logits / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        difference = logits - value * self.temperature
        log_temperature = (
            self.temperature.log()
            if isinstance(self.temperature, Tensor)
            else value.new_full((), self.temperature).log()
        )
        return log_temperature + difference - 2 * softplus(difference)


class RelaxedBernoulli(TransformedDistribution):
    """A number of (0, 1) near its ends, that differentiates by the probability.

    Args:
        temperature: how near samples are to 0 and 1.
        probs: the probability of 1.
        logits: or its logit.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Any:
        """How near samples are to 0 and 1."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The logit of the probability."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The probability of 1."""
        return self.base_dist.probs
