"""What of boxes is one operation in a recording that may hold sizes which values decide.

ONNX has operators for these. Elsewhere `nms` and `roi_align` read their boxes' values, as no
compiled program can.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from adjoint.engine.core.dtype import int64
from adjoint.engine.core.operations.families import depends_on_values, primitive, sized_by_values
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT

_refuse = depends_on_values("nms", "Call it outside.")


def by_records() -> bool:
    """Whether the recording under way may hold them."""
    return CONTEXT.value_sizes is not None


@cache
def nms_record() -> Record:
    """(boxes (N, 4), scores (N,), iou_threshold) -> positions, best first."""

    def infer(size: Any, boxes: Spec, scores: Spec, iou_threshold: float) -> Spec:
        return Spec((size(),), int64, boxes.device)

    return primitive("torchvision::nms", sized_by_values(_refuse, infer), None, None, batch=_refuse)


@cache
def roi_align_record() -> Record:
    """(images (N, C, H, W), rois (K, 5)) -> (K, C, *size)."""

    def infer(x: Spec, rois: Spec, size: tuple[int, int], **_: Any) -> Spec:
        return Spec((rois.shape[0], x.shape[1], *size), x.dtype, x.device)

    return primitive("torchvision::roi_align", infer, None, None)
