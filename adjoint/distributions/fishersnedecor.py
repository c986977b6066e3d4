"""The Fisher-Snedecor distribution."""

from __future__ import annotations

import math
from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.gamma import Gamma
from adjoint.distributions.utils import all_numbers, broadcast_all
from adjoint.engine.core.numeric_limits import finfo
from adjoint.engine.ops.elementwise.condition import where
from adjoint.engine.tensor.tensor import Tensor


class FisherSnedecor(Distribution):
    """The ratio of two chi-squared numbers, each by its degrees of freedom.

    Args:
        df1: degrees of freedom above.
        df2: degrees of freedom below.
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2)
        shape = () if all_numbers(df1, df2) else self.df1.shape
        super().__init__(shape, validate_args=validate_args)

    def _expand_rest(self, expanded: Any, batch_shape: Any) -> None:
        expanded._gamma1 = self._gamma1.expand(batch_shape)
        expanded._gamma2 = self._gamma2.expand(batch_shape)

    @property
    def mean(self) -> Tensor:
        return where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return where(self.df1 > 2, mode, math.nan)

    @property
    def variance(self) -> Tensor:
        m, n = self.df1, self.df2
        value = 2 * n.pow(2) * (m + n - 2) / (m * (n - 2).pow(2) * (n - 4))
        return where(n > 4, value, math.nan)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        x1 = self._gamma1.rsample(sample_shape)
        x2 = self._gamma2.rsample(sample_shape)
        tiny = finfo(x2.dtype).tiny
        return (x1 / x2.clamp(min=tiny)).clamp(min=tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        a, b = self.df1 * 0.5, self.df2 * 0.5
        ratio = self.df1 / self.df2
        constant = (a + b).lgamma() - a.lgamma() - b.lgamma()
        return (
            constant + a * ratio.log() + (a - 1) * value.log() - (a + b) * (ratio * value).log1p()
        )
