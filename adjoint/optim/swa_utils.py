"""Averages of a model's parameters along training: SWA and EMA.

`AveragedModel` is a module, so this one file of `optim` stands above `nn`; nothing imports it but
those who ask for `optim.swa_utils`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.backends.array.lists.many import update_many
from adjoint.engine.core.dtype import int64
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.create.creation import zeros
from adjoint.engine.ops.elementwise.condition import where
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.batchnorm import _BatchNorm
from adjoint.nn.modules.module import Module
from adjoint.optim.lr_scheduler.base import LRScheduler, per_group
from adjoint.optim.optimizer import Optimizer

Average = Callable[[Tensor, Tensor, Any], Tensor]
MultiAverage = Callable[[list[Tensor], list[Tensor], Any], None]


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """The exponential average of one parameter: decay * average + (1 - decay) * parameter."""
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Average:
    """The equal average of one parameter over the updates so far."""

    @no_grad()
    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAverage:
    """The exponential average of many parameters, in place."""
    _check_decay(decay)

    def move(average: Tensor, current: Tensor) -> None:
        if average.dtype.is_inexact:
            average.lerp_(current, 1 - decay)
        else:
            average.copy_(average * decay + current * (1 - decay))

    @no_grad()
    def ema_update(ema_param_list: list[Tensor], current_param_list: list[Tensor], _: Any) -> None:
        update_many(move, ema_param_list, current_param_list)

    return ema_update


def get_swa_multi_avg_fn() -> MultiAverage:
    """The equal average of many parameters, in place."""

    @no_grad()
    def swa_update(
        averaged_param_list: list[Tensor], current_param_list: list[Tensor], num_averaged: Any
    ) -> None:
        def move(average: Tensor, current: Tensor) -> None:
            average.copy_(average + (current - average) / (num_averaged + 1))

        update_many(move, averaged_param_list, current_param_list)

    return swa_update


class AveragedModel(Module):
    """A copy of a model whose parameters are an average of the model's.

    Args:
        model: the model.
        device: where the copy lives.
        avg_fn: the average of one parameter: (average, parameter, updates so far) -> average.
        multi_avg_fn: the average of all, in place; by default the equal average.
        use_buffers: average buffers too, rather than copy them.

    Example:
        >>> import adjoint as ad
        >>> model = ad.nn.Linear(1, 1, bias=False)
        >>> average = ad.optim.swa_utils.AveragedModel(model)
        >>> for value in (1.0, 3.0):
        ...     _ = ad.nn.init.constant_(model.weight, value)
        ...     average.update_parameters(model)
        >>> average.module.weight.item()
        2.0
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: MultiAverage | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module: Any = deepcopy(model)  # of the model's own class
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", zeros((), dtype=int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The averaged model's result."""
        return self.module(*args, **kwargs)

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Take the model's parameters into the average; the first are copied."""
        averages = [t.detach() for t in self._tensors(self.module)]
        given, held = _counts(model), _counts(self.module)
        if given != held:
            raise RuntimeError(
                f"AveragedModel.update_parameters: the model has {given}, and the average was made "
                f"of {held}. Make a new AveragedModel when a model's layers change."
            )
        currents = [
            t.detach().to(a.device) for t, a in zip(self._tensors(model), averages, strict=True)
        ]
        if CONTEXT.capture is not None:
            before = [a.clone() for a in averages]
            self._average(averages, currents)
            first = self.n_averaged == 0
            for average, current, old in zip(averages, currents, before, strict=True):
                average.copy_(where(first.to(old.device), current, average))
        elif self.n_averaged == 0:
            for average, current in zip(averages, currents, strict=True):
                average.copy_(current)
        else:
            self._average(averages, currents)
        if not self.use_buffers:
            for mine, theirs in zip(self.module.buffers(), model.buffers(), strict=True):
                mine.detach().copy_(theirs.detach().to(mine.device))
        self.n_averaged += 1

    def _tensors(self, model: Module) -> Iterable[Tensor]:
        return chain(model.parameters(), model.buffers() if self.use_buffers else ())

    def _average(self, averages: list[Tensor], currents: list[Tensor]) -> None:
        if self.avg_fn is not None:
            for average, current in zip(averages, currents, strict=True):
                average.copy_(self.avg_fn(average, current, self.n_averaged.to(average.device)))
            return
        update = self.multi_avg_fn or get_swa_multi_avg_fn()
        groups: dict[Any, tuple[list[Tensor], list[Tensor]]] = {}
        for average, current in zip(averages, currents, strict=True):
            pair = groups.setdefault((average.device, average.dtype), ([], []))
            pair[0].append(average)
            pair[1].append(current)
        for (device, _), (mine, theirs) in groups.items():
            update(mine, theirs, self.n_averaged.to(device))


def _counts(model: Module) -> str:
    return f"{len([*model.parameters()])} parameters and {len([*model.buffers()])} buffers"


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute a model's batch-norm statistics anew, from one pass over the data.

    Args:
        loader: batches; of a list or tuple, the first element is the input.
        model: the model.
        device: where batches are moved first.
    """
    norms = [m for m in model.modules() if isinstance(m, _BatchNorm)]
    if not norms:
        return
    momenta = [m.momentum for m in norms]
    was_training = model.training
    model.train()
    for m in norms:
        m.reset_running_stats()
        m.momentum = None
    for batch in loader:
        given = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(given if device is None else given.to(device))
    for m, momentum in zip(norms, momenta, strict=True):
        m.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Anneals each group's rate to a fixed one, for the phase in which models are averaged.

    Args:
        optimizer: the optimizer.
        swa_lr: the rate, or one per group.
        anneal_epochs: epochs it takes.
        anneal_strategy: "cos" or "linear".
        last_epoch: the epoch to resume from.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: Any,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for rate, group in zip(
            per_group("swa_lr", optimizer, swa_lr), optimizer.param_groups, strict=True
        ):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._choose(anneal_strategy)
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    # By PyTorch's names, under which schedulers that were pickled whole hold the function.
    @staticmethod
    def _linear_anneal(t: float) -> float:
        return t

    @staticmethod
    def _cosine_anneal(t: float) -> float:
        return (1 - math.cos(math.pi * t)) / 2

    def _choose(self, strategy: str) -> None:
        self._anneal_strategy = strategy
        self.anneal_func = self._cosine_anneal if strategy == "cos" else self._linear_anneal

    def state_dict(self) -> dict[str, Any]:
        """The attributes, but for the optimizer and the function that the strategy names."""
        return {k: v for k, v in super().state_dict().items() if k != "anneal_func"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._choose(self._anneal_strategy)

    def _part(self, step: float) -> float:
        """How much of the way is done after a step."""
        return self.anneal_func(max(0, min(1, step / max(1, self.anneal_epochs))))

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._part(step - 1), self._part(step)
        rates = []
        for group in self.optimizer.param_groups:
            lr, goal = group["lr"], group["swa_lr"]
            start = goal if before == 1 else (lr - before * goal) / (1 - before)
            rates.append(goal * now + start * (1 - now))
        return rates
