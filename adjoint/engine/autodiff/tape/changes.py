"""What hooks put in the place of cotangents: as many, of the same kind, shape, dtype and device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.engine.core.operations.record import is_tensor


def replacement(hook: Callable[..., Any], grad: Any, other: Any) -> Any:
    """What a hook returned instead of a cotangent; it goes to rules that rely on its form."""
    if grad is None:
        raise RuntimeError("can't replace a None gradient with a non-None value")
    if not is_tensor(other):
        raise TypeError(f"expected Variable, but hook returned '{type(other).__name__}'")
    if not getattr(hook, "changes_dtype", False) and other.dtype is not grad.dtype:
        raise RuntimeError(
            f"hook '{_name(hook)}' has changed the type of value (was {grad.dtype.name} got "
            f"{other.dtype.name})"
        )
    if other.device != grad.device:
        raise RuntimeError(
            f"hook '{_name(hook)}' has changed the device of value (was {grad.device} got "
            f"{other.device})"
        )
    if tuple(other.shape) != tuple(grad.shape):
        raise RuntimeError(
            f"hook '{_name(hook)}' has changed the size of value (was {tuple(grad.shape)} got "
            f"{tuple(other.shape)})"
        )
    return other


def replacing(hook: Callable[..., Any], grads: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """What a hook of a node returned instead of its cotangents; None where it left one away."""
    if len(others) != len(grads):
        raise RuntimeError(
            f"hook '{_name(hook)}' has returned an incorrect number of values (got {len(others)}, "
            f"but expected {len(grads)})"
        )
    return [
        None if other is None else replacement(hook, grad, other)
        for grad, other in zip(grads, others, strict=True)
    ]


def _name(hook: Callable[..., Any]) -> str:
    return getattr(hook, "__name__", type(hook).__name__)
