"""Batch dimensions made part of an event."""

from __future__ import annotations

from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.utils import sum_rightmost
from adjoint.engine.core.spec import Size
from adjoint.engine.tensor.tensor import Tensor


class Independent(Distribution):
    """A distribution whose last batch dimensions are taken as one event.

    Args:
        base_distribution: the distribution.
        reinterpreted_batch_ndims: how many dimensions.

    Example:
        >>> import adjoint as ad
        >>> base = ad.distributions.Normal(ad.zeros(3), ad.ones(3))
        >>> ad.distributions.Independent(base, 1).log_prob(ad.zeros(3))
        tensor(-2.7568)
    """

    arg_constraints: Any = {}
    base_dist: Any

    def __init__(
        self,
        base_distribution: Any,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        if reinterpreted_batch_ndims > len(base_distribution.batch_shape):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {reinterpreted_batch_ndims} vs {len(base_distribution.batch_shape)}"
            )
        shape = (*base_distribution.batch_shape, *base_distribution.event_shape)
        rank = reinterpreted_batch_ndims + len(base_distribution.event_shape)
        cut = len(shape) - rank
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        expanded = type(self).__new__(type(self)) if _instance is None else _instance
        inner = self._event_shape[: self.reinterpreted_batch_ndims]
        # Before the rest: a class of one's own may keep what is validated in its base.
        expanded.base_dist = self.base_dist.expand(Size((*batch_shape, *inner)))
        expanded.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        return self._like(batch_shape, expanded)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return bool(self.base_dist.has_rsample)

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        if self.reinterpreted_batch_ndims > 0:
            return False
        return bool(self.base_dist.has_enumerate_support)

    @constraints.dependent_property
    def support(self) -> Any:
        """The base's, of larger events."""
        base = self.base_dist.support
        more = self.reinterpreted_batch_ndims
        return constraints.independent(base, more) if more else base

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist!r}, {self.reinterpreted_batch_ndims})"
