"""Functions of each element: Adjoint's, with the standard's promotion and special cases."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.array_api.arrays import WIDE_UNSIGNED, anything, as_arrays, by_numpy, standard
from adjoint.array_api.dtypes import KINDS, cast, iinfo, result_type
from adjoint.engine.core.dtype import bool_
from adjoint.engine.core.errors import DTypeTypeError
from adjoint.engine.tensor.tensor import Tensor

Maker = Callable[..., Any]


def operands(name: str, x1: Any, x2: Any) -> tuple[Any, Any]:
    """Two operands, of which one may be a Python number, as tensors of one dtype and device."""
    if not isinstance(x1, Tensor) and not isinstance(x2, Tensor):
        raise TypeError(
            f"{name}: at least one operand must be an array, received {type(x1).__name__} and "
            f"{type(x2).__name__}"
        )
    numbers = (bool, int, float, complex)
    x1, x2 = (x.item() if isinstance(x, np.generic) else x for x in (x1, x2))
    for x in (x1, x2):
        if not isinstance(x, (Tensor, *numbers)):
            raise TypeError(f"{name}: expected arrays or numbers, received {type(x).__name__}")
    dtype = result_type(x1, x2)
    if dtype in WIDE_UNSIGNED:  # NumPy reads Python's numbers as it reads the array's
        return x1, x2
    array = x1 if isinstance(x1, Tensor) else x2
    placed = (cast(x, dtype) for x in (x1, x2))
    one, two = (x if x.device == array.device or x.ndim else x.to(array.device) for x in placed)
    return one, two


def binary(name: str, compute: Maker) -> Maker:
    """A function of two arrays, promoted by the standard's rules."""

    def function(x1: Any, x2: Any, /) -> Any:
        one, two = operands(name, x1, x2)
        if any_wide(one, two):
            return by_numpy(name, "", (one, two), {})
        return as_arrays(compute(one, two))

    return named(function, name, f"`{name}` of the elements of two arrays.")


def any_wide(*values: Any) -> bool:
    """Whether NumPy has to compute it."""
    return builtins.any(isinstance(v, Tensor) and v.dtype in WIDE_UNSIGNED for v in values)


def unary(name: str, compute: Maker) -> Maker:
    """A function of one array."""

    def function(x: Any, /) -> Any:
        if not isinstance(x, Tensor):
            raise TypeError(f"{name}: expected an array, received {type(x).__name__}")
        if x.dtype in WIDE_UNSIGNED and name not in _WHOLE:
            return by_numpy(name, "", (x,), {})
        return as_arrays(compute(x))

    return named(function, name, f"`{name}` of each element.")


def named(function: Maker, name: str, doc: str) -> Maker:
    """The function under its public name."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


# -- special cases ---------------------------------------------------------------------------------


def _floor_divide(x1: Any, x2: Any) -> Any:
    quotient = ad.floor_divide(x1, x2)
    if not x1.dtype.is_floating_point:
        return quotient
    exact = ad.isinf(x1) | ad.isinf(x2) | (x2 == 0)  # where the true quotient is the answer
    return ad.where(exact, x1 / x2, quotient)


def _remainder(x1: Any, x2: Any) -> Any:
    rest = ad.remainder(x1, x2)
    if not x1.dtype.is_floating_point:
        return rest
    return ad.where(rest == 0, ad.copysign(rest, x2), rest)


def _pow(x1: Any, x2: Any) -> Any:
    """Powers element by element: of one exponent, libraries take roots that differ at -inf."""
    if x2.ndim or not x2.dtype.is_floating_point:
        return ad.pow(x1, x2)
    return ad.pow(x1.reshape(-1), x2.expand(x1.numel()).clone()).reshape(x1.shape)


def _sign(x: Any) -> Any:
    if x.is_complex():
        size = ad.abs(x)
        return ad.where(size == 0, ad.zeros_like(x), x / ad.where(size == 0, 1, size))
    if not x.dtype.is_floating_point:
        return ad.sign(x)
    return ad.where(ad.isnan(x), x, ad.sign(x))


def _whole(compute: Maker) -> Maker:
    """Rounding, which leaves whole numbers as they are."""
    return lambda x: compute(x) if x.dtype.is_floating_point else x.clone()


def _round(x: Any) -> Any:
    if x.is_complex():
        return ad.complex(ad.round(x.real), ad.round(x.imag))
    return _whole(ad.round)(x)


def _reciprocal(x: Any) -> Any:
    return 1 / x


def _log1p(x: Any) -> Any:
    """`log(1 + x)` of complex numbers without cancellation near zero (Hull, 1994)."""
    if not x.is_complex():
        return ad.log1p(x)
    a, b = x.real, x.imag
    near = (ad.abs(a) < 0.5) & (ad.abs(b) < 0.5)
    a_near, b_near = ad.where(near, a, 0), ad.where(near, b, 0)
    size = 0.5 * ad.log1p(2 * a_near + a_near * a_near + b_near * b_near)
    far = ad.log(ad.complex(1 + a, b))
    return ad.complex(ad.where(near, size, far.real), far.imag)


def _expm1(x: Any) -> Any:
    """`exp(x) - 1` of complex numbers, exact for small ones."""
    if not x.is_complex():
        return ad.expm1(x)
    a, b = x.real, x.imag
    half = ad.sin(b / 2)
    real = ad.expm1(a) * ad.cos(b) - 2 * half * half
    large = ad.exp(x)
    imag = ad.where(b == 0, b, ad.exp(a) * ad.sin(b))
    usual = ad.isfinite(a) & ad.isfinite(b)
    return ad.complex(ad.where(usual, real, large.real - 1), ad.where(usual, imag, large.imag))


def _log_to(base: float, compute: Maker) -> Maker:
    def function(x: Any) -> Any:
        if not x.is_complex():
            return compute(x)
        natural, scale = ad.log(x), math.log(base)
        return ad.complex(natural.real / scale, natural.imag / scale)

    return function


def _conj(x: Any) -> Any:
    return ad.conj(x).resolve_conj() if x.is_complex() else x


def _real(x: Any) -> Any:
    return x.real if x.is_complex() else x


def _imag(x: Any) -> Any:
    return x.imag if x.is_complex() else ad.zeros_like(x)


def _logical(name: str, compute: Maker) -> Maker:
    def function(*values: Any) -> Any:
        for x in values:
            if x.dtype is not bool_:
                raise DTypeTypeError(f"{name}: expected boolean arrays, received {x.dtype.name}")
        return compute(*values)

    return function


def _shift(name: str, compute: Maker) -> Maker:

    def function(x1: Any, x2: Any) -> Any:
        if x1.dtype is bool_:
            raise TypeError(f"{name}: expected integer arrays, received bool")
        return compute(x1, x2)

    return function


# -- the table -------------------------------------------------------------------------------------

_WHOLE = {"ceil", "floor", "round", "trunc", "positive", "conj", "real"}
_UNARY: dict[str, Maker] = {
    "abs": ad.abs,
    "acos": ad.acos,
    "acosh": ad.acosh,
    "asin": ad.asin,
    "asinh": ad.asinh,
    "atan": ad.atan,
    "atanh": ad.atanh,
    "bitwise_invert": ad.bitwise_not,
    "ceil": _whole(ad.ceil),
    "conj": _conj,
    "cos": ad.cos,
    "cosh": ad.cosh,
    "exp": ad.exp,
    "expm1": _expm1,
    "floor": _whole(ad.floor),
    "imag": _imag,
    "isfinite": ad.isfinite,
    "isinf": ad.isinf,
    "isnan": ad.isnan,
    "log": ad.log,
    "log10": _log_to(10, ad.log10),
    "log1p": _log1p,
    "log2": _log_to(2, ad.log2),
    "logical_not": _logical("logical_not", ad.logical_not),
    "negative": ad.negative,
    "positive": ad.positive,
    "real": _real,
    "reciprocal": _reciprocal,
    "round": _round,
    "sign": _sign,
    "signbit": ad.signbit,
    "sin": ad.sin,
    "sinh": ad.sinh,
    "sqrt": ad.sqrt,
    "square": ad.square,
    "tan": ad.tan,
    "tanh": ad.tanh,
    "trunc": _whole(ad.trunc),
}
_BINARY: dict[str, Maker] = {
    "add": ad.add,
    "atan2": ad.atan2,
    "bitwise_and": ad.bitwise_and,
    "bitwise_left_shift": _shift("bitwise_left_shift", ad.bitwise_left_shift),
    "bitwise_or": ad.bitwise_or,
    "bitwise_right_shift": _shift("bitwise_right_shift", ad.bitwise_right_shift),
    "bitwise_xor": ad.bitwise_xor,
    "copysign": ad.copysign,
    "divide": ad.divide,
    "equal": ad.eq,
    "floor_divide": _floor_divide,
    "greater": ad.gt,
    "greater_equal": ad.ge,
    "hypot": ad.hypot,
    "less": ad.lt,
    "less_equal": ad.le,
    "logaddexp": ad.logaddexp,
    "logical_and": _logical("logical_and", ad.logical_and),
    "logical_or": _logical("logical_or", ad.logical_or),
    "logical_xor": _logical("logical_xor", ad.logical_xor),
    "maximum": ad.maximum,
    "minimum": ad.minimum,
    "multiply": ad.multiply,
    "nextafter": ad.nextafter,
    "not_equal": ad.ne,
    "pow": _pow,
    "remainder": _remainder,
    "subtract": ad.subtract,
}
FUNCTIONS: dict[str, Maker] = {
    **{name: unary(name, compute) for name, compute in _UNARY.items()},
    **{name: binary(name, compute) for name, compute in _BINARY.items()},
}


@anything
def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """Elements between two bounds, each a number, an array that broadcasts, or absent.

    >>> from adjoint import array_api as xp
    >>> xp.clip(xp.asarray([1, 5, 9]), 2, 6).tolist()
    [2, 5, 6]
    """
    dtype = x.dtype
    for bound, pick in ((min, "maximum"), (max, "minimum")):
        if bound is None:
            continue
        if isinstance(bound, Tensor) and bound.dtype is not dtype:
            bound = bound.to(dtype)
        elif isinstance(bound, int) and dtype in KINDS["integral"]:
            limits = iinfo(dtype)
            bound = builtins.min(builtins.max(bound, limits.min), limits.max)
        x = FUNCTIONS[pick](x, bound)
    return x.clone() if min is None and max is None else x


@standard
def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Any:
    """Whether each element of one array is in another."""
    one, two = operands("isin", x1, x2)
    inside = ad.isin(one, two)
    return ~inside if invert else inside
