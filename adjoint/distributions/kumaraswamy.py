"""The Kumaraswamy distribution."""

from __future__ import annotations

import math
from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.transformed_distribution import TransformedDistribution
from adjoint.distributions.transforms import AffineTransform, PowerTransform
from adjoint.distributions.uniform import Uniform
from adjoint.distributions.utils import broadcast_all, euler_constant
from adjoint.engine.ops.elementwise.condition import where
from adjoint.engine.tensor.tensor import Tensor


class Kumaraswamy(TransformedDistribution):
    """Numbers of [0, 1] with distribution function 1 - (1 - x^a)^b.

    Args:
        concentration1: a.
        concentration0: b.
    """

    arg_constraints = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        ones = self.concentration0.new_ones(self.concentration0.shape)
        base = Uniform(ones * 0, ones, validate_args=validate_args)
        super().__init__(base, self._parts(), validate_args=validate_args)

    def _parts(self) -> list[Any]:
        return [
            PowerTransform(exponent=self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=self.concentration1.reciprocal()),
        ]

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        expanded = self._like(batch_shape, _instance)
        expanded.concentration1 = self.concentration1.expand(expanded._batch_shape)
        expanded.concentration0 = self.concentration0.expand(expanded._batch_shape)
        expanded.base_dist = self.base_dist.expand(expanded._batch_shape)
        expanded.transforms = expanded._parts()
        return expanded

    def _moment(self, n: int) -> Tensor:
        a, b = self.concentration1, self.concentration0
        x = 1 + n / a
        return (b.log() + x.lgamma() + b.lgamma() - (x + b).lgamma()).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        log_mode = a.reciprocal() * ((a - 1).log() - (a * b - 1).log())
        return where((a < 1) | (b < 1), math.nan, log_mode.exp())

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self.mean.pow(2)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        t1, t0 = 1 - a.reciprocal(), 1 - b.reciprocal()
        harmonic = (b + 1).digamma() + euler_constant
        return t0 + t1 * harmonic - a.log() - b.log()
