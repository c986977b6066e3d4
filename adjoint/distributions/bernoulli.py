"""The Bernoulli distribution."""

from __future__ import annotations

import math
from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.binary import Binary
from adjoint.distributions.exp_family import ExponentialFamily
from adjoint.distributions.utils import broadcast_all, log_of_bernoulli, softplus
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.ops.create.ranges import arange
from adjoint.engine.ops.elementwise.condition import where
from adjoint.engine.ops.random.tensor_parameters import bernoulli
from adjoint.engine.tensor.tensor import Tensor


class Bernoulli(Binary, ExponentialFamily):
    """1 with probability p, else 0.

    Args:
        probs: p.
        logits: or log(p / (1 - p)).

    Example:
        >>> import adjoint as ad
        >>> ad.distributions.Bernoulli(0.25).log_prob(ad.tensor(1.0))
        tensor(-1.3863)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(self._set_parameter(probs, logits), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        mode = (self.probs >= 0.5).to(self.probs.dtype)
        return where(self.probs == 0.5, math.nan, mode)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        return log_of_bernoulli(logits, value)

    def entropy(self) -> Tensor:
        return -log_of_bernoulli(self.logits, self.probs)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = arange(2, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape((-1, *(1,) * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.probs.logit(),)

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        return softplus(natural_params[0])

    @property
    def _mean_carrier_measure(self) -> float:
        return 0.0
