"""Continuous relaxations of one-hot vectors."""

from __future__ import annotations

from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.categorical import Categorical
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.transformed_distribution import TransformedDistribution
from adjoint.distributions.transforms import ExpTransform
from adjoint.distributions.utils import broadcast_all, clamp_probs, uniform_like
from adjoint.engine.tensor.tensor import Tensor


class ExpRelaxedCategorical(Distribution):
    """The logarithm of a relaxed one-hot vector.

    (Maddison, Mnih, Teh 2017: The concrete distribution; Jang, Gu, Poole 2017: Categorical
    reparameterization with Gumbel-softmax.)

    Args:
        temperature: how near samples are to the corners.
        probs: (..., K).
        logits: or unnormalised logarithms of them.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        shape = self._categorical.param_shape
        super().__init__(self._categorical.batch_shape, shape[-1:], validate_args=validate_args)

    def _expand_rest(self, expanded: Any, batch_shape: Any) -> None:
        expanded.temperature = self.temperature
        expanded._categorical = self._categorical.expand(batch_shape)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._categorical.param_shape

    @property
    def logits(self) -> Tensor:
        """Logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self._categorical.probs

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        gumbels = -(-clamp_probs(uniform_like(shape, self.logits)).log()).log()
        scores = (self.logits + gumbels) / self.temperature
        return scores - scores.logsumexp(-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        k = self._categorical._num_events
        logits, value = broadcast_all(self.logits, value)
        temperature = (
            self.temperature
            if isinstance(self.temperature, Tensor)
            else value.new_full((), self.temperature)
        )
        scale = temperature.new_full(temperature.shape, float(k)).lgamma() - temperature.log() * (
            -(k - 1)
        )
        score = logits - value * self.temperature
        score = (score - score.logsumexp(-1, keepdim=True)).sum(-1)
        return score + scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """A point of a simplex near a corner, that differentiates by the probabilities.

    Args:
        temperature: how near samples are to the corners.
        probs: (..., K).
        logits: or unnormalised logarithms of them.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Any:
        """How near samples are to the corners."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Logarithms of the probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self.base_dist.probs
