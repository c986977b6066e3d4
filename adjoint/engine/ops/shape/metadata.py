"""In-place changes of what a tensor shows, not of elements: squeeze_, t_, resize_, set_ ..."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.errors import CaptureError, DTypeError, ShapeError, users_line
from adjoint.engine.core.layout import contiguous_format, format_strides
from adjoint.engine.core.operations.public import METHODS, method
from adjoint.engine.core.operations.record import HOOKS, Record, is_tensor
from adjoint.engine.core.spec import contiguous_strides
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.common.arguments import sizes
from adjoint.engine.ops.shape import dims, strided
from adjoint.engine.ops.shape.views import PERMUTE, RESHAPE

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


Shape = tuple[int, ...]
Link = tuple[Record, dict[str, Any]]


def _exchanged(shape: Shape, args: tuple[Any, ...]) -> Link | None:
    """What two whole numbers ask of `transpose`; None: it is to look, as below."""
    rank = len(shape)
    if len(args) != 2:
        return None
    a, b = args
    if a.__class__ is not int or b.__class__ is not int:
        return None
    if not (-rank <= a < rank and -rank <= b < rank):
        return None
    return _exchange(rank, a, b)


@lru_cache(maxsize=256)
def _exchange(rank: int, a: int, b: int) -> Link:
    """The link of two dimensions that change places; like others, it is in many chains."""
    order = list(range(rank))
    order[a], order[b] = order[b], order[a]
    return PERMUTE, {"dims": tuple(order)}


def _turned(shape: Shape, args: tuple[Any, ...]) -> Link | None:
    return None if args or len(shape) != 2 else _exchange(2, 0, 1)


def _squeezed(shape: Shape, args: tuple[Any, ...]) -> Link | None:
    rank = len(shape)
    if not args:
        return RESHAPE, {"shape": tuple([n for n in shape if n != 1])}
    dim = args[0]
    if len(args) != 1 or dim.__class__ is not int or not -rank <= dim < rank:
        return None
    dim %= rank
    return RESHAPE, {"shape": (*shape[:dim], *shape[dim + (shape[dim] == 1) :])}


def _unsqueezed(shape: Shape, args: tuple[Any, ...]) -> Link | None:
    rank = len(shape) + 1
    if len(args) != 1 or args[0].__class__ is not int or not -rank <= args[0] < rank:
        return None
    dim = args[0] % rank
    return RESHAPE, {"shape": (*shape[:dim], 1, *shape[dim:])}


# By the view's name: the link that plain arguments ask for (Note [turned in place]).
_LINKS: dict[str, Callable[[Shape, tuple[Any, ...]], Link | None]] = {
    "t": _turned,
    "transpose": _exchanged,
    "swapaxes": _exchanged,
    "swapdims": _exchanged,
    "squeeze": _squeezed,
    "unsqueeze": _unsqueezed,
}


def _metadata(name: str, fn: Callable[..., Any]) -> None:
    """The in-place form of a view: the tensor becomes the view of what it was."""
    link = _LINKS.get(name)

    def form(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if link is not None and not kwargs and HOOKS.turn_window(self, link, args):
            return self
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
