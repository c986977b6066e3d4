"""Quantised layers as ONNX has them: QuantizeLinear and DequantizeLinear around real operations.

What runs such a model finds the pairs and multiplies whole numbers (QDQ); what does not know them
computes with the real numbers they stand for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import adjoint as ad
from adjoint.engine.core.dtype import DType
from adjoint.engine.graph.ir import Node, Value
from adjoint.onnx.exporting.writer import NodeWriter, NoForm, emits

RANGES = {ad.int8: (-128, 127), ad.uint8: (0, 255)}


def _rank(x: Any) -> int:
    return len(x.spec.shape) if isinstance(x, Value) else 0


def _zero(w: NodeWriter, zero: Any, dtype: DType) -> str:
    """A zero point in the dtype of the numbers it belongs to."""
    return w.operand(zero, dtype)


def _per(w: NodeWriter, scale: Any, zero: Any, dtype: DType) -> tuple[str, str]:
    if _rank(scale) > 1 or _rank(zero) > 1:
        raise NoForm("scales of more than one dimension")
    return w.operand(scale, ad.float32), _zero(w, zero, dtype)


def _flat(x: Any, axis: int | None) -> bool:
    """Whether a scale is one number, or one to each index along an axis."""
    return _rank(x) == (0 if axis is None else 1)


@emits("quantize_affine")
def quantize(w: NodeWriter, node: Node) -> str:
    x, scale, zero = node.inputs
    params = node.params
    axis, dtype = params["axis"], params["dtype"]
    whole = RANGES.get(dtype) == (params["low"], params["high"])
    if not whole or not _flat(scale, axis) or not _flat(zero, axis):
        raise NoForm("QuantizeLinear takes all of int8 or uint8, and flat scales")
    names = _per(w, scale, zero, dtype)
    return w.emit("QuantizeLinear", w.operand(x, ad.float32), *names, axis=axis)


@emits("dequantize_affine")
def dequantize(w: NodeWriter, node: Node) -> str:
    x, scale, zero = node.inputs
    axis = node.params["axis"]
    if x.spec.dtype not in RANGES or not _flat(scale, axis) or not _flat(zero, axis):
        raise NoForm("DequantizeLinear takes int8 or uint8, and flat scales")
    out = _dequantized(w, x, scale, zero, axis)
    dtype = node.outputs[0].spec.dtype
    return out if dtype is ad.float32 else w.cast_name(out, dtype)


@emits("fake_quantize")
def fake_quantize(w: NodeWriter, node: Node) -> str:
    x, scale, zero = node.inputs
    axis, limits = node.params["axis"], (node.params["low"], node.params["high"])
    dtype = next((d for d, r in RANGES.items() if r == limits), None)
    if dtype is None or not _flat(scale, axis) or not _flat(zero, axis):
        raise NoForm("QuantizeLinear takes all of int8 or uint8, and flat scales")
    names = _per(w, scale, zero, dtype)
    ints = w.emit("QuantizeLinear", w.operand(x, ad.float32), *names, axis=axis)
    out = w.emit("DequantizeLinear", ints, *names, axis=axis)
    wanted = node.outputs[0].spec.dtype
    return out if wanted is ad.float32 else w.cast_name(out, wanted)


def _dequantized(w: NodeWriter, x: Value, scale: Any, zero: Any, axis: int | None) -> str:
    names = _per(w, scale, zero, x.spec.dtype)
    return w.emit("DequantizeLinear", w.operand(x), *names, axis=axis)


def _operands(w: NodeWriter, node: Node) -> tuple[str, str, list[str]]:
    """The real input, the real weight and the bias of a layer of whole numbers."""
    x, x_scale, x_zero, weight, scale, _, *rest = node.inputs
    if _rank(x_scale) or _rank(x_zero):
        raise NoForm("inputs with a scale to each row are multiplied as they are")
    real = _dequantized(w, x, x_scale, x_zero, None)
    affine = bool(node.params["affine"])
    if affine:
        point = _zero(w, rest[0], ad.int8)
    else:
        point = w.constant(np.zeros(int(weight.spec.shape[0]), np.int8))
    names = (w.operand(weight), w.operand(scale, ad.float32), point)
    matrix = w.emit("DequantizeLinear", *names, axis=0)
    return real, matrix, [w.operand(b, ad.float32) for b in rest[int(affine) :]]


@emits("quantized_linear")
def quantized_linear(w: NodeWriter, node: Node) -> str:
    real, matrix, bias = _operands(w, node)
    if _rank(node.inputs[0]) == 2:
        return w.emit("Gemm", real, matrix, *bias, transB=1)
    out = w.emit("MatMul", real, w.emit("Transpose", matrix, perm=[1, 0]))
    return w.emit("Add", out, *bias) if bias else out


@emits("quantized_convolution")
def quantized_convolution(w: NodeWriter, node: Node) -> str:
    real, matrix, bias = _operands(w, node)
    params, kernel = node.params, node.inputs[3].spec.shape[2:]
    padding = [int(p) for p in params["padding"]]
    return w.emit(
        "Conv",
        real,
        matrix,
        *bias,
        strides=[int(s) for s in params["stride"]],
        dilations=[int(d) for d in params["dilation"]],
        group=int(params["groups"]),
        pads=[*padding, *padding],
        kernel_shape=[int(n) for n in kernel],
    )


@emits("integer_matmul")
def integer_matmul(w: NodeWriter, node: Node) -> str:
    x, y = node.inputs
    order = [*range(_rank(y) - 2), _rank(y) - 1, _rank(y) - 2]
    return w.emit("MatMulInteger", w.operand(x), w.emit("Transpose", w.operand(y), perm=order))


@emits("dequantize_groups")
def dequantize_groups(w: NodeWriter, node: Node) -> str:
    """Blocks along the last dimension, from opset 21 on; before, what they are made of."""
    weight, scale, *zero = node.inputs
    bits, group = int(node.params["bits"]), int(node.params["group"])
    if w.opset < 21:
        raise NoForm("blocks are of opset 21")
    source = w.operand(weight)
    if bits == 4:
        if source not in w.shared.weights or not zero or zero[0].spec.dtype is not ad.uint8:
            raise NoForm("weights of 4 bits are what a model holds, with zero points of 4 bits")
        name = f"{source}_in_4_bits"
        w.shared.halves[name] = source
        points = [w.emit("Cast", w.operand(zero[0]), to=w.onnx.TensorProto.UINT4)]
        source = name
    else:
        points = [w.operand(z, ad.int8) for z in zero]
    names = [source, w.operand(scale, ad.float32), *points]
    return w.emit("DequantizeLinear", *names, axis=_rank(weight) - 1, block_size=group)


@emits("bitwise_right_shift")
def right_shift(w: NodeWriter, node: Node) -> str:
    dtype = node.outputs[0].spec.dtype
    if dtype.is_signed:
        raise NoForm("BitShift takes unsigned numbers")
    return w.emit("BitShift", *[w.operand(x, dtype) for x in node.inputs], direction="RIGHT")
