"""Signs and magnitudes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.errors import DTypeError
from adjoint.engine.core.operations.families import elementwise
from adjoint.engine.core.operations.public import public
from adjoint.engine.ops.common.scalars import require_tensors

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

# |x| of complex x: d|x| is the real part of conj(sgn x) dx.
ABS = elementwise(
    "abs",
    lambda x: x.sgn().conj(),
    promotion="real",
    accepts="ifc",
    rounding="exact",
    never_negative_zero=True,
)
SIGN = elementwise("sign", 0, accepts="bif", rounding="exact")
COPYSIGN = elementwise(
    "copysign",
    lambda x, out: x.sign() * out.sign(),
    0,
    promotion="float",
    accepts="f",
    tensors=1,
    rounding="exact",
)
HEAVISIDE = elementwise(
    "heaviside", 0, lambda x: x.eq(0), accepts="bif", tensors=2, rounding="exact"
)


@public(inplace=True, function=False, name="abs", aliases=("absolute",))
def abs_inplace(input: Tensor) -> Tensor:
    """The magnitude of each element, where it has the dtype of the element."""
    if input.dtype.is_complex:
        raise DTypeError(
            "abs_: in-place abs is not supported for complex tensors: magnitudes are real. "
            "Use the form without '_'."
        )
    return ABS(input)


@public(method=True, out=True, aliases=("absolute",))
def abs(input: Tensor) -> Tensor:
    """The magnitude of each element.

    >>> import adjoint as ad
    >>> ad.abs(ad.tensor([-1, 2, -3]))
    tensor([1, 2, 3])
    """
    return ABS(input)


@public(method=True, inplace=True, out=True)
def sign(input: Tensor) -> Tensor:
    """-1, 0 or 1 by the sign of each element.

    Example:
        >>> import adjoint as ad
        >>> ad.sign(ad.tensor([-2.0, 0.0, 3.0]))
        tensor([-1.,  0.,  1.])
    """
    return SIGN(input)


@public(method=True, inplace=True, out=True)
def sgn(input: Tensor) -> Tensor:
    """Each element divided by its magnitude; zero at zero."""
    require_tensors("sgn", input)
    if not input.dtype.is_complex:
        return SIGN(input)
    size = ABS(input)
    zero = size == 0
    # Selecting 1/|x| rather than the quotient makes the gradient at zero zero.
    return input * (1 / size.masked_fill(zero, 1)).masked_fill(zero, 0)


@public(method=True, inplace=True, out=True)
def copysign(input: Tensor, other: Any) -> Tensor:
    """The magnitude of `input` with the sign of `other`."""
    return COPYSIGN(input, other)


@public(method=True, inplace=True, out=True)
def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """The step function: 0 below zero, 1 above, `values` at zero."""
    require_tensors("heaviside", input, values)
    if values.dtype is not input.dtype:
        raise DTypeError(
            "heaviside: not implemented for tensors with different dtypes, received "
            f"{input.dtype.name} and {values.dtype.name}. Convert one of them."
        )
    return HEAVISIDE(input, values)
