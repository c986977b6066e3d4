"""Memory formats and layouts: how a tensor's elements may be ordered in memory."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final

from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.spec import contiguous_strides
from adjoint.engine.core.state import config

Shape = tuple[int, ...]


class _Named:
    """A constant that prints as ``adjoint.<name>``."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name: Final = name

    def __repr__(self) -> str:
        return f"{config.display_name}.{self.name}"

    def __reduce__(self) -> tuple[object, ...]:
        return (_constant, (self.name,))

    def __copy__(self) -> _Named:
        return self

    def __deepcopy__(self, memo: object) -> _Named:
        return self


class MemoryFormat(_Named):
    """An order of elements in memory, such as ``adjoint.channels_last``."""

    __slots__ = ()


class Layout(_Named):
    """How elements are stored: ``adjoint.strided``, or a sparse layout (`adjoint.sparse`)."""

    __slots__ = ()


contiguous_format = MemoryFormat("contiguous_format")
preserve_format = MemoryFormat("preserve_format")
channels_last = MemoryFormat("channels_last")
channels_last_3d = MemoryFormat("channels_last_3d")
strided = Layout("strided")
sparse_coo = Layout("sparse_coo")
sparse_csr = Layout("sparse_csr")
sparse_csc = Layout("sparse_csc")
sparse_bsr = Layout("sparse_bsr")
sparse_bsc = Layout("sparse_bsc")
jagged = Layout("jagged")

CONSTANTS: Final[dict[str, _Named]] = {
    c.name: c
    for c in (
        contiguous_format,
        preserve_format,
        channels_last,
        channels_last_3d,
        strided,
        sparse_coo,
        sparse_csr,
        sparse_csc,
        sparse_bsr,
        sparse_bsc,
        jagged,
    )
}
CONSTANTS["legacy_contiguous_format"] = contiguous_format


def _constant(name: str) -> _Named:
    return CONSTANTS[name]


def check_layout(name: str, layout: Any) -> None:
    """Refuse layouts other than strided."""
    if layout is not None and layout is not strided:
        raise RuntimeError(
            f"{name}: only the strided layout is supported, received {layout!r}. Make a sparse "
            "tensor with sparse_coo_tensor, sparse_csr_tensor or to_sparse()."
        )


def channels_last_strides(name: str, shape: Sequence[int], rank: int) -> Shape:
    """Strides with the channel (dimension 1) innermost."""
    if len(shape) != rank:
        raise ShapeError(
            f"{name}: required rank {rank} tensor to use channels_last"
            f"{'_3d' if rank == 5 else ''} format, received {len(shape)} dimensions"
        )
    return last_strides(shape)


def ordered_strides(shape: Sequence[int], order: Sequence[int]) -> Shape:
    """Gapless strides whose dimensions lie in memory in `order`, outermost first.

    >>> ordered_strides((2, 3), (1, 0))
    (1, 2)
    """
    packed = contiguous_strides([shape[d] for d in order])
    strides = [0] * len(order)
    for d, stride in zip(order, packed, strict=True):
        strides[d] = stride
    return tuple(strides)


def last_strides(shape: Sequence[int]) -> Shape:
    """Strides of dense images whose channels (dimension 1) lie innermost.

    >>> last_strides((2, 3, 4, 4))
    (48, 1, 12, 3)
    """
    return ordered_strides(shape, (0, *range(2, len(shape)), 1))


def lies_channels_last(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether strides say that channels lie innermost, of images that may have gaps.

    Several orders may fit where dimensions have one element: PyTorch's choice (its tensors'
    `suggest_memory_format`) is row by row unless the channel's stride says otherwise.

    >>> (
    ...     lies_channels_last((2, 3, 4, 5), (120, 1, 30, 6)),
    ...     lies_channels_last((2, 1, 1, 1), (1,) * 4),
    ... )
    (True, False)
    """
    if len(shape) not in (4, 5) or strides[1] == 0:
        return False
    least = 0
    for d in (1, *range(len(shape) - 1, 1, -1), 0):
        size, step = shape[d], strides[d]
        if size == 0 or step < least or (d == 0 and least == strides[1]):
            return False
        least = step * size if size > 1 else step
    return True


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether elements fill their memory without gaps or overlaps, in some order of dimensions.

    >>> is_dense((2, 3), (1, 2)), is_dense((2, 3), (6, 2))
    (True, False)
    """
    if 0 in shape:
        return True
    expected = 1
    pairs = [(s, n) for s, n in zip(strides, shape, strict=True) if n != 1]
    for stride, size in sorted(pairs, key=itemgetter(0)):  # equal strides overlap in any order
        if stride != expected:
            return False
        expected *= size
    return True


def format_strides(name: str, shape: Shape, strides: Shape, memory_format: Any) -> Shape | None:
    """Strides of a new tensor like one of these; None means row-major."""
    match memory_format:
        case None | MemoryFormat(name="preserve_format"):
            if strides == contiguous_strides(shape):
                return None
            if is_dense(shape, strides):
                return strides
            return _packed(shape, strides)
        case MemoryFormat(name="contiguous_format"):
            return None
        case MemoryFormat(name="channels_last"):
            return channels_last_strides(name, shape, 4)
        case MemoryFormat(name="channels_last_3d"):
            return channels_last_strides(name, shape, 5)
        case _:
            raise TypeError(
                f"{name}: memory_format must be a memory format such as contiguous_format, "
                f"received {memory_format!r}"
            )


def _packed(shape: Shape, strides: Shape) -> Shape:
    """Gapless strides that keep the order in which dimensions lie in memory."""
    order = list(range(len(shape)))[::-1]  # innermost first
    # An insertion sort that moves a dimension only past ones it certainly lies inside of: a
    # stride of 0 (an expanded dimension) has no place of its own.
    for i in range(1, len(order)):
        at = i
        for j in reversed(range(i)):
            a, b = order[j], order[at]
            if 0 in (strides[a], strides[b]):
                continue
            if (strides[a], shape[a]) > (strides[b], shape[b]):
                order[j], order[at] = b, a
                at = j
            elif strides[a] < strides[b]:
                break
    return ordered_strides(shape, order[::-1])


def has_format(shape: Shape, strides: Shape, memory_format: Any) -> bool:
    """Whether a tensor of these strides is contiguous in the given format."""
    if memory_format is None or memory_format is contiguous_format:
        wanted = contiguous_strides(shape)
    elif memory_format is channels_last or memory_format is channels_last_3d:
        rank = 4 if memory_format is channels_last else 5
        if len(shape) != rank:
            return False
        wanted = last_strides(shape)
    else:
        raise RuntimeError(f"is_contiguous: {memory_format!r} is not a format to ask about")
    if 0 in shape:
        return True
    return all(s == w or n == 1 for s, w, n in zip(strides, wanted, shape, strict=True))
