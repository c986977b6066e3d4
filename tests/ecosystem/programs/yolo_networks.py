"""Networks of ultralytics: forward, losses, classification, suppression."""

import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from common import fill, flat, picture, say, train
from torch import nn


def data(n=16, d=4):
    """Points and their classes."""
    x = picture(n, d)
    return x, (x.sum(1) > 0).long()


def yolo_forward():
    """Yolo forward."""
    from ultralytics.nn.tasks import DetectionModel

    m = fill(DetectionModel("yolov8n.yaml", ch=3, nc=3, verbose=False)).eval()
    with torch.no_grad():
        o = m(picture(1, 3, 64, 64))
    return [o[0].sum()]


def yolo_loss():
    """Yolo loss."""
    from ultralytics.nn.tasks import DetectionModel
    from ultralytics.cfg import get_cfg

    m = fill(DetectionModel("yolov8n.yaml", ch=3, nc=3, verbose=False)).train()
    m.args = get_cfg()
    batch = dict(
        img=picture(2, 3, 64, 64),
        batch_idx=torch.tensor([0.0, 1.0]),
        cls=torch.tensor([[1.0], [2.0]]),
        bboxes=torch.tensor([[0.5, 0.5, 0.4, 0.4], [0.4, 0.4, 0.5, 0.3]]),
    )
    return train(m, lambda: m(batch)[0].sum(), steps=2, lr=0.0001)


def yolo11_seg():
    """Yolo11 seg."""
    from ultralytics.nn.tasks import SegmentationModel

    m = fill(SegmentationModel("yolo11n-seg.yaml", ch=3, nc=3, verbose=False)).eval()
    with torch.no_grad():
        o = m(picture(1, 3, 64, 64))
    return [o[0][0].sum() if isinstance(o[0], tuple) else o[0].sum()]


def yolo_cls():
    """Yolo cls."""
    from ultralytics.nn.tasks import ClassificationModel

    m = fill(ClassificationModel("yolov8n-cls.yaml", ch=3, nc=3, verbose=False)).train()
    return train(
        m,
        lambda: F.cross_entropy(m(picture(2, 3, 64, 64)), torch.tensor([0, 1])),
        steps=2,
        lr=0.001,
    )


def yolo_nms():
    """Yolo nms."""
    from ultralytics.utils.nms import non_max_suppression

    p = picture(1, 7, 50).abs() * 20
    return non_max_suppression(p, 0.5, 0.5)


found = []
for part in (yolo_forward, yolo_loss, yolo11_seg, yolo_cls, yolo_nms):
    torch.manual_seed(0)
    found += flat(part())
say(*found)
