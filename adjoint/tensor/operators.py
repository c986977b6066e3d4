"""Python's operators on tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.core.host import HostScalar
from adjoint.core.record import Record, is_tensor
from adjoint.core.value import TensorBase
from adjoint.ops import elementwise, matmul
from adjoint.tensor.mutation import update
from adjoint.tensor.tensor import Tensor

_OPERAND = (TensorBase, bool, int, float, complex, HostScalar)


def _binary(record: Record) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def forward(self: Tensor, other: Any) -> Any:
        return record(self, other) if isinstance(other, _OPERAND) else NotImplemented

    def backward(self: Tensor, other: Any) -> Any:
        return record(other, self) if isinstance(other, _OPERAND) else NotImplemented

    return forward, backward


def _inplace(name: str, record: Record) -> Callable[..., Any]:
    def method(self: Tensor, other: Any) -> Any:
        if not isinstance(other, _OPERAND):
            return NotImplemented
        return update(name, self, record, other)

    return method


def install_operators() -> None:
    """Put the operators on Tensor."""
    for name, record in {
        "add": elementwise.ADD,
        "sub": elementwise.SUB,
        "mul": elementwise.MUL,
        "truediv": elementwise.DIV,
    }.items():
        forward, backward = _binary(record)
        setattr(Tensor, f"__{name}__", forward)
        setattr(Tensor, f"__r{name}__", backward)
        setattr(Tensor, f"__i{name}__", _inplace(name, record))
    for name, record in {"eq": elementwise.EQ, "lt": elementwise.LT, "gt": elementwise.GT}.items():
        setattr(Tensor, f"__{name}__", _binary(record)[0])
    setattr(Tensor, "__neg__", lambda self: elementwise.NEG(self))  # noqa: B010
    setattr(Tensor, "__matmul__", _matmul)  # noqa: B010


def _matmul(self: Tensor, other: Any) -> Any:
    return matmul.product(self, other) if is_tensor(other) else NotImplemented
