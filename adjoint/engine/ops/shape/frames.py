"""Frames of a signal, and frames added up where they were."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.operations.families import linear
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.spec import Spec


def _same(params: dict[str, Any], size: int) -> dict[str, Any]:
    return params


# FRAME(x, size, hop): (..., L) -> (..., T, size), frames `hop` apart; T = 1 + (L - size) // hop.
FRAME: Record = linear(
    "frame",
    lambda x, size, hop: Spec(
        (*x.shape[:-1], 1 + (x.shape[-1] - size) // hop, size), x.dtype, x.device
    ),
    lambda g, x_spec, hop: OVERLAP_ADD(g, hop=hop, length=x_spec.shape[-1]),
    batched_params=_same,
    fragment="device",
)
# OVERLAP_ADD(x, hop, length): (..., T, size) -> (..., length), frames added where they were.
OVERLAP_ADD: Record = linear(
    "overlap_add",
    lambda x, hop, length: Spec((*x.shape[:-2], length), x.dtype, x.device),
    lambda g, x_spec, hop, length: FRAME(
        g[..., : (x_spec.shape[-2] - 1) * hop + x_spec.shape[-1]], size=x_spec.shape[-1], hop=hop
    ),
    batched_params=_same,
    fragment="device",
)
