"""Logical operations on truth values, and bitwise ones on integers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.operations.families import elementwise
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import is_tensor

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

LOGICAL_AND = elementwise("logical_and", None, None, promotion="logical", tensors=2)
LOGICAL_OR = elementwise("logical_or", None, None, promotion="logical", tensors=2)
LOGICAL_XOR = elementwise("logical_xor", None, None, promotion="logical", tensors=2)
LOGICAL_NOT = elementwise("logical_not", None, promotion="logical", cost="free")
_bits = partial(elementwise, fragment="plain")  # NumPy has the same
BITWISE_AND = _bits("bitwise_and", None, None, accepts="bi", takes_kept="unsigned")
BITWISE_OR = _bits("bitwise_or", None, None, accepts="bi", takes_kept="unsigned")
BITWISE_XOR = _bits("bitwise_xor", None, None, accepts="bi", takes_kept="unsigned")
BITWISE_NOT = _bits("bitwise_not", None, accepts="bi")
# Shifts by a negative amount or past the width give 0, or -1 for a negative x shifted right.
LEFT_SHIFT = _bits("bitwise_left_shift", None, None, accepts="i")
RIGHT_SHIFT = _bits("bitwise_right_shift", None, None, accepts="i")


def _real(x: Any) -> Any:
    """Whether complex elements are nonzero, as no GPU's library asks; others as given."""
    return x != 0 if is_tensor(x) and x.dtype.is_complex else x


@public(method=True, inplace=True, out=True)
def logical_and(input: Tensor, other: Tensor) -> Tensor:
    """True where both elements are nonzero.

    Example:
        >>> import adjoint as ad
        >>> ad.logical_and(ad.tensor([True, True]), ad.tensor([True, False]))
        tensor([ True, False])
    """
    return LOGICAL_AND(_real(input), _real(other))


@public(method=True, inplace=True, out=True)
def logical_or(input: Tensor, other: Tensor) -> Tensor:
    """True where either element is nonzero.

    Example:
        >>> import adjoint as ad
        >>> ad.logical_or(ad.tensor([True, False]), ad.tensor([False, False]))
        tensor([ True, False])
    """
    return LOGICAL_OR(_real(input), _real(other))


@public(method=True, inplace=True, out=True)
def logical_xor(input: Tensor, other: Tensor) -> Tensor:
    """True where exactly one element is nonzero."""
    return LOGICAL_XOR(_real(input), _real(other))


@public(method=True, inplace=True, out=True)
def logical_not(input: Tensor) -> Tensor:
    """True where the element is zero.

    Example:
        >>> import adjoint as ad
        >>> ad.logical_not(ad.tensor([True, False]))
        tensor([False,  True])
    """
    return LOGICAL_NOT(_real(input))


@public(method=True, inplace=True, out=True)
def bitwise_and(input: Any, other: Any) -> Tensor:
    """Bitwise and of integers; logical and of booleans."""
    return BITWISE_AND(input, other)


@public(method=True, inplace=True, out=True)
def bitwise_or(input: Any, other: Any) -> Tensor:
    """Bitwise or of integers; logical or of booleans."""
    return BITWISE_OR(input, other)


@public(method=True, inplace=True, out=True)
def bitwise_xor(input: Any, other: Any) -> Tensor:
    """Bitwise exclusive or of integers; logical of booleans."""
    return BITWISE_XOR(input, other)


@public(method=True, inplace=True, out=True)
def bitwise_not(input: Tensor) -> Tensor:
    """Bitwise complement of integers; logical not of booleans."""
    return BITWISE_NOT(input)


@public(method=True, inplace=True, out=True)
def bitwise_left_shift(input: Any, other: Any) -> Tensor:
    """Shift the bits of `input` left by `other` places.

    >>> import adjoint as ad
    >>> ad.bitwise_left_shift(ad.tensor([1, 2]), 3)
    tensor([ 8, 16])
    """
    return LEFT_SHIFT(input, other)


@public(method=True, inplace=True, out=True)
def bitwise_right_shift(input: Any, other: Any) -> Tensor:
    """Shift the bits of `input` right by `other` places, keeping the sign."""
    return RIGHT_SHIFT(input, other)
