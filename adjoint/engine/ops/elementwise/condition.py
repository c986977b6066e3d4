"""Choosing elements by a condition, and replacing those that are not numbers."""

from __future__ import annotations

from math import copysign, inf
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from adjoint.engine.core import dtype as dt
from adjoint.engine.core.errors import DTypeError, ShapeError
from adjoint.engine.core.numeric_limits import iinfo
from adjoint.engine.core.operations.families import composite, elementwise
from adjoint.engine.core.operations.public import method, public
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.promotion import common_dtype
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.common.arguments import checked_scalar
from adjoint.engine.ops.common.checks import require
from adjoint.engine.ops.common.scalars import is_large, require_fit, require_tensors
from adjoint.engine.ops.elementwise.comparison import EQ, ISNAN
from adjoint.engine.ops.shape.reinterpret import view_as_complex, view_as_real

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _require_mask(condition: Any, *_: Any) -> None:
    if isinstance(condition, Spec) and condition.dtype not in (dt.bool_, dt.uint8):
        raise DTypeError(
            "where: expected condition to be a boolean tensor, but got a tensor with dtype "
            f"{condition.dtype.name}. Compare first: where(x != 0, ...)."
        )


WHERE = elementwise(
    "where",
    None,
    lambda x: x,
    lambda x: x.logical_not(),
    promotion="exact",
    promotes_from=1,
    check=_require_mask,
    tensors=1,
    rounding="exact",
    takes_kept="unsigned",
)


@public(out=True)
def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """Elements of `input` where `condition` holds, of `other` elsewhere.

    With the condition alone: the indices at which it holds, one tensor per dimension.

    >>> import adjoint as ad
    >>> ad.where(ad.tensor([True, False]), ad.tensor([1.0, 2.0]), 0.0)
    tensor([1., 0.])
    """
    require_tensors("where", condition)
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    for number, tensor in ((input, other), (other, input)):
        if is_tensor(tensor) and (isinstance(number, int) or is_large(number)):
            whole = tensor.dtype.category == dt.INT and isinstance(number, int)
            kind = tensor.dtype if whole else common_dtype((tensor, number))
            if kind not in (dt.float16, dt.bfloat16):  # whose infinity a large number becomes
                require_fit("where", number, kind)
    return WHERE(condition, input, other)


@method(name="where")
def where_method(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """Elements of `self` where `condition` holds, of `other` elsewhere."""
    return where(condition, self, other)


@public(method=True, inplace=True, numbers="values")
def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`input` with `value` where `mask` holds."""
    require_tensors("masked_fill", input, mask)
    if mask.dtype is not dt.bool_:
        raise DTypeError(
            f"masked_fill: only supports boolean masks, but got mask with dtype {mask.dtype.name}. "
            "Compare first: x.masked_fill(y != 0, value)."
        )
    out = filled(input, mask, value)
    return out if out.is_contiguous() else out.contiguous()  # whatever the input's layout


def filled(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`masked_fill` in the input's own memory layout."""
    return WHERE(mask, fill_value("masked_fill", value, input), input)


def fill_value(name: str, value: Any, target: Tensor) -> Any:
    """A number or 0-d tensor as an element of `target`, refused where it does not fit."""
    d = target.dtype
    if is_tensor(value):
        if value.ndim:
            raise ShapeError(
                f"{name}: only supports a 0-dimensional value tensor, but got tensor with "
                f"{value.ndim} dimension(s)."
            )
        if value.dtype.is_complex and not d.is_complex and d is not dt.bool_:
            raise DTypeError(
                f"{name}: value cannot be converted to type {d.name} without overflow: it is "
                "complex. Take its real part first."
            )
        return value if value.dtype is d else fitting(name, value, d)
    return checked_scalar(name, value, d)


def fitting(name: str, value: Tensor, d: dt.DType) -> Tensor:
    """A 0-d tensor converted to the dtype it fills, refused where that has no room for it."""
    have = value.dtype
    if have is d or d is dt.bool_ or d.is_complex or have is dt.bool_:
        return value.to(d)
    if CONTEXT.plain and value._array.__class__ is ndarray:
        checked_scalar(name, value.detach().item(), d)
        return (value.real if have.is_complex else value).to(d)
    message = f"{name}: value cannot be converted to type {d.name} without overflow"
    if have.is_complex:
        value = require(value.real, value.imag == 0, message)
    whole = value.detach().to(dt.float64)
    if d in _LARGEST:
        room = (whole.abs() <= _LARGEST[d]) | whole.isfinite().logical_not()
    else:  # unsigned numbers take negative ones as their complement
        limits = iinfo(d)
        room = (whole <= limits.max) & (whole >= (limits.min or -limits.max))
    return require(value, room, message).to(d)


_LARGEST = {
    dt.float16: 65504.0,
    dt.bfloat16: float.fromhex("0x1.fep127"),
    dt.float32: float.fromhex("0x1.fffffep127"),
    dt.float64: float.fromhex("0x1.fffffffffffffp1023"),
}


def _rounded(x: Any, largest: float) -> Any:
    """A number as a dtype has it, whose largest is given: what is larger is infinite there."""
    if type(x) is not int and type(x) is not float:
        return x
    return copysign(inf, x) if abs(x) > largest else float(x)


def _replace(x: Tensor, nan: Any, posinf: Any, neginf: Any) -> Tensor:
    out = filled(x, ISNAN(x), nan)
    out = filled(out, EQ(x, inf), posinf)
    return filled(out, EQ(x, -inf), neginf)


NAN_TO_NUM = composite(
    "nan_to_num",
    _replace,
    lambda g, x: WHERE(x.isfinite(), g, 0),
    keeps_layout=True,
    fragment="computed",
)


@public(method=True, inplace=True, out=True)
def nan_to_num(
    input: Tensor,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Tensor:
    """NaN replaced by `nan` (0), infinities by `posinf` and `neginf` (the largest numbers)."""
    require_tensors("nan_to_num", input)
    if not input.dtype.is_inexact:
        return input.clone()
    if input.dtype.is_complex:
        return view_as_complex(nan_to_num(view_as_real(input), nan, posinf, neginf))
    largest = _LARGEST[input.dtype]
    return NAN_TO_NUM(
        input,
        nan=0.0 if nan is None else _rounded(nan, largest),
        posinf=largest if posinf is None else _rounded(posinf, largest),
        neginf=-largest if neginf is None else _rounded(neginf, largest),
    )
