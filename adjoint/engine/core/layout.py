"""Memory formats and layouts: how a tensor's elements may be ordered in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Final

from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.spec import contiguous_strides
from adjoint.engine.core.state import config

Shape = tuple[int, ...]
# Whether the first of two dimensions lies inside the second, of a shape and operands' strides.
Inside = Callable[[int, int, Shape, Sequence[Shape]], bool | None]


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
            return merged_strides(shape, [strides])
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


def elementwise_strides(shape: Shape, places: Sequence[tuple[Shape, Shape]]) -> Shape:
    """PyTorch's strides of what is computed element by element, of operands at these places.

    A place is a shape with its strides; numbers are at ((), ()). Operands of one shape that are all
    row-major, or all images whose channels lie innermost, have such a result, and ones without
    gaps that lie alike have one that lies so. Any others are merged, with dimensions of one element
    where the strides of operands put them.

    >>> elementwise_strides((2, 3, 1, 1), [((2, 3, 1, 1), (3, 1, 3, 3))])
    (3, 1, 1, 1)
    >>> elementwise_strides((2, 3, 1, 1), [((2, 3, 1, 1), (3, 1, 3, 3)), ((), ())])
    (3, 1, 3, 3)
    """
    if all(its == shape for its, _ in places):
        steps = [strides for _, strides in places]
        for wanted in (contiguous_format, channels_last):
            if all(has_format(shape, strides, wanted) for strides in steps):
                return last_strides(shape) if wanted is channels_last else contiguous_strides(shape)
        if steps and is_dense(shape, steps[0]) and all(each == steps[0] for each in steps):
            return steps[0]
    return merged_strides(shape, [broadcast_strides(*place, shape) for place in places])


def broadcast_strides(own: Shape, strides: Shape, shape: Shape) -> Shape:
    """The strides of an operand as one of this shape: 0 where its one element is repeated."""
    added = len(shape) - len(own)
    steps = zip(own, strides, shape[added:], strict=True)
    return (0,) * added + tuple([0 if _is_one(n) and not _is_one(m) else s for n, s, m in steps])


def _is_one(size: Any) -> bool:
    """Whether a size is 1: one that is a symbol is not, and is not compared."""
    return type(size) is int and size == 1


def merged_strides(shape: Shape, operands: Sequence[Shape]) -> Shape:
    """The strides PyTorch gives the result of operands with these strides, without gaps.

    Which of two dimensions lies inside the other, the first operand says that has a stride along
    both; one that repeats itself along one of them says nothing.

    >>> merged_strides((2, 3), [(1, 2), (0, 1)]), merged_strides((2, 3), [(3, 1), (1, 2)])
    ((1, 2), (3, 1))
    """
    return ordered_strides(shape, merged_order(shape, operands, _lies_inside))


def merged_order(shape: Shape, operands: Sequence[Shape], inside: Inside) -> list[int]:
    """Dimensions as they lie in memory, outermost first; `inside` tells of two of them."""
    order = list(range(len(shape)))[::-1]  # innermost first
    # An insertion sort that moves a dimension only past ones it certainly lies inside of.
    for i in range(1, len(order)):
        at = i
        for j in reversed(range(i)):
            turned = inside(order[at], order[j], shape, operands)
            if turned:
                order[j], order[at] = order[at], order[j]
                at = j
            elif turned is False:
                break
    return order[::-1]


def _lies_inside(inner: int, outer: int, shape: Shape, given: Sequence[Shape]) -> bool | None:
    """Whether one dimension lies inside another in memory; None where no operand says."""
    for steps in given:
        one, other = steps[outer], steps[inner]
        if not one or not other:
            continue
        if one != other:
            return one > other
        if shape[outer] > shape[inner]:
            return True
    return None


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
