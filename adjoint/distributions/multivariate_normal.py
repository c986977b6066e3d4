"""The multivariate normal distribution."""

from __future__ import annotations

from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.covariance import (
    ByFactor,
    factor_of,
    log_diagonal,
    precision_to_scale_tril,
    the_one_given,
)
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.utils import HALF_LOG_TAU, standard_normal
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.ops.linalg.solve import solve_triangular
from adjoint.engine.ops.shape.dims import broadcast_shapes
from adjoint.engine.tensor.tensor import Tensor


def mahalanobis(factor: Tensor, x: Tensor) -> Tensor:
    """x^T (L L^T)^-1 x, batches broadcast."""
    shape = broadcast_shapes(factor.shape[:-1], x.shape)
    full = factor.expand((*shape, shape[-1]))
    z = solve_triangular(full, x.expand(shape).unsqueeze(-1), upper=False).squeeze(-1)
    return z.pow(2).sum(-1)


def _batch_mv(bmat: Tensor, bvec: Tensor) -> Tensor:
    """Matrices by vectors, batches broadcast."""
    return (bmat @ bvec.unsqueeze(-1)).squeeze(-1)


# PyTorch's names.
_precision_to_scale_tril = precision_to_scale_tril
_batch_mahalanobis = mahalanobis


class MultivariateNormal(ByFactor, Distribution):
    """Normal vectors with a mean and a covariance (or its inverse, or its Cholesky factor).

    Args:
        loc: the mean, (..., D).
        covariance_matrix: (..., D, D), positive definite.
        precision_matrix: or its inverse.
        scale_tril: or its lower Cholesky factor.

    Example:
        >>> import adjoint as ad
        >>> ad.distributions.MultivariateNormal(ad.zeros(2), ad.eye(2)).entropy()
        tensor(2.8379)
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.ndim < 1:
            raise ShapeValueError("loc must be at least one-dimensional.")
        name, matrix = the_one_given(covariance_matrix, precision_matrix, scale_tril)
        batch = broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        size = loc.shape[-1]
        self.__dict__[name] = matrix.expand((*batch, *matrix.shape[-2:]))
        self.loc = loc.expand((*batch, size))
        super().__init__(batch, (size,), validate_args=validate_args)
        self._unbroadcasted_scale_tril = factor_of(name, matrix)

    def _expand_rest(self, expanded: Any, batch_shape: Any) -> None:
        expanded._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril

    def _matrix_shape(self) -> tuple[int, ...]:
        return (*self._batch_shape, *self._event_shape, *self._event_shape)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        square = self._unbroadcasted_scale_tril.pow(2).sum(-1)
        return square.expand((*self._batch_shape, *self._event_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        z = standard_normal(shape, self.loc.dtype, self.loc.device)
        return self.loc + (self._unbroadcasted_scale_tril @ z.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        factor = self._unbroadcasted_scale_tril
        m = mahalanobis(factor, value - self.loc)
        return -self._event_shape[0] * HALF_LOG_TAU - 0.5 * m - log_diagonal(factor)

    def entropy(self) -> Tensor:
        half = log_diagonal(self._unbroadcasted_scale_tril)
        value = self._event_shape[0] * (0.5 + HALF_LOG_TAU) + half
        return value if not self._batch_shape else value.expand(self._batch_shape)
