"""Schedulers given by a function of the epoch."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from adjoint.optim.lr_scheduler.base import LRScheduler
from adjoint.optim.optimizer import Optimizer

Factor = Callable[[int], float]


class _Functions(LRScheduler):
    """One function per group; state dicts keep those that are objects, not functions."""

    lr_lambdas: list[Factor]

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Factor | list[Factor], last_epoch: int = -1
    ) -> None:
        self.optimizer = optimizer
        groups = optimizer.param_groups
        if isinstance(lr_lambda, (list, tuple)):
            if len(lr_lambda) != len(groups):
                raise ValueError(f"Expected {len(groups)} lr_lambdas, but got {len(lr_lambda)}")
            self.lr_lambdas = list(lr_lambda)
        else:
            self.lr_lambdas = [lr_lambda] * len(groups)
        for fn in self.lr_lambdas:
            if not callable(fn):
                raise TypeError(f"lr_lambda should be a function, but got {type(fn).__name__}")
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        state["lr_lambdas"] = [
            None if isinstance(fn, types.FunctionType) else fn.__dict__.copy()
            for fn in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for fn, attributes in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if attributes is not None:
                fn.__dict__.update(attributes)


class LambdaLR(_Functions):
    """The initial rate times a function of the epoch.

    Args:
        optimizer: the optimizer.
        lr_lambda: the function, or one per group.
        last_epoch: the epoch to resume from.

    Example:
        >>> import adjoint as ad
        >>> optimizer = ad.optim.SGD([ad.ones(1, requires_grad=True)], lr=1.0)
        >>> ad.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5**epoch).get_last_lr()
        [1.0]
    """

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        return [
            base * fn(self.last_epoch)
            for fn, base in zip(self.lr_lambdas, self.base_lrs, strict=True)
        ]


class MultiplicativeLR(_Functions):
    """The rate of the epoch before, times a function of the epoch.

    Args:
        optimizer: the optimizer.
        lr_lambda: the function, or one per group.
        last_epoch: the epoch to resume from.
    """

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self._is_initial:
            return self._unchanged()
        return [
            group["lr"] * fn(self.last_epoch)
            for fn, group in zip(self.lr_lambdas, self.optimizer.param_groups, strict=True)
        ]
