"""Tensors from nothing: filled or left empty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core import dtype as dt
from adjoint.engine.core.device import Device
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.layout import (
    check_layout,
    contiguous_format,
    format_strides,
    ordered_strides,
    sparse_coo,
    strided,
)
from adjoint.engine.core.operations.families import primitive
from adjoint.engine.core.operations.public import method, public
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.determinism import fills_uninitialized
from adjoint.engine.core.state.placement import chosen
from adjoint.engine.ops.common.arguments import checked_scalar, ints, need_tensor, sizes
from adjoint.engine.ops.common.scalars import dtype_of

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

Shape = tuple[int, ...]

# `strides` None means row-major.
FULL = primitive(
    "full",
    lambda *v, shape, dtype, device, strides=None: Spec(shape, dtype, device),
    None,
    native_check=True,
    cost="free",
    rounding="exact",
    pointwise=True,
    creates=True,
)
ARANGE = primitive(
    "arange",
    lambda *, start, step, length, dtype, device: Spec((length,), dtype, device),
    native_check=True,
    cost="free",
    rounding="exact",
    never_negative_zero=True,
    pointwise=True,
    creates=True,
)
EMPTY = primitive(
    "empty",
    lambda *, shape, dtype, device, strides: Spec(shape, dtype, device),
    native_check=True,
    creates=True,
)


def size_of(size: tuple[Any, ...]) -> Shape:
    """A shape from `f(2, 3)` or `f((2, 3))`."""
    return sizes("size", size)


def place(device: Any) -> Device:
    """The device an argument means."""
    return chosen(device)


def finish(result: Tensor, requires_grad: bool, name: str = "", out: Any = None) -> Tensor:
    """A new tensor as its options ask for it."""
    if out is not None:
        return HOOKS.assign_out(name, out, result)
    return result.requires_grad_() if requires_grad else result


def filled(
    name: str,
    shape: Shape,
    value: Any,
    dtype: DType | None,
    device: Any,
    requires_grad: bool = False,
    out: Any = None,
    layout: Any = None,
    strides: Shape | None = None,
) -> Tensor:
    """A tensor of one value; `value` None leaves it uninitialised (see `fills_uninitialized`)."""
    check_layout(name, layout)
    if dtype is None:
        dtype = dt.get_default_dtype() if out is None else out.dtype
    elif dtype.__class__ is not DType:
        dtype = dt.as_dtype(name, dtype)
    where = place(device if device is not None or out is None else out.device)
    if value is None and fills_uninitialized():
        value = _conspicuous(dtype)
    if value is None:
        tensor = EMPTY(shape=shape, dtype=dtype, device=where, strides=strides)
    else:
        value = checked_scalar(name, value, dtype)
        tensor = FULL(value, shape=shape, dtype=dtype, device=where, strides=strides)
    return finish(tensor, requires_grad, name, out)


def _conspicuous(dtype: DType) -> Any:
    """What uninitialised memory holds where results shall repeat: NaN, or the largest number."""
    if dtype.is_inexact:
        return float("nan")
    return dtype is dt.bool_ or (1 << (8 * dtype.itemsize - dtype.is_signed)) - 1


def shape_of(name: str, args: tuple[Any, ...], given: Any) -> Shape:
    """The shape a creating function was given, by position or as `size=`."""
    return sizes(name, args, given)


@public()
def zeros(
    *args: Any,
    size: Any = None,
    out: Any = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of zeros.

    >>> import adjoint as ad
    >>> ad.zeros(2, 2)
    tensor([[0., 0.],
            [0., 0.]])
    """
    shape = shape_of("zeros", args, size)
    return filled("zeros", shape, 0, dtype, device, requires_grad, out, layout)


@public()
def ones(
    *args: Any,
    size: Any = None,
    out: Any = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of ones.

    Example:
        >>> import adjoint as ad
        >>> ad.ones(2, 2)
        tensor([[1., 1.],
                [1., 1.]])
    """
    shape = shape_of("ones", args, size)
    return filled("ones", shape, 1, dtype, device, requires_grad, out, layout)


@public()
def empty(
    *args: Any,
    size: Any = None,
    out: Any = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: Any = contiguous_format,
) -> Tensor:
    """A tensor whose elements are whatever was in its memory.

    Example:
        >>> import adjoint as ad
        >>> ad.empty(2, 3).shape
        adjoint.Size([2, 3])
    """
    shape = shape_of("empty", args, size)
    strides = format_strides("empty", shape, (), memory_format or contiguous_format)
    return filled("empty", shape, None, dtype, device, requires_grad, out, layout, strides)


@public()
def empty_strided(
    size: Any,
    stride: Any,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """An uninitialised tensor with the given strides."""
    shape, strides = sizes("empty_strided", (size,)), sizes("empty_strided", (stride,))
    if len(shape) != len(strides):
        raise ShapeError(
            f"empty_strided: dimensionality of sizes ({len(shape)}) must match dimensionality of "
            f"strides ({len(strides)})"
        )
    return filled("empty_strided", shape, None, dtype, device, requires_grad, None, layout, strides)


@public()
def empty_permuted(
    size: Any,
    physical_layout: Any,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """An uninitialised, dense tensor whose dimensions lie in memory in the given order."""
    shape, order = sizes("empty_permuted", (size,)), ints("empty_permuted", (physical_layout,))
    if sorted(order) != list(range(len(shape))):
        raise ShapeError(
            f"empty_permuted: physical_layout {list(order)} must be a permutation of the "
            f"dimensions of size {list(shape)}"
        )
    strides = ordered_strides(shape, order)
    return filled(
        "empty_permuted", shape, None, dtype, device, requires_grad, None, layout, strides
    )


@public(numbers="values")
def full(
    size: Any,
    fill_value: Any,
    *,
    out: Any = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of one value, by default of that value's dtype.

    Example:
        >>> import adjoint as ad
        >>> ad.full((2,), 7.0)
        tensor([7., 7.])
    """
    if fill_value is None or isinstance(fill_value, str):
        kind = type(fill_value).__name__
        raise TypeError(f"full: argument 'fill_value' must be Number, not {kind}")
    if dtype is None and out is None:
        dtype = dtype_of(fill_value)
    if hasattr(size, "__index__"):
        raise TypeError(f"full: argument 'size' must be tuple of ints, not {type(size).__name__}")
    if getattr(fill_value, "ndim", 0):
        raise TypeError("full: argument 'fill_value' must be Number, not Tensor")
    shape = sizes("full", (size,))
    return filled("full", shape, fill_value, dtype, device, requires_grad, out, layout)


@public(numbers="values")
def scalar_tensor(
    s: Any,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """A 0-d tensor of a number, by default of the default dtype."""
    return filled("scalar_tensor", (), s, dtype, device, requires_grad, None, layout)


# -- like another tensor ------------------------------------------------------------------------


def _like(
    name: str,
    x: Tensor,
    value: Any,
    dtype: DType | None,
    layout: Any,
    device: Any,
    requires_grad: bool,
    memory_format: Any,
) -> Tensor:
    need_tensor(name, x)
    shape = tuple(x._array.shape)
    strides = None
    if memory_format is not None or 1 in shape or not x.is_contiguous():
        if layout is None and x.layout is sparse_coo and name in ("zeros_like", "empty_like"):
            made = HOOKS.load_sparse().without_elements(x, dtype, device)
            return made.requires_grad_() if requires_grad else made
        if layout is None or x.layout is strided:
            strides = format_strides(name, shape, x.stride(), memory_format)
    return filled(
        name,
        shape,
        value,
        dtype or x.dtype,
        x.device if device is None else device,
        requires_grad,
        None,
        layout,
        strides,
    )


@public()
def zeros_like(
    input: Tensor,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Zeros of the shape, dtype, device and layout of `input`.

    Example:
        >>> import adjoint as ad
        >>> ad.zeros_like(ad.tensor([1.5, 2.5]))
        tensor([0., 0.])
    """
    return _like("zeros_like", input, 0, dtype, layout, device, requires_grad, memory_format)


@public()
def ones_like(
    input: Tensor,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Ones of the shape, dtype, device and layout of `input`.

    Example:
        >>> import adjoint as ad
        >>> ad.ones_like(ad.tensor([1.5, 2.5]))
        tensor([1., 1.])
    """
    return _like("ones_like", input, 1, dtype, layout, device, requires_grad, memory_format)


@public()
def empty_like(
    input: Tensor,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """An uninitialised tensor of the shape, dtype, device and layout of `input`.

    Example:
        >>> import adjoint as ad
        >>> ad.empty_like(ad.ones(2, 3)).shape
        adjoint.Size([2, 3])
    """
    return _like("empty_like", input, None, dtype, layout, device, requires_grad, memory_format)


@public(numbers="values")
def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """One value in the shape, dtype, device and layout of `input`.

    Example:
        >>> import adjoint as ad
        >>> ad.full_like(ad.tensor([1.5, 2.5]), 3)
        tensor([3., 3.])
    """
    return _like(
        "full_like", input, fill_value, dtype, layout, device, requires_grad, memory_format
    )


def _new(
    name: str,
    x: Tensor,
    shape: Shape,
    value: Any,
    dtype: DType | None,
    device: Any,
    requires_grad: bool,
    layout: Any = None,
    strides: Shape | None = None,
) -> Tensor:
    return filled(
        name,
        shape,
        value,
        dtype or x.dtype,
        x.device if device is None else device,
        requires_grad,
        None,
        layout,
        strides,
    )


@method
def new_zeros(
    self: Tensor,
    *args: Any,
    size: Any = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Zeros of this tensor's dtype and device."""
    shape = shape_of("new_zeros", args, size)
    return _new("new_zeros", self, shape, 0, dtype, device, requires_grad, layout)


@method
def new_ones(
    self: Tensor,
    *args: Any,
    size: Any = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Ones of this tensor's dtype and device."""
    shape = shape_of("new_ones", args, size)
    return _new("new_ones", self, shape, 1, dtype, device, requires_grad, layout)


@method
def new_empty(
    self: Tensor,
    *args: Any,
    size: Any = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """An uninitialised tensor of this tensor's dtype and device."""
    shape = shape_of("new_empty", args, size)
    return _new("new_empty", self, shape, None, dtype, device, requires_grad, layout)


@method(numbers="values")
def new_full(
    self: Tensor,
    size: Any,
    fill_value: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """One value, of this tensor's dtype and device."""
    shape = sizes("new_full", (size,))
    return _new("new_full", self, shape, fill_value, dtype, device, requires_grad, layout)


@method
def new_empty_strided(
    self: Tensor,
    size: Any,
    stride: Any,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """An uninitialised tensor with the given strides, of this tensor's dtype and device."""
    return empty_strided(
        size,
        stride,
        dtype=dtype or self.dtype,
        layout=layout,
        device=self.device if device is None else device,
        requires_grad=requires_grad,
    )
