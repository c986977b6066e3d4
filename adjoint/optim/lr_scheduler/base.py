"""LRScheduler: the base of schedulers, called once per epoch or step after the optimizer."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from adjoint.engine.core.errors import CaptureError
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.optim.optimizer import Optimizer

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible. Please use `scheduler.step()` to step the scheduler."
)


def copied(value: Any) -> Any:
    """A number, or a copy of a tensor."""
    return value.clone() if is_tensor(value) else value


def group_values(optimizer: Optimizer, key: str) -> list[Any]:
    """One option of every group."""
    return [copied(group[key]) for group in optimizer.param_groups]


def set_value(group: dict[str, Any], key: str, value: Any) -> None:
    """Change an option; a tensor is changed in place."""
    current = group[key]
    if not is_tensor(current):
        group[key] = value
        return
    with CONTEXT.having(grad_enabled=False):
        if is_tensor(value):
            current.copy_(value.reshape(current.shape))
        else:
            current.fill_(value)


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """One value per group, from one for all or a list."""
    groups = optimizer.param_groups
    if not isinstance(value, (list, tuple)):
        return [copied(value) for _ in groups]
    if len(value) != len(groups):
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has "
            f"{len(value)} values, param_groups has {len(groups)}."
        )
    return [copied(v) for v in value]


def check_optimizer(optimizer: Any) -> None:
    """Refuse what is no optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def refuse_capture(name: str) -> None:
    """Refuse to change the host's numbers while a step is being recorded."""
    if CONTEXT.capture is not None and CONTEXT.capture.assign is None:
        raise CaptureError(
            f"{name}.step: called while a graph or a body is recorded, where it would take effect "
            "only once. Call it outside; the step reads the new rate at each call."
        )


class WithinStep:
    """While a scheduler asks itself for rates, so that it knows that users do not.

    A generator in its place would take a third of a scheduler's step.
    """

    __slots__ = ("scheduler",)

    def __init__(self, scheduler: LRScheduler) -> None:
        self.scheduler = scheduler

    def __enter__(self) -> None:
        self.scheduler._get_lr_called_within_step = True

    def __exit__(self, *error: object) -> None:
        self.scheduler._get_lr_called_within_step = False


class LRScheduler:
    """Base class of schedulers: a subclass gives `get_lr`, the rates at `last_epoch`.

    Args:
        optimizer: whose groups' "lr" is changed.
        last_epoch: the epoch to resume from; -1 starts anew and notes each "initial_lr".

    Example:
        >>> import adjoint as ad
        >>> optimizer = ad.optim.SGD([ad.ones(1, requires_grad=True)], lr=1.0)
        >>> scheduler = ad.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.5]
    """

    _get_lr_called_within_step: bool = False
    _is_initial: bool = False
    _last_lr: list[Any]
    last_epoch: int

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming "
                    "scheduler with last_epoch >= 0. Load the optimizer's state first, or start "
                    "with last_epoch=-1."
                )
        self.base_lrs: list[Any] = group_values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        self._initial_step()

    def capture_children(self) -> Iterator[tuple[str, Any]]:
        """What a captured step depends on: nothing; it reads rates from the optimizer."""
        return iter(())

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The rates the last step set."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The rates at `last_epoch`, usually from those now in the groups."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_lr()")

    def _unchanged(self) -> list[Any]:
        return group_values(self.optimizer, "lr")

    def _scaled(self, factor: Any) -> list[Any]:
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _warn_outside_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use "
                "`get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )

    def step(self, epoch: int | None = None) -> None:
        """Move on by one epoch and set the rates."""
        refuse_capture(type(self).__name__)
        if self._step_count == 1:
            self._warn_call_order()
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _warn_call_order(self) -> None:
        if not getattr(self.optimizer.step, "hooked", False):
            warnings.warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler "
                "initialization. Please, make sure to call `optimizer.step()` before "
                "`lr_scheduler.step()`.",
                UserWarning,
                stacklevel=3,
            )
        elif not self.optimizer._opt_called:
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. You should call "
                "them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`. "
                "Failure to do this will result in skipping the first value of the learning rate "
                "schedule.",
                UserWarning,
                stacklevel=3,
            )

    def _within_step(self) -> WithinStep:
        return WithinStep(self)

    def _update_lr(self, epoch: int | None = None) -> None:
        with self._within_step():
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                self.last_epoch = epoch
                closed = getattr(self, "_get_closed_form_lr", None)
                values = self.get_lr() if closed is None else closed()
        self._set_rates(values)

    def _set_rates(self, values: list[Any]) -> None:
        for group, lr in zip(self.optimizer.param_groups, values, strict=True):
            set_value(group, "lr", lr)
        self._last_lr = self._unchanged()


class _LRScheduler(LRScheduler):
    """The base's former name."""
