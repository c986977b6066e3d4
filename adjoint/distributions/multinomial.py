"""The multinomial distribution."""

from __future__ import annotations

from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.binomial import Binomial
from adjoint.distributions.categorical import Categorical
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.utils import broadcast_all
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.tensor.tensor import Tensor


class Multinomial(Distribution):
    """How often each of K categories came up in `total_count` draws.

    Args:
        total_count: the number of draws, an int.
        probs: (..., K), normalised to sum to one.
        logits: or unnormalised logarithms of them.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    total_count: int

    def __init__(
        self,
        total_count: int = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        self._binomial = Binomial(total_count=total_count, probs=self.probs)
        shape = self._categorical.param_shape
        super().__init__(self._categorical.batch_shape, shape[-1:], validate_args=validate_args)

    def _expand_rest(self, expanded: Any, batch_shape: Any) -> None:
        expanded.total_count = self.total_count
        expanded._categorical = self._categorical.expand(batch_shape)
        expanded._binomial = self._binomial.expand((*batch_shape, *self._event_shape))

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        """Counts that sum to the number of draws."""
        return constraints.multinomial(self.total_count)

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
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            draws = self._categorical.sample((self.total_count, *sample_shape))
            counts = self.probs.new_zeros((*draws.shape[1:], self._event_shape[0]))
            index = draws.movedim(0, -1)
            ones = counts.new_ones(index.shape)
            return counts.scatter_add(-1, index, ones)

    def entropy(self) -> Tensor:
        n = self.probs.new_full((), self.total_count)
        count = self._categorical.entropy() * self.total_count - (n + 1).lgamma()
        support = self._binomial.enumerate_support(expand=False)[1:]
        weights = self._binomial.log_prob(support).exp()
        return count + (weights * (support + 1).lgamma()).sum((0, -1))

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        impossible = (value == 0) & (logits == -float("inf"))
        logits = logits.masked_fill(impossible, 0)
        factorials = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        return factorials + (logits * value).sum(-1)
