"""Python's operators on Arrays, and indexing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint.array_api.arrays import WIDE_UNSIGNED, Array, as_arrays, to_numpy
from adjoint.array_api.dtypes import COMPLEX, KINDS, cast
from adjoint.array_api.elementwise import FUNCTIONS
from adjoint.array_api.products import matmul
from adjoint.engine.core.errors import DTypeTypeError, ShapeValueError
from adjoint.engine.tensor.tensor import Tensor

Method = Callable[..., Any]
_ARITHMETIC = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide",
    "floordiv": "floor_divide", "mod": "remainder", "pow": "pow", "and": "bitwise_and",
    "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
}  # fmt: skip
_COMPARISONS = {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
    "ge": "greater_equal",
}  # fmt: skip
_UNARY = {"neg": "negative", "pos": "positive", "abs": "abs", "invert": "bitwise_invert"}


def _operand(other: Any) -> bool:
    return isinstance(other, (Tensor, bool, int, float, complex)) or hasattr(
        other, "__array_interface__"
    )


def _as_operand(other: Any) -> Any:
    if isinstance(other, (Tensor, bool, int, float, complex)):
        return other
    return ad.as_tensor(other)


def _forward(compute: Method) -> Method:
    def method(self: Any, other: Any, /) -> Any:
        return compute(self, _as_operand(other)) if _operand(other) else NotImplemented

    return method


def _reflected(compute: Method) -> Method:
    def method(self: Any, other: Any, /) -> Any:
        return compute(_as_operand(other), self) if _operand(other) else NotImplemented

    return method


def _inplace(compute: Method, name: str) -> Method:
    def method(self: Any, other: Any, /) -> Any:
        if not _operand(other):
            return NotImplemented
        result = compute(self, _as_operand(other))
        if kind(result.dtype) != kind(self.dtype):
            raise DTypeTypeError(
                f"{name}: the result is {result.dtype.name}, which does not fit the "
                f"{self.dtype.name} it would be written to"
            )
        if result.shape != self.shape:
            raise ShapeValueError(
                f"{name}: the result has shape {tuple(result.shape)} and the array written to "
                f"{tuple(self.shape)}"
            )
        self.copy_(result)
        return self

    return method


def kind(dtype: Any) -> str:
    """The kind within which the standard lets an array be written to."""
    for name in ("bool", "integral", "real floating", "complex floating"):
        if dtype in KINDS[name]:
            return name
    return "real floating" if dtype.is_floating_point else str(dtype)


def _single(compute: Method) -> Method:
    def method(self: Any, /) -> Any:
        return compute(self)

    return method


# -- indexing --------------------------------------------------------------------------------------


def _forwards(key: Any, shape: tuple[int, ...]) -> tuple[Any, list[int]]:
    """A key without negative steps, and the dimensions of its result to turn round."""
    parts = list(key) if isinstance(key, tuple) else [key]
    if not any(isinstance(part, slice) and (part.step or 1) < 0 for part in parts):
        return key, []
    taken = sum(_width(part) for part in parts)
    if not any(part is Ellipsis for part in parts):
        parts.append(Ellipsis)
    if any(isinstance(part, (Tensor, list)) for part in parts):
        raise IndexError("a slice with a negative step cannot be joined with index arrays")
    out, turned, source, target = [], [], 0, 0
    for part in parts:
        if isinstance(part, slice):
            if (part.step or 1) < 0:
                picked = range(*part.indices(shape[source]))
                part = slice(picked[-1], picked[0] + 1, -picked.step) if picked else slice(0, 0)
                turned.append(target)
            source, target = source + 1, target + 1
        elif part is None:
            target += 1
        elif part is Ellipsis:
            source, target = source + len(shape) - taken, target + len(shape) - taken
        else:
            source += 1
        out.append(part)
    return tuple(out), turned


def _width(part: Any) -> int:
    """How many dimensions a part of a key takes up."""
    if part is None or part is Ellipsis or isinstance(part, bool):
        return 0
    if isinstance(part, Tensor) and part.dtype is ad.bool:
        return part.ndim
    return 1


def _indices(key: Any) -> Any:
    """A key with its index arrays as int64: PyTorch reads uint8 as a mask, and few others."""
    if isinstance(key, tuple):
        return tuple(_indices(part) for part in key)
    if isinstance(key, Tensor) and key.dtype in KINDS["integral"]:
        return key.to(ad.int64)
    return key


def getitem(self: Any, key: Any, /) -> Any:
    """The elements that a key selects."""
    forwards, turned = _forwards(_indices(key), tuple(self.shape))
    elements = as_arrays(Tensor.__getitem__(self, forwards))
    return as_arrays(elements.flip(turned)) if turned else elements


def setitem(self: Any, key: Any, value: Any, /) -> None:
    """Write to the elements that a key selects."""
    forwards, turned = _forwards(_indices(key), tuple(self.shape))
    if not isinstance(value, Tensor):
        value = ad.as_tensor(value)
        if value.dtype in COMPLEX and self.dtype not in COMPLEX:
            raise DTypeTypeError(
                f"complex numbers cannot be written to an array of {self.dtype.name}"
            )
    value = cast(value, self.dtype)
    if turned:
        shape = Tensor.__getitem__(self, forwards).shape
        value = value.broadcast_to(shape).flip(turned)
    if self.dtype in WIDE_UNSIGNED:
        to_numpy("__setitem__", self)[to_numpy("__setitem__", forwards)] = to_numpy("", value)
        return
    Tensor.__setitem__(self, forwards, value)


def _install() -> None:
    for name, function in _ARITHMETIC.items():
        compute = FUNCTIONS[function]
        setattr(Array, f"__{name}__", _forward(compute))
        setattr(Array, f"__r{name}__", _reflected(compute))
        setattr(Array, f"__i{name}__", _inplace(compute, f"__i{name}__"))
    for name, function in _COMPARISONS.items():
        setattr(Array, f"__{name}__", _forward(FUNCTIONS[function]))
    for name, function in _UNARY.items():
        setattr(Array, f"__{name}__", _single(FUNCTIONS[function]))
    special: dict[str, Method] = {
        "__matmul__": _forward(matmul),
        "__rmatmul__": _reflected(matmul),
        "__imatmul__": _inplace(matmul, "__imatmul__"),
        "__getitem__": getitem,
        "__setitem__": setitem,
        "__hash__": object.__hash__,
    }
    for name, method in special.items():
        setattr(Array, name, method)


_install()
