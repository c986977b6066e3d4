"""Normal vectors whose covariance is a low-rank matrix and a diagonal."""

from __future__ import annotations

from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.covariance import log_diagonal
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.utils import HALF_LOG_TAU, lazy_property, standard_normal
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.ops.linalg.cholesky import cholesky
from adjoint.engine.ops.linalg.solve import solve_triangular
from adjoint.engine.ops.shape.dims import broadcast_shapes
from adjoint.engine.tensor.tensor import Tensor


def capacitance_tril(factor: Tensor, diagonal: Tensor) -> Tensor:
    """The Cholesky factor of I + W^T D^-1 W."""
    weighted = factor.mT / diagonal.unsqueeze(-2)
    n = factor.shape[-1]
    return cholesky(weighted @ factor + factor.new_ones((n,)).diag_embed())


def log_det(diagonal: Tensor, tril: Tensor) -> Tensor:
    """log |W W^T + D|, by the matrix determinant lemma."""
    return 2 * log_diagonal(tril) + diagonal.log().sum(-1)


def low_rank_mahalanobis(factor: Tensor, diagonal: Tensor, x: Tensor, tril: Tensor) -> Tensor:
    """x^T (W W^T + D)^-1 x, by the Woodbury identity."""
    weighted = factor.mT / diagonal.unsqueeze(-2)
    inner = (weighted @ x.unsqueeze(-1)).squeeze(-1)
    shape = broadcast_shapes(tril.shape[:-1], inner.shape)
    full = tril.expand((*shape, shape[-1]))
    z = solve_triangular(full, inner.expand(shape).unsqueeze(-1), upper=False).squeeze(-1)
    return (x.pow(2) / diagonal).sum(-1) - z.pow(2).sum(-1)


# PyTorch's names.
_batch_capacitance_tril = capacitance_tril
_batch_lowrank_mahalanobis = low_rank_mahalanobis


def _batch_lowrank_logdet(W: Tensor, D: Tensor, capacitance_tril: Tensor) -> Tensor:
    return log_det(D, capacitance_tril)


class LowRankMultivariateNormal(Distribution):
    """Normal vectors of covariance W W^T + D, at a cost linear in their size.

    Args:
        loc: the mean, (..., N).
        cov_factor: W, (..., N, K).
        cov_diag: the diagonal of D, (..., N).
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        cov_factor: Tensor,
        cov_diag: Tensor,
        validate_args: bool | None = None,
    ) -> None:
        if loc.ndim < 1:
            raise ShapeValueError("loc must be at least one-dimensional.")
        size = loc.shape[-1]
        if cov_factor.ndim < 2:
            raise ShapeValueError(
                "cov_factor must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        if cov_factor.shape[-2] != size:
            raise ShapeValueError(f"cov_factor must be a batch of matrices with shape {size} x m")
        if cov_diag.shape[-1] != size:
            raise ShapeValueError(f"cov_diag must be a batch of vectors with shape {(size,)}")
        batch = broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        self.loc = loc.expand((*batch, size))
        self.cov_factor = cov_factor.expand((*batch, *cov_factor.shape[-2:]))
        self.cov_diag = cov_diag.expand((*batch, size))
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        super().__init__(batch, (size,), validate_args=validate_args)
        self._capacitance_tril = capacitance_tril(cov_factor, cov_diag)

    def _expand_rest(self, expanded: Any, batch_shape: Any) -> None:
        expanded._unbroadcasted_cov_factor = self._unbroadcasted_cov_factor
        expanded._unbroadcasted_cov_diag = self._unbroadcasted_cov_diag
        expanded._capacitance_tril = self._capacitance_tril

    def _matrix_shape(self) -> tuple[int, ...]:
        return (*self._batch_shape, *self._event_shape, *self._event_shape)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:
        """The diagonal of the covariance."""
        diagonal = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return diagonal.expand((*self._batch_shape, *self._event_shape))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        w = self._unbroadcasted_cov_factor
        full = w @ w.mT + self._unbroadcasted_cov_diag.diag_embed()
        return full.expand(self._matrix_shape())

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return cholesky(self.covariance_matrix)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        weighted = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        a = solve_triangular(self._capacitance_tril, weighted, upper=False)
        full = self._unbroadcasted_cov_diag.reciprocal().diag_embed() - a.mT @ a
        return full.expand(self._matrix_shape())

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        inner = (*shape[:-1], self.cov_factor.shape[-1])
        z = standard_normal(inner, self.loc.dtype, self.loc.device)
        noise = standard_normal(shape, self.loc.dtype, self.loc.device)
        correlated = (self._unbroadcasted_cov_factor @ z.unsqueeze(-1)).squeeze(-1)
        return self.loc + correlated + self._unbroadcasted_cov_diag.sqrt() * noise

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        w, d, tril = (
            self._unbroadcasted_cov_factor,
            self._unbroadcasted_cov_diag,
            self._capacitance_tril,
        )
        m = low_rank_mahalanobis(w, d, value - self.loc, tril)
        return -self._event_shape[0] * HALF_LOG_TAU - 0.5 * (log_det(d, tril) + m)

    def entropy(self) -> Tensor:
        half = 0.5 * log_det(self._unbroadcasted_cov_diag, self._capacitance_tril)
        value = self._event_shape[0] * (0.5 + HALF_LOG_TAU) + half
        return value if not self._batch_shape else value.expand(self._batch_shape)
