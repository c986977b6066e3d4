"""Post-local SGD: averages over all processes at first, then among neighbours only."""

from __future__ import annotations

from typing import Any

from adjoint.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from adjoint.distributed.groups.group import new_subgroups
from adjoint.futures import Future


class PostLocalSGDState:
    """What the hook knows.

    Args:
        process_group: the processes of the averages at first; all unless given.
        subgroup: those of the averages after that; this machine's unless given.
        start_localSGD_iter: the iteration from which neighbours only are averaged.
        post_local_gradient_allreduce: whether they are averaged at all then.
    """

    def __init__(
        self, process_group: Any, subgroup: Any, start_localSGD_iter: int,
        post_local_gradient_allreduce: bool = True,
    ) -> None:  # fmt: skip
        self.process_group = process_group
        self.subgroup = new_subgroups()[0] if subgroup is None else subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0

    def maybe_increase_iter(self, bucket: Any) -> None:
        """Count iterations, by their last bucket."""
        if bucket.is_last():
            self.iter += 1


def post_localSGD_hook(state: PostLocalSGDState, bucket: Any) -> Future:
    """The average of a bucket: over all processes at first, then over the subgroup's.

    Parameters drift apart after that; `PostLocalSGDOptimizer` averages them now and then.
    """
    local = state.iter >= state.start_localSGD_iter
    state.maybe_increase_iter(bucket)
    if local and not state.post_local_gradient_allreduce:
        done = Future()
        done.set_result(bucket.buffer())
        return done
    return allreduce_hook(state.subgroup if local else state.process_group, bucket)
