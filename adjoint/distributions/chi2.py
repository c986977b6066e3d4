"""The chi-squared distribution."""

from __future__ import annotations

from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.gamma import Gamma
from adjoint.engine.tensor.tensor import Tensor


class Chi2(Gamma):
    """The sum of `df` squares of standard normal numbers: Gamma(df / 2, 1 / 2).

    Args:
        df: degrees of freedom.
    """

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    def _expand_rest(self, expanded: Any, batch_shape: Any) -> None:
        expanded.concentration = self.concentration.expand(batch_shape)
        expanded.rate = self.rate.expand(batch_shape)

    @property
    def df(self) -> Tensor:
        """Degrees of freedom."""
        return self.concentration * 2
