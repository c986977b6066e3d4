"""Rounding, and the parts of a number that rounding separates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core import dtype as dt
from adjoint.engine.core.errors import DTypeError
from adjoint.engine.core.operations.families import elementwise, primitive
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.return_types import RETURN_TYPES
from adjoint.engine.core.spec import Spec
from adjoint.engine.ops.common.scalars import require_tensors

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

FLOOR = elementwise("floor", 0, accepts="if", rounding="exact")
CEIL = elementwise("ceil", 0, accepts="if", rounding="exact")
TRUNC = elementwise("trunc", 0, accepts="if", rounding="exact")
ROUND = elementwise("round", 0, accepts="if", rounding="exact")  # halves to even
FRAC = elementwise("frac", 1, accepts="f", rounding="arithmetic")
NEXTAFTER = elementwise(
    "nextafter", lambda x, y: x != y, 0, promotion="exact", accepts="f", tensors=2, rounding="exact"
)


def _frexp_infer(x: Spec) -> tuple[Spec, Spec]:
    if not x.dtype.is_floating_point:
        raise DTypeError(
            f"frexp: only supports floating-point dtypes, received {x.dtype.name}. "
            "Convert the input with .to(...)."
        )
    return x, Spec(x.shape, dt.int32, x.device)


def _unscale(g: Tensor, exponent: Tensor) -> Tensor:
    return g / exponent.to(g.dtype).exp2()


FREXP = primitive(
    "frexp",
    _frexp_infer,
    lambda g, outs: None if g is None else _unscale(g, outs[1]),
    jvp=lambda tx, outs: (_unscale(tx, outs[1]), None),
    keeps_layout=True,
    batched_params=lambda params, size: params,
    outputs=2,
)


@public(method=True, inplace=True, out=True)
def floor(input: Tensor) -> Tensor:
    """The largest whole number not above each element.

    Example:
        >>> import adjoint as ad
        >>> ad.floor(ad.tensor([1.5, -1.5]))
        tensor([ 1., -2.])
    """
    return FLOOR(input)


@public(method=True, inplace=True, out=True)
def ceil(input: Tensor) -> Tensor:
    """The smallest whole number not below each element.

    Example:
        >>> import adjoint as ad
        >>> ad.ceil(ad.tensor([1.5, -1.5]))
        tensor([ 2., -1.])
    """
    return CEIL(input)


@public(method=True, inplace=True, out=True, aliases=("fix",))
def trunc(input: Tensor) -> Tensor:
    """Each element rounded towards zero."""
    return TRUNC(input)


@public(method=True, inplace=True, out=True, namespaces=("", "special"))
def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """Each element rounded to a number of decimals, halves to even.

    >>> import adjoint as ad
    >>> ad.round(ad.tensor([0.5, 1.5, -2.5]))
    tensor([ 0.,  2., -2.])
    """
    if decimals == 0:
        return ROUND(input)
    if not input.dtype.is_floating_point:
        raise NotImplementedError(
            f"round: decimals are not implemented for {input.dtype.name}. Convert to a float."
        )
    if input.dtype.is_half:  # x * 10, rounded to a half, may be the half that ends in .5
        return round(input.float(), decimals=decimals).to(input.dtype)
    scale = 10.0 ** abs(decimals)
    return ROUND(input / scale) * scale if decimals < 0 else ROUND(input * scale) / scale


@public(method=True, inplace=True, out=True)
def frac(input: Tensor) -> Tensor:
    """The fractional part of each element, with its sign."""
    return FRAC(input)


@public(method=True, out=True)
def frexp(input: Tensor) -> Any:
    """Mantissa in [0.5, 1) and exponent of each element: input = mantissa * 2**exponent."""
    require_tensors("frexp", input)
    return RETURN_TYPES["frexp"](*FREXP(input))


@public(method=True, inplace=True, out=True)
def nextafter(input: Tensor, other: Tensor) -> Tensor:
    """The next representable number after `input`, towards `other`."""
    return NEXTAFTER(input, other)
