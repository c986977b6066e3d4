"""What distributions have that are given a covariance, its inverse or its Cholesky factor."""

from __future__ import annotations

from adjoint.distributions.utils import lazy_property
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.ops.linalg.cholesky import cholesky, cholesky_inverse
from adjoint.engine.ops.linalg.solve import solve_triangular
from adjoint.engine.tensor.tensor import Tensor


def log_diagonal(factor: Tensor) -> Tensor:
    """Half the logarithm of the determinant of L L^T."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def precision_to_scale_tril(precision: Tensor) -> Tensor:
    """The Cholesky factor of the inverse of a matrix, without inverting it."""
    upper = cholesky(precision.flip((-2, -1))).flip((-2, -1))  # precision = U U^T
    return _inverse(upper.mT)


def _inverse(lower: Tensor) -> Tensor:
    identity = lower.new_ones((lower.shape[-1],)).diag_embed().expand(lower.shape)
    return solve_triangular(lower, identity, upper=False)


def the_one_given(
    covariance_matrix: Tensor | None, precision_matrix: Tensor | None, scale_tril: Tensor | None
) -> tuple[str, Tensor]:
    """Which of the three matrices there is, and the matrix."""
    given = {
        "covariance_matrix": covariance_matrix,
        "precision_matrix": precision_matrix,
        "scale_tril": scale_tril,
    }
    present = {name: matrix for name, matrix in given.items() if matrix is not None}
    if len(present) != 1:
        raise ValueError(
            "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
        )
    ((name, matrix),) = present.items()
    if matrix.ndim < 2:
        raise ShapeValueError(
            f"{name} must be at least two-dimensional, with optional leading batch dimensions"
        )
    return name, matrix


def factor_of(name: str, matrix: Tensor) -> Tensor:
    """The lower Cholesky factor of the covariance, which is given as the matrix of this name."""
    if name == "scale_tril":
        return matrix
    return cholesky(matrix) if name == "covariance_matrix" else precision_to_scale_tril(matrix)


class ByFactor:
    """The three matrices of a distribution that keeps the factor (`_unbroadcasted_scale_tril`)."""

    _unbroadcasted_scale_tril: Tensor

    def _matrix_shape(self) -> tuple[int, ...]:
        raise NotImplementedError

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return self._unbroadcasted_scale_tril.expand(self._matrix_shape())

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance of the vectors."""
        factor = self._unbroadcasted_scale_tril
        return (factor @ factor.mT).expand(self._matrix_shape())

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return cholesky_inverse(self._unbroadcasted_scale_tril).expand(self._matrix_shape())
