"""The multivariate normal distribution."""

from __future__ import annotations

from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.utils import HALF_LOG_TAU, lazy_property, standard_normal
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.ops.linalg.cholesky import cholesky, cholesky_inverse
from adjoint.engine.ops.linalg.solve import solve_triangular
from adjoint.engine.ops.shape.dims import broadcast_shapes
from adjoint.engine.tensor.tensor import Tensor


def mahalanobis(factor: Tensor, x: Tensor) -> Tensor:
    """x^T (L L^T)^-1 x, batches broadcast."""
    shape = broadcast_shapes(factor.shape[:-1], x.shape)
    full = factor.expand((*shape, shape[-1]))
    z = solve_triangular(full, x.expand(shape).unsqueeze(-1), upper=False).squeeze(-1)
    return z.pow(2).sum(-1)


def log_diagonal(factor: Tensor) -> Tensor:
    """Half the logarithm of the determinant of L L^T."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def precision_to_scale_tril(precision: Tensor) -> Tensor:
    """The Cholesky factor of the inverse of a matrix, without inverting it."""
    upper = cholesky(precision.flip((-2, -1))).flip((-2, -1))  # precision = U U^T
    return _inverse(upper.mT)


_precision_to_scale_tril = precision_to_scale_tril  # PyTorch's name


def _inverse(lower: Tensor) -> Tensor:
    identity = lower.new_ones((lower.shape[-1],)).diag_embed().expand(lower.shape)
    return solve_triangular(lower, identity, upper=False)


class MultivariateNormal(Distribution):
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
        given = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        present = {name: m for name, m in given.items() if m is not None}
        if len(present) != 1:
            raise ValueError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be "
                "specified."
            )
        ((name, matrix),) = present.items()
        if matrix.ndim < 2:
            raise ShapeValueError(
                f"{name} must be at least two-dimensional, with optional leading batch dimensions"
            )
        batch = broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        size = loc.shape[-1]
        self.__dict__[name] = matrix.expand((*batch, *matrix.shape[-2:]))
        self.loc = loc.expand((*batch, size))
        super().__init__(batch, (size,), validate_args=validate_args)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = precision_to_scale_tril(matrix)

    def _expand_rest(self, expanded: Any, batch_shape: Any) -> None:
        expanded._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril

    def _matrix_shape(self) -> tuple[int, ...]:
        return (*self._batch_shape, *self._event_shape, *self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return self._unbroadcasted_scale_tril.expand(self._matrix_shape())

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        factor = self._unbroadcasted_scale_tril
        return (factor @ factor.mT).expand(self._matrix_shape())

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return cholesky_inverse(self._unbroadcasted_scale_tril).expand(self._matrix_shape())

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
