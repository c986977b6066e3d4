"""A tensor as another one is kept: on the same mesh, in the same parts."""

from __future__ import annotations

from typing import Any

from adjoint.distributed.tensor.dtensor import DTensor, as_dtensor, part_of
from adjoint.distributed.tensor.layout import move
from adjoint.engine.core.errors import ShapeError


def as_kept(name: str, own: Any, value: Any) -> Any:
    """A value as its owner keeps it: of a DTensor, the same kind of part, on the same device."""
    if tuple(own.shape) != tuple(value.shape):
        raise ShapeError(
            f"size mismatch for {name}: {tuple(value.shape)} in the state, {tuple(own.shape)} in "
            "the current model"
        )
    if isinstance(value, DTensor) and isinstance(own, DTensor) and value._layout == own._layout:
        return value
    if isinstance(value, DTensor):
        value = value.full_tensor()
    if not isinstance(own, DTensor):
        return value.detach().to(own.device)
    layout = own._layout
    whole = value.detach().to(part_of(own).device)
    return as_dtensor(move(whole, layout.replicated(), layout), layout)
