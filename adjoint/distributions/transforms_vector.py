"""Transforms onto simplices and matrices."""

from __future__ import annotations

import math
from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.transform import Transform
from adjoint.distributions.utils import softplus, tril_matrix_to_vec, vec_to_tril_matrix
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.core.numeric_limits import finfo
from adjoint.engine.ops.create.ranges import arange
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor


class SoftmaxTransform(Transform):
    """Numbers to a simplex by softmax; many inputs give one result."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftmaxTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        return _at_least(shape, 1)

    def inverse_shape(self, shape: Any) -> Any:
        return _at_least(shape, 1)


def _at_least(shape: Any, rank: int) -> Any:
    if len(shape) < rank:
        raise ShapeValueError("Too few dimensions on input")
    return shape


class StickBreakingTransform(Transform):
    """K numbers to a simplex of K + 1, each taking a part of what the ones before left."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StickBreakingTransform)

    __hash__ = object.__hash__

    def _offset(self, x: Tensor) -> Tensor:
        """Logarithms of how many pieces are left at each place."""
        n = x.shape[-1]
        return arange(n, 0, -1, dtype=x.dtype, device=x.device).log()

    def _call(self, x: Tensor) -> Tensor:
        limits = finfo(x.dtype)
        z = (x - self._offset(x)).sigmoid().clamp(min=limits.tiny, max=1 - limits.eps)
        left = (1 - z).cumprod(-1)
        one = x.new_ones((*x.shape[:-1], 1))
        return cat([z, one], -1) * cat([one, left], -1)

    def _inverse(self, y: Tensor) -> Tensor:
        cropped = y[..., :-1]
        left = 1 - cropped.cumsum(-1)
        left = left.clamp(min=finfo(y.dtype).tiny)
        return cropped.log() - left.log() + self._offset(cropped)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        shifted = x - self._offset(x)
        return (-shifted - softplus(-shifted) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        shape = _at_least(shape, 1)
        return type(shape)((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Any) -> Any:
        shape = _at_least(shape, 1)
        return type(shape)((*shape[:-1], shape[-1] - 1))


class LowerCholeskyTransform(Transform):
    """Square matrices to lower triangles with a positive diagonal."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LowerCholeskyTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """Square matrices to positive definite ones, by way of a Cholesky factor."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PositiveDefiniteTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        from adjoint.engine.ops.linalg.cholesky import cholesky

        return LowerCholeskyTransform().inv(cholesky(y))


class CorrCholeskyTransform(Transform):
    """D (D - 1) / 2 numbers to the Cholesky factor of a correlation matrix of size D.

    Each row is a point of a half sphere, built by breaking a stick of squared lengths with tanh.
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        x = x.tanh()
        eps = finfo(x.dtype).eps
        x = x.clamp(min=-1 + eps, max=1 - eps)
        r = vec_to_tril_matrix(x, diag=-1)
        left = (1 - r * r).sqrt().cumprod(-1)
        n = r.shape[-1]
        diagonal = r.new_ones((n,)).diag_embed()
        shifted = cat([r.new_ones((*r.shape[:-1], 1)), left[..., :-1]], -1)
        return (r + diagonal) * shifted

    def _inverse(self, y: Tensor) -> Tensor:
        left = 1 - (y * y).cumsum(-1)
        shifted = cat([y.new_ones((*y.shape[:-1], 1)), left[..., :-1]], -1)
        t = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(shifted, diag=-1).sqrt()
        return (t.log1p() - (-t).log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor, intermediates: Any = None) -> Tensor:
        left = 1 - (y * y).cumsum(-1)
        lengths = tril_matrix_to_vec(left, diag=-2)
        from_rows = 0.5 * lengths.log().sum(-1)
        from_tanh = -2 * (x + softplus(-2 * x) - math.log(2.0)).sum(-1)
        return from_rows + from_tanh

    def forward_shape(self, shape: Any) -> Any:
        n = _at_least(shape, 1)[-1]
        size = round((0.25 + 2 * n) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != n:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return type(shape)((*shape[:-1], size, size))

    def inverse_shape(self, shape: Any) -> Any:
        size = _at_least(shape, 2)[-1]
        if shape[-2] != size:
            raise ShapeValueError("Input is not square")
        return type(shape)((*shape[:-2], size * (size - 1) // 2))
