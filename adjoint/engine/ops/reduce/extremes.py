"""Largest and smallest: amax, argmax, max and their like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import int64
from adjoint.engine.core.errors import DTypeError, ShapeError, ShapeIndexError
from adjoint.engine.core.operations.families import composite, primitive
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS, is_large
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Rule, is_tensor
from adjoint.engine.core.operations.reductions import (
    Dims,
    infer_reduction,
    reduced_shape,
    reduction,
)
from adjoint.engine.core.operations.return_types import RETURN_TYPES
from adjoint.engine.core.spec import Spec, wrap_dim
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.elementwise.records import EQ
from adjoint.engine.ops.index.gather import SCATTER
from adjoint.engine.ops.reduce.reduction import SUM, all_dims, restore
from adjoint.engine.ops.reduce.scan import along, shift_dim

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _weights(x: Tensor, out: Tensor, x_spec: Spec, dims: Dims, keepdim: bool, nans: bool) -> Tensor:
    """1/k at each of k equal extremes, 0 elsewhere: ties share the gradient.

    With `nans` NaNs are equal too, as for PyTorch's `max()`, `min()` and `median()` of all
    elements; else, as for its `amax` and `amin`, nothing equals a NaN, and the weights are 0 / 0.
    """
    extreme = restore(out, x_spec, dims, keepdim)
    hit = EQ(x, extreme)
    if nans and x.dtype.is_floating_point:
        hit = hit | (x.isnan() & extreme.isnan())
    hit = hit.to(x.dtype)
    return hit / SUM(hit, dims=dims, keepdim=True)


def share(g: Tensor, x: Tensor, out: Tensor, x_spec: Spec, dims: Dims, keepdim: bool) -> Tensor:
    """The vjp of a reduction that picks a value: equal elements, NaNs too, share the cotangent."""
    return restore(g, x_spec, dims, keepdim) * _weights(x, out, x_spec, dims, keepdim, True)


def share_tangent(
    tx: Tensor, x: Tensor, out: Tensor, x_spec: Spec, dims: Dims, keepdim: bool
) -> Tensor:
    """The jvp of a reduction that picks a value."""
    weights = _weights(x, out, x_spec, dims, keepdim, True)
    return SUM(tx * weights, dims=dims, keepdim=keepdim)


def _share_numbers(
    g: Tensor, x: Tensor, out: Tensor, x_spec: Spec, dims: Dims, keepdim: bool
) -> Tensor:
    """`share`, but a NaN among the elements is the gradient of all of them."""
    return restore(g, x_spec, dims, keepdim) * _weights(x, out, x_spec, dims, keepdim, False)


def _share_tangent_of_numbers(
    tx: Tensor, x: Tensor, out: Tensor, x_spec: Spec, dims: Dims, keepdim: bool
) -> Tensor:
    weights = _weights(x, out, x_spec, dims, keepdim, False)
    return SUM(tx * weights, dims=dims, keepdim=keepdim)


def refuse_complex(name: str, x: Spec | Tensor) -> None:
    """Complex numbers have no order."""
    if x.dtype.is_complex:
        raise NotImplementedError(
            f"{name}: not implemented for {x.dtype.name}: complex numbers have no order. "
            "Compare .abs() instead."
        )


def refuse_bool(name: str, x: Tensor) -> None:
    """Where PyTorch has no kernel for booleans."""
    if x.dtype.name == "bool":
        raise DTypeError(f"{name}: does not support bool input. Convert it, e.g. with .int().")


def refuse_empty(name: str, shape: Any, dim: int | None = None) -> None:
    """An extreme of nothing does not exist."""
    if dim is None and 0 in shape:
        raise ShapeError(
            f"{name}: expected reduction dim to be specified for input.numel() == 0. Specify the "
            "reduction dim with the 'dim' argument."
        )
    if dim is not None and shape and shape[dim] == 0:
        raise ShapeIndexError(f"{name}: expected reduction dim {dim} to have non-zero size.")


def _position_infer(x: Spec, dim: int, keepdim: bool) -> Spec:
    return Spec(reduced_shape(x.shape, (dim,), keepdim), int64, x.device)


def _picking(name: str) -> Any:
    """A reduction to one of its elements."""
    return reduction(
        name, _share_numbers, jvp=_share_tangent_of_numbers, rounding="exact", in_steps=True
    )


AMAX = _picking("amax")
AMIN = _picking("amin")


def _of_all(name: str, record: Any) -> Any:
    """The extreme of all elements, of which NaNs share the gradient as equal numbers do."""

    def compose(x: Tensor, dims: Dims, keepdim: bool) -> Tensor:
        out: Tensor = record(x, dims=dims, keepdim=keepdim)
        return out

    return composite(name, compose, share, jvp=Rule.of(share_tangent), infer_specs=infer_reduction)


MAX_OF_ALL = _of_all("max", AMAX)
MIN_OF_ALL = _of_all("min", AMIN)
ARGMAX = primitive(
    "argmax",
    _position_infer,
    None,
    batched_params=shift_dim,
    native_check=True,
    rounding="exact",
    position_of="amax",
    fragment="device",
    in_steps=True,
)
ARGMIN = primitive(
    "argmin",
    _position_infer,
    None,
    batched_params=shift_dim,
    native_check=True,
    rounding="exact",
    position_of="amin",
    fragment="device",
    in_steps=True,
)


def _extreme(name: str, record: Any, input: Tensor, dim: Any, keepdim: bool) -> Tensor:
    refuse_complex(name, input)
    dims = all_dims(name, dim, input.ndim)
    if 0 in input.shape:
        if len(dims) == input.ndim and dim in (None, (), []):
            refuse_empty(name, input.shape)
        for d in dims:
            refuse_empty(name, input.shape, d)
    return record(input, dims=dims, keepdim=keepdim)


@public(method=True, out=True)
def amax(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The largest value over `dim`; equal ones share the gradient.

    Example:
        >>> import adjoint as ad
        >>> ad.tensor([[3, 1], [2, 4]]).amax(1)
        tensor([3, 4])
    """
    return _extreme("amax", AMAX, input, dim, keepdim)


@public(method=True, out=True)
def amin(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The smallest value over `dim`; equal ones share the gradient.

    Example:
        >>> import adjoint as ad
        >>> ad.tensor([[3, 1], [2, 4]]).amin(0)
        tensor([2, 1])
    """
    return _extreme("amin", AMIN, input, dim, keepdim)


@public(method=True, out=True)
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """The smallest and the largest value over `dim`."""
    low = _extreme("aminmax", AMIN, input, dim, keepdim)
    return RETURN_TYPES["aminmax"](low, _extreme("aminmax", AMAX, input, dim, keepdim))


def _position(name: str, record: Any, input: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    refuse_complex(name, input)
    refuse_bool(name, input)
    if dim is None:
        if input.numel() == 0:
            raise ShapeIndexError(
                f"{name}: expected reduction dim to be specified for input.numel() == 0."
            )
        out = record(input.reshape(-1), dim=0, keepdim=False)
        return out.reshape((1,) * input.ndim) if keepdim else out
    x, d = along(name, input, dim)
    refuse_empty(name, x.shape, d)
    out = record(x, dim=d, keepdim=keepdim)
    return out if input.ndim else out.reshape(())


@public(method=True, out=True)
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Where the largest value is: its first position along `dim`, or in the flattened input.

    >>> import adjoint as ad
    >>> ad.tensor([[1, 5, 5], [7, 2, 3]]).argmax(1)
    tensor([1, 0])
    """
    return _position("argmax", ARGMAX, input, dim, keepdim)


@public(method=True, out=True)
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Where the smallest value is: its first position along `dim`, or in the flattened input.

    Example:
        >>> import adjoint as ad
        >>> ad.tensor([3, 1, 2]).argmin()
        tensor(1)
    """
    return _position("argmin", ARGMIN, input, dim, keepdim)


def picked(name: str, input: Tensor, dim: int, keepdim: bool, positions: Any) -> Any:
    """(values, indices) named after the operation, from `positions(x, dim)` along a dimension.

    The gradient goes to the element at the index.
    """
    refuse_complex(name, input)
    x, d = along(name, input, dim)
    refuse_empty(name, x.shape, d)
    at = positions(x, d)
    values = x.gather(d, at)
    if not input.ndim:
        return RETURN_TYPES[name](values.reshape(()), at.reshape(()))
    if not keepdim:
        values, at = values.squeeze(d), at.squeeze(d)
    return RETURN_TYPES[name](values, at)


def _extreme_at(x: Tensor, dim: int, keepdim: bool, largest: bool) -> tuple[Tensor, Tensor]:
    at = (ARGMAX if largest else ARGMIN)(x, dim=dim, keepdim=keepdim)
    if keepdim:
        return x.gather(dim, at), at
    # A copy: by the table it would be a view, of memory that is nobody's.
    return x.gather(dim, at.unsqueeze(dim)).squeeze(dim).clone(), at


def _to_extreme(g: Tensor, x_spec: Spec, later_outs: Any, dim: int, keepdim: bool) -> Tensor:
    (at,) = later_outs
    if not keepdim:
        g, at = g.unsqueeze(dim), at.unsqueeze(dim)
    return to_picked(g, x_spec, (at,), dim)


def to_picked(g: Tensor, x_spec: Spec, later_outs: Any, dim: int) -> Tensor:
    """The vjp of (values, where they are along `dim`): each cotangent goes where its value was."""
    (at,) = later_outs
    return SCATTER(g.new_zeros(x_spec.shape), g, at, dim=dim, accumulate=True)


# Values and where they are as one program, and one node of the tape: most of what four calls cost
# is the calls.
EXTREME = composite(
    "extreme", _extreme_at, _to_extreme, operands=("x",), outputs=2, fragment="composed"
)


def _either(name: str, input: Tensor, dim: Any, keepdim: bool, other: Any, reduce: Any) -> Any:
    """The three forms of max and min: all elements, along a dimension, of two tensors."""
    extreme, of_all, largest, pairwise = reduce
    if not is_tensor(input):
        raise TypeError(f"{name}: expected a Tensor as input, received {type(input).__name__}")
    if is_tensor(dim) or other is not None:
        return pairwise(input, dim if other is None else other)
    if dim is None:
        if keepdim:
            raise TypeError(
                f"{name}: keepdim is for one dimension. Name it with dim=, or use a{name}"
            )
        refuse_complex(name, input)
        refuse_empty(name, input.shape)
        whole = extreme if CONTEXT.plain and not input.requires_grad else of_all
        return whole(input, dims=tuple(range(input.ndim)), keepdim=False)
    there = input._array.__class__ in DEVICE_LAYOUTS and not input.requires_grad
    if (there or is_large(input._array, 1)) and input.ndim and CONTEXT.plain:
        refuse_complex(name, input)
        d = wrap_dim(name, dim, input.ndim)
        return RETURN_TYPES[name](*EXTREME(input, dim=d, keepdim=bool(keepdim), largest=largest))
    position = ARGMAX if largest else ARGMIN
    return picked(name, input, dim, keepdim, lambda x, d: position(x, dim=d, keepdim=True))


@public(method=True, out=True)
def max(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The largest element; with `dim` (values, indices); with a tensor `maximum` of both.

    >>> import adjoint as ad
    >>> ad.tensor([[1.0, 9.0], [4.0, 2.0]]).max(0).indices
    tensor([1, 0])
    """
    reduce = (AMAX, MAX_OF_ALL, True, lambda x, y: x.maximum(y))
    return _either("max", input, dim, keepdim, other, reduce)


@public(method=True, out=True)
def min(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The smallest element; with `dim` (values, indices); with a tensor `minimum` of both.

    Example:
        >>> import adjoint as ad
        >>> ad.tensor([[3, 1], [2, 4]]).min(dim=1).values
        tensor([1, 2])
    """
    reduce = (AMIN, MIN_OF_ALL, False, lambda x, y: x.minimum(y))
    return _either("min", input, dim, keepdim, other, reduce)
