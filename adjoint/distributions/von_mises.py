"""The von Mises distribution."""

from __future__ import annotations

import math
from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.utils import all_numbers, broadcast_all, uniform_like
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.dtype import float64
from adjoint.engine.ops.elementwise.condition import where
from adjoint.engine.ops.special.bessel import i0e, i1e
from adjoint.engine.tensor.tensor import Tensor

ROUNDS = 32  # of rejection, all drawn at once: at least 0.65 of proposals are accepted


class VonMises(Distribution):
    r"""Angles: density $e^{\kappa \cos(x - \mu)} / 2 \pi I_0(\kappa)$.

    (Best, Fisher 1979: Efficient simulation of the von Mises distribution.)

    Args:
        loc: the mean angle.
        concentration: $\kappa$.
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        shape = () if all_numbers(loc, concentration) else self.loc.shape
        super().__init__(shape, validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        k = self.concentration
        log_i0 = i0e(k).log() + k
        return k * (value - self.loc).cos() - math.log(2 * math.pi) - log_i0

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            shape = self._extended_shape(sample_shape)
            k = self.concentration.to(float64).expand(shape)
            tau = 1 + (1 + 4 * k**2).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * k)
            r = where(k < 1e-5, 1 / k + k, (1 + rho**2) / (2 * rho))
            u1, u2, u3 = uniform_like((3, ROUNDS, *shape), k).unbind(0)
            z = (math.pi * u1).cos()
            f = ((1 + r * z) / (r + z)).clamp(min=-1, max=1)
            c = k * (r - f)
            accept = (c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)
            first = accept.to(k.dtype).argmax(0).unsqueeze(0)  # the first accepted proposal
            angle = ((u3 - 0.5).sign() * f.acos()).gather(0, first).squeeze(0)
            angle = (angle + math.pi + self.loc.to(float64)) % (2 * math.pi) - math.pi
            return angle.to(self.loc.dtype)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The circular variance."""
        return 1 - i1e(self.concentration) / i0e(self.concentration)
