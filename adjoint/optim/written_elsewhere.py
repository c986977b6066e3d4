"""What optimizers written for PyTorch import from `torch.optim.optimizer` for their own steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

from adjoint.engine.core.dtype import DType, float32
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.shape.join import stack
from adjoint.engine.ops.shape.reinterpret import view_as_real
from adjoint.engine.tensor.tensor import Tensor
from adjoint.optim.stepping.scalars import counter_dtype
from adjoint.optim.stepping.scalars import scalar as _to_scalar

__all__ = ["_to_scalar"]

# What their docstrings say of options that all of them take.
_params_doc = "params (iterable): parameters, pairs of names and parameters, or groups of either"
_foreach_doc = "foreach (bool, optional): accepted as PyTorch has it (default: None)"
_fused_doc = "fused (bool, optional): accepted as PyTorch has it (default: None)"
_capturable_doc = "capturable (bool, optional): keep step counts on the device (default: False)"
_differentiable_doc = "differentiable (bool, optional): record the step (default: False)"
_maximize_doc = "maximize (bool, optional): climb instead of descending (default: False)"

F = TypeVar("F", bound=Callable[..., Any])


def _get_scalar_dtype(is_fused: bool | None = None) -> DType:
    """The dtype of step counts."""
    return float32 if is_fused else counter_dtype()


def _get_value(x: Any) -> Any:
    """The number in a tensor; while a step is captured, the tensor."""
    return x.item() if is_tensor(x) and CONTEXT.capture is None else x


def _dispatch_sqrt(x: Any) -> Any:
    """The root of a number, or of a tensor's elements."""
    return x.sqrt() if is_tensor(x) else math.sqrt(x)


def _stack_if_compiling(x: Any) -> Any:
    """Tensors as one, while a step is captured."""
    return x if CONTEXT.capture is None else stack(x)


def _view_as_real(params: list[Tensor], *state_and_grads: list[Tensor]) -> None:
    """Put pairs of reals in the place of complex parameters, and of what belongs to them."""
    for i, p in enumerate(params):
        if p.dtype.is_complex:
            for values in (params, *state_and_grads):
                values[i] = view_as_real(values[i])


def _disable_dynamo_if_unsupported(
    single_tensor_fn: Callable[..., Any] | None = None,
) -> Callable[[F], F]:
    """The function as it is: captures record step counts on any device."""
    return lambda function: function


def _group_tensors_by_device_and_dtype(
    tensorlistlist: list[list[Any]], with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]]:
    """Lists of tensors, split by device and dtype of the first list's."""
    groups: dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]] = {}
    for index, first in enumerate(tensorlistlist[0]):
        if first is None:
            continue
        lists, indices = groups.setdefault(
            (first.device, first.dtype), ([[] for _ in tensorlistlist], [])
        )
        for target, source in zip(lists, tensorlistlist, strict=True):
            if source:
                target.append(source[index])
        if with_indices:
            indices.append(index)
    return groups
