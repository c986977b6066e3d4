"""From the range of real numbers to a scale and a zero point.

    affine       scale = (high - low) / (qmax - qmin),         zero = qmin - round(low / scale)
    symmetric    scale = max(-low, high) / ((qmax - qmin) / 2), zero = the middle

Ranges always hold zero, which is then represented exactly, and scales are at least EPSILON.
"""

from __future__ import annotations

from dataclasses import dataclass

import adjoint as ad
from adjoint.engine.core.dtype import DType, int8, int32, uint8
from adjoint.engine.tensor.tensor import Tensor

EPSILON = 2.0**-23  # of float32


@dataclass(frozen=True, slots=True)
class IntegerRange:
    """The whole numbers that real ones become: a range, and the dtype that holds them."""

    low: int
    high: int
    dtype: DType

    @property
    def middle(self) -> int:
        """What stands for zero in a symmetric range."""
        return (self.low + self.high + 1) // 2


INT8 = IntegerRange(-128, 127, int8)
UINT8 = IntegerRange(0, 255, uint8)
INT4 = IntegerRange(0, 15, uint8)


def choose_scale(
    low: Tensor,
    high: Tensor,
    steps: IntegerRange,
    symmetric: bool,
    epsilon: float | Tensor = EPSILON,
) -> tuple[Tensor, Tensor]:
    """The scale and the zero point (int32) of ranges.

    >>> choose_scale(ad.tensor(-1.0), ad.tensor(1.55), INT8, symmetric=False)
    (tensor(0.0100), tensor(-28, dtype=adjoint.int32))
    """
    low, high = low.clamp(max=0), high.clamp(min=0)
    if symmetric:
        largest = ad.maximum(-low, high)
        scale = (largest / ((steps.high - steps.low) / 2)).clamp(min=epsilon)
        return scale, ad.full_like(scale, steps.middle, dtype=int32)
    scale = ((high - low) / (steps.high - steps.low)).clamp(min=epsilon)
    zero = (steps.low - (low / scale).round()).clamp(steps.low, steps.high)
    return scale, zero.to(int32)
