"""Reading arguments that may come in several forms."""

from __future__ import annotations

from math import copysign, inf, isfinite
from operator import index
from typing import Any

from adjoint.engine.core.dtype import (
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    DType,
    bfloat16,
    float16,
    uint8,
)
from adjoint.engine.core.errors import DTypeError, ShapeError
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.spec import same_shape
from adjoint.engine.ops.common.scalars import LARGEST, converted, fits, require_word

Shape = tuple[int, ...]


_NO_KEYWORD = object()


def ints(name: str, args: Any, given: Any = _NO_KEYWORD) -> Shape:
    """Integers from `f(2, 3)`, `f((2, 3))` or a keyword's value `given`."""
    if len(args) == 1 and isinstance(args[0], (tuple, list)):
        args = (*args[0],)
        given = _NO_KEYWORD if given is None else given
    for a in args:
        if a.__class__ is not int:
            break
    else:
        if args and (given is None or given is _NO_KEYWORD):
            return args
    if given is None and not args:
        raise TypeError(f"{name}: missing the sizes or dimensions: pass integers, or a sequence")
    if given is not None and given is not _NO_KEYWORD:
        if args:
            raise TypeError(f"{name}: sizes given both by position and by keyword")
        args = (given,) if hasattr(given, "__index__") else given
    try:
        # An int of a class of its own stays one: sizes may know where they come from.
        return tuple(
            [a if isinstance(a, int) and a.__class__ is not bool else index(a) for a in args]
        )
    except TypeError:
        shown = ", ".join(type(a).__name__ for a in args)
        raise TypeError(
            f"{name}: expected integers (or one sequence of them), received {shown}"
        ) from None


def sizes(name: str, args: Any, given: Any = _NO_KEYWORD) -> Shape:
    """A shape, none of it negative."""
    shape = ints(name, args, given)
    for size in shape:  # not their least: open sizes must not be compared
        if size < 0:
            least = min(shape)
            raise ShapeError(
                f"{name}: trying to create tensor with negative dimension {least}: {list(shape)}"
            )
    return shape


def whole(name: str, argument: str, x: Any) -> int:
    """An integer; a float is refused, not rounded. One of a class of its own stays one."""
    if isinstance(x, int) and x.__class__ is not bool:
        return x
    try:
        return index(x)
    except TypeError:
        raise TypeError(
            f"{name}(): argument {argument!r} must be int, not {type(x).__name__}"
        ) from None


def need_tensor(name: str, x: Any) -> None:
    """Refuse what is no tensor."""
    if not is_tensor(x):
        raise TypeError(f"{name}: argument 'input' must be Tensor, not {type(x).__name__}")


def require_within(name: str, what: str, operand: Any, shape: Any) -> None:
    """Refuse a secondary operand that broadcasting would enlarge the result by."""
    if same_shape(operand.shape, shape):
        return
    extra = len(operand.shape) - len(shape)
    sizes = zip(operand.shape, tuple(shape)[-extra:] if extra < 0 else shape, strict=False)
    if extra > 0 or any(size not in (1, wanted) for size, wanted in sizes):
        raise ShapeError(
            f"{name}: {what} of shape {list(operand.shape)} does not fit the result of shape "
            f"{list(shape)}"
        )


def listed(dims: Any) -> tuple[Any, ...]:
    """One dimension or several, as a tuple."""
    return (dims,) if hasattr(dims, "__index__") else tuple(dims)


def checked_scalar(name: str, value: Any, dtype: DType) -> Any:
    """A Python number to fill a tensor of `dtype` with, refused where it would overflow."""
    if value.__class__ is int and 0 <= value < 2 and dtype.category != BOOL:
        return value
    if is_tensor(value):
        if value.numel() != 1:
            raise RuntimeError(f"{name}: expected a number, received a tensor of {value._spec}")
        value = value.item()
    if not isinstance(value, (bool, int, float, complex)):
        if not hasattr(value, "item"):
            raise TypeError(f"{name}: expected a number, received {type(value).__name__}")
        value = value.item()
    return converted(_checked, value, name, dtype)


# Beyond the middle between the largest number and the next power of two everything is infinite.
_MIDDLE = {float16: 65520.0, bfloat16: float.fromhex("0x1.ffp127")}


def rounded_scalar(name: str, value: Any, dtype: DType) -> Any:
    """The same for a number that is assigned: in half precision it may become infinite."""
    if dtype in _MIDDLE:
        value = converted(_in_half, value, dtype)
    return checked_scalar(name, value, dtype)


def _in_half(value: Any, dtype: DType) -> Any:
    if isinstance(value, complex) or not isfinite(value) or abs(value) <= LARGEST[dtype]:
        return value
    return copysign(LARGEST[dtype] if abs(value) < _MIDDLE[dtype] else inf, value)


def _checked(value: Any, name: str, dtype: DType) -> Any:
    require_word(name, value)
    if dtype.category == BOOL:
        return bool(value)
    if isinstance(value, complex) and dtype.category < COMPLEX and not value.imag:
        value = value.real
    if dtype.category == INT:
        refused = isinstance(value, complex) or not fits(value, dtype)
        value = value if refused else int(value)
    elif dtype.category == FLOAT:
        refused = isinstance(value, complex) or (isfinite(value) and abs(value) > LARGEST[dtype])
        if not refused and isinstance(value, int) and abs(value) >= 1 << 63:
            value = float(value)  # no library has whole numbers of this size
    else:
        refused = False
    if refused:
        raise DTypeError(
            f"{name}: value cannot be converted to type {dtype.name} without overflow: {value}"
        )
    return value % 256 if dtype is uint8 else value
