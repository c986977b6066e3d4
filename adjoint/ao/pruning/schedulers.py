"""How much sparsifiers leave out, changed from step to step."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from adjoint.ao.pruning.sparsifiers import BaseSparsifier


def _counted(method: Any) -> Any:
    """A sparsifier's `step` that counts its calls, without keeping the sparsifier alive."""
    if getattr(method, "_with_counter", False):
        return method
    owner, function = weakref.ref(method.__self__), method.__func__

    @functools.wraps(function)
    def step(*args: Any, **kwargs: Any) -> Any:
        sparsifier: Any = owner()
        sparsifier._step_count += 1
        return function(sparsifier, *args, **kwargs)

    step._with_counter = True  # type: ignore[attr-defined]
    return step


class BaseScheduler:
    """Changes the `sparsity_level` of a sparsifier's groups; `get_sl` says to what.

    Args:
        sparsifier: one that has been prepared.
        last_epoch: the number of the last step; -1 to begin.
        verbose: whether to print each change.
    """

    def __init__(
        self, sparsifier: BaseSparsifier, last_epoch: int = -1, verbose: bool = False
    ) -> None:
        if not isinstance(sparsifier, BaseSparsifier):
            raise TypeError(
                f"{type(sparsifier).__name__} is not an instance of ao.pruning.BaseSparsifier"
            )
        counted: Any = sparsifier
        self.sparsifier: Any = counted
        self.base_sl = [group["sparsity_level"] for group in sparsifier.groups]
        self.last_epoch = last_epoch
        counted.step, counted._step_count = _counted(sparsifier.step), 0
        self._step_count = 0
        self.verbose = verbose
        self._get_sl_called_within_step = False
        self._last_sl: list[float] = []
        self.step()

    def state_dict(self) -> dict[str, Any]:
        """All but the sparsifier."""
        return {key: value for key, value in self.__dict__.items() if key != "sparsifier"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self.__dict__.update(state_dict)

    def get_last_sl(self) -> list[float]:
        """The levels that were last set."""
        return self._last_sl

    def get_sl(self) -> list[float]:
        """The levels of the present step; a scheduler of one's own says."""
        raise NotImplementedError(f"{type(self).__name__} must define get_sl")

    def _warn_outside(self) -> None:
        if not self._get_sl_called_within_step:
            warnings.warn(
                "To get the last sparsity level computed by the scheduler, please use "
                "`get_last_sl()`.",
                stacklevel=3,
            )

    def print_sl(self, is_verbose: bool, group: int, sl: float, epoch: int | None = None) -> None:
        """Print a change, if asked to."""
        if is_verbose:
            when = "Adjusting" if epoch is None else f"Epoch {epoch:5d}: adjusting"
            print(f"{when} sparsity level of group {group} to {sl:.4e}.")

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__} (\nSparsifier {self.sparsifier}\n    base_sl: {self.base_sl}\n)"
        )

    def step(self, epoch: int | None = None) -> None:
        """Set the levels of the next step."""
        if self._step_count == 1 and self.sparsifier._step_count < 1:
            warnings.warn(
                "Detected call of `scheduler.step()` before `sparsifier.step()`. You have to make "
                "sure you run the sparsifier.step() BEFORE any calls to the scheduler.step().",
                stacklevel=2,
            )
        self._step_count += 1
        self._get_sl_called_within_step = True
        try:
            self.last_epoch += 1
            levels = self.get_sl()
        finally:
            self._get_sl_called_within_step = False
        groups = self.sparsifier.groups
        for number, (group, level) in enumerate(zip(groups, levels, strict=True)):
            group["sparsity_level"] = level
            self.print_sl(self.verbose, number, level, epoch)
        self._last_sl = [group["sparsity_level"] for group in groups]
        self.sparsifier.enable_mask_update = True

    def _make_sure_a_list(self, var: Any) -> list[Any]:
        """A value for each group: the one given, or those given."""
        count = len(self.sparsifier.groups)
        if not isinstance(var, (list, tuple)):
            return [var] * count
        if len(var) != count:
            raise ValueError(f"Expected variable of length {count}, but got {len(var)}")
        return list(var)


class LambdaSL(BaseScheduler):
    """The first levels times a function of the number of the step.

    Args:
        sparsifier: one that has been prepared.
        sl_lambda: the function, or one for each group.
        last_epoch: the number of the last step; -1 to begin.
        verbose: whether to print each change.
    """

    def __init__(
        self,
        sparsifier: BaseSparsifier,
        sl_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        groups = sparsifier.groups
        if callable(sl_lambda):
            self.sl_lambdas = [sl_lambda] * len(groups)
        elif len(sl_lambda) != len(groups):
            raise ValueError(f"Expected {len(groups)} sl_lambdas, but got {len(sl_lambda)}")
        else:
            self.sl_lambdas = list(sl_lambda)
        super().__init__(sparsifier, last_epoch, verbose)

    def get_sl(self) -> list[float]:
        """The levels of the present step."""
        self._warn_outside()
        pairs = zip(self.sl_lambdas, self.base_sl, strict=True)
        return [base * factor(self.last_epoch) for factor, base in pairs]


class CubicSL(BaseScheduler):
    """From a first level to the sparsifier's by a cubic curve: quickly first, then slowly.

    Args:
        sparsifier: one that has been prepared.
        init_sl: the level to begin with.
        init_t: the step to begin at.
        delta_t: the steps between changes.
        total_t: how many changes there are.
        initially_zero: whether nothing is left out before `init_t`.
        last_epoch: the number of the last step; -1 to begin.
        verbose: whether to print each change.
    """

    def __init__(
        self,
        sparsifier: BaseSparsifier,
        init_sl: Any = 0.0,
        init_t: Any = 0,
        delta_t: Any = 10,
        total_t: Any = 100,
        initially_zero: Any = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self.sparsifier = sparsifier
        self.init_sl = self._make_sure_a_list(init_sl)
        self.init_t = self._make_sure_a_list(init_t)
        self.delta_t = self._make_sure_a_list(delta_t)
        self.total_t = self._make_sure_a_list(total_t)
        self.initially_zero = self._make_sure_a_list(initially_zero)
        super().__init__(sparsifier, last_epoch, verbose)

    @staticmethod
    def sparsity_compute_fn(
        s_0: float, s_f: float, t: int, t_0: int, dt: int, n: int, initially_zero: bool = False
    ) -> float:
        """The level of step `t` on the way from `s_0` at `t_0` to `s_f` after `n` times `dt`."""
        if initially_zero and t < t_0:
            return 0
        level = s_f + (s_0 - s_f) * (1.0 - (t - t_0) / (dt * n)) ** 3
        return max(s_0, min(s_f, level))

    def get_sl(self) -> list[float]:
        """The levels of the present step."""
        self._warn_outside()
        rows = zip(
            self.init_sl,
            self.base_sl,
            self.init_t,
            self.delta_t,
            self.total_t,
            self.initially_zero,
            strict=True,
        )
        return [
            self.sparsity_compute_fn(first, last, self.last_epoch, start, step, count, zero)
            for first, last, start, step, count, zero in rows
        ]
