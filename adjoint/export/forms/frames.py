"""Frames of a signal, and frames added up again: what short transforms are taken of."""

from __future__ import annotations

import adjoint as ad
from adjoint.engine.graph.forms.table import form_of
from adjoint.engine.tensor.tensor import Tensor


@form_of("frame")
def frame(x: Tensor, size: int, hop: int) -> Tensor:
    """Pieces, side by side or over one another."""
    count = 1 + (int(x.shape[-1]) - size) // hop
    places = (ad.arange(count).unsqueeze(1) * hop + ad.arange(size)).reshape(-1)
    return x.index_select(-1, places).reshape(*x.shape[:-1], count, size)


@form_of("overlap_add")
def overlap_add(x: Tensor, hop: int, length: int) -> Tensor:
    """Every so many frames do not overlap: these are one row, and the rows are added."""
    count, size = int(x.shape[-2]), int(x.shape[-1])
    apart = -(-size // hop)
    total = x.new_zeros((*x.shape[:-2], length))
    for first in range(min(apart, count)):
        rows = x[..., first::apart, :]
        gap = apart * hop - size
        spaced = ad.cat([rows, rows.new_zeros((*rows.shape[:-1], gap))], -1) if gap else rows
        line = spaced.reshape(*x.shape[:-2], spaced.shape[-2] * apart * hop)
        line = line[..., : length - first * hop]
        after = length - first * hop - int(line.shape[-1])
        around = [
            line.new_zeros((*line.shape[:-1], n)) if n else None for n in (first * hop, after)
        ]
        parts = [part for part in (around[0], line, around[1]) if part is not None]
        total = total + (ad.cat(parts, -1) if len(parts) > 1 else line)
    return total
