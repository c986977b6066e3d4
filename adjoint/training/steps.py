"""What a Trainer computes for a batch, apart from its bookkeeping, so that it can be compiled."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from adjoint.compiler import compile as compiled
from adjoint.engine.core.operations.record import is_tensor
from adjoint.nn.utils import clip_grad_norm_, clip_grad_value_


class Steps:
    """Gradients of a batch, the update made from them, and evaluation.

    The update is a program of its own, so a loss that is not finite is seen before it.

    Args:
        model, loss, optimizer: the Trainer's.
        autocast: makes the context that the model and the loss run in.
        scaler: scales the loss in float16; the update then looks at values, and is not compiled.
        accumulate: number of batches whose gradients make one step.
        clip_norm, clip_value: bounds on the gradients before the update.
    """

    def __init__(
        self,
        model: Any,
        loss: Callable[[Any, Any], Any],
        optimizer: Any,
        *,
        autocast: Callable[[], AbstractContextManager[Any]],
        scaler: Any,
        accumulate: int,
        clip_norm: float | None,
        clip_value: float | None,
    ) -> None:
        self.model, self.loss, self.optimizer = model, loss, optimizer
        self.autocast, self.scaler, self.accumulate = autocast, scaler, accumulate
        self.clip_norm, self.clip_value = clip_norm, clip_value

    def outputs(self, inputs: Any) -> Any:
        """The model's outputs."""
        with self.autocast():
            return self.model(inputs)

    def loss_of(self, inputs: Any, target: Any) -> tuple[Any, Any]:
        """Loss and outputs."""
        with self.autocast():
            output = self.model(inputs)
            return self.loss(output, target), output

    def gradients(self, inputs: Any, target: Any) -> tuple[Any, Any]:
        """Loss and outputs, once the gradients have been added to the parameters'."""
        loss, output = self.loss_of(inputs, target)
        if not is_tensor(loss):
            raise TypeError(
                f"Trainer: the loss must return a tensor, received {type(loss).__name__}. Numbers "
                "(.item(), NumPy) have no gradient."
            )
        scaled = loss if self.scaler is None else self.scaler.scale(loss)
        (scaled / self.accumulate if self.accumulate > 1 else scaled).backward()
        return loss.detach(), output

    def update(self, factor: float) -> None:
        """One step of the optimizer, from the gradients times `factor`."""
        parameters = [p for g in self.optimizer.param_groups for p in g["params"]]
        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)
        if factor != 1:
            for p in parameters:
                if p.grad is not None:
                    p.grad.mul_(factor)
        if self.clip_value is not None:
            clip_grad_value_(parameters, self.clip_value)
        if self.clip_norm is not None:
            clip_grad_norm_(parameters, self.clip_norm)
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        self.optimizer.zero_grad()


class CompiledSteps(Steps):
    """The same as programs, recorded at the first batch of each shape."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        plain = Steps(*args, **kwargs)
        self.outputs = compiled(plain.outputs)  # type: ignore[method-assign]
        self.loss_of = compiled(plain.loss_of)  # type: ignore[method-assign]
        self.gradients = compiled(plain.gradients)  # type: ignore[method-assign]
        if self.scaler is None:
            self.update = compiled(plain.update)  # type: ignore[method-assign]
