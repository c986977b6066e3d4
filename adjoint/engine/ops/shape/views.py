"""Views: other windows on the same elements.

Each view primitive says what shape it shows (`infer`), with which strides (`window`), and its
transpose. The inverse of all of them is one primitive, VIEW_SCATTER, which replaces what a chain
of views shows of a tensor; in-place writes through views are made of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.operations.families import linear
from adjoint.engine.core.operations.public import method, public
from adjoint.engine.core.operations.record import HOOKS, REGISTRY, Record
from adjoint.engine.core.spec import Spec, contiguous_strides, wrap_dims
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.common.arguments import ints

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

Shape = tuple[int, ...]
Window = tuple[Shape, int]


# -- reshape ------------------------------------------------------------------------------------


def view_strides(shape: Shape, strides: Shape, new: Shape) -> Shape | None:
    """Strides with which the same memory shows `new`, or None where a copy is needed."""
    if prod(shape) == 0:
        return contiguous_strides(new)
    # Runs of old dimensions that are contiguous with each other, as (elements, last stride).
    runs: list[tuple[int, int]] = []
    for size, stride in zip(shape, strides, strict=True):
        if size == 1:
            continue
        if runs and runs[-1][1] == stride * size:
            runs[-1] = (runs[-1][0] * size, stride)
        else:
            runs.append((size, stride))
    result: list[int] = []
    run = len(runs) - 1
    left, step = runs[run] if runs else (1, 1)
    for size in reversed(new):
        if size == 1:
            result.append(step)
            continue
        if left == 1 and run > 0:
            run -= 1
            left, step = runs[run]
        if left < size or left % size:
            return None
        result.append(step)
        left //= size
        step *= size
    return tuple(reversed(result)) if left == 1 and run <= 0 else None


def _reshape_window(x: Tensor, shape: Shape) -> Window:
    """Where no strides will do (a gradient that lies otherwise than what it is the gradient of),
    the elements' order still says what is shown.
    """
    strides = view_strides(tuple(x.shape), x.stride(), shape)
    return strides or contiguous_strides(shape), x.storage_offset()


def _check_viewable(x: Tensor, shape: Shape) -> None:
    if view_strides(tuple(x.shape), x.stride(), shape) is None:
        raise ShapeError(
            f"view: size {list(shape)} is not compatible with input tensor's size {list(x.shape)} "
            f"and stride {x.stride()} (at least one dimension spans across two contiguous "
            "subspaces). Use .reshape(...) instead."
        )


RESHAPE: Record = linear(
    "reshape",
    lambda x, shape: Spec(shape, x.dtype, x.device),
    lambda g, x_spec: g.reshape(x_spec.shape),
    window=_reshape_window,
    batch=lambda size, x, shape: x.reshape((size, *shape)),
    native_check=True,
    selects=True,
)


def resolve_shape(name: str, numel: int, sizes: Shape) -> Shape:
    """A full shape from one that may hold a -1."""
    if -1 in sizes:
        known = -prod(sizes)
        if sizes.count(-1) > 1:
            raise ShapeError(f"{name}: only one dimension can be inferred, received {list(sizes)}")
        if known == 0:
            raise ShapeError(
                f"{name}: cannot reshape tensor of {numel} elements into shape {list(sizes)} "
                "because the unspecified dimension size -1 can be any value and is ambiguous"
            )
        if numel % known == 0:
            sizes = tuple([numel // known if s == -1 else s for s in sizes])
    if prod(sizes) != numel or any(s < 0 for s in sizes):
        raise ShapeError(f"{name}: shape '{list(sizes)}' is invalid for input of size {numel}")
    return sizes


@public()
def reshape(input: Tensor, shape: Sequence[int]) -> Tensor:
    """The same elements in another shape; a view where strides allow, else a copy.

    >>> import adjoint as ad
    >>> ad.arange(6).reshape(2, -1)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    return reshape_method(input, shape)


@method(name="reshape")
def reshape_method(self: Tensor, *args: Any, shape: Any = None) -> Tensor:
    """The same elements in another shape; a view where strides allow, else a copy."""
    array = self._array
    sizes = ints("reshape", args, shape)
    if -1 in sizes or prod(sizes) != array.size:
        sizes = resolve_shape("reshape", array.size, sizes)
    source = self
    if not self.is_contiguous() and view_strides(self._array.shape, self.stride(), sizes) is None:
        self = self.contiguous()
    out = RESHAPE(self, shape=sizes)
    if CONTEXT.capture is not None:
        CONTEXT.capture.reshapes.pair(source, out)
    return out


def viewed(self: Tensor, sizes: Shape) -> Tensor:
    """The same memory in another shape; an error where that needs a copy."""
    if -1 in sizes or prod(sizes) != self._array.size:
        sizes = resolve_shape("view", self._array.size, sizes)
    if not self.is_contiguous():
        _check_viewable(self, sizes)
    return RESHAPE(self, shape=sizes)


# -- permute ------------------------------------------------------------------------------------


def _permute_window(x: Tensor, dims: Shape) -> Window:
    strides = x.stride()
    return tuple(strides[d] for d in dims), x.storage_offset()


def inverse_permutation(dims: Shape) -> Shape:
    """The permutation that undoes `dims`."""
    return tuple(sorted(range(len(dims)), key=dims.__getitem__))


PERMUTE: Record = linear(
    "permute",
    lambda x, dims: Spec(tuple(x.shape[d] for d in dims), x.dtype, x.device),
    lambda g, dims: PERMUTE(g, dims=inverse_permutation(dims)),
    window=_permute_window,
    batched_params=lambda params, size: {"dims": (0, *(d + 1 for d in params["dims"]))},
    native_check=True,
    selects=True,
)


@public()
def permute(input: Tensor, dims: Sequence[int]) -> Tensor:
    """A view with dimensions in the order `dims`.

    Example:
        >>> import adjoint as ad
        >>> ad.ones(2, 3, 4).permute(2, 0, 1).shape
        adjoint.Size([4, 2, 3])
    """
    return permute_method(input, tuple(dims))


@method(name="permute")
def permute_method(self: Tensor, *args: Any, dims: Any = None) -> Tensor:
    """A view with dimensions in the order `dims`."""
    given = ints("permute", args, dims)
    if len(given) != self.ndim:
        raise ShapeError(
            "permute: number of dimensions in the tensor input does not match the length of the "
            f"desired ordering of dimensions, i.e. input.dim() = {self.ndim} is not equal to "
            f"len(dims) = {len(given)}"
        )
    if sorted(given) != list(range(len(given))):
        given = wrap_dims("permute", given, len(given))
    return PERMUTE(self, dims=given)


# -- expand -------------------------------------------------------------------------------------


def _expand_window(x: Tensor, shape: Shape) -> Window:
    added = len(shape) - x.ndim
    old = zip(x.shape, x.stride(), strict=True)
    strides = tuple(
        stride if size == new else 0 for (size, stride), new in zip(old, shape[added:], strict=True)
    )
    return (0,) * added + strides, x.storage_offset()


def _expand_batch(size: int, x: Tensor, shape: Shape) -> Tensor:
    added = len(shape) - (x.ndim - 1)
    if added:
        x = x.reshape((size, *(1,) * added, *x.shape[1:]))
    return x.expand((size, *shape))


EXPAND: Record = linear(
    "expand",
    lambda x, shape: Spec(shape, x.dtype, x.device),
    lambda g, x_spec: g.sum_to_size(x_spec.shape),
    window=_expand_window,
    batch=_expand_batch,
    native_check=True,
    selects=True,
)


@method
def expand(self: Tensor, *args: Any, size: Any = None, implicit: bool = False) -> Tensor:
    """A view in which dimensions of size 1 repeat; -1 keeps a size."""
    sizes = ints("expand", args, size)
    old = self._array.shape
    added = len(sizes) - len(old)
    if added < 0:
        raise ShapeError(
            f"expand: the number of sizes provided ({len(sizes)}) must be greater or equal to the "
            f"number of dimensions in the tensor ({len(old)})"
        )
    fits = True
    for m in sizes:
        fits = fits and m >= 0
    for n, m in zip(old, sizes[added:], strict=True):
        fits = fits and (n == m or n == 1)
    return EXPAND(self, shape=sizes if fits else _expanded(old, sizes, added))


def _expanded(old: Shape, sizes: Shape, added: int) -> Shape:
    """The shape `expand` means: -1 keeps a size; an error where sizes do not fit."""
    shape = list(sizes)
    for i, n in enumerate(sizes):
        if n < 0 and (n != -1 or i < added):
            raise ShapeError(
                f"expand: the expanded size of the tensor ({n}) isn't allowed in "
                f"{'a leading, non-existing' if i < added else 'an existing'} dimension {i}"
            )
        if i < added:
            continue
        have = old[i - added]
        if n == -1:
            shape[i] = have
        elif have not in (1, n):
            raise ShapeError(
                f"expand: the expanded size of the tensor ({n}) must match the existing size "
                f"({have}) at non-singleton dimension {i}. Target sizes: {list(sizes)}. "
                f"Tensor sizes: {list(old)}"
            )
    return tuple(shape)


# -- slice --------------------------------------------------------------------------------------
# One primitive for basic indexing. `index` has an entry per dimension of x, an int or a
# (start, stop, step) with 0 <= start <= stop <= size and step > 0, plus a None per new dimension.

Index = tuple[Any, ...]


def _slice_infer(x: Spec, index: Index) -> Spec:
    shape: list[int] = []
    for entry in index:
        if entry is None:
            shape.append(1)
        elif not isinstance(entry, int):
            start, stop, step = entry
            shape.append(-((start - stop) // step))
    return Spec(tuple(shape), x.dtype, x.device)


def _slice_window(x: Tensor, index: Index) -> Window:
    old = iter(x.stride())
    shown: list[tuple[int, int] | None] = []  # stride and size of each dimension that there was
    offset = x.storage_offset()
    for entry in index:
        if entry is None:
            shown.append(None)
            continue
        stride = next(old)
        if isinstance(entry, int):
            offset += entry * stride
        else:
            start, stop, step = entry
            offset += start * stride
            shown.append((step * stride, -((start - stop) // step)))
    strides: list[int] = []
    over = 1  # a new dimension steps over the next one, as in eager mode
    for each in reversed(shown):
        stride, size = (over, 1) if each is None else each
        strides.append(stride)
        over = stride * size
    return tuple(reversed(strides)), offset


def _embed(g: Tensor, x_spec: Spec, chain: Any) -> Tensor:
    """Zeros of the shape of x with g where the chain of views looks."""
    return VIEW_SCATTER(g.new_zeros(x_spec.shape), g, chain=chain)


SLICE: Record = linear(
    "slice",
    _slice_infer,
    lambda g, x_spec, index: _embed(g, x_spec, ((SLICE, {"index": index}),)),
    window=_slice_window,
    batched_params=lambda params, size: {"index": ((0, size, 1), *params["index"])},
    native_check=True,
    fragment="device",
    fills_zeros=True,
    selects=True,
)


# -- scatter: the inverse of every view ---------------------------------------------------------


def apply_chain(x: Tensor, chain: Any) -> Tensor:
    """Follow a chain of views."""
    for record, params in chain:
        x = record(x, **params)
    return x


def scatter(x: Tensor, y: Tensor, *chain: tuple[Record, dict[str, Any]]) -> Tensor:
    """x with what the views show of it replaced by y, of the dtype of x and the view's shape."""
    return VIEW_SCATTER(x, y if y.dtype is x.dtype else y.to(x.dtype), chain=chain)


def _scatter_batch(size: int, x: Tensor, y: Tensor, chain: Any) -> Tensor:
    """Replay the chain on the batched tensor, recording the views that makes."""
    x = x.contiguous()  # so that each step is a view again
    inner = x
    for record, params in chain:
        inner = (
            record.batch(size, inner, **params)
            if record.batch
            else record(inner, **record.batched_params(params, size))
        )
    if inner._storage is x._storage:
        return VIEW_SCATTER(x, y, chain=inner._chain[len(x._chain) :])
    return _scatter_numbered(size, x, y, chain)


def _scatter_numbered(size: int, x: Tensor, y: Tensor, chain: Any) -> Tensor:
    """The same where memory is laid out otherwise: follow the elements' numbers instead."""
    numbers = x.new_arange(prod(x.shape[1:])).reshape(x.shape[1:])
    chosen = apply_chain(numbers, chain).reshape(-1)
    columns = x.new_arange(size).reshape(size, 1)
    flat = x.reshape(size, -1)
    put = REGISTRY["index_put"](
        flat, y.reshape(size, -1), columns, chosen.expand(size, -1), dims=(0, 1), accumulate=False
    )
    return put.reshape(x.shape)


VIEW_SCATTER: Record = linear(
    "view_scatter",
    lambda x, y, chain: x,
    lambda g, y_spec, chain: VIEW_SCATTER(
        g, g.new_zeros(y_spec.shape, dtype=y_spec.dtype), chain=chain
    ),
    lambda g, chain: apply_chain(g, chain).clone(),
    batch=_scatter_batch,
    rounding="exact",
    keeps_layout="first",
    fragment="device",
)
HOOKS.view_scatter = VIEW_SCATTER
