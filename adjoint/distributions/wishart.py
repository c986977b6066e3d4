"""The Wishart distribution."""

from __future__ import annotations

import math
import warnings
from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.chi2 import Chi2
from adjoint.distributions.covariance import ByFactor, factor_of, log_diagonal, the_one_given
from adjoint.distributions.exp_family import ExponentialFamily
from adjoint.distributions.utils import concrete_values, standard_normal
from adjoint.engine.core.numeric_limits import finfo
from adjoint.engine.ops.create.ranges import arange
from adjoint.engine.ops.linalg.cholesky import cholesky_solve
from adjoint.engine.ops.linalg.det import slogdet
from adjoint.engine.ops.shape.dims import broadcast_shapes
from adjoint.engine.ops.special.gamma_family import mvlgamma
from adjoint.engine.tensor.tensor import Tensor


def _mvdigamma(x: Tensor, p: int) -> Tensor:
    steps = arange(p, dtype=x.dtype, device=x.device) / 2
    return (x.unsqueeze(-1) - steps).digamma().sum(-1)


class Wishart(ByFactor, ExponentialFamily):
    """Sums of `df` outer products of normal vectors of mean 0, by the Bartlett decomposition.

    Args:
        df: degrees of freedom, above D - 1.
        covariance_matrix: of the vectors, (..., D, D).
        precision_matrix: or its inverse.
        scale_tril: or its lower Cholesky factor.
    """

    support = constraints.positive_definite
    has_rsample = True

    @property
    def arg_constraints(self) -> Any:
        """Degrees of freedom are bounded by the size."""
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    @property
    def _mean_carrier_measure(self) -> float:
        return 0.0

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = the_one_given(covariance_matrix, precision_matrix, scale_tril)
        if not isinstance(df, Tensor):
            df = matrix.new_full((), df)
        batch = broadcast_shapes(df.shape, matrix.shape[:-2])
        self.df = df.expand(batch)
        size = matrix.shape[-1]
        self._event_shape = type(matrix.shape)((size, size))
        if concrete_values() and bool((df <= size - 1).any()):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {size - 1}.")
        self.__dict__[name] = matrix.expand((*batch, size, size))
        super().__init__(batch, (size, size), validate_args=validate_args)
        if concrete_values() and bool(self.df.lt(size).any()):
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 "
                "< df < ndim.",
                stacklevel=2,
            )
        self._unbroadcasted_scale_tril = factor_of(name, matrix)
        self._make_chi2()

    def _make_chi2(self) -> None:
        size = self._event_shape[-1]
        steps = arange(size, dtype=self.df.dtype, device=self.df.device)
        self._dist_chi2 = Chi2(self.df.unsqueeze(-1) - steps, validate_args=False)

    def _expand_rest(self, expanded: Any, batch_shape: Any) -> None:
        expanded._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        expanded._make_chi2()

    def _matrix_shape(self) -> tuple[int, ...]:
        return (*self._batch_shape, *self._event_shape)

    @property
    def mean(self) -> Tensor:
        return self.df.reshape((*self._batch_shape, 1, 1)) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        factor = factor.masked_fill(factor <= 0, math.nan)
        return factor.reshape((*self._batch_shape, 1, 1)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        outer = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self.df.reshape((*self._batch_shape, 1, 1)) * (v.pow(2) + outer)

    def rsample(self, sample_shape: Any = (), max_try_correction: Any = None) -> Tensor:
        return self._bartlett_sampling(sample_shape)

    def _bartlett_sampling(self, sample_shape: Any = ()) -> Tensor:
        """A draw by Bartlett's decomposition, under the name that libraries call."""
        shape = self._extended_shape(sample_shape)
        squares = self._dist_chi2.rsample(sample_shape).clamp(min=finfo(self.df.dtype).tiny)
        noise = standard_normal(shape, self.df.dtype, self.df.device).tril(-1)
        factor = self._unbroadcasted_scale_tril @ (noise + squares.sqrt().diag_embed())
        return factor @ factor.mT

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        nu, p = self.df, self._event_shape[-1]
        factor = self._unbroadcasted_scale_tril
        shape = broadcast_shapes(factor.shape, value.shape)
        solved = cholesky_solve(value.expand(shape), factor.expand(shape))
        trace = solved.diagonal(dim1=-2, dim2=-1).sum(-1)
        return (
            -nu * (p * math.log(2) / 2 + log_diagonal(factor))
            - mvlgamma(nu / 2, p)
            + (nu - p - 1) / 2 * slogdet(value).logabsdet
            - trace / 2
        )

    def entropy(self) -> Tensor:
        nu, p = self.df, self._event_shape[-1]
        return (
            (p + 1) * (p * math.log(2) / 2 + log_diagonal(self._unbroadcasted_scale_tril))
            + mvlgamma(nu / 2, p)
            - (nu - p - 1) / 2 * _mvdigamma(nu / 2, p)
            + nu * p / 2
        )

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        nu, p = self.df, self._event_shape[-1]
        return -self.precision_matrix / 2, (nu - p - 1) / 2

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        x, y = natural_params
        p = self._event_shape[-1]
        half = y + (p + 1) / 2
        return half * (-slogdet(-2 * x).logabsdet + math.log(2) * p) + mvlgamma(half, p)
