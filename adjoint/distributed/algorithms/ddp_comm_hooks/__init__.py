"""What DistributedDataParallel can do with buckets of gradients."""

from __future__ import annotations

from enum import Enum, member
from typing import Any

from adjoint.distributed.algorithms.ddp_comm_hooks import debugging_hooks as debugging_hooks
from adjoint.distributed.algorithms.ddp_comm_hooks import default_hooks as default_hooks
from adjoint.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as post_localSGD_hook
from adjoint.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powerSGD_hook


class DDPCommHookType(Enum):
    """The hooks, by name; a member's value is the hook."""

    ALLREDUCE = member(default_hooks.allreduce_hook)
    FP16_COMPRESS = member(default_hooks.fp16_compress_hook)
    BF16_COMPRESS = member(default_hooks.bf16_compress_hook)
    POWER_SGD = member(powerSGD_hook.powerSGD_hook)
    BATCHED_POWER_SGD = member(powerSGD_hook.batched_powerSGD_hook)
    POST_LOCAL_SGD = member(post_localSGD_hook.post_localSGD_hook)
    NOOP = member(debugging_hooks.noop_hook)


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """Have a hook do what is done with the buckets of a module."""
    model.register_comm_hook(state, comm_hook_type.value)
