"""Boxes, at torchvision's path."""

from adjoint.vision.ops import box_area as box_area
from adjoint.vision.ops import box_convert as box_convert
from adjoint.vision.ops import box_iou as box_iou
from adjoint.vision.ops import nms as nms
