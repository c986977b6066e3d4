"""Forms of what puts elements in order. Each finds positions, by TopK: of equal elements the first.

NaN, which is larger than every number here, has no place in ONNX.
"""

from __future__ import annotations

import adjoint as ad
from adjoint.engine.core.dtype import DType
from adjoint.engine.graph.ir import Node, Value
from adjoint.onnx.exporting.writer import NodeWriter, NoForm, emits

# What onnxruntime puts in order; other dtypes are widened.
_ORDERED = (ad.float32, ad.float64, ad.int64, ad.int32)


def wide(dtype: DType) -> DType:
    """A dtype that TopK takes, with all the numbers of this one."""
    if dtype in _ORDERED:
        return dtype
    if dtype.is_floating_point:
        return ad.float32
    if dtype.is_complex:
        raise NoForm(f"no order of {dtype.name}")
    return ad.int32 if dtype.itemsize < 4 else ad.int64


def positions(w: NodeWriter, x: Value, dim: int, count: int | None, largest: bool) -> str:
    """Where the first so many elements along a dimension are, all if None."""
    name = w.operand(x, wide(x.spec.dtype))
    if not x.spec.shape:  # a number is in order
        return w.constant(0, "int64")
    size = w.size(x.spec.shape[dim] if count is None else count)
    _, at = w.emit("TopK", name, size, outputs=2, axis=int(dim), largest=int(largest), sorted=1)
    positions: str = at
    return positions


@emits("topk")
def topk(w: NodeWriter, node: Node) -> str:
    p = node.params
    return positions(w, node.inputs[0], p["dim"], p["k"], p["largest"])


@emits("argsort")
def argsort(w: NodeWriter, node: Node) -> str:
    p = node.params
    return positions(w, node.inputs[0], p["dim"], None, p["descending"])


def _one(w: NodeWriter, node: Node, rank: int) -> str:
    """Where the element of a rank, counted from the smallest, is; the dimension stays, as one."""
    x, dim = node.inputs[0], node.params["dim"]
    if not x.spec.shape:
        return w.constant(0, "int64")
    at = positions(w, x, dim, rank + 1, largest=False)
    return w.emit("Slice", at, w.size(rank), w.size(rank + 1), w.ints([dim]))


@emits("kthvalue")
def kthvalue(w: NodeWriter, node: Node) -> str:
    return _one(w, node, node.params["k"] - 1)


@emits("argmedian")
def argmedian(w: NodeWriter, node: Node) -> str:
    shape = node.inputs[0].spec.shape
    if node.params["omit"]:
        raise NoForm("a median without what is no number")  # rewritten
    return _one(w, node, (shape[node.params["dim"]] - 1) // 2 if shape else 0)


# -- how many there are depends on values ---------------------------------------------------------


@emits("nonzero")
def nonzero(w: NodeWriter, node: Node) -> str:
    x = node.inputs[0]
    if not x.spec.shape:
        raise NoForm("the coordinates of a number, which has none")
    plain = x.spec.dtype in (ad.float32, ad.int64, ad.int32, ad.bool, ad.uint8)
    name = w.operand(x, None if plain else ad.bool)
    return w.emit("Transpose", w.emit("NonZero", name), perm=[1, 0])


@emits("unique")
def unique(w: NodeWriter, node: Node) -> list[str]:
    x, dim = node.inputs[0], node.params["dim"]
    own_kind = x.spec.dtype if x.spec.dtype in (ad.float32, ad.float64, ad.int64) else None
    kind = own_kind or (ad.float32 if x.spec.dtype.is_floating_point else ad.int64)
    name = w.operand(x, kind)
    if not x.spec.shape:
        name = w.emit("Reshape", name, w.ints([1]))
    values, _, inverse, counts = w.emit("Unique", name, outputs=4, axis=dim, sorted=1)
    if dim is None:
        inverse = w.emit("Reshape", inverse, w.shape(x.spec.shape), allowzero=1)
    return [w.cast_name(values, x.spec.dtype) if own_kind is None else values, inverse, counts]


@emits("torchvision::nms")
def nms(w: NodeWriter, node: Node) -> str:
    boxes, scores = node.inputs
    rows = w.emit("Unsqueeze", w.operand(boxes, ad.float32), w.ints([0]))
    ranked = w.emit("Unsqueeze", w.operand(scores, ad.float32), w.ints([0, 1]))
    threshold = w.constant([node.params["iou_threshold"]], "float32")
    most = w.size(boxes.spec.shape[0])
    picked = w.emit("NonMaxSuppression", rows, ranked, most, threshold)
    return w.emit("Gather", picked, w.constant(2, "int64"), axis=1)


@emits("torchvision::roi_align")
def roi_align(w: NodeWriter, node: Node) -> str:
    x, rois = node.inputs
    p = node.params
    boxes = w.emit("Slice", w.operand(rois, x.spec.dtype), w.ints([1]), w.ints([5]), w.ints([1]))
    images = w.cast_name(
        w.emit("Gather", w.operand(rois), w.constant(0, "int64"), axis=1), ad.int64
    )
    return w.emit(
        "RoiAlign",
        w.operand(x),
        boxes,
        images,
        output_height=int(p["size"][0]),
        output_width=int(p["size"][1]),
        sampling_ratio=max(int(p["ratio"]), 0),
        spatial_scale=p["scale"],
        coordinate_transformation_mode="half_pixel" if p["aligned"] else "output_half_pixel",
    )
