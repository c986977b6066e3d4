"""Reductions over dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from adjoint.core.dtype import DType, int64
from adjoint.core.families import linear, primitive
from adjoint.core.public import method, public
from adjoint.core.spec import Spec, wrap_dims
from adjoint.ops.elementwise import EQ

if TYPE_CHECKING:
    from adjoint.tensor.tensor import Tensor

Dims = tuple[int, ...]


def reduced_shape(shape: Sequence[int], dims: Dims, keepdim: bool) -> Dims:
    """The shape after reducing over `dims`."""
    if keepdim:
        return tuple(1 if d in dims else n for d, n in enumerate(shape))
    return tuple(n for d, n in enumerate(shape) if d not in dims)


def infer_reduction(x: Spec, dims: Dims, keepdim: bool) -> Spec:
    """The spec of a reduction that keeps the dtype."""
    return Spec(reduced_shape(x.shape, dims, keepdim), x.dtype, x.device)


def shift_reduction(params: dict[str, Any], size: int) -> dict[str, Any]:
    """The same reduction with a batch dimension in front."""
    return {**params, "dims": tuple(d + 1 for d in params["dims"])}


def restore(g: Tensor, x_spec: Spec, dims: Dims, keepdim: bool) -> Tensor:
    """A reduced tensor with its reduced dimensions back, as size 1."""
    return g if keepdim else g.reshape(reduced_shape(x_spec.shape, dims, keepdim=True))


def all_dims(name: str, dim: Any, ndim: int) -> Dims:
    """The dimensions a `dim` argument means: None and () are all of them."""
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return tuple(range(ndim))
    dims = wrap_dims(name, (dim,) if isinstance(dim, int) else dim, ndim)
    return dims if ndim else ()


SUM = linear(
    "sum",
    infer_reduction,
    lambda g, x_spec, dims, keepdim: restore(g, x_spec, dims, keepdim).expand(x_spec.shape),
    shift=shift_reduction,
    native_check=True,
    policy="fp32",
)
AMAX = primitive(
    "amax",
    infer_reduction,
    lambda g, x, out, x_spec, dims, keepdim: _share(g, x, out, x_spec, dims, keepdim),
    jvp=lambda tx, x, out, x_spec, dims, keepdim: _share_tangent(tx, x, out, x_spec, dims, keepdim),
    shift=shift_reduction,
)


def _weights(x: Tensor, out: Tensor, x_spec: Spec, dims: Dims, keepdim: bool) -> Tensor:
    """1/k at each of k equal extremes, 0 elsewhere: ties share the gradient."""
    hit = EQ(x, restore(out, x_spec, dims, keepdim)).to(x.dtype)
    return hit / SUM(hit, dims=dims, keepdim=True)


def _share(g: Tensor, x: Tensor, out: Tensor, x_spec: Spec, dims: Dims, keepdim: bool) -> Tensor:
    return restore(g, x_spec, dims, keepdim) * _weights(x, out, x_spec, dims, keepdim)


def _share_tangent(
    tx: Tensor, x: Tensor, out: Tensor, x_spec: Spec, dims: Dims, keepdim: bool
) -> Tensor:
    return SUM(tx * _weights(x, out, x_spec, dims, keepdim), dims=dims, keepdim=keepdim)


@public(method=True, out=True)
def sum(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The sum over `dim` (all dimensions by default); integers sum in int64.

    >>> import adjoint as ad
    >>> ad.ones(2, 3).sum(dim=1)
    tensor([3., 3.])
    """
    have = input.dtype
    if dtype is None and not have.is_inexact:
        dtype = int64
    if dtype is not None and dtype is not have:
        input = input.to(dtype)
    return SUM(input, dims=all_dims("sum", dim, input.ndim), keepdim=keepdim)


@public(method=True, out=True)
def amax(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The largest value over `dim`; equal ones share the gradient."""
    return AMAX(input, dims=all_dims("amax", dim, input.ndim), keepdim=keepdim)


@method
def sum_to_size(self: Tensor, *size: Any) -> Tensor:
    """Sum over the dimensions that broadcasting `size` to this shape would repeat."""
    if len(size) == 1 and not isinstance(size[0], int):
        size = tuple(size[0])
    if self.shape == size:
        return self
    added = self.ndim - len(size)
    leading = tuple(range(added))
    repeated = tuple(
        d for d in range(added, self.ndim) if size[d - added] == 1 and self.shape[d] != 1
    )
    bad = added < 0 or any(
        size[d - added] not in (1, self.shape[d]) for d in range(added, self.ndim)
    )
    if bad:
        raise RuntimeError(
            f"sum_to_size: size {list(size)} is not expandable to size {list(self.shape)}"
        )
    out = self
    if repeated:
        out = SUM(out, dims=repeated, keepdim=True)
    return SUM(out, dims=leading, keepdim=False) if leading else out
