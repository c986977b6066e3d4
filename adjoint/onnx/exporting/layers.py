"""Layers under their own names: products, convolutions, pooling, normalisation, attention."""

from __future__ import annotations

from typing import Any

import numpy as np

import adjoint as ad
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.graph.sizes.extents import Extent
from adjoint.engine.ops.image.resample import table
from adjoint.onnx.exporting.shapes import same_size
from adjoint.onnx.exporting.writer import NodeWriter, NoForm, emits
from adjoint.onnx.types import ARRAYS


@emits("matmul")
def matmul(w: NodeWriter, node: Node) -> str:
    dtype = node.outputs[0].spec.dtype
    return w.emit("MatMul", *[w.operand(x, dtype) for x in node.inputs])


@emits("linear")
def linear(w: NodeWriter, node: Node) -> str:
    x, weight, *bias = node.inputs
    dtype = node.outputs[0].spec.dtype
    names = [w.operand(v, dtype) for v in node.inputs]
    if len(x.spec.shape) == 2 and len(weight.spec.shape) == 2:
        return w.emit("Gemm", *names, transB=1)
    turned = w.emit("Transpose", names[1], perm=[1, 0]) if len(weight.spec.shape) == 2 else names[1]
    out = w.emit("MatMul", names[0], turned)
    return w.emit("Add", out, names[2]) if bias else out


def _pads(node: Node) -> list[int]:
    """Padding before each dimension, and behind each, where what no window sees is cut off.

    Behind a dynamic size as much as before it, behind others none rather than less, if the windows
    are the same.
    """
    params, windows = node.params, node.outputs[0].spec.shape[2:]
    sources, kernel = (x.spec.shape[2:] for x in node.inputs[:2])
    firsts, lasts = ([pair[k] for pair in params["padding"]] for k in (0, 1))
    for d, (before, after) in enumerate(zip(firsts, lasts, strict=True)):
        if node.record.name != "convolution":
            continue
        reach, step = (kernel[d] - 1) * params["dilation"][d] + 1, params["stride"][d]
        if isinstance(after, Extent):
            if same_size(windows[d], (sources[d] + 2 * before - reach) // step + 1):
                lasts[d] = before
        elif after < 0 and same_size(windows[d], (sources[d] + before - reach) // step + 1):
            lasts[d] = 0
    return [*firsts, *lasts]


@emits("convolution", "convolution_transpose")
def convolution(w: NodeWriter, node: Node) -> str:
    params, kernel = node.params, node.inputs[1].spec.shape
    dtype = node.outputs[0].spec.dtype
    transposed = node.record.name == "convolution_transpose"
    pads = _pads(node)
    rank, extra = len(pads) // 2, None
    name = w.operand(node.inputs[0], dtype)
    if any(isinstance(p, Extent) for p in pads):
        if transposed:
            raise NoForm("a transposed convolution with padding of a dynamic size")
        name = w.emit("Pad", name, w.shape([0, 0, *pads[:rank], 0, 0, *pads[rank:]]))
        pads = [0] * len(pads)
    cut = [min(p, 0) for p in pads]
    if transposed:  # a negative padding is room that the output has besides
        extra = [max(-p, 0) for p in pads[rank:]]
        pads = [max(p, 0) for p in pads]
        extra = extra if any(extra) else None
    if any(isinstance(n, Extent) for n in kernel) or (transposed and any(p < 0 for p in pads)):
        raise NoForm(f"a convolution with padding {params['padding']}")
    if any(p < 0 for p in pads):  # what lies beyond the last window is cut off
        name = w.emit("Pad", name, w.ints([0, 0, *cut[:rank], 0, 0, *cut[rank:]]))
        pads = [max(p, 0) for p in pads]
    beyond = extra or []
    if any(n >= step for n, step in zip(beyond, params["stride"], strict=False)):
        extra = None  # runtimes take less than a step of it; nothing reaches there
    out = w.emit(
        "ConvTranspose" if transposed else "Conv",
        name,
        w.operand(node.inputs[1], dtype),
        strides=[int(s) for s in params["stride"]],
        dilations=[int(d) for d in params["dilation"]],
        group=int(params["groups"]),
        pads=pads,
        output_padding=extra,
        kernel_shape=[int(n) for n in kernel[2:]],
    )
    if beyond and extra is None:
        return w.emit("Pad", out, w.ints([0] * (rank + 4) + beyond))
    return out


@emits("det")
def det(w: NodeWriter, node: Node) -> str:
    return w.emit("Det", w.operand(node.inputs[0]))


def _largest(w: NodeWriter, x: Value, windows: Any) -> str:
    """The largest of all elements, where each window is as large as what it is over."""
    for kind, source, size, *rest in windows:
        if kind != "window" or size != 1 or not same_size(rest[0], source) or rest[2] != 0:
            raise NoForm("windows of a dynamic extent")
    rank = len(x.spec.shape)
    dims = w.ints(range(rank - len(windows), rank))
    return w.emit("ReduceMax", w.operand(x), dims, keepdims=1)


@emits("max_pool")
def max_pool(w: NodeWriter, node: Node) -> str:
    kernel, strides, dilations, before, after = [], [], [], [], []
    windows = node.params["windows"]
    x = node.inputs[0]
    if any(isinstance(n, Extent) for window in windows for n in window[3:]):
        return _largest(w, x, windows)
    for window in windows:
        if window[0] != "window":
            raise NoForm(f"pooling with windows {window[0]!r}")
        _, source, size, extent, step, offset, dilation = window
        kernel.append(int(extent))
        strides.append(int(step))
        dilations.append(int(dilation))
        before.append(-int(offset))
        last = (size - 1) * step + (extent - 1) * dilation + 1 + offset - source
        if isinstance(last, Extent):
            reach = (extent - 1) * dilation + 1
            if not same_size(size, (source - 2 * offset - reach) // step + 1):
                raise NoForm("windows of a dynamic size that are rounded up")
            last = -int(offset)  # symmetric: the count of windows then follows from the size
        after.append(max(int(last), 0))
    name = w.operand(x)
    rank = len(kernel)
    lead = len(x.spec.shape) - rank
    if lead == 1:
        name = w.emit("Unsqueeze", name, w.ints([0]))
    out = w.emit(
        "MaxPool",
        name,
        kernel_shape=kernel,
        strides=strides,
        dilations=dilations,
        pads=[*before, *after],
    )
    return w.emit("Squeeze", out, w.ints([0])) if lead == 1 else out


@emits("resample")
def resample(w: NodeWriter, node: Node) -> str:
    """Weighted sums along a dimension, as a product with the table of weights."""
    rule, dim = node.params["rule"], int(node.params["dim"])
    if any(isinstance(n, Extent) for n in rule):
        raise NoForm(f"{rule[0]} resampling of a dynamic size")
    rows = table(rule, node.params["transposed"])
    x = node.inputs[0]
    source = int(x.spec.shape[dim])
    matrix = np.zeros((source, len(rows)))
    for o, row in enumerate(rows):
        for i, weight in row:
            matrix[i, o] += weight
    rank = len(x.spec.shape)
    order = [k for k in range(rank) if k != dim] + [dim]
    dtype = node.outputs[0].spec.dtype
    moved = (
        w.emit("Transpose", w.operand(x, dtype), perm=order)
        if dim != rank - 1
        else w.operand(x, dtype)
    )
    out = w.emit("MatMul", moved, w.constant(matrix.astype(ARRAYS[dtype])))
    return w.emit("Transpose", out, perm=list(np.argsort(order))) if dim != rank - 1 else out


# -- normalisation --------------------------------------------------------------------------------


@emits("layer_norm")
def layer_norm(w: NodeWriter, node: Node) -> str:
    x, *rest = node.inputs
    rank, dtype = int(node.params["rank"]), node.outputs[0].spec.dtype
    own = x.spec.shape[len(x.spec.shape) - rank :]
    if any(isinstance(n, Extent) for n in own):
        raise NoForm("a normalised shape of dynamic sizes")
    scale = (
        w.operand(rest[0], dtype)
        if rest
        else w.constant(np.ones([int(n) for n in own], ARRAYS[dtype]))
    )
    names = [w.operand(x, dtype), scale, *[w.operand(v, dtype) for v in rest[1:]]]
    return w.emit("LayerNormalization", *names, axis=-rank, epsilon=float(node.params["eps"]))


@emits("batch_norm_inference")
def batch_norm(w: NodeWriter, node: Node) -> str:
    """In the order of the record: x, then what ONNX calls scale, bias, mean and variance."""
    x, *rest = node.inputs
    if len(rest) != 4 or not all(
        isinstance(v, Value) and v.spec.dtype is x.spec.dtype for v in rest
    ):
        raise NoForm("a normalisation without its four vectors")
    mean, var, scale, bias = (w.operand(v) for v in rest)
    return w.emit(
        "BatchNormalization",
        w.operand(x),
        scale,
        bias,
        mean,
        var,
        epsilon=float(node.params["eps"]),
    )


@emits("rms_norm")
def rms_norm(w: NodeWriter, node: Node) -> str:
    if w.opset < 23 or node.params.get("eps") is None or len(node.inputs) < 2:
        raise NoForm("RMSNormalization is of opset 23")
    dtype = node.outputs[0].spec.dtype
    names = [w.operand(v, dtype) for v in node.inputs]
    return w.emit(
        "RMSNormalization",
        *names,
        axis=-int(node.params["rank"]),
        epsilon=float(node.params["eps"]),
    )


@emits("group_norm")
def group_norm(w: NodeWriter, node: Node) -> str:
    if w.opset < 21 or len(node.inputs) != 3:
        raise NoForm("GroupNormalization with a scale to each channel is of opset 21")
    dtype = node.outputs[0].spec.dtype
    names = [w.operand(v, dtype) for v in node.inputs]
    return w.emit(
        "GroupNormalization",
        *names,
        num_groups=int(node.params["groups"]),
        epsilon=float(node.params["eps"]),
    )


@emits("scaled_dot_product_attention")
def attention(w: NodeWriter, node: Node) -> str:
    query, key, value, *extras = node.inputs
    params = node.params
    ranks = {len(x.spec.shape) for x in (query, key, value)}
    if w.opset < 24 or ranks != {4} or params["safe"] or len(extras) > int(params["masked"]):
        raise NoForm(
            "Attention of four dimensions is of opset 23, its causal form with a cache of 24"
        )
    if params["causal"] and query.spec.shape[2] != key.spec.shape[2]:
        raise NoForm("causal attention of different lengths")
    dtype = node.outputs[0].spec.dtype
    names = [w.operand(x, dtype) for x in (query, key, value)]
    if extras:
        mask = extras[0]
        names.append(w.operand(mask, ad.bool if mask.spec.dtype is ad.bool else dtype))
    return w.emit(
        "Attention", *names, is_causal=int(params["causal"]), scale=float(params["scale"])
    )
