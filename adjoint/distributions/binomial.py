"""The binomial distribution."""

from __future__ import annotations

from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.binary import Binary
from adjoint.distributions.utils import broadcast_all, softplus
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.ops.create.ranges import arange
from adjoint.engine.ops.random.tensor_parameters import binomial
from adjoint.engine.tensor.tensor import Tensor


class Binomial(Binary):
    """Successes in `total_count` trials of probability p.

    Args:
        total_count: the number of trials.
        probs: p.
        logits: or log(p / (1 - p)).
    """

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(
        self,
        total_count: Any = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        given = logits if probs is None else probs
        count, value = broadcast_all(total_count, given)
        self.total_count = count.to(value.dtype)
        self.__dict__["logits" if probs is None else "probs"] = value
        super().__init__(value.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """Integers up to the number of trials."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        n = self.total_count
        choose = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return choose + value * self.logits - n * softplus(self.logits)

    def entropy(self) -> Tensor:
        count = self._common_count("entropy")
        log_prob = self.log_prob(self.enumerate_support(False)) if count else None
        if log_prob is None:
            return self._param.new_zeros(self._batch_shape)
        return -(log_prob.exp() * log_prob).sum(0)

    def _common_count(self, name: str) -> int:
        count = int(self.total_count.max().item())
        if not bool((self.total_count.min() == count).item()):
            raise NotImplementedError(
                "Inhomogeneous total count not supported by `entropy`."
                if name == "entropy"
                else "Inhomogeneous total count not supported by `enumerate_support`."
            )
        return count

    def enumerate_support(self, expand: bool = True) -> Tensor:
        count = self._common_count("enumerate_support")
        values = arange(1 + count, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape((-1, *(1,) * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values
