"""The categorical distribution with one-hot values."""

from __future__ import annotations

from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.categorical import Categorical
from adjoint.distributions.distribution import Distribution
from adjoint.engine.ops.create.ranges import eye
from adjoint.engine.tensor.tensor import Tensor


def _one_hot(index: Tensor, like: Tensor) -> Tensor:
    shape = (*index.shape, like.shape[-1])
    return like.new_zeros(shape).scatter(-1, index.unsqueeze(-1), 1.0)


class OneHotCategorical(Distribution):
    """One of K categories, as a vector with a single 1.

    Args:
        probs: (..., K), normalised to sum to one.
        logits: or unnormalised logarithms of them.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.param_shape
        super().__init__(self._categorical.batch_shape, shape[-1:], validate_args=validate_args)

    def _expand_rest(self, expanded: Any, batch_shape: Any) -> None:
        expanded._categorical = self._categorical.expand(batch_shape)

    @property
    def _param(self) -> Tensor:
        return self._categorical._param

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Their logarithms."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._categorical.param_shape

    @property
    def mean(self) -> Tensor:
        return self._categorical.probs

    @property
    def mode(self) -> Tensor:
        return _one_hot(self.probs.argmax(-1), self.probs)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return _one_hot(self._categorical.sample(sample_shape), self.probs.detach())

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self.event_shape[0]
        values = eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape((n, *(1,) * len(self._batch_shape), n))
        return values.expand((n, *self._batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot samples whose gradient is that of the probabilities.

    (Bengio, Leonard, Courville 2013: Estimating or propagating gradients through stochastic
    neurons.)
    """

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        samples = self.sample(sample_shape)
        probs = self.probs
        return samples + (probs - probs.detach())
