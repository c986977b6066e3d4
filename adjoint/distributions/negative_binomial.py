"""The negative binomial distribution."""

from __future__ import annotations

from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.binary import Binary
from adjoint.distributions.gamma import Gamma
from adjoint.distributions.utils import broadcast_all, softplus
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.ops.elementwise.condition import where
from adjoint.engine.ops.random.tensor_parameters import poisson
from adjoint.engine.tensor.tensor import Tensor


class NegativeBinomial(Binary):
    """Successes before `total_count` failures, each trial a success with probability p.

    Args:
        total_count: the number of failures to stop at; need not be an integer.
        probs: p, in [0, 1).
        logits: or log(p / (1 - p)).
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self,
        total_count: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        count, value = broadcast_all(total_count, logits if probs is None else probs)
        self.total_count = count.to(value.dtype)
        self.__dict__["logits" if probs is None else "probs"] = value
        super().__init__(value.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            rates = Gamma(self.total_count, (-self.logits).exp(), validate_args=False)
            return poisson(rates.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        n = self.total_count
        unnormalized = -n * softplus(self.logits) - value * softplus(-self.logits)
        normalization = -(n + value).lgamma() + (1.0 + value).lgamma() + n.lgamma()
        return unnormalized - where(n + value == 0.0, 0.0, normalization)
