"""Cholesky factors of random correlation matrices."""

from __future__ import annotations

import math
from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.beta import Beta
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.utils import broadcast_all, standard_normal
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.numeric_limits import finfo
from adjoint.engine.ops.create.ranges import arange
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.ops.special.gamma_family import mvlgamma
from adjoint.engine.tensor.tensor import Tensor


class LKJCholesky(Distribution):
    r"""Factors L of correlation matrices of density proportional to $|L L^T|^{\eta - 1}$.

    (Lewandowski, Kurowicka, Joe 2009; sampled by the onion method.)

    Args:
        dim: D, the size of the matrices.
        concentration: $\eta$; 1 is uniform over correlation matrices.
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(
        self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        batch = self.concentration.shape
        marginal = self.concentration + 0.5 * (dim - 2)
        offset = arange(dim - 1, dtype=marginal.dtype, device=marginal.device)
        offset = cat([offset.new_zeros((1,)), offset], 0)
        beta_conc1 = offset + 0.5
        beta_conc0 = marginal.unsqueeze(-1) - 0.5 * offset
        self._beta = Beta(beta_conc1.expand(beta_conc0.shape), beta_conc0)
        super().__init__(batch, (dim, dim), validate_args=validate_args)

    def _expand_rest(self, expanded: Any, batch_shape: Any) -> None:
        expanded.dim = self.dim
        expanded._beta = self._beta.expand((*batch_shape, self.dim))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            y = self._beta.sample(sample_shape).unsqueeze(-1)
            shape = self._extended_shape(sample_shape)
            u = standard_normal(shape, y.dtype, y.device).tril(-1)
            length = (u * u).sum(-1, keepdim=True).sqrt()
            sphere = u / length.masked_fill(length == 0, 1)
            w = y.sqrt() * sphere
            w = cat([w.new_zeros((*w.shape[:-2], 1, self.dim)), w[..., 1:, :]], -2)
            eps = finfo(w.dtype).tiny
            diagonal = (1 - (w * w).sum(-1)).clamp(min=eps).sqrt()
            return w + diagonal.diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = arange(2, self.dim + 1, dtype=value.dtype, device=value.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        unnormalized = (order * diagonal.log()).sum(-1)
        less = self.dim - 1
        alpha = self.concentration + 0.5 * less
        denominator = alpha.lgamma() * less
        numerator = mvlgamma(alpha - 0.5, less)
        constant = 0.5 * less * math.log(math.pi)
        return unnormalized - (constant + numerator - denominator)
