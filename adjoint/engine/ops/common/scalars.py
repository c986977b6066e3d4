"""Operands that may be Python numbers: the few functions rules need of either kind."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

from adjoint.engine.core import dtype as dt
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import DTypeError
from adjoint.engine.core.numeric_limits import finfo, iinfo
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.promotion import is_word
from adjoint.engine.core.state.host import HostScalar


def dtype_of(x: Any) -> DType:
    """The dtype of a tensor, or of a number standing alone."""
    return x.dtype if is_tensor(x) else dt.of_scalar(x)


def as_number(x: Any) -> Any:
    """An array library's scalar as the number it holds; anything else as it is."""
    if is_tensor(x) or getattr(x, "shape", None) != () or not hasattr(x, "item"):
        return x
    return x.item()


def converted(fn: Callable[..., Any], x: Any, *args: Any) -> Any:
    """`fn(x, *args)`, of a number of the host at each call."""
    return HostScalar.computed(fn, x, *args) if isinstance(x, HostScalar) else fn(x, *args)


def log(x: Any) -> Any:
    """The logarithm, of a number as of an element: -inf at 0, NaN below it."""
    if is_tensor(x):
        return x.log()
    return converted(_log, x)


def _log(x: Any) -> Any:
    if isinstance(x, complex):
        return cmath.log(x) if x else complex(-math.inf, 0)
    return math.log(x) if x > 0 else -math.inf if x == 0 else math.nan


def require_tensors(name: str, *operands: Any) -> None:
    """Refuse numbers where only tensors will do."""
    for position, x in enumerate(operands, 1):
        if not is_tensor(x):
            raise TypeError(f"{name}(): argument {position} must be Tensor, not {type(x).__name__}")


LARGEST = {d: finfo(d).max for d in (*dt.DTYPES, *dt.STORAGE_DTYPES) if d.category == dt.FLOAT}
_INTEGERS = {
    d: (min(iinfo(d).min, -iinfo(d).max), iinfo(d).max)
    for d in (*dt.DTYPES, *dt.STORAGE_DTYPES)
    if d.category == dt.INT
}


def fits(x: Any, d: DType) -> bool:
    """Whether a number converts to `d` without overflow, by PyTorch's reading.

    A negative whole number fits an unsigned type if its magnitude does; a float does not.
    """
    if d.category == dt.FLOAT and not isinstance(x, (complex, HostScalar)):
        return not math.isfinite(x) or float(abs(x)) <= LARGEST[d]
    if d.category != dt.INT or isinstance(x, complex):
        return True
    if isinstance(x, float) and not math.isfinite(x):
        return False
    low, high = _INTEGERS[d]
    return bool((max(low, iinfo(d).min) if isinstance(x, float) else low) <= x <= high)


def is_large(x: Any) -> bool:
    """Whether a number is a float that some dtype of floats has no room for."""
    return type(x) is float and not -65504.0 <= x <= 65504.0


def computed_in(d: DType) -> DType:
    """The dtype whose range numbers beside tensors have: of halves, float32's."""
    return dt.float32 if d in (dt.float16, dt.bfloat16) else d


def require_word(name: str, x: Any) -> None:
    """PyTorch's error for a whole number that 64 bits do not hold."""
    if type(x) is int and not is_word(x):
        raise OverflowError(
            f"{name}: a whole number of 64 bits is expected, received {x}. Give a float."
        )


def require_fit(name: str, x: Any, d: DType) -> None:
    """PyTorch's error for a number that does not fit a tensor's dtype."""
    if is_tensor(x):
        return
    require_word(name, x)
    if not fits(x, d):
        raise DTypeError(
            f"{name}: value cannot be converted to type {d.name} without overflow: {x}. "
            "Convert the tensor to a wider dtype."
        )
