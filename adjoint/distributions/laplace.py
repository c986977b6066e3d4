"""The Laplace distribution."""

from __future__ import annotations

from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.utils import all_numbers, broadcast_all, uniform_like
from adjoint.engine.core.numeric_limits import finfo
from adjoint.engine.tensor.tensor import Tensor


class Laplace(Distribution):
    r"""Two exponentials back to back: density $e^{-|x - \mu| / b} / 2 b$.

    Args:
        loc: the centre.
        scale: b.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        shape = () if all_numbers(loc, scale) else self.loc.shape
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Tensor:
        return 2**0.5 * self.scale

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = uniform_like(self._extended_shape(sample_shape), self.loc) * 2 - 1
        u = u.clamp(min=finfo(u.dtype).eps - 1)
        return self.loc - self.scale * u.sign() * (-u.abs().clamp(min=finfo(u.dtype).tiny)).log1p()

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        self._checked(value)
        distance = value - self.loc
        return 0.5 - 0.5 * distance.sign() * (-distance.abs() / self.scale).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * (-2 * term.abs()).log1p()

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()
