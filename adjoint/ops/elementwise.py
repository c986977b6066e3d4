"""Arithmetic on corresponding elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.core.families import elementwise, linear
from adjoint.core.public import method, public
from adjoint.core.record import is_tensor
from adjoint.core.spec import Spec

if TYPE_CHECKING:
    from adjoint.tensor.tensor import Tensor

ADD = elementwise("add", 1, 1, policy="promote")
SUB = elementwise("sub", 1, -1, policy="promote")
MUL = elementwise("mul", lambda y: y, lambda x: x, policy="promote")
DIV = elementwise("div", lambda y: 1 / y, lambda y, out: -out / y, promotion="float")
NEG = elementwise("neg", -1)
EXP = elementwise("exp", lambda out: out, promotion="float", policy="fp32")
LOG = elementwise("log", lambda x: 1 / x, promotion="float", policy="fp32")
SIN = elementwise("sin", lambda x: x.cos(), promotion="float")
COS = elementwise("cos", lambda x: -x.sin(), promotion="float")
EQ = elementwise("eq", None, None, promotion="compare")
LT = elementwise("lt", None, None, promotion="compare")
GT = elementwise("gt", None, None, promotion="compare")
LOGICAL_NOT = elementwise("logical_not", None, promotion="logical")
WHERE = elementwise(
    "where", None, lambda x: x, lambda x: x.logical_not(), promotes_from=1, policy="promote"
)


def _same_spec(x: Spec, **_: Any) -> Spec:
    return x


def _same_params(params: dict[str, Any], size: int) -> dict[str, Any]:
    return params


# Linear over the reals, not holomorphic: its transpose is itself.
CONJ = linear("conj", _same_spec, lambda g: g.conj(), shift=_same_params)


@public(method=True, inplace=True, out=True)
def add(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """Add `other`, scaled by `alpha`, to `input`.

    >>> import adjoint as ad
    >>> ad.add(ad.tensor([1.0, 2.0]), 10, alpha=2)
    tensor([21., 22.])
    """
    return ADD(input, other if alpha == 1 else other * alpha)


@public(method=True, inplace=True, out=True, aliases=("multiply",))
def mul(input: Any, other: Any) -> Tensor:
    """Multiply elementwise."""
    return MUL(input, other)


@public(method=True, inplace=True, out=True)
def neg(input: Tensor) -> Tensor:
    """Negative of each element."""
    return NEG(input)


@public(method=True, inplace=True, out=True)
def exp(input: Tensor) -> Tensor:
    """Exponential of each element."""
    return EXP(input)


@public(method=True, inplace=True, out=True)
def sin(input: Tensor) -> Tensor:
    """Sine of each element."""
    return SIN(input)


@public(method=True, inplace=True, out=True)
def cos(input: Tensor) -> Tensor:
    """Cosine of each element."""
    return COS(input)


@public(method=True, inplace=True, out=True)
def logical_not(input: Tensor) -> Tensor:
    """True where the element is zero."""
    return LOGICAL_NOT(input)


@public(method=True)
def conj(input: Tensor) -> Tensor:
    """Complex conjugate; a real tensor is returned as it is."""
    return CONJ(input) if input.dtype.is_complex else input


@public(out=True)
def where(condition: Tensor, input: Any, other: Any) -> Tensor:
    """Elements of `input` where `condition` holds, of `other` elsewhere."""
    return WHERE(condition, input, other)


@method(name="where")
def where_method(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """Elements of `self` where `condition` holds, of `other` elsewhere."""
    return WHERE(condition, self, other)


@public(method=True, inplace=True)
def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`input` with `value` where `mask` holds."""
    if is_tensor(value) and value.ndim:
        raise RuntimeError(
            f"masked_fill: only supports a 0-dimensional value tensor, received {value.ndim} dims"
        )
    filled = WHERE(mask, value, input)
    return filled.to(input.dtype) if filled.dtype is not input.dtype else filled
