"""Schedulers that cycle the rate, and the momentum against it."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from functools import partial
from typing import Any

from adjoint.optim.lr_scheduler.base import (
    LRScheduler,
    check_optimizer,
    per_group,
    set_value,
)
from adjoint.optim.optimizer import Optimizer


class _Cycling(LRScheduler):
    """What the cycling schedulers share: setting momentum, or the first of betas."""

    use_beta1: bool

    def _prepare_momentum(self, base: Any, most: Any, *, start: bool) -> tuple[Any, Any]:
        """Check that there is a momentum, and start it at its largest."""
        optimizer = self.optimizer
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError(
                "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
            )
        self.use_beta1 = "betas" in optimizer.defaults
        lows = per_group("base_momentum", optimizer, base)
        highs = per_group("max_momentum", optimizer, most)
        if start:
            for low, high, group in zip(lows, highs, optimizer.param_groups, strict=True):
                self._set_momentum(group, high)
                group["max_momentum"] = high
                group["base_momentum"] = low
        return lows, highs

    def _set_momentum(self, group: dict[str, Any], value: Any) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value


class CyclicLR(_Cycling):
    """The rate up and down between two bounds, at a constant frequency.

    Args:
        optimizer: the optimizer.
        base_lr: the lower bound, or one per group.
        max_lr: the upper bound, or one per group.
        step_size_up: steps from the lower to the upper bound.
        step_size_down: steps back; as many, if None.
        mode: "triangular", "triangular2" (half the height at each cycle) or "exp_range" (the
            height times gamma to the step).
        gamma: for "exp_range".
        scale_fn: the height by cycle or step, in place of a mode.
        scale_mode: "cycle" or "iterations": what `scale_fn` is given.
        cycle_momentum: cycle the momentum against the rate.
        base_momentum: its lower bound.
        max_momentum: its upper bound.
        last_epoch: the step to resume from.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: Any,
        max_lr: Any,
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.8,
        max_momentum: Any = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for lr, group in zip(base_lrs, optimizer.param_groups, strict=True):
                set_value(group, "lr", lr)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        down = up if step_size_down is None else float(step_size_down)
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
            self._scale_fn_ref = self._scale_of_mode()
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums, self.max_momentums = self._prepare_momentum(
                base_momentum, max_momentum, start=last_epoch == -1
            )
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """The height of a cycle, or at a step, relative to the first."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        return self._scale_fn_ref(x)

    # By PyTorch's names, under which schedulers that were pickled whole hold the mode's function.
    @staticmethod
    def _triangular_scale_fn(x: float) -> float:
        return 1.0

    @staticmethod
    def _triangular2_scale_fn(x: float) -> float:
        return 1 / (2.0 ** (x - 1))

    @staticmethod
    def _exp_range_scale_fn(gamma: float, x: float) -> float:
        return float(gamma**x)

    def _scale_of_mode(self) -> Callable[[float], float]:
        if self.mode == "exp_range":
            return partial(self._exp_range_scale_fn, self.gamma)
        of_mode = {"triangular": self._triangular_scale_fn}
        return of_mode.get(self.mode, self._triangular2_scale_fn)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        rising = x <= self.step_ratio
        phase = x / self.step_ratio if rising else (x - 1) / (self.step_ratio - 1)
        height = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for low, high, group in zip(
                self.base_momentums, self.max_momentums, self.optimizer.param_groups, strict=True
            ):
                self._set_momentum(group, high - (high - low) * phase * height)
        return [
            low + (high - low) * phase * height
            for low, high in zip(self.base_lrs, self.max_lrs, strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        state.pop("_scale_fn_ref", None)
        fn = state["_scale_fn_custom"]
        is_object = fn is not None and not isinstance(fn, types.FunctionType)
        state["_scale_fn_custom"] = fn.__dict__.copy() if is_object else None
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        attributes = state_dict.get("_scale_fn_custom")
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})
        if attributes is not None:
            self._scale_fn_custom.__dict__.update(attributes)
        if self._scale_fn_custom is None:  # the mode and gamma may be others now
            self._scale_fn_ref = self._scale_of_mode()


def _phase(end: float, lr: tuple[str, str], momentum: tuple[str, str]) -> dict[str, Any]:
    return {
        "end_step": end,
        "start_lr": lr[0],
        "end_lr": lr[1],
        "start_momentum": momentum[0],
        "end_momentum": momentum[1],
    }


class OneCycleLR(_Cycling):
    """One cycle over the whole run: up to `max_lr`, then down to far below the first rate.

    Args:
        optimizer: the optimizer.
        max_lr: the largest rate, or one per group.
        total_steps: steps of the run; or give `epochs` and `steps_per_epoch`.
        epochs: epochs of the run.
        steps_per_epoch: steps in each.
        pct_start: the part of the run spent rising.
        anneal_strategy: "cos" or "linear".
        cycle_momentum: cycle the momentum against the rate.
        base_momentum: its lower bound.
        max_momentum: its upper bound.
        div_factor: max_lr over the first rate.
        final_div_factor: the first rate over the last.
        three_phase: fall to the first rate as slowly as it rose, then to the last.
        last_epoch: the step to resume from.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: Any,
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.85,
        max_momentum: Any = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = _total(total_steps, epochs, steps_per_epoch)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_func_type = anneal_strategy
        self._schedule_phases = self._phases(float(pct_start * self.total_steps), three_phase)
        if last_epoch == -1:
            highest = per_group("max_lr", optimizer, max_lr)
            for high, group in zip(highest, optimizer.param_groups, strict=True):
                group["initial_lr"] = high / div_factor
                group["max_lr"] = high
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._prepare_momentum(base_momentum, max_momentum, start=last_epoch == -1)
        super().__init__(optimizer, last_epoch)

    def _phases(self, rise: float, three: bool) -> list[dict[str, Any]]:
        down, up = ("max_momentum", "base_momentum"), ("base_momentum", "max_momentum")
        first = _phase(rise - 1, ("initial_lr", "max_lr"), down)
        last = self.total_steps - 1
        if not three:
            return [first, _phase(last, ("max_lr", "min_lr"), up)]
        return [
            first,
            _phase(2 * rise - 2, ("max_lr", "initial_lr"), up),
            _phase(last, ("initial_lr", "min_lr"), ("max_momentum", "max_momentum")),
        ]

    def _anneal(self, start: Any, end: Any, part: float) -> Any:
        if self._anneal_func_type == "linear":
            return (end - start) * part + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        begin = 0.0
        for phase in self._schedule_phases:
            end = phase["end_step"]
            if step <= end or phase is self._schedule_phases[-1]:
                break
            begin = end
        part = (step - begin) / (end - begin)
        groups = self.optimizer.param_groups
        if self.cycle_momentum:
            first, last = phase["start_momentum"], phase["end_momentum"]
            for group in groups:
                self._set_momentum(group, self._anneal(group[first], group[last], part))
        first, last = phase["start_lr"], phase["end_lr"]
        return [self._anneal(group[first], group[last], part) for group in groups]


def _total(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    """The length of a run, stated either way."""
    if total_steps is None and (epochs is None or steps_per_epoch is None):
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    wanted = (
        {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
        if total_steps is None
        else {"total_steps": total_steps}
    )
    product = 1
    for name, value in wanted.items():
        if not isinstance(value, int) or value <= 0:
            raise ValueError(f"Expected positive integer {name}, but got {value}")
        product *= value
    return product
