"""How checkpoints are divided among processes: PyTorch's default planners, as their settings.

What is written where is decided by `save` and `load` themselves; planners of one's own, which in
PyTorch decide it, are refused there.
"""

from __future__ import annotations

from typing import Any


class DefaultSavePlanner:
    """The usual way to write a checkpoint; its settings are accepted as PyTorch has them."""

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        dedup_replicated_tensors: bool | None = None,
        dedup_save_to_lowest_rank: bool = False,
        enable_plan_caching: bool = False,
    ) -> None:
        self.flatten_state_dict = flatten_state_dict


class DefaultLoadPlanner:
    """The usual way to read a checkpoint.

    Args:
        flatten_state_dict: accepted: nested dicts are read in any case.
        flatten_sharded_tensors: accepted likewise.
        allow_partial_load: whether what the checkpoint does not have stays as it is.
    """

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        allow_partial_load: bool = False,
    ) -> None:
        self.flatten_state_dict = flatten_state_dict
        self.allow_partial_load = allow_partial_load


def check_planner(name: str, planner: Any, kind: type) -> None:
    """Refuse a planner that is not the usual one."""
    if planner is not None and type(planner) is not kind:
        raise NotImplementedError(
            f"checkpoint.{name}: planners of one's own are not supported, received "
            f"{type(planner).__name__}. Leave it out, or change the state dict before."
        )
