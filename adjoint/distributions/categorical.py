"""The categorical distribution."""

from __future__ import annotations

from math import prod
from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.utils import lazy_property, logits_to_probs, probs_to_logits
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.dtype import int64
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.core.numeric_limits import finfo
from adjoint.engine.core.spec import Size
from adjoint.engine.ops.create.ranges import arange
from adjoint.engine.ops.random.tensor_parameters import multinomial
from adjoint.engine.ops.shape.dims import broadcast_tensors
from adjoint.engine.tensor.tensor import Tensor


class Categorical(Distribution):
    """One of K categories, 0 to K - 1.

    Args:
        probs: (..., K), normalised to sum to one.
        logits: or unnormalised logarithms of them.

    Example:
        >>> import adjoint as ad
        >>> ad.distributions.Categorical(ad.tensor([1.0, 3.0])).probs
        tensor([0.2500, 0.7500])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _num_events: int

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        given = logits if probs is None else probs
        if given.ndim < 1:
            name = "logits" if probs is None else "probs"
            raise ShapeValueError(f"`{name}` parameter must be at least one-dimensional.")
        if probs is not None:
            self.__dict__["probs"] = probs / probs.sum(-1, keepdim=True)
        else:
            self.__dict__["logits"] = logits - logits.logsumexp(-1, keepdim=True)
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], validate_args=validate_args)

    def _expand_rest(self, expanded: Any, batch_shape: Any) -> None:
        expanded._num_events = self._num_events

    @property
    def _param(self) -> Tensor:
        names = [name for name in self.__dict__ if name in ("probs", "logits")]
        return self.__dict__[names[0]]

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """The categories."""
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self) -> Tensor:
        """Logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities."""
        return logits_to_probs(self.logits)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._param.shape

    @property
    def mean(self) -> Tensor:
        return self._param.new_full(self._extended_shape(), float("nan"))

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        return self._param.new_full(self._extended_shape(), float("nan"))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            rows = self.probs.reshape((-1, self._num_events))
            count = prod(Size(sample_shape))
            shape = self._extended_shape(sample_shape)
            if not count or not rows.shape[0]:
                return rows.new_zeros(shape, dtype=int64)
            return multinomial(rows, count, True).t().reshape(shape)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        index, logits = broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = arange(self._num_events, dtype=int64, device=self._param.device)
        values = values.reshape((-1, *(1,) * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values
