"""Convolutions with a bias as one node of the tape, in eager mode on a GPU.

A library convolves and one launch adds the bias to what it has made; as two operations, the host
would take as long for the second and its place on the tape as for the convolution. Elsewhere, and
wherever somebody looks on, the two are what they are made of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.record import Record, Rule
from adjoint.engine.ops.image.convolution import CONVOLUTION, CONVOLUTION_TRANSPOSE

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def with_bias(x: Tensor, bias: Tensor) -> Tensor:
    """A number for each channel added to it."""
    return x + bias.reshape((-1, *(1,) * (x.ndim - 2)))


def of_channels(g: Tensor) -> Tensor:
    """The gradient by a bias."""
    return g.sum((0, *range(2, g.ndim)))


# One launch, where a view and a sum would be two calls.
ADD_TO_CHANNELS = composite(
    "add_to_channels",
    with_bias,
    lambda g: g,
    of_channels,
    operands=("x", "bias"),
    fragment="device",
    pulls_views=True,
    keeps_layout="first",
)


def biased(record: Record) -> Record:
    """A convolution's record with a bias after it, by the convolution's own rules."""
    rules: list[Any] = [rule.fn for rule in record.vjp if isinstance(rule, Rule)]
    return composite(
        f"biased_{record.name}",
        lambda x, y, bias, **geometry: with_bias(record(x, y, **geometry), bias),
        *rules,
        of_channels,
        operands=("x", "y", "bias"),
        fragment="",
        by_library=True,
    )


BIASED_CONVOLUTION = biased(CONVOLUTION)
BIASED_CONVOLUTION_TRANSPOSE = biased(CONVOLUTION_TRANSPOSE)
# By what they are made of.
BIASED = {
    CONVOLUTION.name: BIASED_CONVOLUTION, CONVOLUTION_TRANSPOSE.name: BIASED_CONVOLUTION_TRANSPOSE,
}  # fmt: skip
