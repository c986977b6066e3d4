"""Cutting a tensor into views along a dimension."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from operator import index
from typing import TYPE_CHECKING, Any

from numpy import integer

from adjoint.engine.core.errors import ShapeError, ShapeIndexError
from adjoint.engine.core.operations.public import method, public
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.spec import wrap_dim
from adjoint.engine.ops.common.arguments import ints
from adjoint.engine.ops.shape.select import index_range
from adjoint.engine.ops.shape.views import SLICE

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

Tensors = tuple[Any, ...]


def _cut(x: Tensor, d: int, edges: Sequence[int]) -> Tensors:
    """Views between consecutive edges along dimension `d`."""
    return tuple([SLICE(x, index=index_range(x, d, a, max(a, b))) for a, b in pairwise(edges)])


def _needs_dims(name: str, x: Tensor) -> None:
    if not x.ndim:
        raise ShapeError(f"{name}: expects at least a 1-dimensional tensor, received a 0-d one")


@public(method=True, aliases=("unsafe_split_with_sizes",))
def split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> Tensors:
    """Views of the given sizes along `dim`."""
    _needs_dims("split_with_sizes", input)
    d = wrap_dim("split_with_sizes", dim, input.ndim)
    given = ints("split_with_sizes", (split_sizes,))
    if any(s < 0 for s in given) or sum(given) != input.shape[d]:
        raise ShapeError(
            f"split_with_sizes: expects split_sizes to be non-negative and to sum exactly to "
            f"{input.shape[d]} (input tensor's size at dimension {d}), but got {list(given)}"
        )
    edges = [0]
    for s in given:
        edges.append(edges[-1] + s)
    return _cut(input, d, edges)


def _split(input: Tensor, split_size: Any, dim: int) -> Tensors:
    if not isinstance(split_size, int):
        if isinstance(split_size, (list, tuple)) or getattr(split_size, "ndim", 1) != 0:
            return split_with_sizes(input, split_size, dim)
        split_size = index(split_size)  # NumPy's numbers, and tensors of one
    _needs_dims("split", input)
    d = wrap_dim("split", dim, input.ndim)
    size = input.shape[d]
    if split_size < 0 or (split_size == 0 and size):
        raise ShapeError(
            f"split: expects split_size be non-negative (and 0 only for an empty dimension), but "
            f"got split_size={split_size} for dimension {d} of size {size}"
        )
    step = max(split_size, 1)
    # Of a size that is a symbol, a step that divides it at all sizes: so many steps are plain.
    count = size // step if step.__class__ is not int else None
    if count.__class__ is int and count * step == size:
        edges = [i * step for i in range(count)]
    else:
        edges = [*range(0, size, step)] if size else [0]
    return _cut(input, d, [*edges, size])


@public()
def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> Tensors:
    """Views of `split_size` each (the last may be smaller), or of the sizes listed.

    >>> import adjoint as ad
    >>> [p.shape[0] for p in ad.arange(5).split(2)]
    [2, 2, 1]
    """
    return _split(tensor, split_size_or_sections, dim)


@method(name="split")
def split_method(self: Tensor, split_size: Any, dim: int = 0) -> Tensors:
    """Views of `split_size` each (the last may be smaller), or of the sizes listed."""
    return _split(self, split_size, dim)


@public(method=True)
def unsafe_split(input: Tensor, split_size: int, dim: int = 0) -> Tensors:
    """`split`."""
    return _split(input, split_size, dim)


@public(method=True, aliases=("unsafe_chunk",))
def chunk(input: Tensor, chunks: int, dim: int = 0) -> Tensors:
    """At most `chunks` views of equal size along `dim`, the last maybe smaller.

    Example:
        >>> import adjoint as ad
        >>> ad.arange(5).chunk(2)
        (tensor([0, 1, 2]), tensor([3, 4]))
    """
    if not input.ndim:
        raise ShapeError("chunk: expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk: expects `chunks` to be greater than 0, got: {chunks}")
    d = wrap_dim("chunk", dim, input.ndim)
    size = input.shape[d]
    chunks = chunks if isinstance(chunks, int) else index(chunks)
    length = -(-size // chunks)
    if length == 0:  # an empty dimension still gives all its chunks
        return split_with_sizes(input, (0,) * chunks, d)
    return _split(input, length, d)


@public(method=True)
def tensor_split(
    input: Tensor, indices_or_sections: Any = None, dim: int = 0, **named: Any
) -> Tensors:
    """Views along `dim`: a number of nearly equal sections, or cut before the given indices."""
    for name in ("indices", "sections", "tensor_indices_or_sections"):
        if name in named:
            indices_or_sections = named.pop(name)
    if named:
        raise TypeError(f"tensor_split: unexpected keyword argument {next(iter(named))!r}")
    where = indices_or_sections
    _needs_dims("tensor_split", input)
    if is_tensor(where):
        if where.dtype.name != "int64" or where.ndim > 1 or where.device.type != "cpu":
            raise ShapeError(
                "tensor_split: expected tensor_indices_or_sections to be a zero-dimensional or "
                f"one-dimensional int64 tensor on cpu, received {where._spec}"
            )
        where = where.item() if where.ndim == 0 else where.tolist()
    d = wrap_dim("tensor_split", dim, input.ndim)
    size = input.shape[d]
    if isinstance(where, integer):
        where = int(where)
    if isinstance(where, int):
        if where <= 0:
            raise RuntimeError(
                f"tensor_split: number of sections must be larger than 0, got {where}"
            )
        small, extra = divmod(size, where)
        edges = [i * small + min(i, extra) for i in range(where + 1)]
        return _cut(input, d, edges)
    cuts = ints("tensor_split", (where,))
    bounded = [min(max(c + size if c < 0 else c, 0), size) for c in cuts]
    starts, stops = [0, *bounded], [*bounded, size]
    return tuple(
        [
            SLICE(input, index=index_range(input, d, a, max(a, b)))
            for a, b in zip(starts, stops, strict=True)
        ]
    )


def _sectioned(name: str, x: Tensor, where: Any, dim: int, least: int) -> Tensors:
    if x.ndim < least:
        raise ShapeError(
            f"{name}: requires a tensor with at least {least} dimension{'s' * (least > 1)}, but "
            f"got a tensor with {x.ndim} dimensions!"
        )
    if isinstance(where, (int, integer)) and (where <= 0 or x.shape[dim] % where):
        raise ShapeError(
            f"{name}: attempted to split along dimension {dim}, but the size of the dimension "
            f"{x.shape[dim]} is not divisible by the split_size {where}!"
        )
    return tensor_split(x, where, dim)


def _sections(name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """`hsplit(x, 2)`, `hsplit(x, (1, 2))`, `x.hsplit(1, 2)`, and `sections=` or `indices=`."""
    given = [*args, *named.values()]
    if len(args) > 1 and not named:
        return args
    if len(given) != 1 or not set(named) <= {"sections", "indices", "indices_or_sections"}:
        raise TypeError(f"{name}: expected indices or sections, received {args} {named}")
    return given[0]


@public(method=True)
def hsplit(input: Tensor, *args: Any, **named: Any) -> Tensors:
    """Sections side by side: along dimension 1, or 0 of a vector."""
    where = _sections("hsplit", args, named)
    return _sectioned("hsplit", input, where, 0 if input.ndim == 1 else 1, 1)


@public(method=True)
def vsplit(input: Tensor, *args: Any, **named: Any) -> Tensors:
    """Sections along dimension 0."""
    return _sectioned("vsplit", input, _sections("vsplit", args, named), 0, 2)


@public(method=True)
def dsplit(input: Tensor, *args: Any, **named: Any) -> Tensors:
    """Sections along dimension 2."""
    return _sectioned("dsplit", input, _sections("dsplit", args, named), 2, 3)


@public(method=True)
def unbind(input: Tensor, dim: int = 0) -> Tensors:
    """All slices along `dim`.

    Example:
        >>> import adjoint as ad
        >>> ad.tensor([[1, 2], [3, 4]]).unbind()
        (tensor([1, 2]), tensor([3, 4]))
    """
    if not input.ndim:
        raise ShapeIndexError("unbind: Dimension specified as 0 but tensor has no dimensions")
    d = wrap_dim("unbind", dim, input.ndim)
    before = tuple([(0, n, 1) for n in input.shape[:d]])
    after = tuple([(0, n, 1) for n in input.shape[d + 1 :]])
    return tuple([SLICE(input, index=(*before, i, *after)) for i in range(input.shape[d])])
