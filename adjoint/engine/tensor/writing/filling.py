"""Overwriting all or chosen elements in place: copy_, fill_, zero_, fill_diagonal_, apply_."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy import ndarray

from adjoint.engine.core.dtype import bool_
from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.operations.met_calls import write_small, written_small
from adjoint.engine.core.operations.public import method, public
from adjoint.engine.core.operations.record import HOOKS, is_tensor
from adjoint.engine.core.operations.small_calls import SmallCalls
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.common.arguments import checked_scalar
from adjoint.engine.ops.create.creation import FULL
from adjoint.engine.ops.elementwise.records import WHERE
from adjoint.engine.ops.index.index import INDEX_PUT
from adjoint.engine.ops.index.nonzero import masked_scatter
from adjoint.engine.ops.shape.convert import CLONE
from adjoint.engine.tensor.reading.item import elements, plain_number, scalar_tensor
from adjoint.engine.tensor.tensor import Tensor
from adjoint.engine.tensor.watching import doubt
from adjoint.engine.tensor.writing.mutation import (
    assign,
    constants,
    direct_array,
    overwrite,
    placed_apart,
    update,
    write,
)

NO_PARAMETERS: dict[str, Any] = {}
# Dtypes of NumPy's own to which a number is rounded once, whoever writes it.
AS_TOLD = frozenset("?bBhHiIlLqQfdFD")
_COPY, _FILL, _ZERO = (SmallCalls(name, into=True) for name in ("copy", "fill", "zero"))


def copied_small(target: Tensor, source: Any) -> bool:
    """Whether a program copied all elements of a tensor into another (Note [small writes])."""
    return write_small(_COPY, _copied, target, (source,), NO_PARAMETERS)


def _copied(target: Tensor, source: Tensor) -> Tensor:
    """What `copy_` writes."""
    if source.shape != target.shape:
        source = CLONE(source.expand(target.shape), strides=None)
    return CLONE(source) if source.dtype is target.dtype else source.to(target.dtype)


@method
def copy_(self: Tensor, other: Any, non_blocking: bool = False) -> Tensor:
    """Overwrite with the elements of `other`, broadcast and converted."""
    if copied_small(self, other):
        return self
    if isinstance(other, Tensor) and constants(other, self):
        array, source = direct_array(self), other._array
        if array is not None and source.shape == array.shape and source.dtype == array.dtype:
            overwrite(self, array, source)
            return self
    if not is_tensor(other):
        other = scalar_tensor(_number("copy_", other), self, "copy_")
    if _copied_across(self, other, non_blocking):
        return self
    source = other.to(device=self.device, dtype=self.dtype)
    if source.shape != self.shape:
        try:
            source = source.expand(self.shape)
        except RuntimeError:
            raise ShapeError(
                f"copy_: source of shape {list(other.shape)} cannot be broadcast to the target's "
                f"shape {list(self.shape)}: sizes must match or be 1"
            ) from None
    if source._storage is self._storage:  # reading and writing may overlap
        source = source.clone()
    if self._base is None and self.requires_grad and source.requires_grad:
        source = _over(self, source)
    return write(self, placed_apart(source) if source is other else source)


def _over(input: Tensor, value: Tensor) -> Tensor:
    """The value, by a way on the tape on which what it overwrites gets a gradient of zero."""
    return WHERE(FULL(True, shape=(), dtype=bool_, device=input.device), value, input)


def _copied_across(self: Tensor, other: Tensor, non_blocking: bool) -> bool:
    """Copy between a GPU and pinned memory as it lies; whether that was done."""
    if other.device.type == self.device.type or not (constants(other) and constants(self)):
        return False
    array, source = direct_array(self), other._array
    alike = array is not None and source.shape == array.shape and source.dtype == array.dtype
    if not alike or not HOOKS.array.copy_across(array, source, non_blocking):
        return False
    self._storage.version += 1
    return True


def _number(name: str, value: Any) -> Any:
    number = plain_number(value)
    if number is None:
        raise TypeError(f"{name}: expected a Tensor or a number, received {type(value).__name__}")
    return number


@public(numbers="values")
def fill(input: Tensor, value: Any) -> Tensor:
    """A tensor of the shape and dtype of `input`, every element `value`."""
    if is_tensor(value):
        if value.ndim:
            raise ShapeError(
                "fill_ only supports 0-dimension value tensor but got tensor with "
                f"{value.ndim} dimensions."
            )
        value = value.to(device=input.device, dtype=input.dtype)
        return _over(input, value) if input.requires_grad else value.expand(input.shape).clone()
    number = checked_scalar("fill", _number("fill", value), input.dtype)
    if input.requires_grad:  # the result stays on the tape
        return _over(input, scalar_tensor(number, input, "fill"))
    return FULL(number, shape=tuple(input.shape), dtype=input.dtype, device=input.device)


@public(method=True, name="fill_", numbers="values")
def fill_(input: Tensor, value: Any) -> Tensor:
    """Overwrite every element with `value`, a number or a 0-d tensor."""
    if write_small(_FILL, fill, input, (value,), NO_PARAMETERS):
        return input
    if 0 in input._array.strides and (once := without_repeats(input)) is not input:
        if is_tensor(value):  # which PyTorch copies, and refuses
            HOOKS.array.check_overlap(input._array)
        once.fill_(value)
        return input
    if holds(value, input):
        array = direct_array(input)
        if array is not None:
            overwrite(input, array, value)
            return input
    return update("fill_", input, fill, value)


def without_repeats(target: Tensor) -> Tensor:
    """The elements that lie apart: one of those that an expanded dimension shows more than once.

    With one value for all of them, which is written last does not matter, and PyTorch allows it.
    """
    for dim, (step, size) in enumerate(zip(target._array.strides, target.shape, strict=True)):
        if step == 0 and size > 1:
            target = target.narrow(dim, 0, 1)
    return target


def holds(value: Any, target: Tensor) -> bool:
    """Whether a number can be written to a tensor as it is: it is in the range of its dtype."""
    dtype, kind = target.dtype, type(value)
    if dtype.is_inexact:
        return kind in (float, int) and -65504 <= value <= 65504
    if kind is not int or dtype is bool_:
        return kind is bool and dtype is bool_
    bits = 8 * dtype.itemsize - dtype.is_signed
    return -(1 << bits) * dtype.is_signed <= value < 1 << bits


def _zeros(target: Tensor) -> Tensor:
    return FULL(0, shape=tuple(target.shape), dtype=target.dtype, device=target.device)


@public(method=True, name="zero_")
def zero_(input: Tensor) -> Tensor:
    """Overwrite with zeros."""
    if written_small(_ZERO, input, (input,), NO_PARAMETERS, _zeros, (input,)):
        return input
    if 0 in input._array.strides and (once := without_repeats(input)) is not input:
        once.zero_()
        return input
    array = direct_array(input)
    if array is not None:
        overwrite(input, array, 0)
        return input
    return write(input, input.new_zeros(input.shape))


@method(numbers="values")
def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Overwrite the main diagonal; with `wrap` it starts again below the end of a tall matrix.

    >>> import adjoint as ad
    >>> ad.zeros(2, 2).fill_diagonal_(3)
    tensor([[3., 0.],
            [0., 3.]])
    """
    shape: tuple[int, ...] = tuple(self._array.shape)
    if len(shape) < 2:
        raise ShapeError("fill_diagonal_: dimensions must be larger than 1")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise ShapeError(
            f"fill_diagonal_: all dimensions of input must be of equal length, received {shape}"
        )
    if 0 in self._array.strides and len(shape) == 2 and not wrap:
        self.diagonal().fill_(fill_value)  # which shows each element once, if the matrix does not
        return self
    array = direct_array(self) if not wrap and holds(fill_value, self) else None
    if array.__class__ is ndarray and len(shape) == 2 and array.flags.c_contiguous:
        columns = shape[1]
        steps = array.reshape(-1)[: columns * columns : columns + 1]
        if array.dtype.char in AS_TOLD and array.flags.writeable:
            try:
                steps[...] = fill_value
                self._storage.version += 1
            except BaseException:  # an interrupt
                doubt(self._storage)
                raise
        else:
            overwrite(self, steps, fill_value)
        return self
    if array is not None:
        diagonal = self
        while diagonal.ndim > 1:
            diagonal = diagonal.diagonal(0, 0, -1)
        diagonal.fill_(fill_value)
        return self
    count = min(shape)
    indices = [self.new_arange(count)] * len(shape)
    if wrap and len(shape) == 2 and shape[0] > shape[1] + 1 and shape[1]:
        # The flat diagonal, every (columns + 1)th element, runs on past the square part.
        tall, wide = shape
        spots = [divmod(p, wide) for p in range(0, tall * wide, wide + 1)]
        indices = [HOOKS.array.index_tensor([s[i] for s in spots], self.device) for i in (0, 1)]
    values = scalar_tensor(_number("fill_diagonal_", fill_value), self, "fill_diagonal_")
    values = values.expand(indices[0].shape)
    put = INDEX_PUT(self, values, *indices, dims=tuple(range(len(shape))), accumulate=False)
    return assign("fill_diagonal_", self, put)


@method
def masked_scatter_(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Overwrite the elements where `mask` holds, in order, by those of `source`."""
    if isinstance(mask, Tensor) and isinstance(source, Tensor) and CONTEXT.plain:
        array, chosen, given = self._array, mask._array, source._array
        if (
            array.__class__ is chosen.__class__ is given.__class__ is ndarray
            and source._storage is not self._storage
            and not (CONTEXT.grad_enabled and source.requires_grad)
            and chosen.dtype.char == "?"
            and chosen.shape == array.shape
            and given.dtype is array.dtype
            and direct_array(self) is not None
        ):
            try:
                if HOOKS.array.put_where(array, chosen, given):  # else the operation says why not
                    self._storage.version += 1
                    return self
            except BaseException:
                doubt(self._storage)
                raise
    return update("masked_scatter_", self, masked_scatter, mask, source)


# -- Python functions on elements ---------------------------------------------------------------


def _mapped(name: str, self: Tensor, fn: Callable[..., Any], *others: Tensor) -> Tensor:
    if self.requires_grad:
        raise RuntimeError(
            f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() "
            "instead."
        )
    remedy = "Write it with tensor operations."
    columns = [elements(x, name, remedy).ravel().tolist() for x in (self, *others)]
    results = [fn(*row) for row in zip(*columns, strict=True)]
    value = HOOKS.array.from_list(results, self)
    return write(self, value)


@method
def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replace each element by `callable(element)`, one by one in Python."""
    return _mapped("apply_", self, callable)


@method
def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replace each element by `callable(element, element of tensor)`."""
    return _mapped("map_", self, callable, tensor.expand(self.shape))


@method
def map2_(
    self: Tensor,
    x: Tensor,
    y: Tensor,
    callable: Callable[[Any, Any, Any], Any],
) -> Tensor:
    """Replace each element by `callable(element, element of x, element of y)`."""
    return _mapped("map2_", self, callable, x.expand(self.shape), y.expand(self.shape))
