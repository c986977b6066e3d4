"""Python's operators on tensors.

An operator is a direct call of its record: nothing stands between `x + y` and `ADD(x, y)` but
the test that `y` is something a tensor computes with.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import unwrap
from numbers import Number
from typing import Any

from adjoint.engine.core.dtype import bool_
from adjoint.engine.core.operations.autocast import with_autocast
from adjoint.engine.core.operations.met_calls import call_small, may_be_small, write_small
from adjoint.engine.core.operations.overrides import (
    ORDINARY,
    OVERRIDES,
    PASS,
    asking,
    both_ordinary,
    concerns_nobody,
    dispatch,
    overrides,
    refuse_foreign,
)
from adjoint.engine.core.operations.record import HOOKS, Record, is_tensor
from adjoint.engine.core.operations.small_calls import small_calls, small_writes
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.core.value import TensorBase
from adjoint.engine.ops.elementwise import arithmetic, comparison, division, logical, power, sign
from adjoint.engine.ops.products import matmul
from adjoint.engine.tensor.overriding import KNOWN_AS
from adjoint.engine.tensor.tensor import Tensor
from adjoint.engine.tensor.watching import show
from adjoint.engine.tensor.writing.mutation import update

_OPERAND = (TensorBase, bool, int, float, complex, HostScalar)
Method = Callable[..., Any]
NO_PARAMETERS: dict[str, Any] = {}


def _foreign(x: Any) -> Any:
    """A NumPy scalar as a number, a NumPy array as a tensor; NotImplemented for anything else."""
    if isinstance(x, Number) and hasattr(x, "item"):
        return x.item()
    if not hasattr(x, "__array_interface__"):
        return NotImplemented
    shared = HOOKS.array.wrap(x)
    show(shared._storage)
    return shared


_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


def _shown(operator: str) -> Any:
    """What an operator is called to those who take it over."""
    return getattr(Tensor, KNOWN_AS.get(operator, operator))


def _asked(name: str, self: Tensor, other: Any) -> Any:
    """What is made of an operator and a value that is no tensor, which may have one of its own."""
    kind, mirrored = type(other), f"__{_MIRRORED.get(name, f'r{name}')}__"
    if overrides(kind):
        refuse_foreign(kind)
        if getattr(kind, mirrored, None) is not getattr(object, mirrored, None):
            return NotImplemented
        OVERRIDES.enlist()
    elif not OVERRIDES.active or (self.__class__ in ORDINARY and not OVERRIDES.entered):
        return NotImplemented
    taken = dispatch(_shown(f"__{name}__"), (self, other), {})
    return NotImplemented if taken is PASS else taken


def _forward(compute: Method, name: str, operator: str) -> Method:
    small = small_calls(name)
    unfollowed = small is not None and small.unfollowed

    def method(self: Tensor, other: Any) -> Any:
        if isinstance(other, _OPERAND):
            if (
                small is not None
                and (unfollowed or not self._requires_grad)
                and may_be_small(self, True, (self, other))
            ):
                result = call_small(small, compute, (self, other), NO_PARAMETERS)
                if result is not None:
                    return result
        else:
            known = _foreign(other)
            if known is NotImplemented:
                return _asked(operator, self, other)
            other = known
        if OVERRIDES.active and not both_ordinary(self, other):
            taken = dispatch(_shown(f"__{operator}__"), (self, other), {})
            if taken is not PASS:
                return taken
        return compute(self, other)

    return asking(method)


def _reflected(compute: Method, operator: str) -> Method:
    def method(self: Tensor, other: Any) -> Any:
        if not isinstance(self, TensorBase):  # Tensor.__radd__(2, x)
            raise TypeError(f"a reflected operator of Tensor takes one, not {type(self).__name__}")
        if not isinstance(other, _OPERAND):
            known = _foreign(other)
            if known is NotImplemented:
                return _asked(f"r{operator}", self, other)
            other = known
        if OVERRIDES.active and not both_ordinary(self, other):
            taken = dispatch(_shown(f"__r{operator}__"), (self, other), {})
            if taken is not PASS:
                return taken
        return compute(other, self)

    return asking(method)


def _inplace(name: str, compute: Method, base: str) -> Method:
    small = small_writes(base)

    def method(self: Tensor, other: Any) -> Any:
        if small is not None and write_small(small, compute, self, (other,), NO_PARAMETERS):
            return self
        if not isinstance(other, _OPERAND):
            known = _foreign(other)
            if known is NotImplemented:
                return _asked(name.strip("_"), self, other)
            other = known
        if OVERRIDES.active and not both_ordinary(self, other):
            taken = dispatch(_shown(name), (self, other), {})
            if taken is not PASS:
                return taken
        return update(name, self, compute, other)

    return asking(method)


_BINARY: dict[str, Method] = {
    "add": arithmetic.ADD,
    "sub": arithmetic.SUB,
    "mul": arithmetic.MUL,
    "truediv": division.DIV,
    "div": division.DIV,
    "floordiv": division.FLOOR_DIVIDE,
    "mod": division.REMAINDER,
    "pow": power.power,
    "and": logical.BITWISE_AND,
    "or": logical.BITWISE_OR,
    "xor": logical.BITWISE_XOR,
    "lshift": logical.LEFT_SHIFT,
    "rshift": logical.RIGHT_SHIFT,
}
# Functions that are their record where two operands are all they are given.
DIRECT: dict[str, Record] = {
    "add": arithmetic.ADD,
    "sub": arithmetic.SUB,
    "subtract": arithmetic.SUB,
    "mul": arithmetic.MUL,
    "multiply": arithmetic.MUL,
    "div": division.DIV,
    "divide": division.DIV,
    "true_divide": division.DIV,
}
# Functions that operators are called otherwise than.
_LONG = {
    "truediv": "div", "floordiv": "floor_divide", "mod": "remainder", "and": "bitwise_and",
    "or": "bitwise_or", "xor": "bitwise_xor", "invert": "bitwise_not",
    "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
}  # fmt: skip
_COMPARISONS = {
    "eq": comparison.EQ,
    "ne": comparison.NE,
    "lt": comparison.LT,
    "le": comparison.LE,
    "gt": comparison.GT,
    "ge": comparison.GE,
}


def _itself(x: Tensor) -> Tensor:
    """`+x`; the operator asks who overrides."""
    return _positive(x) if x.dtype is bool_ else x  # which says that there is none


_positive = unwrap(arithmetic.positive)
_UNARY: dict[str, Method] = {
    "neg": arithmetic.NEG,
    "pos": _itself,
    "abs": sign.ABS,
    "invert": logical.BITWISE_NOT,
}


def _multiple(x: Any, y: Tensor) -> Tensor:
    """A number times a tensor: the number is the second factor (Note [numbers beside halves])."""
    return arithmetic.MUL(y, x)


def _quotient(x: Any, y: Tensor) -> Tensor:
    """A number by a tensor: of halves a multiple of the reciprocal, which is one itself."""
    if y.dtype.is_half and (x.__class__ is not int or x != 1):
        return arithmetic.MUL(division.DIV(1, y), x)
    return division.DIV(x, y)


# `1 / x` is a reciprocal to autocast, which computes those in float32 on GPUs.
_multiple_of_reciprocal = with_autocast("reciprocal", _quotient)


def _unary(compute: Method, name: str, operator: str) -> Method:
    small = small_calls(name)
    of_whole_numbers = compute is logical.BITWISE_NOT

    def method(self: Tensor) -> Any:
        if small is not None and not self._requires_grad and may_be_small(self, True, (self,)):
            result = call_small(small, compute, (self,), NO_PARAMETERS)
            if result is not None:
                return result
        if OVERRIDES.active and not concerns_nobody((self,), NO_PARAMETERS):
            taken = dispatch(_shown(operator), (self,), {})
            if taken is not PASS:
                return taken
        if of_whole_numbers and self.dtype.is_inexact:
            raise TypeError(
                "~ (operator.invert) is only implemented on integer and Boolean-type tensors, "
                f"received {self.dtype.name}"
            )
        return compute(self)

    return asking(method)


def install_operators() -> None:
    """Put the operators on Tensor."""
    for name, compute in _BINARY.items():
        _put(f"__{name}__", _forward(compute, _LONG.get(name, name), name))
        _put(f"__r{name}__", _reflected(compute, name))
        _put(f"__i{name}__", _inplace(f"__i{name}__", compute, _LONG.get(name, name)))
    _put("__rmul__", _reflected(_multiple, "mul"))
    for name in ("truediv", "div"):
        _put(f"__r{name}__", _reflected(_multiple_of_reciprocal, name))
    for name, record in _COMPARISONS.items():
        _put(f"__{name}__", _forward(record, name, name))
    for name, compute in _UNARY.items():
        _put(f"__{name}__", _unary(compute, _LONG.get(name, name), f"__{name}__"))
    _put("__matmul__", _matmul)
    _put("__rmatmul__", _rmatmul)


# PyTorch's names of them, where those are not what Python calls them.
_SHOWN_AS = {"__pow__": "pow", "__ipow__": "pow_", "__rtruediv__": "__rdiv__"}


def _put(name: str, method: Any) -> None:
    """Give Tensor an operator; what numbers given to it are is known by its name."""
    method.__name__, method.__qualname__ = _SHOWN_AS.get(name, name), f"Tensor.{name}"
    setattr(Tensor, name, method)


_small_products = small_calls("matmul")


def _product(x: Tensor, y: Tensor) -> Tensor:
    """`x @ y`; the public function, which knows a policy, where autocast is on."""
    if _small_products is not None and not x._requires_grad and may_be_small(x, True, (x, y)):
        result = call_small(_small_products, matmul.product, (x, y), NO_PARAMETERS)
        if result is not None:
            product: Tensor = result
            return product
    return matmul.product(x, y) if CONTEXT.autocast is None else matmul.matmul(x, y)


def _matmul(self: Tensor, other: Any) -> Any:
    if not is_tensor(other):
        return _asked("matmul", self, other)
    if OVERRIDES.active and not both_ordinary(self, other):
        taken = dispatch(_shown("__matmul__"), (self, other), {})
        if taken is not PASS:
            return taken
    return _product(self, other)


def _rmatmul(self: Tensor, other: Any) -> Any:
    if not is_tensor(other):
        return _asked("rmatmul", self, other)
    if OVERRIDES.active and not both_ordinary(self, other):
        taken = dispatch(_shown("__rmatmul__"), (self, other), {})
        if taken is not PASS:
            return taken
    return _product(other, self)


asking(_matmul)
asking(_rmatmul)
