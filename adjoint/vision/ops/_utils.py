"""Parts of operations on boxes, at torchvision's path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.ops.create.creation import full
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import GroupNorm, LayerNorm
from adjoint.nn.modules.batchnorm import _BatchNorm
from adjoint.nn.modules.instancenorm import _InstanceNorm
from adjoint.nn.modules.module import Module
from adjoint.vision.ops.boxes import _upcast as _upcast


def _cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """`cat`, of one tensor that itself."""
    return tensors[0] if len(tensors) == 1 else cat(tensors, dim)


def convert_boxes_to_roi_format(boxes: Sequence[Tensor]) -> Tensor:
    """Boxes (L, 4) of each image as (K, 5), the image's number first."""
    parts = []
    for number, part in enumerate(boxes):
        index = full((part.shape[0], 1), number, dtype=part.dtype, device=part.device)
        parts.append(cat([index, part], 1))
    return _cat(parts)


def check_roi_boxes_shape(boxes: Any) -> None:
    """Refuse what is neither boxes (K, 5) nor a list of boxes (L, 4)."""
    if isinstance(boxes, Tensor):
        if boxes.ndim != 2 or boxes.shape[1] != 5:
            raise ShapeValueError(f"expected boxes (K, 5), received shape {tuple(boxes.shape)}")
        return
    for part in boxes:
        if part.ndim != 2 or part.shape[1] != 4:
            raise ShapeValueError(f"expected boxes (L, 4), received shape {tuple(part.shape)}")


def split_normalization_params(
    model: Module, norm_classes: Sequence[type] | None = None
) -> tuple[list[Tensor], list[Tensor]]:
    """The parameters of layers that normalise, and all others: weight decay is for these."""
    classes = tuple(norm_classes or (_BatchNorm, LayerNorm, GroupNorm, _InstanceNorm))
    for kind in classes:
        if not issubclass(kind, Module):
            raise ValueError(f"Class {kind} is not a subclass of nn.Module.")
    norms: list[Tensor] = []
    others: list[Tensor] = []
    for module in model.modules():
        own = norms if isinstance(module, classes) else others
        own += [p for p in module.parameters(recurse=False) if p.requires_grad]
    return norms, others
