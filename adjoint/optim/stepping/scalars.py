"""Numbers in update rules: Python floats, 0-d tensors, or host scalars while a step is captured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.engine.core.device import Device
from adjoint.engine.core.dtype import DType, float32, float64, get_default_dtype
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.ops.create.creation import zeros
from adjoint.engine.ops.elementwise.condition import where
from adjoint.engine.tensor.tensor import Tensor


def counter_dtype() -> DType:
    """The dtype of step counts."""
    return float64 if get_default_dtype() is float64 else float32


def new_counter(device: Device | None = None) -> Tensor:
    """A step count: a 0-d tensor, as PyTorch keeps it."""
    return zeros((), dtype=counter_dtype(), device=device)


def advance(counter: Tensor) -> Any:
    """Count a step; the new count as a float, or as a host scalar while capturing."""
    counter.add_(1)
    if CONTEXT.capture is not None:
        return CONTEXT.capture.count(counter)
    return counter.item()


def compute(fn: Callable[..., Any], *numbers: Any) -> Any:
    """`fn` of numbers, put off to each call where one of them is a host scalar."""
    if not any(isinstance(x, HostScalar) for x in numbers):
        return fn(*numbers)
    return HostScalar.computed(fn, *numbers)


def select(number: Any, there: Tensor, zero: Tensor) -> Tensor:
    """`there` unless the number is 0: chosen now, or at each call of a captured step."""
    if not isinstance(number, HostScalar):
        return there if number else zero
    return where(zeros((), device=there.device).add(number).ne(0), there, zero)


def number_in(tensor: Tensor) -> Any:
    """The number in a 0-d tensor, in double precision: a float, or a tensor while capturing."""
    return tensor.item() if CONTEXT.capture is None else tensor.double()


def scalar(x: Any) -> Any:
    """A number, or a one-element tensor without dimensions."""
    return x.squeeze() if is_tensor(x) and x.ndim else x


def move(param: Tensor, direction: Tensor, scale: Any) -> None:
    """param += scale * direction, differentiable in the scale where that is asked for."""
    if is_tensor(scale) and scale.requires_grad:
        param.add_(direction * scale)
    else:
        param.add_(direction, alpha=scale)


def move_quotient(param: Tensor, above: Tensor, below: Tensor, scale: Any) -> None:
    """param += scale * above / below, differentiable in the scale where that is asked for."""
    if is_tensor(scale) and scale.requires_grad:
        param.add_(above / below * scale)
    else:
        param.addcdiv_(above, below, value=scale)
