"""What is known of a value without its elements: shape, dtype, device."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from operator import index
from typing import Any, NamedTuple, SupportsIndex, overload

from adjoint.engine.core.device import CPU, Device
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import CaptureError, ShapeError, ShapeIndexError
from adjoint.engine.core.state import config
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.value import TensorBase

_item = tuple.__getitem__
_new = tuple.__new__
_NO_SIZES = (float, complex, str, type(None))


class Size(tuple[int, ...]):
    """A tensor's shape: a tuple of ints that prints as PyTorch's.

    >>> Size((2, 3)).numel()
    6
    """

    __slots__ = ()

    def __new__(cls, sizes: Iterable[Any] = ()) -> Size:
        """Sizes of a shape; a tensor of one whole number counts as that number."""
        made = _new(cls, sizes)
        for n in made:
            if n.__class__ is not int:
                return made._checked()
        return made

    def _checked(self) -> Size:
        """The same with tensors as the numbers they are; an error where what is none is there."""
        for place, n in enumerate(self):
            if n.__class__ is not int and isinstance(n, (TensorBase, *_NO_SIZES)):
                if isinstance(n, _NO_SIZES) or n.dtype.is_inexact:  # type: ignore[attr-defined]
                    raise TypeError(
                        f"torch.Size() takes an iterable of 'int' (item {place} is "
                        f"{type(n).__name__!r})"
                    )
                return _new(Size, [index(n) if isinstance(n, TensorBase) else n for n in self])
        return self

    def numel(self) -> int:
        """The number of elements of a tensor of this shape."""
        return prod(self)

    def __repr__(self) -> str:
        return f"{config.display_name}.Size({list(self)})"

    @overload
    def __getitem__(self, item: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, item: slice) -> Size: ...
    def __getitem__(self, item: Any) -> Any:
        if item.__class__ is slice:
            return _new(Size, _item(self, item))
        return _item(self, item)

    def __add__(self, other: Any) -> Any:
        if other.__class__ is not tuple:
            other = tuple(other)
        made = _new(Size, tuple.__add__(self, other))
        for n in other:
            if n.__class__ is not int:
                return made._checked()
        return made

    def __radd__(self, other: Any) -> Any:
        return Size((*other, *self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times: Any) -> Any:
        return _new(Size, tuple.__mul__(self, times))

    __rmul__ = __mul__

    def __reduce__(self) -> tuple[object, ...]:
        return (Size, (tuple(self),))


class Spec(NamedTuple):
    """Shape, dtype and device of a value."""

    shape: tuple[int, ...]
    dtype: DType
    device: Device = CPU

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        where = "" if self.device is CPU else f" @ {self.device}"
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]{where}"


class UnknownShapeError(CaptureError):
    """A result's shape depends on the elements of an operand, and those are not known."""


def contiguous_strides(shape: Iterable[int]) -> tuple[int, ...]:
    """Row-major strides, in elements.

    >>> contiguous_strides((2, 3, 4))
    (12, 4, 1)
    """
    strides: list[int] = []
    step = 1
    for size in reversed(tuple(shape)):
        strides.append(step)
        step *= size or 1
    return tuple(reversed(strides))


_NO_SYMBOLS = frozenset({int, float, bool, str, type(None)})


def has_symbols(x: Any) -> bool:
    """Whether a size in x is a symbol, which equals a number without being one."""
    if type(x) in _NO_SYMBOLS:
        return False
    if isinstance(x, (tuple, list)):
        return any(map(has_symbols, x))
    if isinstance(x, dict):
        return any(map(has_symbols, x.values()))
    return isinstance(x, (int, float))


def is_known(n: Any) -> bool:
    """Whether a size may decide something: it is plain, or it is noted what it decides."""
    return n.__class__ is int or getattr(n, "decides", False)


def may_narrow(n: Any) -> bool:
    """Whether a choice may go by a size, at the price that other sizes are recorded apart."""
    return n.__class__ is int or getattr(n, "narrows", False)


def is_larger(a: int, b: int) -> bool | None:
    """Whether a > b; of symbols, whether so at all sizes or at none, else None. It decides nothing.

    >>> is_larger(3, 2), is_larger(2, 2)
    (True, False)
    """
    for n in (a, b):
        if n.__class__ is not int:
            exceeds = getattr(n, "exceeds", None)
            return None if exceeds is None else exceeds(a, b)
    return a > b


def pinned(n: Any) -> Any:
    """A plain number; of a size that is noted by, what is decided then holds for no other."""
    pin = getattr(n, "pin", None)
    return n if pin is None else pin()


def same_shape(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether two shapes are equal, without comparing sizes where ranks differ.

    Python's tuples compare elements before lengths, and comparing a dynamic size is a guard.
    """
    return len(a) == len(b) and a == b


def broadcast_shapes(name: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape of operands, or PyTorch's error naming the operation.

    >>> broadcast_shapes("add", (3, 1), (2,))
    (3, 2)
    """
    if len(set(map(len, shapes))) == 1 and shapes.count(shapes[0]) == len(shapes):
        return tuple(shapes[0])
    rank = max(map(len, shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        offset = rank - len(shape)
        for i, size in enumerate(shape, offset):
            if size == 1 or result[i] == size:
                continue
            if result[i] != 1:
                raise ShapeError(
                    f"{name}: the size of tensor a ({result[i]}) must match the size of tensor b "
                    f"({size}) at non-singleton dimension {i}; received shapes "
                    f"{', '.join(str(tuple(s)) for s in shapes)}. Sizes must be equal or 1."
                )
            result[i] = size
    return tuple(result)


def wrap_dim(name: str, dim: int, ndim: int) -> int:
    """A dimension in 0..ndim-1 from one that may count from the end."""
    limit = max(ndim, 1)
    if dim.__class__ is not int:
        if dim.__class__ is bool:
            raise TypeError(f"{name}: a dimension must be int, not bool, received {dim}")
        if not isinstance(dim, int):
            dim = index(dim)
    if not -limit <= dim < limit:
        raise ShapeIndexError(
            f"{name}: dimension out of range (expected to be in range of [{-limit}, {limit - 1}], "
            f"but got {dim})"
        )
    return dim + limit if dim < 0 else dim


def wrap_dims(name: str, dims: Iterable[int], ndim: int) -> tuple[int, ...]:
    """Several dimensions, each wrapped, none repeated; in a tuple PyTorch takes truths for ints."""
    wrapped = tuple(wrap_dim(name, d + 0 if d.__class__ is bool else d, ndim) for d in dims)
    if len(set(wrapped)) != len(wrapped):
        raise ShapeError(
            f"{name}: a dimension appears more than once in {tuple(dims)!r} for a tensor of "
            f"{ndim} dimensions"
        )
    return wrapped


_PLAIN = frozenset((int, type(None)))


def slice_bounds(k: slice, size: int) -> tuple[int, int, int]:
    """`k.indices(size)`, in arithmetic of their own for ints that know how they were made.

    >>> slice_bounds(slice(-3, None), 5)
    (2, 5, 1)
    """
    start, stop, step = k.start, k.stop, k.step
    if size.__class__ is int and start.__class__ in _PLAIN and stop.__class__ in _PLAIN:
        return k.indices(size)
    if not all(x is None or isinstance(x, int) for x in (start, stop, step)) or (step or 1) < 1:
        return k.indices(size)
    return _clamped(start, 0, size), _clamped(stop, size, size), step or 1


def _clamped(x: int | None, default: int, size: int) -> int:
    """A bound of a slice in 0 ... size."""
    if x is None:
        return default
    if CONTEXT.value_sizes is not None:
        bound: int | None = CONTEXT.value_sizes.bound(x, size)
        if bound is not None:
            return bound
    if x < 0:
        x = x + size
    return 0 if x < 0 else size if x > size else x
