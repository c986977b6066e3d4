"""Views of part of a tensor, and their inverses, which replace that part in a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import INT
from adjoint.engine.core.errors import ShapeError, ShapeIndexError
from adjoint.engine.core.layout import contiguous_format, strided
from adjoint.engine.core.operations.public import method, public
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.spec import slice_bounds, wrap_dim
from adjoint.engine.ops.common.arguments import whole
from adjoint.engine.ops.common.memory_looks import place_in_memory
from adjoint.engine.ops.shape.views import SLICE, scatter

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

Index = tuple[Any, ...]


def index_at(name: str, x: Tensor, dim: int, index: Any) -> Index:
    """SLICE's index for one position along `dim`."""
    shape = x._array.shape
    if not shape:
        raise ShapeIndexError(f"{name}: cannot be applied to a 0-dim tensor.")
    d, i = wrap_dim(name, dim, len(shape)), whole(name, "index", index)
    if not -shape[d] <= i < shape[d]:
        raise IndexError(
            f"{name}: index {i} out of range for tensor of size {list(shape)} at dimension {d}"
        )
    return (*[(0, n, 1) for n in shape[:d]], i % shape[d], *[(0, n, 1) for n in shape[d + 1 :]])


def index_range(x: Tensor, d: int, start: int, stop: int, step: int = 1) -> Index:
    """SLICE's index for a range along dimension `d`, already within bounds."""
    return tuple(
        [(start, stop, step) if i == d else (0, n, 1) for i, n in enumerate(x._array.shape)]
    )


@public(method=True)
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """The slice at `index` along `dim`, without that dimension."""
    return SLICE(input, index=index_at("select", input, dim, index))


@public(method=True)
def narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """`length` slices along `dim` from `start`."""
    if not input.ndim:
        raise ShapeError("narrow() cannot be applied to a 0-dim tensor.")
    if is_tensor(start) and (start.ndim or start.dtype.category != INT):
        raise ShapeError("narrow: start must be an 0-dim integral Tensor.")
    d = wrap_dim("narrow", dim, input.ndim)
    size, count = input._array.shape[d], whole("narrow", "length", length)
    first = whole("narrow", "start", start)
    if count < 0:
        raise RuntimeError(f"narrow(): length must be non-negative, received {count}")
    if not -size <= first <= size:
        raise IndexError(
            f"narrow: start out of range (expected to be in range of [{-size}, {size}], but got "
            f"{first})"
        )
    first = first + size if first < 0 else first
    if first + count > size:
        raise ShapeError(
            f"narrow: start ({first}) + length ({count}) exceeds dimension size ({size})."
        )
    return SLICE(input, index=index_range(input, d, first, first + count))


@public(method=True, out=True)
def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """A copy of `narrow`."""
    part = narrow(input, dim, start, length)
    return part.clone(memory_format=contiguous_format) if part.layout is strided else part.clone()


def _bounds(name: str, x: Tensor, dim: int, start: Any, end: Any, step: int) -> Index:
    if not x.ndim:
        raise ShapeError(f"{name}() cannot be applied to a 0-dim tensor.")
    d = wrap_dim(name, dim, x.ndim)
    if step <= 0:
        raise RuntimeError(f"{name} step must be positive, received {step}")
    first, last, _ = slice_bounds(slice(start, end, step), x._array.shape[d])
    return index_range(x, d, first, max(first, last), step)


@public(method=True, function=False, name="slice")
def slice_(
    input: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Tensor:
    """A view of `start` to `end` by `step` along `dim`."""
    return SLICE(input, index=_bounds("slice", input, dim, start, end, step))


# -- replacing what a view shows ----------------------------------------------------------------


def replaced(name: str, x: Tensor, src: Tensor, index: Index) -> Tensor:
    """A copy of x with what the index shows replaced by src, of exactly its shape."""
    shown = SLICE.infer(x._spec, index=index).shape
    check_source(name, src, shown)
    return scatter(x, src, (SLICE, {"index": index}))


def check_source(name: str, src: Tensor, shape: Any) -> None:
    """Refuse a source of another shape than the view it replaces."""
    if tuple(src.shape) != tuple(shape):
        raise ShapeError(
            f"{name}: expected src to have a size equal to the slice of self. src size = "
            f"{list(src.shape)}, slice size = {list(shape)}"
        )


@public(method=True)
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of `input` with `src` at `index` along `dim`."""
    return replaced("select_scatter", input, src, index_at("select_scatter", input, dim, index))


@public(method=True, out=True)
def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Tensor:
    """A copy of `input` with `src` in a slice along `dim`."""
    index = _bounds("slice_scatter", input, dim, start, end, step)
    return replaced("slice_scatter", input, src, index)


@method
def slice_inverse(
    self: Tensor, src: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Tensor:
    """The tensor that `self` is a slice of: its memory in the geometry of `src`."""
    return self.as_strided(src.shape, src.stride(), place_in_memory(src))
