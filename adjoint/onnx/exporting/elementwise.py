"""Operations of one element at a time, and of rows, as ONNX says them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.engine.core.dtype import DType, float64
from adjoint.engine.graph.ir import Node, Value
from adjoint.onnx.exporting.writer import EMITTERS, NodeWriter, NoForm, emits

# record -> operator, where operands have the result's dtype
_PLAIN = {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "add": "Add", "asin": "Asin",
    "asinh": "Asinh", "atan": "Atan", "atanh": "Atanh", "bitwise_and": "BitwiseAnd",
    "bitwise_not": "BitwiseNot", "bitwise_or": "BitwiseOr", "bitwise_xor": "BitwiseXor",
    "ceil": "Ceil", "cos": "Cos", "cosh": "Cosh", "div": "Div", "erf": "Erf", "exp": "Exp",
    "floor": "Floor", "log": "Log", "mul": "Mul", "neg": "Neg", "relu": "Relu", "round": "Round",
    "sigmoid": "Sigmoid", "sign": "Sign", "sin": "Sin", "sinh": "Sinh", "sqrt": "Sqrt",
    "sub": "Sub", "tan": "Tan", "tanh": "Tanh", "hardswish": "HardSwish", "mish": "Mish",
    "softsign": "Softsign", "logical_and": "And", "logical_or": "Or", "logical_xor": "Xor",
    "logical_not": "Not", "reciprocal": "Reciprocal",
}  # fmt: skip
_COMPARE = {
    "eq": "Equal",
    "gt": "Greater",
    "ge": "GreaterOrEqual",
    "lt": "Less",
    "le": "LessOrEqual",
}
_OF_BOOLS = {
    "bitwise_and": "And", "bitwise_or": "Or", "bitwise_xor": "Xor", "bitwise_not": "Not",
    "mul": "And", "add": "Or",
}  # fmt: skip
# Of whatever dtype: each operand is taken as true or false.
_LOGIC = {"logical_and", "logical_or", "logical_xor", "logical_not"}
_WHOLE = {"ceil", "floor", "round"}  # integers are whole
_SIGNED = {"neg"}


def common(node: Node, operands: tuple[Any, ...] | None = None) -> DType:
    """The dtype that operands are compared in."""
    like = [
        ad.empty((0,) if x.spec.shape else (), dtype=x.spec.dtype, device="meta")
        if isinstance(x, Value)
        else _plain(x)
        for x in (node.inputs if operands is None else operands)
    ]
    if len(like) == 1:
        return like[0].dtype
    example = like[0]
    for other in like[1:]:
        example = (
            ad.empty((), dtype=ad.result_type(example, other), device="meta")
            if not _shaped(example, other)
            else ad.empty((0,), dtype=ad.result_type(example, other), device="meta")
        )
    return example.dtype


def _plain(x: Any) -> Any:
    return float(x) if isinstance(x, float) else int(x)


def _shaped(*values: Any) -> bool:
    return any(getattr(v, "ndim", 0) for v in values)


def _enter_plain(name: str, op: str) -> None:
    @emits(name)
    def emit(w: NodeWriter, node: Node) -> str:
        dtype = ad.bool if name in _LOGIC else node.outputs[0].spec.dtype
        if name in _WHOLE and not dtype.is_floating_point:
            return w.operand(node.inputs[0], dtype)
        if name in _SIGNED and not dtype.is_signed:
            zero = w.number(0, dtype)
            return w.emit("Sub", zero, w.operand(node.inputs[0], dtype))
        chosen = _OF_BOOLS.get(name, op) if dtype is ad.bool else op
        return w.emit(chosen, *[w.operand(x, dtype) for x in node.inputs])


def _enter_compare(name: str, op: str) -> None:
    @emits(name)
    def emit(w: NodeWriter, node: Node) -> str:
        dtype = common(node)
        dtype = ad.int32 if dtype is ad.bool and op != "Equal" else dtype
        return w.emit(op, *[w.operand(x, dtype) for x in node.inputs])


for _name, _op in _PLAIN.items():
    _enter_plain(_name, _op)
for _name, _op in _COMPARE.items():
    _enter_compare(_name, _op)


def _floats(w: NodeWriter, node: Node) -> tuple[DType, list[str]]:
    dtype = node.outputs[0].spec.dtype
    return dtype, [w.operand(x, dtype) for x in node.inputs]


@emits("ne")
def ne(w: NodeWriter, node: Node) -> str:
    return w.emit("Not", str(EMITTERS["eq"](w, node)))


@emits("rsqrt")
def rsqrt(w: NodeWriter, node: Node) -> str:
    _, (x,) = _floats(w, node)
    return w.emit("Reciprocal", w.emit("Sqrt", x))


def _corrected(w: NodeWriter, x: str, whole: str, value: str, rounded: str) -> str:
    """A value of what x was rounded to beside one, times x over that; x itself where it is lost.

    Runtimes have no hyperbolic functions of float64.
    """
    times = w.emit("Div", w.emit("Mul", value, x), rounded)
    return w.emit("Where", w.emit("Equal", whole, w.number(1, float64)), x, times)


@emits("log2", "log10", "log1p", "expm1", "exp2", "square")
def logarithms(w: NodeWriter, node: Node) -> str:
    dtype, (x,) = _floats(w, node)
    one = w.number(1, dtype)
    match node.record.name:
        case "log2" | "log10":
            base = 2 if node.record.name == "log2" else 10
            return w.emit("Div", w.emit("Log", x), w.number(math.log(base), dtype))
        case "log1p":
            half, two = w.number(0.5, dtype), w.number(2, dtype)
            whole = w.emit("Add", x, one)
            if dtype is float64:
                near = _corrected(w, x, whole, w.emit("Log", whole), w.emit("Sub", whole, one))
            else:
                near = w.emit("Mul", two, w.emit("Atanh", w.emit("Div", x, w.emit("Add", x, two))))
            small = w.emit("Less", w.emit("Abs", x), half)  # where adding one would lose x
            return w.emit("Where", small, near, w.emit("Log", whole))
        case "expm1":
            power = w.emit("Exp", x)
            if dtype is float64:
                near = _corrected(w, x, power, w.emit("Sub", power, one), w.emit("Log", power))
            else:
                half = w.emit("Mul", x, w.number(0.5, dtype))
                product = w.emit("Mul", w.emit("Sinh", half), w.emit("Exp", half))
                near = w.emit("Mul", product, w.number(2, dtype))
            small = w.emit("Less", w.emit("Abs", x), one)  # farther out the sine overflows
            return w.emit("Where", small, near, w.emit("Sub", power, one))
        case "exp2":
            return w.emit("Exp", w.emit("Mul", x, w.number(math.log(2), dtype)))
    return w.emit("Mul", x, x)


@emits("pow")
def power(w: NodeWriter, node: Node) -> str:
    dtype = node.outputs[0].spec.dtype
    if dtype.is_floating_point or dtype.itemsize >= 4:
        return w.emit("Pow", *_floats(w, node)[1])
    wide = w.emit("Pow", *[w.operand(x, ad.int64) for x in node.inputs])
    return w.cast_name(wide, dtype)


@emits("maximum", "minimum")
def extremes(w: NodeWriter, node: Node) -> str:
    op = "Max" if node.record.name == "maximum" else "Min"
    if node.outputs[0].spec.dtype is ad.bool:
        op = "Or" if op == "Max" else "And"
    return w.emit(op, *_floats(w, node)[1])


@emits("clamp")
def clamp(w: NodeWriter, node: Node) -> str:
    _, (x, low, high) = _floats(w, node)
    return w.emit("Min", w.emit("Max", x, low), high)


@emits("clamp_min")
def clamp_min(w: NodeWriter, node: Node) -> str:
    return w.emit("Max", *_floats(w, node)[1])


@emits("clamp_max")
def clamp_max(w: NodeWriter, node: Node) -> str:
    return w.emit("Min", *_floats(w, node)[1])


@emits("remainder", "fmod")
def remainder(w: NodeWriter, node: Node) -> str:
    dtype, (x, y) = _floats(w, node)
    if node.record.name == "fmod":
        return w.emit("Mod", x, y, fmod=1)
    if not dtype.is_floating_point:
        return w.emit("Mod", x, y)
    rest, other = _rest(w, x, y, dtype)
    return w.emit("Where", other, w.emit("Add", rest, y), rest)


def _rest(w: NodeWriter, x: str, y: str, dtype: DType) -> tuple[str, str]:
    """What division leaves, exactly, and whether it lies on the other side of zero."""
    zero = w.number(0, dtype)
    rest = w.emit("Mod", x, y, fmod=1)
    beside = w.emit("Xor", w.emit("Less", y, zero), w.emit("Less", rest, zero))
    return rest, w.emit("And", beside, w.emit("Not", w.emit("Equal", rest, zero)))


@emits("floor_divide")
def floor_divide(w: NodeWriter, node: Node) -> str:
    dtype, (x, y) = _floats(w, node)
    zero, one = w.number(0, dtype), w.number(1, dtype)
    if not dtype.is_floating_point:
        quotient = w.emit("Div", x, y)
        inexact = w.emit("Not", w.emit("Equal", w.emit("Mul", quotient, y), x))
        below = w.emit("Xor", w.emit("Less", x, zero), w.emit("Less", y, zero))
        lower = w.cast_name(w.emit("And", inexact, below), dtype)
        return w.emit("Sub", quotient, lower)
    rest, other = _rest(w, x, y, dtype)  # a quotient may be rounded up to a whole number
    whole = w.emit("Div", w.emit("Sub", x, rest), y)
    whole = w.emit("Where", other, w.emit("Sub", whole, one), whole)
    floor = w.emit("Floor", whole)
    far = w.emit("Greater", w.emit("Sub", whole, floor), w.number(0.5, dtype))
    near = w.emit("Where", far, w.emit("Add", floor, one), floor)
    return w.emit("Where", w.emit("Equal", y, zero), w.emit("Div", x, y), near)


@emits("trunc_divide")
def trunc_divide(w: NodeWriter, node: Node) -> str:
    dtype, (x, y) = _floats(w, node)
    quotient: str = w.emit("Div", x, y)
    return truncated(w, quotient) if dtype.is_floating_point else quotient


def truncated(w: NodeWriter, x: str) -> str:
    """Floats without what is behind the point."""
    return w.emit("Mul", w.emit("Sign", x), w.emit("Floor", w.emit("Abs", x)))


@emits("trunc")
def trunc(w: NodeWriter, node: Node) -> str:
    dtype, (x,) = _floats(w, node)
    return truncated(w, x) if dtype.is_floating_point else x


@emits("where")
def where(w: NodeWriter, node: Node) -> str:
    condition, a, b = node.inputs
    dtype = node.outputs[0].spec.dtype
    return w.emit("Where", w.operand(condition, ad.bool), w.operand(a, dtype), w.operand(b, dtype))


@emits("isnan", "isinf")
def no_number(w: NodeWriter, node: Node) -> str:
    x = node.inputs[0]
    op = "IsNaN" if node.record.name == "isnan" else "IsInf"
    return w.emit(op, w.operand(x, x.spec.dtype if x.spec.dtype.is_floating_point else ad.float32))


@emits("cast")
def cast(w: NodeWriter, node: Node) -> str:
    return w.cast_name(w.operand(node.inputs[0], node.inputs[0].spec.dtype), node.params["dtype"])


@emits("clone", "stop_gradient", "to_device")
def same(w: NodeWriter, node: Node) -> str:
    return w.operand(node.inputs[0])


# -- activations ----------------------------------------------------------------------------------


@emits("silu")
def silu(w: NodeWriter, node: Node) -> str:
    x = w.operand(node.inputs[0])
    return w.emit("Mul", x, w.emit("Sigmoid", x))


@emits("gelu")
def gelu(w: NodeWriter, node: Node) -> str:
    if w.opset < 20:
        raise NoForm("Gelu is of opset 20")
    return w.emit("Gelu", w.operand(node.inputs[0]), approximate=node.params["approximate"])


@emits("hardtanh")
def hardtanh(w: NodeWriter, node: Node) -> str:
    dtype = node.outputs[0].spec.dtype
    low, high = (w.number(node.params[k], dtype) for k in ("low", "high"))
    return w.emit("Clip", w.operand(node.inputs[0], dtype), low, high)


@emits("softmax", "log_softmax")
def softmax(w: NodeWriter, node: Node) -> str:
    op = "Softmax" if node.record.name == "softmax" else "LogSoftmax"
    dtype = node.outputs[0].spec.dtype
    return w.emit(op, w.operand(node.inputs[0], dtype), axis=int(node.params["dim"]))


# -- reductions -----------------------------------------------------------------------------------

_REDUCE = {"sum": "ReduceSum", "amax": "ReduceMax", "amin": "ReduceMin", "prod": "ReduceProd"}


@emits(*_REDUCE)
def reduce(w: NodeWriter, node: Node) -> str:
    dtype = node.outputs[0].spec.dtype
    dims = node.params["dims"]
    x = w.operand(node.inputs[0], dtype)
    if not dims:
        return x
    return w.emit(_REDUCE[node.record.name], x, w.ints(dims), keepdims=int(node.params["keepdim"]))


@emits("any", "all")
def any_all(w: NodeWriter, node: Node) -> str:
    every = node.record.name == "all"
    x = w.operand(node.inputs[0], ad.bool)
    counted = w.cast_name(w.emit("Not", x) if every else x, ad.int64)
    dims, keep = w.ints(node.params["dims"]), int(node.params["keepdim"])
    some = w.cast_name(w.emit("ReduceSum", counted, dims, keepdims=keep), ad.bool)
    return w.cast_name(w.emit("Not", some) if every else some, node.outputs[0].spec.dtype)


@emits("argmax", "argmin")
def argmax(w: NodeWriter, node: Node) -> str:
    op = "ArgMax" if node.record.name == "argmax" else "ArgMin"
    x, dim = w.operand(node.inputs[0]), node.params["dim"]
    if dim is None:
        x, dim = w.emit("Reshape", x, w.constant([-1], np.int64)), 0
        position = w.emit(op, x, axis=0, keepdims=0)
        return w.emit("Reshape", position, w.shape(node.outputs[0].spec.shape))
    return w.emit(op, x, axis=int(dim), keepdims=int(node.params["keepdim"]))


@emits("cumsum")
def cumsum(w: NodeWriter, node: Node) -> str:
    params = list(node.params.values())
    if len(params) != 1 and any(v for v in params[1:]):
        raise NoForm(f"cumsum with {node.params}")
    return w.emit(
        "CumSum",
        w.operand(node.inputs[0], node.outputs[0].spec.dtype),
        w.constant(int(params[0]), np.int64),
    )


@emits("random")
def random(w: NodeWriter, node: Node) -> str:
    """Draws: of the same law, of the runtime's own bits."""
    law, args = node.params["law"], node.params["args"]
    spec = node.outputs[0].spec
    like = w.emit("ConstantOfShape", w.shape(spec.shape))
    w.shared.draws = True
    kind = {ad.float32: 1, ad.float16: 10, ad.float64: 11, ad.bfloat16: 16}.get(spec.dtype)
    if kind is None or law not in ("normal", "uniform"):
        raise NoForm(f"draws of law {law!r} in {spec.dtype}")
    if law == "normal":
        return w.emit(
            "RandomNormalLike", like, dtype=kind, mean=float(args[0]), scale=float(args[1])
        )
    low, high = (float(a) for a in (args or (0.0, 1.0)))
    return w.emit("RandomUniformLike", like, dtype=kind, low=low, high=high)
