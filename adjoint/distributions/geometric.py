"""The geometric distribution."""

from __future__ import annotations

from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.binary import Binary
from adjoint.distributions.utils import (
    broadcast_all,
    concrete_values,
    log_of_bernoulli,
    open_uniform,
)
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.numeric_limits import finfo
from adjoint.engine.tensor.tensor import Tensor


class Geometric(Binary):
    """The number of failures before the first success: probability (1 - p)^k p.

    Args:
        probs: p, the probability of a success.
        logits: or log(p / (1 - p)).
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(self._set_parameter(probs, logits), validate_args=validate_args)
        if self._validate_args and probs is not None and concrete_values():
            value = self.probs
            if not bool((value > 0).all()):
                bad = value[value <= 0]
                raise ValueError(
                    f"Expected parameter probs ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to be positive but found "
                    f"invalid values:\n{bad}"
                )

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return self.probs.new_zeros(self.probs.shape)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            u = open_uniform(self._extended_shape(sample_shape), self.probs)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        value, probs = broadcast_all(value, self.probs)
        return value.xlogy(1 - probs) + self.probs.log()

    def entropy(self) -> Tensor:
        if not self._by_probs:
            return -log_of_bernoulli(self.logits, self.probs) / self.probs
        # Of probs, however small; from 1 on the logarithm would have no slope.
        least = 1 - finfo(self.probs.dtype).eps
        return -self.probs.log() - (1 - self.probs) * (-self.probs.clamp(max=least)).log1p() / (
            self.probs
        )
