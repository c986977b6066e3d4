"""Training with different numbers of inputs: `with Join([model, optimizer])`.

Note [joining]
    In the context every step begins with a sum of ones over the group, by what comes first in the
    list. A process that has run out of inputs adds zeros instead; while the sum is not zero, it
    plays the collectives of the others' step (`main_hook`) and asks again. In the end all bring
    their states together (`post_hook`).
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from adjoint.distributed.communication.collectives import all_reduce
from adjoint.distributed.communication.work import Work
from adjoint.distributed.groups.group import get_world_size, resolve
from adjoint.engine.ops.create.creation import full

LONG = 1000  # rounds that one process plays alone before a warning


class JoinHook:
    """What a process does in place of a step when it has no more inputs, and in the end."""

    def main_hook(self) -> None:
        """Play the collectives of one step of the others."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Bring states together, when no process has inputs any more."""


@dataclass(frozen=True, slots=True)
class JoinConfig:
    """What a joinable knows of the context it is in."""

    enable: bool = False
    throw_on_early_termination: bool = False
    is_first_joinable: bool = False


class Joinable(ABC):
    """What `Join` takes: it says how to play its collectives, and where."""

    def __init__(self) -> None:
        super().__init__()
        self._join_config = JoinConfig()

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """The hook, with the options that `Join` was given."""

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """Where the tensors of its collectives are."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """The processes."""


class Join:
    """A context in which each process goes through its own number of inputs.

    Args:
        joinables: modules under DistributedDataParallel, ZeroRedundancyOptimizer, or others that
            are `Joinable`; each must be used once in every step.
        enable: whether it does anything.
        throw_on_early_termination: raise on every process when the first has no more inputs.
        kwargs: options for the joinables' hooks, such as `divide_by_initial_world_size`.
    """

    def __init__(
        self, joinables: Sequence[Any], enable: bool = True,
        throw_on_early_termination: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        for joinable in joinables:
            if not isinstance(joinable, Joinable):
                raise TypeError(
                    f"Join: expected Joinable objects, received {type(joinable).__name__}"
                )
        groups = {id(resolve(member.join_process_group)) for member in joinables}
        if len(groups) > 1:
            raise ValueError("Using join context manager with multiple process groups")
        self._joinables = list(joinables)
        self._enable, self._throw = enable, throw_on_early_termination
        self._group = resolve(joinables[0].join_process_group)
        self._device = joinables[0].join_device
        self._hooks = [member.join_hook(**kwargs) for member in joinables] if enable else []
        for at, joinable in enumerate(joinables):
            joinable._join_config = JoinConfig(enable, throw_on_early_termination, at == 0)

    def __enter__(self) -> Join:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:  # fmt: skip
        try:
            if self._enable and kind is None:
                self._play()
        finally:
            for joinable in self._joinables:
                joinable._join_config = JoinConfig()
        return None

    def _play(self) -> None:
        """Play the others' steps until nobody has inputs, and bring states together."""
        last, rounds = True, 0
        while total(0.0, self._group, self._device):
            if self._throw:
                total(1.0, self._group, self._device)
                raise exhausted()
            last = False
            rounds += 1
            if rounds == LONG:
                warnings.warn(
                    f"Join: this process has had no inputs for {LONG} steps of others", stacklevel=3
                )
            for hook in self._hooks:
                hook.main_hook()
        for hook in self._hooks:
            hook.post_hook(last)

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Work | None:
        """Say, at the start of a step's collectives, that this process still has inputs.

        Of several joinables the first in the list does it; what is begun need not be waited for.
        """
        config = joinable._join_config
        if not config.enable or not config.is_first_joinable:
            return None
        group, device = joinable.join_process_group, joinable.join_device
        work = all_reduce(full((1,), 1.0, device=device), group=group, async_op=True)
        if config.throw_on_early_termination and total(0.0, group, device):
            raise exhausted()
        return work


def total(mine: float, group: Any, device: Any) -> float:
    """The sum of what the processes say."""
    if get_world_size(group) == 1:
        return mine
    said = full((1,), mine, device=device)
    all_reduce(said, group=group)
    return float(said.item())


def exhausted() -> RuntimeError:
    """What every process raises where the end of the first one's inputs ends them all."""
    return RuntimeError(
        "Detected at least one rank that exhausted inputs. Throwing across all ranks."
    )
