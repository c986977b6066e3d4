"""Reductions over dimensions: sums, means, counts, logical all and any."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod as product_of
from operator import index as as_int
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from adjoint.engine.core.dtype import DType, bool_, float32, int64, uint8
from adjoint.engine.core.errors import DTypeError, ShapeError
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.large import COMPUTED, DEVICE_LAYOUTS
from adjoint.engine.core.operations.public import method, public
from adjoint.engine.core.operations.reductions import (
    Dims,
    infer_reduction,
    reduced_shape,
    reduction,
)
from adjoint.engine.core.spec import Spec, same_shape, wrap_dim, wrap_dims
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.common.arguments import ints

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def infer_logical(x: Spec, dims: Dims, keepdim: bool) -> Spec:
    """The spec of `all` and `any`: booleans, but uint8 (once PyTorch's boolean) stays."""
    dtype = uint8 if x.dtype is uint8 else bool_
    return Spec(reduced_shape(x.shape, dims, keepdim), dtype, x.device)


def restore(g: Tensor, x_spec: Spec, dims: Dims, keepdim: bool) -> Tensor:
    """A reduced tensor with its reduced dimensions back, as size 1."""
    return g if keepdim else g.reshape(reduced_shape(x_spec.shape, dims, keepdim=True))


def all_dims(name: str, dim: Any, ndim: int) -> Dims:
    """The dimensions a `dim` argument means: None and () are all of them."""
    if dim is None:
        return tuple(range(ndim))
    if dim.__class__ is int and -ndim <= dim < ndim:
        return (dim + ndim if dim < 0 else dim,)
    if not isinstance(dim, (tuple, list)):
        if dim.__class__ is bool:
            wrap_dim(name, dim, ndim)  # which refuses it
        dim = (as_int(dim),)
    elif len(dim) == 0:
        return tuple(range(ndim))
    dims = wrap_dims(name, dim, ndim)
    return dims if ndim else ()


def count(shape: Sequence[int], dims: Dims) -> int:
    """How many elements a reduction over `dims` takes together."""
    return product_of(shape[d] for d in dims)


def in_dtype(input: Tensor, dtype: DType | None) -> Tensor:
    """The input of a sum or product: in `dtype` if given, integers in int64."""
    have = input.dtype
    if dtype is None and not have.is_inexact:
        dtype = int64
    return input if dtype is None or dtype is have else input.to(dtype)


def is_one_node(x: Tensor) -> bool:
    """Whether a mean in the CPU's memory is one: a fragment of many reals, or few on the tape."""
    if x._array.size < COMPUTED:
        return x.requires_grad
    return not x.dtype.is_complex


def at_once(x: Tensor) -> bool:
    """Whether an eager reduction of several operations on the CPU is one program, if it is large.

    Elsewhere, and where somebody looks on, it is the operations it is made of.
    """
    return x._array.__class__ is ndarray and CONTEXT.plain


SUM = reduction(
    "sum",
    lambda g, x_spec, dims, keepdim: restore(g, x_spec, dims, keepdim).expand(x_spec.shape),
    linear=True,
    never_negative_zero=True,  # it begins with 0.0
    in_steps=True,
)


def _mean_in(wanted: DType, x: Tensor, dims: Dims, keepdim: bool) -> Tensor:
    wide = float32 if wanted.is_half else wanted  # a half sum may overflow where its mean would not
    total = SUM(x if x.dtype is wide else x.to(wide), dims=dims, keepdim=keepdim)
    out = total / count(x.shape, dims)
    return out if wide is wanted else out.to(wanted)


# A mean of few elements, or of halves, or on a GPU, as one node of the tape.
MEAN = composite(
    "mean",
    lambda x, dims, keepdim: _mean_in(x.dtype, x, dims, keepdim),
    lambda g, x_spec, dims, keepdim: restore(
        g / count(x_spec.shape, dims), x_spec, dims, keepdim
    ).expand(x_spec.shape),
    operands=("x",),
    infer_specs=infer_reduction,
    fragment="computed",
    pulls_views=True,
    in_any_order=True,
)


def _nansum(x: Tensor, dims: Dims, keepdim: bool) -> Tensor:
    return SUM(x.masked_fill(x.isnan(), 0), dims=dims, keepdim=keepdim)


def _nansum_vjp(g: Tensor, x: Tensor, x_spec: Spec, dims: Dims, keepdim: bool) -> Tensor:
    return restore(g, x_spec, dims, keepdim).expand(x_spec.shape).masked_fill(x.isnan(), 0)


NANSUM = composite(
    "nansum",
    _nansum,
    _nansum_vjp,
    operands=("x",),
    infer_specs=infer_reduction,
    fragment="host",
    in_any_order=True,
)
# As one node, so that large tensors are gone through once.
COUNT_NONZERO = composite(
    "count_nonzero",
    lambda x, dims: SUM(x.to(bool_).to(int64), dims=dims, keepdim=False),
    operands=("x",),
    rounding="exact",
    fragment="composed",
    in_any_order=True,
)
ALL = reduction("all", infer=infer_logical, logical=True, rounding="exact", fragment="device")
ANY = reduction("any", infer=infer_logical, logical=True, rounding="exact", fragment="device")


@public(method=True, out=True)
def sum(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The sum over `dim` (all dimensions by default); integers sum in int64.

    >>> import adjoint as ad
    >>> ad.ones(2, 3).sum(dim=1)
    tensor([3., 3.])
    """
    x = in_dtype(input, dtype)
    return SUM(x, dims=all_dims("sum", dim, x.ndim), keepdim=keepdim)


@public(method=True, out=True)
def nansum(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The sum over `dim`, NaN counting as zero."""
    if input.dtype.is_complex or (dtype is not None and dtype.is_complex):
        raise DTypeError("nansum: does not support complex numbers")
    x = in_dtype(input, dtype)
    dims = all_dims("nansum", dim, x.ndim)
    if not x.dtype.is_inexact:
        return SUM(x, dims=dims, keepdim=keepdim)
    return (NANSUM if at_once(x) else _nansum)(x, dims=dims, keepdim=keepdim)


def _mean_dtype(name: str, input: Tensor, dtype: DType | None) -> DType:
    """The dtype of a mean, which must not be an integer's."""
    wanted = dtype or input.dtype
    if not wanted.is_inexact:
        raise DTypeError(
            f"{name}: could not infer output dtype. Input dtype must be either a floating point or "
            f"complex dtype. Got: {wanted.name}. Pass dtype=, or convert the input first."
        )
    return wanted


@public(method=True, out=True)
def mean(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The arithmetic mean over `dim` (all dimensions by default).

    >>> import adjoint as ad
    >>> ad.tensor([[1.0, 2.0], [3.0, 6.0]]).mean(0)
    tensor([2., 4.])
    """
    wanted = _mean_dtype("mean", input, dtype)
    dims = all_dims("mean", dim, input.ndim)
    if wanted is input.dtype and CONTEXT.settled and input._array.__class__ in DEVICE_LAYOUTS:
        return MEAN(input, dims=dims, keepdim=keepdim)
    as_one = wanted is input.dtype and at_once(input)  # sizes are asked last: some are dynamic
    if as_one and (wanted.is_half or is_one_node(input)):
        return MEAN(input, dims=dims, keepdim=keepdim)
    return _mean_in(wanted, input, dims, keepdim)


@public(method=True, out=True)
def nanmean(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The mean over `dim` of the elements that are not NaN."""
    if not input.dtype.is_floating_point:
        raise DTypeError(
            f"nanmean: expected input to have floating point dtype but got {input.dtype.name}"
        )
    wanted = _mean_dtype("nanmean", input, dtype)
    present = input.isnan().logical_not().sum(dim, keepdim)
    wide = float32 if wanted.is_half else wanted
    return (nansum(input, dim, keepdim, dtype=wide) / present).to(wanted)


def _logical_dims(name: str, dim: Any, ndim: int) -> Dims:
    """Unlike for sums, () means no dimension."""
    return () if isinstance(dim, (tuple, list)) and not dim else all_dims(name, dim, ndim)


@public(method=True, out=True)
def all(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether every element over `dim` is non-zero.

    Example:
        >>> import adjoint as ad
        >>> ad.tensor([[True, False], [True, True]]).all(1)
        tensor([False,  True])
    """
    return ALL(input, dims=_logical_dims("all", dim, input.ndim), keepdim=keepdim)


@public(method=True, out=True)
def any(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether some element over `dim` is non-zero.

    Example:
        >>> import adjoint as ad
        >>> ad.tensor([[True, False], [False, False]]).any(1)
        tensor([ True, False])
    """
    return ANY(input, dims=_logical_dims("any", dim, input.ndim), keepdim=keepdim)


@public()
def count_nonzero(input: Tensor, dim: Any = None) -> Tensor:
    """How many elements over `dim` are non-zero.

    Example:
        >>> import adjoint as ad
        >>> ad.tensor([0, 1, 2]).count_nonzero()
        tensor(2)
    """
    counted: Tensor = COUNT_NONZERO(input, dims=all_dims("sum", dim, input.ndim))
    return counted


@method(name="count_nonzero")
def count_nonzero_method(self: Tensor, *args: Any, dim: Any = None) -> Tensor:
    """How many elements over the given dimensions are non-zero."""
    return count_nonzero(self, ints("count_nonzero", args) if len(args) > 1 else (*args, dim)[0])


def _repeated(shape: Dims, size: Dims) -> tuple[Dims, Dims]:
    """The dimensions in front of `size` and those within it that broadcasting would repeat."""
    added = len(shape) - len(size)
    pairs = list(zip(range(added, len(shape)), size, strict=False))
    if added < 0 or [d for d, n in pairs if n not in (1, shape[d])]:
        raise ShapeError(f"sum_to_size: size {list(size)} is not expandable to size {list(shape)}")
    return tuple(range(added)), tuple(d for d, n in pairs if n == 1 and shape[d] != 1)


@method
def sum_to_size(self: Tensor, *sizes: Any, size: Any = None) -> Tensor:
    """Sum over the dimensions that broadcasting `size` to this shape would repeat."""
    size = ints("sum_to_size", sizes, size)
    if size and same_shape(self.shape, size):
        return self
    leading, repeated = _repeated(tuple(self.shape), size)
    out = in_dtype(self, None) if leading or repeated or not size else self
    if leading and repeated and out.dtype.is_half:  # at once: sums in between would be rounded
        return SUM(out, dims=(*leading, *repeated), keepdim=False).reshape(size)
    if repeated:
        out = SUM(out, dims=repeated, keepdim=True)
    return SUM(out, dims=leading, keepdim=False) if leading or not size else out
