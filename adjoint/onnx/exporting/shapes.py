"""Shapes, movement, indices and creation as ONNX says them."""

from __future__ import annotations

from typing import Any

import numpy as np

import adjoint as ad
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.graph.sizes.extents import Extent
from adjoint.onnx.exporting.writer import NodeWriter, NoForm, emits
from adjoint.onnx.types import ARRAYS, NUMBERS


def reshaped(w: NodeWriter, x: str, shape: Any) -> str:
    """A tensor in another shape."""
    empty = any(isinstance(n, Extent) or n == 0 for n in shape)
    return w.emit("Reshape", x, w.shape(shape), allowzero=1 if empty else None)


@emits("reshape")
def reshape(w: NodeWriter, node: Node) -> str:
    return reshaped(w, w.operand(node.inputs[0]), node.params["shape"])


@emits("expand")
def expand(w: NodeWriter, node: Node) -> str:
    return w.emit("Expand", w.operand(node.inputs[0]), w.shape(node.params["shape"]))


@emits("permute")
def permute(w: NodeWriter, node: Node) -> str:
    return w.emit(
        "Transpose", w.operand(node.inputs[0]), perm=[int(d) for d in node.params["dims"]]
    )


@emits("cat")
def cat(w: NodeWriter, node: Node) -> str:
    dtype = node.outputs[0].spec.dtype
    return w.emit(
        "Concat", *[w.operand(x, dtype) for x in node.inputs], axis=int(node.params["dim"])
    )


@emits("stack")
def stack(w: NodeWriter, node: Node) -> str:
    dim, dtype = int(node.params["dim"]), node.outputs[0].spec.dtype
    rows = [w.emit("Unsqueeze", w.operand(x, dtype), w.ints([dim])) for x in node.inputs]
    return w.emit("Concat", *rows, axis=dim)


def same_size(a: int, b: int) -> bool:
    """Whether two sizes are the same at every size."""
    if isinstance(a, Extent) or isinstance(b, Extent):
        return getattr(a, "poly", None) == getattr(b, "poly", None)
    return a == b


def _from_zero(w: NodeWriter, places: list[int]) -> str:
    """Places of which none lies before the first: Slice counts those from the end."""
    name = w.shape(places)
    dynamic = any(isinstance(n, Extent) for n in places)
    return w.emit("Max", name, w.constant(0, np.int64)) if dynamic else name


@emits("slice")
def slice_(w: NodeWriter, node: Node) -> str:
    (x,) = node.inputs
    starts: list[int] = []
    stops: list[int] = []
    steps: list[int] = []
    axes: list[int] = []
    dropped: list[int] = []
    added: list[int] = []
    dim = 0
    for place, entry in enumerate(node.params["index"]):
        if entry is None:
            added.append(place - len(dropped))
            continue
        start, stop, step = (entry, entry + 1, 1) if isinstance(entry, int) else entry
        if isinstance(entry, int):
            dropped.append(dim)
        if not (same_size(start, 0) and step == 1 and same_size(stop, x.spec.shape[dim])):
            starts.append(start)
            stops.append(stop)
            steps.append(int(step))
            axes.append(dim)
        dim += 1
    name = w.operand(x)
    if axes:
        ends = [_from_zero(w, places) for places in (starts, stops)]
        name = w.emit("Slice", name, *ends, w.ints(axes), w.ints(steps))
    if dropped:
        name = w.emit("Squeeze", name, w.ints(dropped))
    return w.emit("Unsqueeze", name, w.ints(added)) if added else name


@emits("flip")
def flip(w: NodeWriter, node: Node) -> str:
    (dims,) = node.params.values()
    dims = [int(d) for d in ((dims,) if isinstance(dims, int) else dims)]
    count = len(dims)
    ends = w.constant([np.iinfo(np.int64).min] * count, np.int64)
    return w.emit(
        "Slice",
        w.operand(node.inputs[0]),
        w.ints([-1] * count),
        ends,
        w.ints(dims),
        w.ints([-1] * count),
    )


@emits("tril", "triu")
def triangle(w: NodeWriter, node: Node) -> str:
    offset = w.constant(int(node.params["diagonal"]), np.int64)
    x = node.inputs[0]
    upper = int(node.record.name == "triu")
    if x.spec.dtype in (ad.bool,):  # runtimes have it for numbers
        part = w.emit("Trilu", w.operand(x, ad.float32), offset, upper=upper)
        return w.cast_name(part, ad.bool)
    return w.emit("Trilu", w.operand(x), offset, upper=upper)


@emits("arange")
def arange(w: NodeWriter, node: Node) -> str:
    start, step, length = (node.params[k] for k in ("start", "step", "length"))
    dtype = node.params["dtype"]
    if not isinstance(length, Extent) and not isinstance(start, Extent):
        return w.constant(start + np.arange(int(length)) * step, ARRAYS[dtype])
    count = w.emit(
        "Range", w.constant(0, np.int64), w.number(length, ad.int64), w.constant(1, np.int64)
    )
    scaled = w.emit("Mul", w.cast_name(count, dtype), w.number(step, dtype))
    return w.emit("Add", scaled, w.number(start, dtype))


@emits("full", "empty")
def full(w: NodeWriter, node: Node) -> str:
    dtype, shape = node.params["dtype"], node.params["shape"]
    value = w.operand(node.inputs[0], dtype) if node.inputs else w.number(0, dtype)
    return w.emit("Expand", value, w.shape(shape))


@emits("eye")
def eye(w: NodeWriter, node: Node) -> str:
    spec = node.outputs[0].spec
    zero = w.emit("ConstantOfShape", w.shape(spec.shape))
    return w.emit("EyeLike", zero, dtype=NUMBERS[ARRAYS[spec.dtype]])


# -- indices --------------------------------------------------------------------------------------


@emits("embedding")
def embedding(w: NodeWriter, node: Node) -> str:
    table, index = node.inputs
    return w.emit("Gather", w.operand(table), w.operand(index), axis=0)


@emits("gather")
def gather(w: NodeWriter, node: Node) -> str:
    x, index = node.inputs
    return w.emit("GatherElements", w.operand(x), w.operand(index), axis=int(node.params["dim"]))


@emits("scatter")
def scatter(w: NodeWriter, node: Node) -> str:
    x, y, index = node.inputs
    dtype = node.outputs[0].spec.dtype
    reduction = "add" if node.params["accumulate"] else None
    names = w.operand(x, dtype), w.operand(index), w.operand(y, dtype)
    return w.emit("ScatterElements", *names, axis=int(node.params["dim"]), reduction=reduction)


_REDUCTIONS = {"prod": "mul", "amax": "max", "amin": "min"}


@emits("scatter_reduce")
def scatter_reduce(w: NodeWriter, node: Node) -> str:
    x, y, index = node.inputs
    dtype = node.outputs[0].spec.dtype
    reduction = _REDUCTIONS.get(node.params["reduce"])
    if reduction is None:
        raise NoForm(f"elements put together by {node.params['reduce']}")
    names = w.operand(x, dtype), w.operand(index), w.operand(y, dtype)
    return w.emit("ScatterElements", *names, axis=int(node.params["dim"]), reduction=reduction)


@emits("index")
def index(w: NodeWriter, node: Node) -> str:
    x, *indices = node.inputs
    dims = [int(d) for d in node.params["dims"]]
    if len(indices) == 1:
        return w.emit("Gather", w.operand(x), w.operand(indices[0], ad.int64), axis=dims[0])
    table, sizes = w.operand(x), x.spec.shape
    if dims != list(range(dims[0], dims[0] + len(dims))):  # what is picked goes in front
        order = [*dims, *[d for d in range(len(sizes)) if d not in dims]]
        table, sizes = w.emit("Transpose", table, perm=order), [sizes[d] for d in order]
        dims = list(range(len(dims)))
    rows = [w.operand(i, ad.int64) for i in indices]
    rows = [
        w.emit(
            "Where",
            w.emit("Less", r, w.constant(0, np.int64)),
            w.emit("Add", r, w.number(sizes[d], ad.int64)),
            r,
        )
        for r, d in zip(rows, dims, strict=True)
    ]
    flat = rows[0]
    for row, dim in zip(rows[1:], dims[1:], strict=True):
        flat = w.emit("Add", w.emit("Mul", flat, w.number(sizes[dim], ad.int64)), row)
    joined = 1
    for d in dims:
        joined = joined * sizes[d]
    table = reshaped(w, table, (*sizes[: dims[0]], joined, *sizes[dims[-1] + 1 :]))
    return w.emit("Gather", table, flat, axis=dims[0])


@emits("view_scatter")
def view_scatter(w: NodeWriter, node: Node) -> str:
    """Put what a chain of views would see: the same views of the places say where."""
    x, y = node.inputs
    spec = x.spec
    count: int = 1
    for n in spec.shape:
        count = count * n
    places = w.emit(
        "Range", w.constant(0, np.int64), w.number(count, ad.int64), w.constant(1, np.int64)
    )
    now = Value("places", spec._replace(dtype=ad.int64))
    w.names[now] = reshaped(w, places, spec.shape)
    for record, params in node.params["chain"]:
        step = Node(record, (now,), params)
        seen = Value("seen", record.infer(now.spec, **params), step)
        step.outputs = (seen,)
        (w.names[seen],) = w.outputs_of(step, (True,))
        now = seen
    row = w.constant([-1], np.int64)
    dtype = spec.dtype
    values = w.emit("Reshape", w.emit("Expand", w.operand(y, dtype), w.shape(now.spec.shape)), row)
    where = w.emit("Reshape", w.names[now], row)
    put = w.emit("ScatterElements", w.emit("Reshape", w.operand(x), row), where, values, axis=0)
    return reshaped(w, put, spec.shape)
