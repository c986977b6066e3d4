"""The Dirichlet distribution."""

from __future__ import annotations

from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.exp_family import ExponentialFamily
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.core.numeric_limits import finfo
from adjoint.engine.ops.create.ranges import arange
from adjoint.engine.ops.elementwise.condition import where
from adjoint.engine.ops.random.gamma_samples import standard_gamma
from adjoint.engine.tensor.tensor import Tensor


class Dirichlet(ExponentialFamily):
    r"""Points of a simplex: density proportional to $\prod x_i^{\alpha_i - 1}$.

    Samples are normalised gamma samples, and differentiate as those do.

    Args:
        concentration: $\alpha$, (..., categories).

    Example:
        >>> import adjoint as ad
        >>> ad.distributions.Dirichlet(ad.tensor([1.0, 3.0])).mean
        tensor([0.2500, 0.7500])
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.ndim < 1:
            raise ShapeValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        gammas = standard_gamma(self.concentration.expand(shape))
        value = gammas / gammas.sum(-1, keepdim=True)
        limits = finfo(value.dtype)
        return value.clamp(min=limits.tiny, max=1 - limits.eps)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        a = self.concentration
        return (a - 1.0).xlogy(value).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def mode(self) -> Tensor:
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, keepdim=True)
        # Without bound at every corner: the first is as good as any, and PyTorch's.
        flat = (self.concentration < 1).all(-1, keepdim=True)
        corner = arange(mode.shape[-1], device=mode.device).eq(0).to(mode.dtype)
        return where(flat, corner, mode)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, keepdim=True)
        a = self.concentration
        return a * (total - a) / (total.pow(2) * (total + 1))

    def entropy(self) -> Tensor:
        a, k = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        return (
            a.lgamma().sum(-1)
            - total.lgamma()
            - (k - total) * total.digamma()
            - ((a - 1.0) * a.digamma()).sum(-1)
        )

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration - 1,)

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        a = natural_params[0] + 1
        return a.lgamma().sum(-1) - a.sum(-1).lgamma()

    @property
    def _mean_carrier_measure(self) -> float:
        return 0.0
