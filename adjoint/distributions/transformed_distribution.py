"""A distribution of transformed values."""

from __future__ import annotations

from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.independent import Independent
from adjoint.distributions.transform import Transform
from adjoint.distributions.transforms_combined import ComposeTransform
from adjoint.distributions.utils import sum_rightmost
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.tensor.tensor import Tensor


class TransformedDistribution(Distribution):
    """The distribution of f(X), for X of a base distribution and bijections f.

    log p(y) = log p(x) - log |dy/dx|.

    Args:
        base_distribution: of X.
        transforms: one transform or a list of them, applied in order.

    Example:
        >>> import adjoint as ad
        >>> from adjoint.distributions import ExpTransform, Normal, TransformedDistribution
        >>> TransformedDistribution(Normal(0.0, 1.0), ExpTransform()).log_prob(ad.tensor(1.0))
        tensor(-0.9189)
    """

    arg_constraints: Any = {}
    base_dist: Any
    transforms: list[Transform]

    def __init__(
        self, base_distribution: Any, transforms: Any, validate_args: bool | None = None
    ) -> None:
        if isinstance(transforms, Transform):
            self.transforms = [transforms]
        elif isinstance(transforms, list) and all(isinstance(t, Transform) for t in transforms):
            self.transforms = transforms
        else:
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        base_rank = len(base_distribution.event_shape)
        transform = ComposeTransform(self.transforms)
        if len(base_shape) < transform.domain.event_dim:
            raise ShapeValueError(
                "base_distribution needs to have shape with size at least "
                f"{transform.domain.event_dim}, but got {base_shape}."
            )
        forward_shape = transform.forward_shape(base_shape)
        expanded = transform.inverse_shape(forward_shape)
        if base_shape != expanded:
            cut = len(expanded) - base_rank
            base_distribution = base_distribution.expand(expanded[:cut])
        more = transform.domain.event_dim - base_rank
        if more > 0:
            base_distribution = Independent(base_distribution, more)
        self.base_dist = base_distribution
        rank = max(
            transform.codomain.event_dim,
            transform.codomain.event_dim + base_rank - transform.domain.event_dim,
        )
        cut = len(forward_shape) - rank
        super().__init__(forward_shape[:cut], forward_shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        expanded = self._like(batch_shape, _instance)
        expanded.transforms = self.transforms
        shape = (*batch_shape, *self._event_shape)
        base_shape = tuple(batch_shape)
        for t in reversed(self.transforms):
            shape = t.inverse_shape(type(self._batch_shape)(shape))
        base_shape = shape[: len(shape) - len(self.base_dist.event_shape)]
        expanded.base_dist = self.base_dist.expand(base_shape)
        return expanded

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        """The last transform's codomain, with dimensions of events."""
        if not self.transforms:
            return self.base_dist.support
        codomain = self.transforms[-1].codomain
        more = len(self._event_shape) - codomain.event_dim
        return constraints.independent(codomain, more) if more > 0 else codomain

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return bool(self.base_dist.has_rsample)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            x = self.base_dist.sample(sample_shape)
            for t in self.transforms:
                x = t(x)
            return x

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        x = self.base_dist.rsample(sample_shape)
        for t in self.transforms:
            x = t(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        rank = len(self._event_shape)
        total: Any = 0.0
        y = value
        for t in reversed(self.transforms):
            x = t.inv(y)
            rank += t.domain.event_dim - t.codomain.event_dim
            log_det = t.log_abs_det_jacobian(x, y)
            total = total - sum_rightmost(log_det, rank - t.domain.event_dim)
            y = x
        base_rank = len(self.base_dist.event_shape)
        return total + sum_rightmost(self.base_dist.log_prob(y), rank - base_rank)

    def _sign(self) -> Any:
        sign: Any = 1
        for t in self.transforms:
            sign = sign * t.sign
        return sign

    def _flipped(self, probability: Tensor) -> Tensor:
        """A probability of the base, for a map that may decrease."""
        sign = self._sign()
        if isinstance(sign, int) and sign == 1:
            return probability
        return sign * (probability - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        for t in reversed(self.transforms):
            value = t.inv(value)
        self.base_dist._checked(value)
        return self._flipped(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        value = self.base_dist.icdf(self._flipped(value))
        for t in self.transforms:
            value = t(value)
        return value
