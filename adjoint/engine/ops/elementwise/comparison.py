"""Comparing elements, and asking what kind of number each is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from adjoint.engine.core import dtype as dt
from adjoint.engine.core.errors import DTypeError
from adjoint.engine.core.operations.families import composite, elementwise
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.overrides import OVERRIDES
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.engine.ops.common.scalars import require_tensors

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

EQ = elementwise("eq", None, None, promotion="compare", tensors=1, cost="free", takes_kept="all")
NE = elementwise("ne", None, None, promotion="compare", tensors=1, cost="free", takes_kept="all")
LT = elementwise("lt", None, None, promotion="compare", accepts="bif", tensors=1, cost="free")
LE = elementwise("le", None, None, promotion="compare", accepts="bif", tensors=1, cost="free")
GT = elementwise("gt", None, None, promotion="compare", accepts="bif", tensors=1, cost="free")
GE = elementwise("ge", None, None, promotion="compare", accepts="bif", tensors=1, cost="free")
ISNAN = elementwise("isnan", None, promotion="logical")
ISINF = elementwise("isinf", None, promotion="logical")
ISFINITE = elementwise("isfinite", None, promotion="logical")
SIGNBIT = elementwise("signbit", None, promotion="logical", accepts="bif")

FEWEST = 16  # elements that are compared sooner as numbers
FEW = 1 << 11  # elements that are compared sooner than operations are called


@public(method=True, inplace=True, out=True)
def eq(input: Tensor, other: Any) -> Tensor:
    """Where elements are equal.

    Example:
        >>> import adjoint as ad
        >>> ad.eq(ad.tensor([1, 2]), ad.tensor([1, 3]))
        tensor([ True, False])
    """
    return EQ(input, other)


@public(method=True, inplace=True, out=True, aliases=("not_equal",), numbers="values")
def ne(input: Tensor, other: Any) -> Tensor:
    """Where elements differ.

    Example:
        >>> import adjoint as ad
        >>> ad.ne(ad.tensor([1, 2]), ad.tensor([1, 3]))
        tensor([False,  True])
    """
    return NE(input, other)


@public(method=True, inplace=True, out=True, aliases=("less",), numbers="values")
def lt(input: Tensor, other: Any) -> Tensor:
    """Where elements are less than `other`.

    Example:
        >>> import adjoint as ad
        >>> ad.lt(ad.tensor([1, 2]), 2)
        tensor([ True, False])
    """
    return LT(input, other)


@public(method=True, inplace=True, out=True, aliases=("less_equal",), numbers="values")
def le(input: Tensor, other: Any) -> Tensor:
    """Where elements are less than or equal to `other`.

    Example:
        >>> import adjoint as ad
        >>> ad.le(ad.tensor([1, 2]), 1)
        tensor([ True, False])
    """
    return LE(input, other)


@public(method=True, inplace=True, out=True, aliases=("greater",), numbers="values")
def gt(input: Tensor, other: Any) -> Tensor:
    """Where elements are greater than `other`.

    Example:
        >>> import adjoint as ad
        >>> ad.gt(ad.tensor([1, 2]), 1)
        tensor([False,  True])
    """
    return GT(input, other)


@public(method=True, inplace=True, out=True, aliases=("greater_equal",), numbers="values")
def ge(input: Tensor, other: Any) -> Tensor:
    """Where elements are greater than or equal to `other`.

    Example:
        >>> import adjoint as ad
        >>> ad.ge(ad.tensor([1, 2]), 2)
        tensor([False,  True])
    """
    return GE(input, other)


@public(method=True)
def isnan(input: Tensor) -> Tensor:
    """Where elements are NaN.

    Example:
        >>> import adjoint as ad
        >>> ad.isnan(ad.tensor([1.0, float("nan")]))
        tensor([False,  True])
    """
    return ISNAN(input)


@public(method=True)
def isinf(input: Tensor) -> Tensor:
    """Where elements are infinite.

    Example:
        >>> import adjoint as ad
        >>> ad.isinf(ad.tensor([1.0, float("-inf")]))
        tensor([False,  True])
    """
    return ISINF(input)


@public(method=True)
def isfinite(input: Tensor) -> Tensor:
    """Where elements are neither infinite nor NaN.

    Example:
        >>> import adjoint as ad
        >>> ad.isfinite(ad.tensor([1.0, float("inf"), float("nan")]))
        tensor([ True, False, False])
    """
    return ISFINITE(input)


def _is_infinity(name: str, input: Tensor, infinity: float) -> Tensor:
    require_tensors(name, input)
    if input.dtype.is_complex:
        raise DTypeError(f"{name}: does not support complex inputs, received {input.dtype.name}")
    if not input.dtype.is_inexact:
        return ISINF(input)  # no integer is
    return EQ(input, infinity)


@public(method=True, out=True)
def isposinf(input: Tensor) -> Tensor:
    """Where elements are +infinity."""
    return _is_infinity("isposinf", input, math.inf)


@public(method=True, out=True)
def isneginf(input: Tensor) -> Tensor:
    """Where elements are -infinity."""
    return _is_infinity("isneginf", input, -math.inf)


@public(method=True)
def isreal(input: Tensor) -> Tensor:
    """Where elements have no imaginary part."""
    require_tensors("isreal", input)
    if input.dtype.is_complex:
        return EQ(input.imag, 0)
    return EQ(input, input) | ISNAN(input)  # everywhere: only NaN differs from itself


@public(method=True, out=True)
def signbit(input: Tensor) -> Tensor:
    """Where the sign bit is set; true for -0.0."""
    return SIGNBIT(input)


def _check_close(name: str, input: Tensor, other: Tensor, rtol: float, atol: float) -> None:
    require_tensors(name, input, other)
    if input.dtype is not other.dtype:
        raise DTypeError(
            f"{name}: {input.dtype.name} did not match {other.dtype.name}. Convert one of them."
        )
    for what, value in (("rtol", rtol), ("atol", atol)):
        if value < 0:
            raise RuntimeError(
                f"{name}: {what} must be greater than or equal to zero, but got {value}"
            )


@public(method=True, numbers="values")
def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:
    """Where |input - other| <= atol + rtol * |other|.

    >>> import adjoint as ad
    >>> ad.isclose(ad.tensor([1.0, 2.0]), ad.tensor([1.0, 2.1]))
    tensor([ True, False])
    """
    _check_close("isclose", input, other, rtol, atol)
    return _close(input, other, rtol, atol, equal_nan)


def _close(input: Tensor, other: Tensor, rtol: float, atol: float, equal_nan: bool) -> Tensor:
    close = EQ(input, other)
    if equal_nan and input.dtype.is_inexact:
        close = close | (ISNAN(input) & ISNAN(other))
    if rtol == 0 and atol == 0:
        return close
    if not input.dtype.is_inexact:  # differences of integers overflow; PyTorch computes in double
        input, other = input.to(dt.float64), other.to(dt.float64)
    distance = (input - other).abs()
    return close | (ISFINITE(distance) & (distance <= atol + (rtol * other).abs()))


# Whether all are, which a GPU says by one program.
ALL_CLOSE = composite(
    "all_close",
    lambda x, y, rtol, atol, equal_nan: _close(x, y, rtol, atol, equal_nan).all(),
    None,
    None,
    operands=("x", "y"),
    fragment="device",
)
ALL_EQUAL = composite(
    "all_equal", lambda x, y: EQ(x, y).all(), None, None, operands=("x", "y"), fragment="device"
)


def _are_there(input: Tensor, other: Tensor) -> bool:
    """Whether both are a GPU's, and nothing is going on that programs do not know."""
    x, y = input._array, other._array
    return CONTEXT.settled and x.__class__ in DEVICE_LAYOUTS and y.__class__ in DEVICE_LAYOUTS


@public(method=True)
def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether all elements are close, as `isclose` has it.

    Example:
        >>> import adjoint as ad
        >>> ad.allclose(ad.tensor([1.0]), ad.tensor([1.0 + 1e-7]))
        True
    """
    _check_close("allclose", input, other, rtol, atol)
    if _are_there(input, other):
        how = {"rtol": float(rtol), "atol": float(atol), "equal_nan": bool(equal_nan)}
        return bool(ALL_CLOSE(input, other, **how).item())
    return bool(isclose(input, other, rtol, atol, equal_nan).all().item())


def _few_are_equal(x: Any, y: Any) -> bool:
    """Whether arrays of one of NumPy's own dtypes have the same shape and elements."""
    return x.shape == y.shape and True not in (x != y).tobytes()


@public(method=True)
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape and elements.

    Example:
        >>> import adjoint as ad
        >>> ad.equal(ad.tensor([1, 2]), ad.tensor([1, 2]))
        True
    """
    try:
        x, y = input._array, other._array
    except AttributeError:  # no tensors: they are refused below
        x = y = None
    if (
        x.__class__ is ndarray is y.__class__
        and x.dtype is y.dtype
        and x.dtype.isbuiltin == 1
        and CONTEXT.plain
        and not LISTENERS
        and not OVERRIDES.active
    ):
        size = x.size
        if size <= FEWEST:  # numbers made for each: NaN is not itself
            return bool(x.shape == y.shape and x.tolist() == y.tolist())
        if size <= FEW:
            return _few_are_equal(x, y)
        # Most that are not equal differ at once.
        one_piece = x.flags.c_contiguous and y.flags.c_contiguous
        if one_piece and not _few_are_equal(x.reshape(-1)[:FEW], y.reshape(-1)[:FEW]):
            return False
    require_tensors("equal", input, other)
    if input.shape != other.shape:
        return False
    if _are_there(input, other):
        return bool(ALL_EQUAL(input, other).item())
    return bool((input == other).all().item())
