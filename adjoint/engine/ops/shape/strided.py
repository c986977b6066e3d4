"""Views by strides: diagonals, sliding windows, and as_strided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import bool_
from adjoint.engine.core.errors import ShapeError, ShapeIndexError
from adjoint.engine.core.layout import ordered_strides
from adjoint.engine.core.operations.families import composite, linear
from adjoint.engine.core.operations.public import method, public
from adjoint.engine.core.operations.record import HOOKS, Record
from adjoint.engine.core.spec import Spec, wrap_dim
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.common.arguments import ints, whole
from adjoint.engine.ops.common.memory_looks import check_inside, place_in_memory, room_in_memory
from adjoint.engine.ops.index.index import INDEX, INDEX_PUT
from adjoint.engine.ops.shape.frames import OVERLAP_ADD
from adjoint.engine.ops.shape.select import check_source
from adjoint.engine.ops.shape.views import scatter

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

Shape = tuple[int, ...]
Window = tuple[Shape, int]


# -- diagonal -----------------------------------------------------------------------------------


def diagonal_length(rows: int, columns: int, offset: int) -> int:
    """How many elements a diagonal has."""
    return max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)


def _diagonal_infer(x: Spec, offset: int, dim1: int, dim2: int) -> Spec:
    rest = [n for d, n in enumerate(x.shape) if d not in (dim1, dim2)]
    length = diagonal_length(x.shape[dim1], x.shape[dim2], offset)
    return Spec((*rest, length), x.dtype, x.device)


def _diagonal_window(x: Tensor, offset: int, dim1: int, dim2: int) -> Window:
    strides = x.stride()
    rest = [s for d, s in enumerate(strides) if d not in (dim1, dim2)]
    start = x.storage_offset()
    if diagonal_length(x.shape[dim1], x.shape[dim2], offset):
        start += offset * strides[dim2] if offset >= 0 else -offset * strides[dim1]
    return (*rest, strides[dim1] + strides[dim2]), start


DIAGONAL: Record = linear(
    "diagonal",
    _diagonal_infer,
    lambda g, x_spec, offset, dim1, dim2: scatter(
        g.new_zeros(x_spec.shape),
        g,
        (DIAGONAL, {"offset": offset, "dim1": dim1, "dim2": dim2}),
    ),
    window=_diagonal_window,
    batched_params=lambda params, size: {
        "offset": params["offset"],
        "dim1": params["dim1"] + 1,
        "dim2": params["dim2"] + 1,
    },
    native_check=True,
    selects=True,
)


def _diagonal_params(name: str, ndim: int, offset: int, dim1: int, dim2: int) -> dict[str, int]:
    a, b = wrap_dim(name, dim1, ndim), wrap_dim(name, dim2, ndim)
    if a == b:
        raise ShapeError(f"{name}: dimensions cannot be identical {dim1}, {dim2}")
    return {"offset": offset, "dim1": a, "dim2": b}


@public(method=True)
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A view of a diagonal of two dimensions, as the last dimension."""
    return DIAGONAL(input, **_diagonal_params("diagonal", input.ndim, offset, dim1, dim2))


@public(name="diagonal", namespaces=("linalg",))
def linalg_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """A view of the diagonals of matrices."""
    return diagonal(A, offset, dim1, dim2)


@public(method=True)
def diagonal_scatter(
    input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """A copy of `input` with `src` on a diagonal."""
    params = _diagonal_params("diagonal_scatter", input.ndim, offset, dim1, dim2)
    check_source("diagonal_scatter", src, _diagonal_infer(input._spec, **params).shape)
    return scatter(input, src, (DIAGONAL, params))


@public(method=True)
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Zeros with the last dimension of `input` on a diagonal of two new dimensions.

    >>> import adjoint as ad
    >>> ad.diag_embed(ad.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    if not input.ndim:
        raise ShapeIndexError("diag_embed: needs at least one dimension, received a 0-d tensor")
    return DIAG_EMBED(input, **_diagonal_params("diag_embed", input.ndim + 1, offset, dim1, dim2))


def _embedded(x: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    shape = list(x.shape[:-1])
    size = x.shape[-1] + abs(offset)
    for d in sorted((dim1, dim2)):
        shape.insert(d, size)
    return scatter(x.new_zeros(shape), x, _diagonal_of(offset, dim1, dim2))


def _diagonal_of(offset: int, dim1: int, dim2: int) -> tuple[Record, dict[str, int]]:
    """A link of a chain of views."""
    return DIAGONAL, {"offset": offset, "dim1": dim1, "dim2": dim2}


# As one node of the tape each, like the copy of a diagonal and its sum below.
DIAG_EMBED: Record = composite(
    "diag_embed",
    _embedded,
    lambda g, offset, dim1, dim2: DIAGONAL(g, offset=offset, dim1=dim1, dim2=dim2),
    linear=True,
)
DIAG: Record = composite(
    "diag",
    lambda x, offset: DIAGONAL(x, offset=offset, dim1=0, dim2=1).clone(),
    lambda g, x_spec, offset: scatter(g.new_zeros(x_spec.shape), g, _diagonal_of(offset, 0, 1)),
    linear=True,
)


@public(method=True, out=True)
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """A matrix with a vector on its diagonal, or a copy of a matrix's diagonal.

    Example:
        >>> import adjoint as ad
        >>> ad.diag(ad.tensor([1, 2]))
        tensor([[1, 0],
                [0, 2]])
    """
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim == 2:
        return DIAG(input, offset=diagonal)
    raise ShapeError(f"diag: supports 1D or 2D tensors, received {input.ndim}D")


@public(method=True)
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A matrix with all elements of `input` on its diagonal."""
    return diag_embed(input.reshape(-1), offset)


@public(method=True)
def trace(input: Tensor) -> Tensor:
    """The sum of a matrix's diagonal.

    Example:
        >>> import adjoint as ad
        >>> ad.tensor([[1, 2], [3, 4]]).trace()
        tensor(5)
    """
    if input.ndim != 2:
        raise ShapeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    if input.dtype is bool_:
        raise NotImplementedError("trace: not implemented for bool. Convert it, e.g. with .int().")
    return TRACE(input) if input.dtype.is_inexact else diagonal(input).sum()


def _trace_vjp(g: Tensor, x_spec: Spec) -> Tensor:
    on_diagonal = g.expand((min(x_spec.shape),))
    return scatter(g.new_zeros(x_spec.shape), on_diagonal, _diagonal_of(0, 0, 1))


TRACE: Record = composite(
    "trace", lambda x: DIAGONAL(x, offset=0, dim1=0, dim2=1).sum(), _trace_vjp, linear=True
)


# -- sliding windows ----------------------------------------------------------------------------


def _unfold_infer(x: Spec, dim: int, size: int, step: int) -> Spec:
    shape = list(x.shape)
    shape[dim] = (shape[dim] - size) // step + 1
    return Spec((*shape, size), x.dtype, x.device)


def _unfold_window(x: Tensor, dim: int, size: int, step: int) -> Window:
    strides = list(x.stride())
    inner = strides[dim]
    strides[dim] = inner * step
    return (*strides, inner), x.storage_offset()


def _unfold_transpose(g: Tensor, x_spec: Spec, dim: int, size: int, step: int) -> Tensor:
    """Windows overlap, so each element collects from all that show it."""
    if g.device.type == "cuda":  # where that is one kernel
        collected = OVERLAP_ADD(g.movedim(dim, -2), hop=step, length=x_spec.shape[dim])
        return collected.movedim(-1, dim).contiguous()
    count = g.shape[dim]
    picked = (g.new_arange(count) * step).reshape(count, 1) + g.new_arange(size)
    return INDEX_PUT(
        g.new_zeros(x_spec.shape), g.movedim(-1, dim + 1), picked, dims=(dim,), accumulate=True
    )


UNFOLD: Record = linear(
    "unfold",
    _unfold_infer,
    _unfold_transpose,
    window=_unfold_window,
    batched_params=lambda params, size: {**params, "dim": params["dim"] + 1},
    native_check=True,
    selects=True,
)


@method
def unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """A view of all windows of `size` along a dimension, `step` apart, as a new last dimension.

    >>> import adjoint as ad
    >>> ad.arange(5).unfold(0, 3, 2)
    tensor([[0, 1, 2],
            [2, 3, 4]])
    """
    d = wrap_dim("unfold", dimension, self.ndim)
    limit = self.shape[d] if self.ndim else 1
    if size < 0:
        raise ShapeError(f"unfold: size is {size} but must be >= 0")
    if size > limit:
        raise ShapeError(
            f"unfold: maximum size for tensor at dimension {d} is {limit} but size is {size}"
        )
    if step <= 0:
        raise RuntimeError(f"unfold: step is {step} but must be > 0")
    if not self.ndim:
        return self.reshape(1).narrow(0, 0, size)
    return UNFOLD(self, dim=d, size=size, step=step)


# -- as_strided ---------------------------------------------------------------------------------
# AS_STRIDED(x, size, stride, offset, x_stride): elements are named by their place in memory. The
# offset counts from x's first element and x_stride is how x lay when the view was made, so the
# parameters mean the same whatever memory x has now (in a transform, a capture, a gradient).


def span(shape: Shape, strides: Shape) -> int:
    """How many places lie between the first element and the last, both included."""
    if 0 in shape:
        return 0
    reach = 1  # added up here: a generator of few takes longer to start than to run
    for n, s in zip(shape, strides, strict=True):
        reach += (n - 1) * s
    return reach


def may_overlap(shape: Shape, strides: Shape) -> bool:
    """Whether two elements might share a place."""
    reach = 0
    for stride, size in sorted((s, n) for s, n in zip(strides, shape, strict=True) if n != 1):
        if stride <= reach:
            return True
        reach += (size - 1) * stride
    return False


def _places(like: Tensor, shape: Shape, strides: Shape, offset: int) -> Tensor:
    """The place of every element, as int64."""
    total = like.new_arange(1).reshape(()) + offset
    for n, s in zip(shape, strides, strict=True):
        total = total.unsqueeze(-1) + like.new_arange(n) * s
    return total.reshape(-1)


def _strided_transpose(
    g: Tensor, x_spec: Spec, size: Shape, stride: Shape, offset: int, x_stride: Shape
) -> Tensor:
    """Collect g at its places in memory, then read the places x shows."""
    low = min(offset, 0)
    length = max(offset + span(size, stride), span(x_spec.shape, x_stride)) - low
    mine = _places(g, x_spec.shape, x_stride, -low)
    theirs = _places(g, size, stride, offset - low)
    memory = INDEX_PUT(g.new_zeros((length,)), g.reshape(-1), theirs, dims=(0,), accumulate=True)
    pulled = INDEX(memory, mine, dims=(0,))
    if may_overlap(x_spec.shape, x_stride):  # elements of x that share a place share its gradient
        ones = g.new_ones(mine.shape)
        count = INDEX_PUT(g.new_zeros((length,)), ones, mine, dims=(0,), accumulate=True)
        pulled = pulled / INDEX(count, mine, dims=(0,))
    return pulled.reshape(x_spec.shape)


def _strided_batch(
    lanes: int, x: Tensor, size: Shape, stride: Shape, offset: int, x_stride: Shape
) -> Tensor:
    shape = tuple(x.shape[1:])
    order = sorted(range(len(shape)), key=lambda d: (-x_stride[d], d))
    room = span(shape, x_stride)
    inside = offset >= 0 and offset + span(size, stride) <= room
    packed = ordered_strides(shape, order)
    if not inside or any(
        n != 1 and a != b for n, a, b in zip(shape, packed, x_stride, strict=True)
    ):
        raise NotImplementedError(
            "as_strided: under vmap the tensor must be dense and the view must stay inside it. "
            "Call .contiguous() first."
        )
    dense = x.permute(0, *[d + 1 for d in order]).contiguous()
    return AS_STRIDED(
        dense,
        size=(lanes, *size),
        stride=(room, *stride),
        offset=offset,
        x_stride=(room, *[packed[d] for d in order]),
    )


AS_STRIDED: Record = linear(
    "as_strided",
    lambda x, size, stride, offset, x_stride: Spec(size, x.dtype, x.device),
    _strided_transpose,
    window=lambda x, size, stride, offset, x_stride: (stride, x.storage_offset() + offset),
    batch=_strided_batch,
    native_check=True,
)


def _strided_params(
    x: Tensor, size: Any, stride: Any, storage_offset: int | None
) -> dict[str, Any]:
    sizes, strides = ints("as_strided", (size,)), ints("as_strided", (stride,))
    if len(sizes) != len(strides):
        raise ShapeError(
            f"as_strided: mismatch in length of strides and shape: {list(sizes)}, {list(strides)}"
        )
    if min(strides, default=0) < 0 or min(sizes, default=0) < 0:
        raise ShapeError(
            "as_strided: negative sizes and strides are not supported, got sizes "
            f"{list(sizes)} and strides {list(strides)}"
        )
    here = place_in_memory(x)
    if storage_offset is None:
        offset = HOOKS.place_of(x)
    else:
        offset = whole("as_strided", "storage_offset", storage_offset)
    if offset < 0:
        raise RuntimeError(f"as_strided: invalid storage offset {offset}")
    reach = span(sizes, strides)
    needed = offset + reach
    room = room_in_memory(x)
    if reach and needed > room:
        raise ShapeError(
            f"as_strided: sizes {list(sizes)}, strides {list(strides)}, storage offset {offset} "
            f"require a storage of {needed} elements, out of bounds for a storage of {room}"
        )
    check_inside(x, offset, needed)
    return {"size": sizes, "stride": strides, "offset": offset - here, "x_stride": x.stride()}


@public(method=True)
def as_strided(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """A view of the storage with the given sizes, strides and offset."""
    if CONTEXT.plain:
        place = 0 if storage_offset is None else storage_offset
        shown = HOOKS.array.restrided(AS_STRIDED, input, size, stride, place)
        if shown is not None:
            return shown
    return AS_STRIDED(input, **_strided_params(input, size, stride, storage_offset))


@public(method=True)
def as_strided_scatter(
    input: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: int | None = None
) -> Tensor:
    """A copy of `input` with `src` where `as_strided` would look."""
    params = _strided_params(input, size, stride, storage_offset)
    check_source("as_strided_scatter", src, params["size"])
    return scatter(input, src, (AS_STRIDED, params))
