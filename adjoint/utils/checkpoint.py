"""Recompute in backward instead of saving."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from typing import Any

from adjoint.engine.autodiff.tape.checkpoint import CheckpointError as CheckpointError
from adjoint.engine.autodiff.tape.checkpoint import CheckpointFunction as CheckpointFunction
from adjoint.engine.autodiff.tape.checkpoint import checkpoint as checkpoint
from adjoint.engine.autodiff.tape.checkpoint import checkpoint_sequential as checkpoint_sequential
from adjoint.engine.autodiff.tape.checkpoint import get_device_states as get_device_states
from adjoint.engine.autodiff.tape.checkpoint import set_device_states as set_device_states
from adjoint.engine.core.errors import warn_user
from adjoint.engine.core.state import switches
from adjoint.engine.tensor.tensor import Tensor


class CheckpointPolicy(Enum):
    """What a policy may say of an operation's result: to keep it, or to compute it again."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4


class DefaultDeviceType:
    """The kind of device whose generator PyTorch's checkpoints keep where arguments name none.

    Kept for who asks: here the generators of all devices in use are kept.
    """

    _kind = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Choose it."""
        DefaultDeviceType._kind = device

    @staticmethod
    def get_device_type() -> str:
        """The kind chosen last: "cuda" at first."""
        return DefaultDeviceType._kind


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments whose tensors are leaves of a tape of their own, differentiated as before.

    >>> import adjoint as ad
    >>> x, by = detach_variable((ad.ones(2, requires_grad=True) * 2, 3))
    >>> x.is_leaf, x.requires_grad, by
    (True, True, 3)
    """
    if not isinstance(inputs, tuple):
        kind = type(inputs).__name__
        raise RuntimeError(
            f"Only tuple of tensors is supported. Got Unsupported input type: {kind}"
        )
    return tuple(
        x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs
    )


def noop_context_fn() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """Contexts that do nothing."""
    return nullcontext(), nullcontext()


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable[..., Any] | list[Any], allow_cache_entry_mutation: bool = False
) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """Contexts for `checkpoint(context_fn=...)`. All is computed again, with the same result.

    What a policy would keep is told once; `compile` decides itself what a step keeps.
    """
    if not callable(policy_fn_or_list) and not isinstance(policy_fn_or_list, list):
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    switches.tell("utils.checkpoint.create_selective_checkpoint_contexts")
    return noop_context_fn()


def set_checkpoint_early_stop(enable: bool) -> switches.SwitchOverride:
    """A `with` block that asks to stop with the last value needed; all is computed in any case."""
    return switches.SwitchOverride({"utils.checkpoint.set_checkpoint_early_stop": bool(enable)})


def check_backward_validity(inputs: Any) -> None:
    """Warn where none of the arguments wants a gradient."""
    if not any(isinstance(x, Tensor) and x.requires_grad for x in inputs):
        warn_user("None of the inputs have requires_grad=True. Gradients will be None")
