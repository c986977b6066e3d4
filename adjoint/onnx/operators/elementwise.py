"""Operators of one element at a time: arithmetic, comparison, logic, bits, activations."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.onnx.table import NodeCall, operator
from adjoint.onnx.types import Value, array_of, number, value_of

# name -> of tensors, of arrays whose dtype no tensor has (wide unsigned integers, strings)
_BINARY: dict[str, tuple[Callable[..., Tensor], Callable[..., Any] | None]] = {
    "Add": (ad.add, np.add),
    "Sub": (ad.sub, np.subtract),
    "Mul": (ad.mul, np.multiply),
    "And": (ad.logical_and, None),
    "Or": (ad.logical_or, None),
    "Xor": (ad.logical_xor, None),
    "Equal": (ad.eq, np.equal),
    "Greater": (ad.gt, np.greater),
    "GreaterOrEqual": (ad.ge, np.greater_equal),
    "Less": (ad.lt, np.less),
    "LessOrEqual": (ad.le, np.less_equal),
    "BitwiseAnd": (ad.bitwise_and, np.bitwise_and),
    "BitwiseOr": (ad.bitwise_or, np.bitwise_or),
    "BitwiseXor": (ad.bitwise_xor, np.bitwise_xor),
}
_UNARY: dict[str, tuple[Callable[..., Tensor], Callable[..., Any] | None]] = {
    "Abs": (ad.abs, np.abs),
    "Acos": (ad.acos, None),
    "Acosh": (ad.acosh, None),
    "Asin": (ad.asin, None),
    "Asinh": (ad.asinh, None),
    "Atan": (ad.atan, None),
    "Atanh": (ad.atanh, None),
    "BitwiseNot": (ad.bitwise_not, np.bitwise_not),
    "Ceil": (ad.ceil, None),
    "Cos": (ad.cos, None),
    "Cosh": (ad.cosh, None),
    "Erf": (ad.erf, None),
    "Exp": (ad.exp, None),
    "Floor": (ad.floor, None),
    "HardSwish": (F.hardswish, None),
    "IsNaN": (ad.isnan, None),
    "Log": (ad.log, None),
    "Mish": (F.mish, None),
    "Neg": (ad.neg, None),
    "Not": (ad.logical_not, None),
    "Reciprocal": (ad.reciprocal, None),
    "Relu": (ad.relu, None),
    "Round": (ad.round, None),
    "Sigmoid": (ad.sigmoid, None),
    "Sign": (ad.sign, np.sign),
    "Sin": (ad.sin, None),
    "Sinh": (ad.sinh, None),
    "Sqrt": (ad.sqrt, None),
    "Tan": (ad.tan, None),
    "Tanh": (ad.tanh, None),
}


def choose(
    name: str, ours: Callable[..., Any], host: Callable[..., Any] | None, *inputs: Value
) -> Value:
    """The function for these inputs: of tensors, or of arrays where no tensor can hold them."""
    if not any(isinstance(v, np.ndarray) for v in inputs):
        return ours(*inputs)
    if host is None:
        raise NotImplementedError(f"onnx: {name} of {[v.dtype for v in inputs]} is not supported.")
    with np.errstate(all="ignore"):
        return value_of(host(*inputs))


def _enter(
    name: str, arity: int, ours: Callable[..., Tensor], host: Callable[..., Any] | None
) -> None:
    if arity == 1:
        operator(name)(lambda x: choose(name, ours, host, x))
    else:  # before opset 7 an attribute said how to broadcast

        def binary(
            a: Value,
            b: Value,
            *,
            broadcast: int = 0,
            axis: int | None = None,
            consumed_inputs: Any = None,
        ) -> Value:
            return choose(name, ours, host, a, _aligned(a, b, broadcast, axis))

        operator(name)(binary)


def _aligned(a: Value, b: Value, broadcast: int, axis: int | None) -> Value:
    if not broadcast or axis is None:
        return b
    return b.reshape([*b.shape, *[1] * (a.ndim - axis % a.ndim - b.ndim)])


for _name, (_ours, _host) in _BINARY.items():
    _enter(_name, 2, _ours, _host)
for _name, (_ours, _host) in _UNARY.items():
    _enter(_name, 1, _ours, _host)


@operator("Div")
def div(a: Value, b: Value, *, broadcast: int = 0, axis: int | None = None) -> Value:
    """Quotient; of integers, towards zero."""

    def ours(x: Tensor, y: Tensor) -> Tensor:
        if x.is_floating_point() or x.is_complex():
            return x / y
        return ad.div(x, y, rounding_mode="trunc")

    return choose("Div", ours, np.floor_divide, a, _aligned(a, b, broadcast, axis))


@operator("Mod")
def mod(a: Value, b: Value, *, fmod: int = 0) -> Value:
    """Remainder with the divisor's sign, or with the dividend's."""
    return choose("Mod", ad.fmod if fmod else ad.remainder, np.fmod if fmod else np.mod, a, b)


@operator("Pow")
def power(a: Value, b: Value, *, broadcast: int = 0, axis: int | None = None) -> Value:
    """Power, in the type of the base."""

    def ours(x: Tensor, y: Tensor) -> Tensor:
        if isinstance(y, np.ndarray):
            y = ad.tensor(y.astype(np.int64))
        if y.is_floating_point() and not x.is_floating_point():
            return ad.pow(x.double(), y.double()).to(x.dtype)
        return ad.pow(x, y).to(x.dtype)

    if isinstance(a, Tensor):
        return ours(a, _aligned(a, b, broadcast, axis))
    return np.power(a, array_of(b)).astype(a.dtype)


@operator("BitShift")
def bit_shift(a: Value, b: Value, *, direction: str) -> Value:
    """Bits moved left or right; zeros come in."""
    ours, host = {
        "LEFT": (ad.bitwise_left_shift, np.left_shift),
        "RIGHT": (ad.bitwise_right_shift, np.right_shift),
    }[direction]
    return choose("BitShift", ours, host, a, b)


@operator("Max")
def maximum(*values: Value) -> Value:
    """The largest of several tensors at each place."""
    return reduce(lambda a, b: choose("Max", ad.maximum, np.maximum, a, b), values)


@operator("Min")
def minimum(*values: Value) -> Value:
    """The smallest of several tensors at each place."""
    return reduce(lambda a, b: choose("Min", ad.minimum, np.minimum, a, b), values)


@operator("Sum")
def total(*values: Tensor) -> Tensor:
    """The sum of several tensors."""
    return reduce(ad.add, values)


@operator("Mean")
def mean(*values: Tensor) -> Tensor:
    """The mean of several tensors."""
    return reduce(ad.add, values) / len(values)


@operator("Where")
def where(condition: Tensor, a: Value, b: Value) -> Value:
    """One or the other by a condition."""
    return choose(
        "Where",
        lambda x, y: ad.where(condition, x, y),
        lambda x, y: np.where(condition.numpy(), x, y),
        a,
        b,
    )


@operator("IsInf")
def is_inf(x: Value, *, detect_negative: int = 1, detect_positive: int = 1) -> Value:
    """Whether an element is infinite, of the signs asked for."""

    def ours(v: Tensor) -> Tensor:
        infinite = ad.isinf(v)
        if not detect_negative:
            infinite = infinite & (v > 0)
        return infinite if detect_positive else infinite & (v < 0)

    return choose("IsInf", ours, None, x)


@operator("Clip")
def clip(x: Value, min: Value = None, max: Value = None) -> Value:
    """Elements limited to a range; the upper limit wins where the range is empty."""

    def ours(v: Tensor) -> Tensor:
        low, high = (
            b if b is None or isinstance(b, Tensor) else ad.tensor(b, dtype=v.dtype)
            for b in (min, max)
        )
        v = v if low is None else ad.maximum(v, low)
        return v if high is None else ad.minimum(v, high)

    return choose("Clip", ours, lambda v: np.clip(v, min, max), x)


@operator("Elu")
def elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """x, or alpha (exp x - 1) below zero."""
    return F.elu(x, alpha)


@operator("Celu")
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """x, or alpha (exp(x / alpha) - 1) below zero."""
    return F.celu(x, alpha)


@operator("Selu")
def selu(
    x: Tensor, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875
) -> Tensor:
    """gamma x, or gamma alpha (exp x - 1) below zero."""
    return gamma * ad.where(x > 0, x, alpha * ad.expm1(ad.clamp(x, max=0.0)))


@operator("LeakyRelu")
def leaky_relu(x: Tensor, *, alpha: float = 0.01) -> Tensor:
    """x, or alpha x below zero."""
    return F.leaky_relu(x, alpha)


@operator("ThresholdedRelu")
def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """x above alpha, else zero."""
    return ad.where(x > alpha, x, ad.zeros_like(x))


@operator("PRelu")
def prelu(x: Tensor, slope: Tensor, *, consumed_inputs: Any = None, call: NodeCall) -> Tensor:
    """x, or slope x below zero; before opset 7 a slope of one dimension was one to each channel."""
    if call.opset < 7 and slope.ndim == 1 and x.ndim > 1:
        slope = slope.reshape([-1, *[1] * (x.ndim - 2)])
    return ad.where(x < 0, slope * x, x)


@operator("HardSigmoid")
def hard_sigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    """alpha x + beta between zero and one."""
    return ad.clamp(alpha * x + beta, 0, 1)


@operator("Softplus")
def softplus(x: Tensor) -> Tensor:
    """log(1 + exp x)."""
    return ad.logaddexp(x, ad.zeros_like(x))


@operator("Softsign")
def softsign(x: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return F.softsign(x)


@operator("Swish")
def swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """x sigmoid(alpha x)."""
    return x * ad.sigmoid(alpha * x)


@operator("SwiGLU")
def swiglu(gate: Tensor, up: Tensor, *, alpha: float = 1.0) -> Tensor:
    """A gate's swish times the other half."""
    return gate * ad.sigmoid(alpha * gate) * up


@operator("Gelu")
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """x times the normal distribution's probability below x."""
    return F.gelu(x, approximate=approximate)


@operator("Shrink")
def shrink(x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """x moved towards zero by bias, and zero within lambd of it."""
    away = ad.where(x > lambd, x - bias, ad.zeros_like(x))
    return ad.where(x < -lambd, x + bias, away).to(x.dtype)


@operator("Affine", "Scale")
def affine(x: Tensor, *, alpha: float = 1.0, beta: float = 0.0, scale: float = 1.0) -> Tensor:
    """A scale and a shift."""
    return alpha * scale * x + beta


@operator("Trilu")
def trilu(x: Tensor, k: Value = None, *, upper: int = 1) -> Tensor:
    """The part of matrices above, or below, a diagonal."""
    offset = int(number(k)) if k is not None else 0
    if x.numel() == 0:
        return x
    return ad.triu(x, offset) if upper else ad.tril(x, offset)
