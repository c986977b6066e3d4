"""Weights in few bits: how they are rounded, packed and unpacked."""

from __future__ import annotations

from dataclasses import dataclass

import adjoint as ad
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.tensor.tensor import Tensor
from adjoint.quantization.functional import dequantize_groups
from adjoint.quantization.ranges import INT4, INT8, IntegerRange, choose_scale

SHRUNK = 20  # ranges that are tried for a group: whole, then each a little smaller


@dataclass(frozen=True, slots=True)
class GroupedWeight:
    """A matrix in 4 or 8 bits, each group of a row with a scale and perhaps a zero point."""

    weight: Tensor  # (..., in) of int8, or (..., in / 2) bytes of two numbers
    scale: Tensor  # (..., in / group)
    zero: Tensor | None  # the same; None: zero is zero
    bits: int
    group: int

    def real(self) -> Tensor:
        """The matrix it stands for."""
        return dequantize_groups(self.weight, self.scale, self.zero, self.bits, self.group)


@no_grad()
def group_weight(
    weight: Tensor,
    bits: int,
    group: int | None = None,
    symmetric: bool = True,
    search: bool = False,
) -> GroupedWeight:
    """A matrix (out, in) rounded to 8 bits (int8), or to 4 (packed).

    `search` tries smaller ranges than the whole one, and keeps for each group the one with the
    least square error: a few large weights are cut off for the sake of all others.

    >>> kept = group_weight(ad.tensor([[0.5, -1.0, 2.0, 0.25]]), 8, 2)
    >>> kept.weight
    tensor([[  64, -127,  127,   16]], dtype=adjoint.int8)
    """
    features = weight.shape[-1]
    group = features if group is None else group
    if features % group or (bits == 4 and features % 2):
        raise ValueError(
            f"quantize: a weight of {tuple(weight.shape)} has {features} features to a row, which "
            f"are no whole number of groups of {group}"
            + (" (and of bytes of two)" if bits == 4 else "")
        )
    steps = INT8 if bits == 8 else INT4
    parts = weight.detach().to(ad.float32).reshape((*weight.shape[:-1], features // group, group))
    low, high = parts.amin(-1), parts.amax(-1)
    scale, zero = choose_scale(low, high, steps, symmetric)
    if search:
        scale, zero = _searched(parts, low, high, steps, symmetric)
    rounded = _rounded(parts, scale, zero, steps).reshape(weight.shape).to(steps.dtype)
    packed = pack(rounded) if bits == 4 else rounded
    needs_zero = bits == 4 or not symmetric
    return GroupedWeight(packed, scale, zero.to(steps.dtype) if needs_zero else None, bits, group)


def _rounded(parts: Tensor, scale: Tensor, zero: Tensor, steps: IntegerRange) -> Tensor:
    inverse = 1 / scale
    moved = (parts * inverse.unsqueeze(-1)).round() + zero.unsqueeze(-1)
    return moved.clamp(steps.low, steps.high)


def _searched(
    parts: Tensor, low: Tensor, high: Tensor, steps: IntegerRange, symmetric: bool
) -> tuple[Tensor, Tensor]:
    best = None
    for tried in range(SHRUNK):
        part = 1 - 0.02 * tried
        scale, zero = choose_scale(low * part, high * part, steps, symmetric)
        real = (_rounded(parts, scale, zero, steps) - zero.unsqueeze(-1)) * scale.unsqueeze(-1)
        error = (real - parts).square().sum(-1)
        if best is None:
            best = (error, scale, zero)
        else:
            less = error < best[0]
            best = (
                ad.where(less, error, best[0]),
                ad.where(less, scale, best[1]),
                ad.where(less, zero, best[2]),
            )
    assert best is not None
    return best[1], best[2]


def pack(numbers: Tensor) -> Tensor:
    """Numbers below 16 as half as many bytes, the first in the lower half.

    >>> pack(ad.tensor([1, 2, 15, 0], dtype=ad.uint8))
    tensor([33, 15], dtype=adjoint.uint8)
    """
    pairs = numbers.to(ad.uint8).reshape((*numbers.shape[:-1], numbers.shape[-1] // 2, 2))
    return pairs[..., 0] | (pairs[..., 1] << 4)
