"""GradScaler: losses scaled up so that half-precision gradients do not vanish."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from enum import Enum
from functools import partial
from typing import Any, ClassVar

from adjoint.engine.backends.array.gpu.cuda import is_available as cuda_is_available
from adjoint.engine.backends.array.lists.many import update_many
from adjoint.engine.core.dtype import float16, float32, int32
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.ownership import module_of
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.loading import brought
from adjoint.engine.ops.create.creation import full, zeros
from adjoint.engine.ops.elementwise.condition import where
from adjoint.engine.tensor.tensor import Tensor


class OptState(Enum):
    """Where an optimizer is between two updates of the scale."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class GradScaler:
    """Scales losses and unscales gradients, leaving out steps whose gradients are not finite.

    The scale grows after `growth_interval` good steps and shrinks after a bad one. In a captured
    step a bad step's writes are undone by selection; eagerly it is not taken.

    Args:
        device: "cuda" or "cpu": where the scale lives.
        init_scale: the first scale.
        growth_factor: its growth.
        backoff_factor: its decrease after a bad step.
        growth_interval: good steps until it grows.
        enabled: False makes every method do as if there were no scaler.

    Example:
        >>> import adjoint as ad
        >>> w = ad.ones(1, requires_grad=True)
        >>> optimizer = ad.optim.SGD([w], lr=0.5)
        >>> scaler = ad.amp.GradScaler("cpu", init_scale=8.0)
        >>> scaler.scale((w * w).sum()).backward()
        >>> w.grad
        tensor([16.])
        >>> scaler.step(optimizer)
        >>> scaler.update()
        >>> w
        tensor([0.], requires_grad=True)
    """

    # What a captured step has to leave as it found it, and the remedy where it does not.
    capture_unchanged: ClassVar[dict[str, str]] = dict.fromkeys(
        ("_stages", "_found_inf"),
        "Call unscale_, step and update all in the compiled function, or all outside.",
    )

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and device == "cuda" and not cuda_is_available():
            warnings.warn(
                "GradScaler is enabled for device 'cuda', but CUDA is not available. Disabling.",
                stacklevel=2,
            )
            self._enabled = False
        self._init_scale = init_scale
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._scale: Tensor | None = None
        self._growth_tracker: Tensor | None = None
        self._stages: dict[int, OptState] = {}
        self._found_inf: dict[int, dict[Any, Tensor]] = {}
        if self._enabled:
            if not growth_factor > 1.0:
                raise AssertionError("The growth factor must be > 1.0.")
            if not backoff_factor < 1.0:
                raise AssertionError("The backoff factor must be < 1.0.")

    def capture_children(self) -> Iterator[tuple[str, Any]]:
        """What a captured step depends on: the settings and the tensors, not the stages."""
        skip = {"_stages", "_found_inf"}
        return ((k, v) for k, v in self.__dict__.items() if k not in skip)

    def _tensors(self, device: Any = None) -> tuple[Tensor, Tensor]:
        """The scale and the count of good steps, made on first use."""
        if self._scale is None or self._growth_tracker is None:
            with CONTEXT.having(capture=None):
                place = self._device if device is None else device
                self._scale = full((), self._init_scale, dtype=float32, device=place)
                self._growth_tracker = full(
                    (), self._init_growth_tracker, dtype=int32, device=place
                )
        return self._scale, self._growth_tracker

    def scale(self, outputs: Any) -> Any:
        """A loss, or a container of losses, times the scale."""
        if not self._enabled:
            return outputs
        if is_tensor(outputs):
            scale, _ = self._tensors(outputs.device)
            return outputs * scale.to(outputs.device)
        if isinstance(outputs, (list, tuple)):
            scaled = [self.scale(x) for x in outputs]
            return type(outputs)(*scaled) if hasattr(outputs, "_fields") else type(outputs)(scaled)
        if hasattr(outputs, "__iter__"):
            return map(self.scale, outputs)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _stage(self, optimizer: Any) -> OptState:
        return self._stages.get(id(optimizer), OptState.READY)

    def unscale_(self, optimizer: Any) -> None:
        """Divide the optimizer's gradients by the scale, as before clipping them."""
        if not self._enabled:
            return
        stage = self._stage(optimizer)
        if stage is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if stage is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        scale, _ = self._require("unscale_")
        self._found_inf[id(optimizer)] = self._unscale(
            optimizer, scale.double().reciprocal().float()
        )
        self._stages[id(optimizer)] = OptState.UNSCALED

    def _require(self, name: str) -> tuple[Tensor, Tensor]:
        if self._scale is None or self._growth_tracker is None:
            raise AssertionError(
                f"Attempted {name} but _scale is None. This may indicate your script did not use "
                "scaler.scale(loss or outputs) earlier in the iteration."
            )
        return self._scale, self._growth_tracker

    @staticmethod
    def _unscale(optimizer: Any, inverse: Tensor) -> dict[Any, Tensor]:
        flags: dict[Any, Tensor] = {}
        given = [p.grad for group in optimizer.param_groups for p in group["params"]]
        grads = [grad for grad in given if grad is not None]
        if any(grad.dtype is float16 for grad in grads):
            raise ValueError("Attempting to unscale FP16 gradients.")
        groups = dict.fromkeys(group for grad in grads for group in getattr(grad, "split_over", ()))
        grads = [_elements(grad) for grad in grads]

        def unscale(grad: Tensor) -> None:
            bad = grad.isfinite().all().logical_not().float()
            before = flags.get(grad.device)
            flags[grad.device] = bad if before is None else before.maximum(bad)
            grad.mul_(inverse.to(grad.device))

        with CONTEXT.having(grad_enabled=False):
            update_many(unscale, grads)
            if groups:  # what one process finds in its parts, all must know: all step, or none
                operations = brought("adjoint.distributed.communication.operations")
                largest = operations.RedOpType.MAX
                for device, group in itertools.product(list(flags), groups):
                    flags[device] = operations.all_reduce(flags[device], largest, group)
        return flags

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """The optimizer's step, unless a gradient is not finite; unscales first if need be."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        stage = self._stage(optimizer)
        if stage is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if stage is OptState.READY:
            self.unscale_(optimizer)
        flags = self._found_inf[id(optimizer)]
        if not flags:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        self._stages[id(optimizer)] = OptState.STEPPED
        if CONTEXT.capture is not None:
            return self._selected(optimizer, _any(flags, None), args, kwargs)
        if not sum(f.item() for f in flags.values()):
            return optimizer.step(*args, **kwargs)
        return None

    @staticmethod
    def _selected(optimizer: Any, bad: Tensor, args: Any, kwargs: Any) -> Any:
        """A captured step: taken, and put back where a gradient was not finite."""
        if hasattr(optimizer, "prepare_state"):
            optimizer.prepare_state()
        before = {id(t): t.detach().clone() for t in _written(optimizer)}
        step: Any = partial(optimizer.step, *args, **kwargs)
        take = CONTEXT.capture.take_step  # what Python does in a step is not undone by selection
        out = step() if take is None else take(optimizer, step, partial(_written, optimizer))
        written = _written(optimizer)
        if any(id(t) not in before for t in written):
            CONTEXT.capture.guard(lambda: False, "the step that makes the optimizer's state")
        with CONTEXT.having(grad_enabled=False):
            for tensor in written:
                old = before.get(id(tensor), 0)  # what is made later starts from zeros
                tensor.copy_(where(bad.to(tensor.device) > 0, old, tensor))
        return out

    def update(self, new_scale: Any = None) -> None:
        """Grow or shrink the scale, or set it; to be called once all optimizers stepped."""
        if not self._enabled:
            return
        scale, tracker = self._require("update")
        with CONTEXT.having(grad_enabled=False):
            if new_scale is not None:
                self._set_scale(scale, new_scale)
            else:
                self._adapt(scale, tracker)
        self._stages.clear()
        self._found_inf.clear()

    @staticmethod
    def _set_scale(scale: Tensor, new_scale: Any) -> None:
        if not is_tensor(new_scale):
            scale.fill_(new_scale)
            return
        if new_scale.numel() != 1 or new_scale.requires_grad or new_scale.dtype is not float32:
            raise AssertionError(
                "new_scale should be a float or a 1-element float32 tensor with "
                "requires_grad=False."
            )
        scale.copy_(new_scale.reshape(()))

    def _adapt(self, scale: Tensor, tracker: Tensor) -> None:
        flags = [f for by_device in self._found_inf.values() for f in by_device.values()]
        if not flags:
            raise AssertionError("No inf checks were recorded prior to update.")
        bad = _any(dict(enumerate(flags)), scale.device) > 0
        grown = scale * self._growth_factor
        due = tracker + 1 >= self._growth_interval
        good = where(due & grown.isfinite(), grown, scale)
        scale.copy_(where(bad, scale * self._backoff_factor, good))
        tracker.copy_(where(bad | due, zeros((), dtype=int32, device=tracker.device), tracker + 1))

    def get_scale(self) -> float:
        """The scale, or 1 when not enabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> float:
        """The growth factor."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the growth factor."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """The backoff factor."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the backoff factor."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Good steps until the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the growth interval."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        tracker = self._growth_tracker
        return self._init_growth_tracker if tracker is None else int(tracker.item())

    def is_enabled(self) -> bool:
        """Whether the scaler does anything."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Scale, factors and count, as PyTorch names them; empty when not enabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None and self._growth_tracker is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)


def _elements(grad: Any) -> Tensor:
    """The elements of a gradient that are here: of a sparse one its values, of a DTensor a part."""
    if hasattr(grad, "to_local"):
        return grad.to_local()
    return grad._values() if grad.is_sparse else grad


def _any(by_device: dict[Any, Tensor], device: Any) -> Tensor:
    """The largest of the flags, on one device."""
    flags = list(by_device.values())
    place = flags[0].device if device is None else device
    total = flags[0].to(place)
    for flag in flags[1:]:
        total = total.maximum(flag.to(place))
    return total


def _written(optimizer: Any) -> list[Tensor]:
    """The tensors an optimizer's step may write; a user's may also write to gradients."""
    out = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    if module_of(type(optimizer)).partition(".")[0] != __name__.partition(".")[0]:
        out += [p.grad for p in out]
    for state in optimizer.state.values():
        out += [v for v in state.values() if is_tensor(v)]
    return out
