"""Quantised tensors: to and from integers and narrow floats, and products of them."""

from __future__ import annotations

from typing import Any

import numpy as np

import adjoint as ad
from adjoint.engine.tensor.tensor import Tensor
from adjoint.onnx.operators.convolution import convolve
from adjoint.onnx.operators.creation import cast_to
from adjoint.onnx.table import operator
from adjoint.onnx.types import TENSORS, Value, element, kind_of


def _spread(scale: Value, x: Value, axis: int, block: int) -> Value:
    """A scale or zero point, whole, per axis or per block, in a shape that broadcasts."""
    if (
        scale is None
        or scale.ndim == 0
        or (scale.ndim == 1 and int(np.prod(scale.shape)) == 1 and not block)
    ):
        return scale if scale is None or scale.ndim == 0 else scale.reshape(())
    axis = axis % len(x.shape)
    if block:
        return ad.repeat_interleave(scale, block, dim=axis).narrow(axis, 0, int(x.shape[axis]))
    view = [1] * len(x.shape)
    view[axis] = -1
    return scale.reshape(view)


def _wide(x: Value) -> Tensor:
    """A quantised tensor in a type that computes: whole numbers in int32, floats in float32."""
    if isinstance(x, Tensor):
        return x if x.is_floating_point() else x.to(ad.int32)
    floats = "float" in x.dtype.name
    return ad.tensor(x.astype(np.float32 if floats else np.int64))


def _limits(kind: np.dtype[Any]) -> tuple[int, int]:
    width = int(kind.name.removeprefix("u").removeprefix("int"))
    half = 1 << (width - 1)
    return (0, 2 * half - 1) if kind.name.startswith("u") else (-half, half - 1)


@operator("QuantizeLinear")
def quantize_linear(
    x: Tensor,
    scale: Value,
    zero_point: Value = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Value:
    """x / scale rounded to the nearest, moved by the zero point, and kept in range."""
    kind = np.dtype(np.uint8)
    if zero_point is not None:
        kind = kind_of(zero_point)
    elif output_dtype:
        kind = element(output_dtype, "QuantizeLinear")
    scale = scale if isinstance(scale, Tensor) else _wide(scale)
    dtype = TENSORS[element(precision, "QuantizeLinear")] if precision else scale.dtype
    ratio = x.to(dtype) / _spread(scale.to(dtype), x, axis, block_size)
    if "float" in kind.name:
        return cast_to(ratio, kind, bool(saturate))
    low, high = _limits(kind)
    whole = ad.round(ratio)
    whole = whole if whole.dtype is ad.float64 else whole.to(ad.float32)
    if zero_point is not None:
        whole = whole + _spread(_wide(zero_point).to(whole.dtype), x, axis, block_size)
    return cast_to(ad.clamp(whole, low, high).to(ad.int64), kind)


@operator("DequantizeLinear")
def dequantize_linear(
    x: Value,
    scale: Value,
    zero_point: Value = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Value:
    """(x - zero point) scale."""
    scale = scale if isinstance(scale, Tensor) else _wide(scale)
    wide = _wide(x)
    if zero_point is not None:
        wide = wide - _spread(_wide(zero_point), x, axis, block_size).to(wide.dtype)
    out = wide.to(scale.dtype if scale.dtype is not ad.float16 else ad.float32) * _spread(
        scale, x, axis, block_size
    )
    return (
        cast_to(out, element(output_dtype, "DequantizeLinear"))
        if output_dtype
        else out.to(scale.dtype)
    )


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(x: Tensor) -> tuple[Value, ...]:
    """Quantised to uint8 by the range that the tensor has."""
    low = ad.minimum(ad.amin(x), ad.zeros((), dtype=x.dtype))
    high = ad.maximum(ad.amax(x), ad.zeros((), dtype=x.dtype))
    scale = (high - low) / 255
    zero = ad.clamp(ad.round(-low / scale), 0, 255)
    y = ad.clamp(ad.round(x / scale) + zero, 0, 255)
    return y.to(ad.uint8), scale, zero.to(ad.uint8)


def _centred(x: Value, zero: Value, rows: bool) -> Tensor:
    """Whole numbers less their zero point, which may be one to a row or to a column."""
    wide = _wide(x).to(ad.int64)
    if zero is None:
        return wide
    point = _wide(zero).to(ad.int64)
    if point.ndim == 1 and point.shape[0] > 1 and rows:
        point = point.unsqueeze(-1)
    return wide - (point.reshape(()) if point.numel() == 1 else point)


def _product(a: Tensor, b: Tensor) -> Tensor:
    """A product of whole numbers: exact in float64, since each is of at most 16 bits."""
    return ad.matmul(a.to(ad.float64), b.to(ad.float64))


@operator("MatMulInteger")
def matmul_integer(a: Tensor, b: Tensor, a_zero: Value = None, b_zero: Value = None) -> Tensor:
    """A product of whole numbers in int32."""
    return _product(_centred(a, a_zero, True), _centred(b, b_zero, False)).to(ad.int64).to(ad.int32)


@operator("ConvInteger")
def conv_integer(
    x: Tensor,
    w: Tensor,
    x_zero: Value = None,
    w_zero: Value = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """A convolution of whole numbers in int32."""
    left = _centred(x, x_zero, False)
    point = None if w_zero is None else _wide(w_zero)
    right = _wide(w).to(ad.int64)
    if point is not None:
        right = right - point.to(ad.int64).reshape(-1, *[1] * (w.ndim - 1))
    out = convolve(left.double(), right.double(), None, auto_pad, dilations, group, pads, strides)
    return out.to(ad.int64).to(ad.int32)


def _requantised(real: Tensor, scale: Tensor, zero: Value) -> Value:
    kind = kind_of(zero)
    if "float" in kind.name:
        return cast_to(real / scale, kind)
    low, high = _limits(kind)
    return cast_to(
        ad.clamp(ad.round(real / scale) + _wide(zero).to(real.dtype), low, high).to(ad.int64), kind
    )


@operator("QLinearMatMul")
def qlinear_matmul(
    a: Value,
    a_scale: Tensor,
    a_zero: Value,
    b: Value,
    b_scale: Tensor,
    b_zero: Value,
    y_scale: Tensor,
    y_zero: Value,
) -> Value:
    """A product of quantised matrices, quantised."""
    left = (
        a_scale.double().unsqueeze(-1)
        if a_scale.ndim == 1 and a_scale.shape[0] > 1
        else a_scale.double()
    )
    real = _product(_centred(a, a_zero, True), _centred(b, b_zero, False)) * (
        left * b_scale.double()
    )
    return _requantised(real, y_scale.double(), y_zero)


@operator("QLinearConv")
def qlinear_conv(
    x: Value,
    x_scale: Tensor,
    x_zero: Value,
    w: Value,
    w_scale: Tensor,
    w_zero: Value,
    y_scale: Tensor,
    y_zero: Value,
    b: Value = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Value:
    """A convolution of quantised tensors, quantised."""
    view = [-1, *[1] * (x.ndim - 2)]
    right = _wide(w).to(ad.int64) - _wide(w_zero).to(ad.int64).reshape(-1, *[1] * (w.ndim - 1))
    out = convolve(
        _centred(x, x_zero, False).double(),
        right.double(),
        None if b is None else b.double(),
        auto_pad,
        dilations,
        group,
        pads,
        strides,
    )
    return _requantised(
        out * (x_scale.double() * w_scale.double()).reshape(view), y_scale.double(), y_zero
    )
