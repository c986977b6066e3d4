"""Masks of attention to earlier places, by their shape: PyTorch's `torch.nn.attention.bias`."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from adjoint.engine.core.dtype import bool_
from adjoint.engine.core.operations.overrides import disabled_torch_function
from adjoint.engine.ops.create.creation import ones
from adjoint.engine.tensor.tensor import Tensor

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(IntEnum):
    """Which corner the triangle of allowed places lies in."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """Where queries may look: true on and below a diagonal."""

    __slots__ = ()
    __torch_function__ = staticmethod(disabled_torch_function)

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> Any:
        shift = seq_len_kv - seq_len_q if variant == CausalVariant.LOWER_RIGHT else 0
        mask = ones(seq_len_q, seq_len_kv, dtype=bool_).tril(shift)
        bias = mask.as_subclass(cls)
        bias.__dict__.update(variant=variant, seq_len_q=seq_len_q, seq_len_kv=seq_len_kv)
        return bias


def causal_upper_left(*size: int) -> CausalBias:
    """Query i looks at keys up to i.

    Example:
        >>> causal_upper_left(2, 3).tolist()
        [[True, False, False], [True, True, False]]
    """
    return CausalBias(CausalVariant.UPPER_LEFT, *_two("causal_upper_left", size))


def causal_lower_right(*size: int) -> CausalBias:
    """The last query looks at all keys.

    Example:
        >>> causal_lower_right(2, 3).tolist()
        [[True, True, False], [True, True, True]]
    """
    return CausalBias(CausalVariant.LOWER_RIGHT, *_two("causal_lower_right", size))


def _two(name: str, size: tuple[int, ...]) -> tuple[int, int]:
    if len(size) != 2:
        raise AssertionError(f"{name}: expected two sizes, received {len(size)}")
    return size[0], size[1]
