"""In-place changes of what a tensor shows, not of elements: squeeze_, t_, resize_, set_ ..."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.errors import CaptureError, DTypeError, ShapeError, users_line
from adjoint.engine.core.layout import contiguous_format, format_strides
from adjoint.engine.core.operations.public import METHODS, method
from adjoint.engine.core.operations.record import HOOKS, is_tensor
from adjoint.engine.core.spec import contiguous_strides
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.common.arguments import sizes
from adjoint.engine.ops.shape import dims, strided

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _metadata(name: str, fn: Callable[..., Any]) -> None:
    """The in-place form of a view: the tensor becomes the view of what it was."""

    def form(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return HOOKS.rebind_window(self, fn, *args, **kwargs)

    form.__name__ = form.__qualname__ = f"{name}_"
    form.__doc__ = f"In-place form of `{name}`."
    METHODS[f"{name}_"] = form


for _fn in (
    dims.squeeze,
    dims.unsqueeze,
    dims.t,
    dims.transpose,
    dims.swapaxes,
    dims.swapdims,
    strided.as_strided,
):
    _metadata(_fn.__name__, _fn)


@method
def resize_(self: Tensor, *args: Any, memory_format: Any = contiguous_format) -> Tensor:
    """Change the shape in place; elements beyond the old storage are uninitialised."""
    shape = sizes("resize_", args)
    if self.requires_grad:
        raise ShapeError("resize_: cannot resize variables that require grad")
    if tuple(self.shape) == shape and memory_format is contiguous_format:
        return self
    packed = contiguous_strides(shape)
    strides = format_strides("resize_", shape, packed, memory_format) or packed
    offset = HOOKS.place_of(self)
    if prod(shape) and offset + prod(shape) > HOOKS.array.room(self):
        if CONTEXT.capture is not None:
            raise CaptureError(
                f"compile: {users_line()}: resize_ to {list(shape)} needs more memory than the "
                "tensor has, which cannot be recorded. Make a new tensor, or resize it before "
                "calling the function."
            )
        HOOKS.array.grow(self, offset + prod(shape))
    return HOOKS.rebind_window(self, strided.as_strided, shape, strides, offset)


@method
def resize_as_(self: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """`resize_` to the shape of another tensor."""
    return self.resize_(the_template.shape, memory_format=memory_format or contiguous_format)


def _whole(storage: Any, like: Tensor) -> Tensor:
    """All of a storage object, as a tensor of `like`'s dtype."""
    whole: Tensor = HOOKS.array.wrap(storage._storage.buffer)
    whole._storage = storage._storage
    flat = whole.as_strided((HOOKS.array.room(whole),), (1,), 0)
    return flat if flat.dtype is like.dtype else flat.view(like.dtype)


@method
def set_(
    self: Tensor,
    source: Any = None,
    storage_offset: int = 0,
    size: Any = None,
    stride: Any = None,
) -> Tensor:
    """Make this tensor show the storage of another."""
    if source is None:
        source = self.new_empty((0,))
    if not is_tensor(source):
        if not hasattr(source, "_storage"):
            raise TypeError(
                f"set_: expected a tensor or a storage, received {type(source).__name__}"
            )
        source = _whole(source, self)
    if source.dtype is not self.dtype:
        raise DTypeError(
            f"set_: could not set tensor of type {source.dtype.name} to a tensor of type "
            f"{self.dtype.name}"
        )
    if size is not None:
        shape = sizes("set_", (size,))
        source = source.as_strided(shape, stride or contiguous_strides(shape), storage_offset)
    return HOOKS.rebind_window(self, lambda _: source)
