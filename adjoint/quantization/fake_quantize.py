"""Fake quantisation: training that feels the rounding."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint import nn
from adjoint.engine.tensor.tensor import Tensor
from adjoint.quantization.observer import (
    Configured,
    FixedQParamsObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
)
from adjoint.quantization.schemes import (
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
)

LEAST_SCALE = 6.1e-5  # of fused fake quantisation


class FakeQuantizeBase(Configured):
    """Rounds tensors as quantisation would, and gives them back as floats.

    What is on is held twice: as tensors, which files have as PyTorch's do, and as plain values,
    which compiled programs depend on.
    """

    fake_quant_enabled: Tensor
    observer_enabled: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("fake_quant_enabled", ad.tensor([1], dtype=ad.uint8))
        self.register_buffer("observer_enabled", ad.tensor([1], dtype=ad.uint8))
        self.rounds = self.observes = True

    def enable_fake_quant(self, enabled: bool = True) -> None:
        """Round from now on, or not."""
        self.rounds = bool(enabled)
        self.fake_quant_enabled.fill_(int(enabled))

    def disable_fake_quant(self) -> None:
        """Do not round from now on."""
        self.enable_fake_quant(False)

    def enable_observer(self, enabled: bool = True) -> None:
        """Let the observer see tensors from now on, or not."""
        self.observes = bool(enabled)
        self.observer_enabled.fill_(int(enabled))

    def disable_observer(self) -> None:
        """Keep scale and zero point as they are from now on."""
        self.enable_observer(False)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        for name in ("scale", "zero_point"):
            given = state_dict.get(prefix + name)
            if given is not None and given.shape != getattr(self, name).shape:
                self.register_buffer(name, ad.zeros(given.shape, dtype=given.dtype))
        super()._load_from_state_dict(state_dict, prefix, *args)
        self.rounds = bool(self.fake_quant_enabled)
        self.observes = bool(self.observer_enabled)


class FakeQuantize(FakeQuantizeBase):
    """Rounds tensors by the scale that an observer proposes; gradients pass straight through.

    Args:
        observer: the class of the observer.
        quant_min, quant_max: the whole numbers to use.
        observer_kwargs: what the observer is made with.

    Example:
        >>> fake = FakeQuantize(quant_min=0, quant_max=15)
        >>> fake(ad.tensor([0.0, 0.33, 1.5]))
        tensor([0.0000, 0.3000, 1.5000])
    """

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self,
        observer: Any = MovingAverageMinMaxObserver,
        quant_min: int | None = None,
        quant_max: int | None = None,
        is_dynamic: bool = False,
        **observer_kwargs: Any,
    ) -> None:
        super().__init__()
        if quant_min is not None and quant_max is not None:
            if quant_min > quant_max:
                raise ValueError(
                    "FakeQuantize: quant_min must be less than or equal to quant_max, received "
                    f"{quant_min} and {quant_max}"
                )
            dtype = observer_kwargs.get("dtype", ad.quint8)
            whole = {ad.quint8: (0, 255), ad.qint8: (-128, 127)}
            # All of a dtype is no range of one's own: one bit less of it can then be asked for.
            if whole.get(dtype) != (quant_min, quant_max):
                observer_kwargs |= {"quant_min": quant_min, "quant_max": quant_max}
        self.activation_post_process = observer(is_dynamic=is_dynamic, **observer_kwargs)
        seen = self.activation_post_process
        self.quant_min, self.quant_max = seen.quant_min, seen.quant_max
        self.dtype, self.qscheme = seen.dtype, seen.qscheme
        self.ch_axis: int = getattr(seen, "ch_axis", -1)
        self.is_dynamic = is_dynamic
        self.is_per_channel = self.qscheme.per_channel
        self.register_buffer("scale", ad.ones(1))
        self.register_buffer("zero_point", ad.zeros(1, dtype=ad.int32))

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """The scale and the zero point for what was seen."""
        scale, zero = self.activation_post_process.calculate_qparams()
        return scale, zero

    def forward(self, X: Tensor) -> Tensor:
        if self.observes:
            self._observe(X)
        if not self.rounds:
            return X
        low, high = self.quant_min, self.quant_max
        if self.is_per_channel:
            return ad.fake_quantize_per_channel_affine(
                X, self.scale, self.zero_point, self.ch_axis % X.ndim, low, high
            )
        return ad.fake_quantize_per_tensor_affine(X, self.scale, self.zero_point, low, high)

    @ad.no_grad()
    def _observe(self, x: Tensor) -> None:
        observer = self.activation_post_process
        observer(x.detach())
        proposal = self._proposed(*observer.seen())
        shape = proposal[0].shape if self.is_per_channel else (1,)
        if self.scale.shape != shape:
            self.scale = ad.ones(shape, device=x.device)
            self.zero_point = ad.zeros(shape, dtype=ad.int32, device=x.device)
        self.scale.copy_(proposal[0].reshape(shape))
        self.zero_point.copy_(proposal[1].reshape(shape))

    def _proposed(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """The scale and the zero point to round a range by."""
        return self.activation_post_process.propose(low, high)

    def extra_repr(self) -> str:
        return (
            f"fake_quant_enabled={self.rounds}, observer_enabled={self.observes}, "
            f"quant_min={self.quant_min}, quant_max={self.quant_max}, dtype={self.dtype}, "
            f"qscheme={self.qscheme}, ch_axis={self.ch_axis}"
        )


class FusedMovingAvgObsFakeQuantize(FakeQuantize):
    """FakeQuantize with a running mean of ranges; compiled, all of it is one kernel anyhow.

    It rounds by PyTorch's rule for it, which is not quite what its observer proposes, and what
    `convert` takes: a symmetric range uses all of -128 to 127 and is as wide as its ends need it,
    and one that lies on one side of zero is not made symmetric.
    """

    def _proposed(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        first, last = self.quant_min, self.quant_max
        low, high = low.double().clamp(max=0), high.double().clamp(min=0)
        across = (low < 0) & (high > 0) & self.qscheme.symmetric
        half = (last - first) // 2
        widest = ad.maximum(-low / (half + 1), high / half)
        low = (-widest * (half + 1)).float().double().where(across, low)
        high = (widest * half).float().double().where(across, high)
        scale = (high - low) / (last - first)
        # Scales that leave no digits are made larger, with the range that they are of.
        scale = scale.where((1 / scale.float()).isfinite(), 0.1)
        larger = (LEAST_SCALE / scale).clamp(min=1)
        one_sided = (low == 0) | (high == 0)
        width = LEAST_SCALE * (last - first)
        low = ad.where(larger > 1, ad.where(one_sided, -width * (high == 0), low * larger), low)
        high = ad.where(larger > 1, ad.where(one_sided, width * (low == 0), high * larger), high)
        scale = scale * larger
        by_low, by_high = first - low / scale, last - high / scale
        nearer = abs(first) + (low / scale).abs() < abs(last) + (high / scale).abs()
        zero = by_low.where(nearer, by_high)
        zero = ad.where(across, (first + last) / 2, zero)
        return scale.float(), zero.clamp(first, last).round().to(ad.int32)


class FixedQParamsFakeQuantize(FakeQuantizeBase):
    """Rounds by a scale that is given."""

    def __init__(self, observer: Any) -> None:
        super().__init__()
        self.activation_post_process: FixedQParamsObserver = observer()
        seen = self.activation_post_process
        self.quant_min, self.quant_max = seen.quant_min, seen.quant_max
        self.dtype, self.qscheme = seen.dtype, seen.qscheme
        self.register_buffer("scale", seen.scale)
        self.register_buffer("zero_point", seen.zero_point)

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """The scale and the zero point."""
        return self.activation_post_process.calculate_qparams()

    def forward(self, X: Tensor) -> Tensor:
        if not self.rounds:
            return X
        scale, zero = self.calculate_qparams()
        return ad.fake_quantize_per_tensor_affine(X, scale, zero, self.quant_min, self.quant_max)


def _switch(name: str, about: str) -> Any:
    def apply(module: nn.Module) -> None:
        if isinstance(module, FakeQuantizeBase):
            getattr(module, name)()

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"{about} in a module; for `model.apply`."
    return apply


enable_observer = _switch("enable_observer", "Let observers see tensors")
disable_observer = _switch("disable_observer", "Keep scales and zero points as they are")
enable_fake_quant = _switch("enable_fake_quant", "Round")
disable_fake_quant = _switch("disable_fake_quant", "Do not round")

_WEIGHTS = {"dtype": ad.qint8, "quant_min": -128, "quant_max": 127, "reduce_range": False}
_ACTIVATIONS = {"dtype": ad.quint8, "quant_min": 0, "quant_max": 255}
default_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, qscheme=per_tensor_affine, reduce_range=True,
    **_ACTIVATIONS,
)  # fmt: skip
default_weight_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, qscheme=per_tensor_symmetric, **_WEIGHTS
)
default_per_channel_weight_fake_quant = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, qscheme=per_channel_symmetric, ch_axis=0,
    **_WEIGHTS,
)  # fmt: skip
default_fused_act_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, **_ACTIVATIONS
)
default_fused_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, qscheme=per_tensor_symmetric, **_WEIGHTS
)
default_fused_per_channel_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, qscheme=per_channel_symmetric, **_WEIGHTS
)
