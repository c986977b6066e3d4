"""The logistic-normal distribution."""

from __future__ import annotations

from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.independent import Independent
from adjoint.distributions.normal import Normal
from adjoint.distributions.transformed_distribution import TransformedDistribution
from adjoint.distributions.transforms import StickBreakingTransform
from adjoint.engine.tensor.tensor import Tensor


class LogisticNormal(TransformedDistribution):
    """Points of a simplex: normal numbers, sent there by breaking a stick.

    Args:
        loc: means, (..., K); samples have K + 1 elements.
        scale: standard deviations.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base: Any = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    def _normal(self) -> Any:
        base = self.base_dist
        return base.base_dist if isinstance(base, Independent) else base

    @property
    def loc(self) -> Tensor:
        """Means of the normal numbers."""
        return self._normal().loc

    @property
    def scale(self) -> Tensor:
        """Their standard deviations."""
        return self._normal().scale
