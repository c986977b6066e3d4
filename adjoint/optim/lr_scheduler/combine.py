"""Schedulers made of schedulers: one after the other, or all at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.optim.lr_scheduler.base import LRScheduler, refuse_capture, set_value
from adjoint.optim.lr_scheduler.plateau import ReduceLROnPlateau
from adjoint.optim.optimizer import Optimizer


def _passed(milestones: Sequence[int], epoch: int) -> int:
    """`bisect_right`, by comparisons that are seen: a recorded step depends on how these come out
    and not on the epoch.
    """
    low, high = 0, len(milestones)
    while low < high:
        middle = (low + high) // 2
        if epoch < milestones[middle]:
            high = middle
        else:
            low = middle + 1
    return low


class _Combined(LRScheduler):
    """Checks and state dicts of schedulers that hold others."""

    _schedulers: Sequence[Any]

    def _check(self, optimizer: Optimizer, schedulers: Sequence[Any]) -> None:
        name = type(self).__name__
        for i, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(f"{name} at index {i} should have `optimizer` as its attribute.")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} does not support `ReduceLROnPlateau` scheduler as it requires "
                    "additional kwargs to be specified when calling `step`, but got one at index "
                    f"{i} in the given schedulers sequence."
                )
            if optimizer is not scheduler.optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but got "
                    f"scheduler {type(scheduler).__name__} at index {i} with another one."
                )

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        state["_schedulers"] = [s.state_dict() for s in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for scheduler, inner_state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(inner_state)


class SequentialLR(_Combined):
    """Schedulers that take over from each other at milestones.

    Args:
        optimizer: the optimizer.
        schedulers: schedulers of that optimizer.
        milestones: the epochs at which the next takes over, one fewer.
        last_epoch: the epoch to resume from.

    Example:
        >>> import adjoint as ad
        >>> from adjoint.optim.lr_scheduler import ConstantLR, ExponentialLR, SequentialLR
        >>> optimizer = ad.optim.SGD([ad.ones(1, requires_grad=True)], lr=1.0)
        >>> warmup = ConstantLR(optimizer, factor=0.5, total_iters=2)
        >>> decay = ExponentialLR(optimizer, gamma=0.5)
        >>> scheduler = SequentialLR(optimizer, [warmup, decay], milestones=[2])
        >>> scheduler.get_last_lr()
        [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: list[Any],
        milestones: list[int],
        last_epoch: int = -1,
    ) -> None:
        name = type(self).__name__
        if len(schedulers) < 1:
            raise ValueError(f"{name} expects at least one scheduler, but got no scheduler.")
        self._check(optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than "
                f"the number of milestone points, but got number of schedulers {len(schedulers)} "
                f"and the number of milestones to be equal to {len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Each scheduler took its first step when it was made: take those back but for one.
        for group in optimizer.param_groups:
            set_value(group, "lr", group["initial_lr"])
        self.recursive_undo()
        first = schedulers[_passed(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: Any = None) -> None:
        """Take back the epoch that schedulers counted when they were made."""
        of = self if sched is None else sched
        if hasattr(of, "_schedulers"):
            for scheduler in of._schedulers:
                self.recursive_undo(scheduler)
        elif hasattr(of, "last_epoch"):
            of.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        """Move on by one epoch."""
        refuse_capture(type(self).__name__)
        self.last_epoch += 1
        i = _passed(self._milestones, self.last_epoch)
        scheduler = self._schedulers[i]
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Combined):
    """Schedulers that all step at once, each on the rate the one before left.

    Args:
        schedulers: schedulers of one optimizer.
        optimizer: that optimizer, if it is to be checked.
    """

    def __init__(self, schedulers: Sequence[Any], optimizer: Optimizer | None = None) -> None:
        if len(schedulers) < 1:
            raise ValueError(
                f"{type(self).__name__} expects at least one scheduler to be chained, but got no "
                "scheduler."
            )
        optimizer = optimizer or schedulers[0].optimizer
        self._check(optimizer, schedulers)
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = self._unchanged()

    def step(self) -> None:  # type: ignore[override]
        """Move all schedulers on by one epoch."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._unchanged()
