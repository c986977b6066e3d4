"""Observers: modules that watch tensors go by and propose scales and zero points."""

from __future__ import annotations

import importlib
import warnings
from abc import abstractmethod
from functools import partial
from typing import Any

import adjoint as ad
from adjoint import nn
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.state.loading import lacking
from adjoint.engine.tensor.tensor import Tensor
from adjoint.quantization.ranges import EPSILON, IntegerRange, choose_scale
from adjoint.quantization.schemes import (
    HELD,
    RANGES,
    per_channel_affine,
    per_channel_affine_float_qparams,
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
    qscheme,
    storage_dtype,
)


class Maker(partial):  # type: ignore[type-arg]
    """A class with some of its arguments: called, it makes an instance."""

    def with_args(self, **kwargs: Any) -> Maker:
        """The same with further arguments."""
        return Maker(self, **kwargs)


class Configured(nn.Module):
    """A module whose class can be given arguments beforehand."""

    @classmethod
    def with_args(cls, **kwargs: Any) -> Maker:
        """The class with some of its arguments.

        >>> MinMaxObserver.with_args(dtype=ad.qint8)().dtype
        adjoint.qint8
        """
        return Maker(cls, **kwargs)

    with_callable_args = with_args


class ObserverBase(Configured):
    """Watches tensors, which it gives back as they are."""

    def __init__(self, dtype: DType, is_dynamic: bool = False) -> None:
        super().__init__()
        self.dtype, self.is_dynamic = dtype, is_dynamic

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Watch a tensor."""

    @abstractmethod
    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """The scale and the zero point for what was seen."""


class UniformQuantizationObserverBase(ObserverBase):
    """An observer of ranges: equal steps between two ends.

    Args:
        dtype: qint8, quint8 or qint32.
        qscheme: one scale or one to a channel, affine or symmetric.
        reduce_range: whether one bit less is used.
        quant_min, quant_max: the whole numbers to use, if not all that the dtype has.
        eps: the least scale.
    """

    _version = 3  # of state dicts, as in PyTorch, which takes those of older ones otherwise
    reduces_symmetric = False  # whether symmetric ranges of quint8 may have one bit less

    def __init__(
        self,
        dtype: DType = ad.quint8,
        qscheme: qscheme = per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: Any = None,
        eps: float = EPSILON,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(dtype, is_dynamic)
        reduced = reduce_range and not self.reduces_symmetric
        if reduced and qscheme.symmetric and dtype is ad.quint8:
            raise NotImplementedError("Cannot reduce range for symmetric quantization for quint8")
        low, high = RANGES[storage_dtype(type(self).__name__, dtype)]
        self.has_customized_qrange = quant_min is not None or quant_max is not None
        if self.has_customized_qrange:
            if quant_min is None or quant_max is None or not quant_min <= 0 <= quant_max:
                raise ValueError(
                    f"{type(self).__name__}: quant_min and quant_max must both be given, with "
                    f"zero between them, received {quant_min} and {quant_max}"
                )
            low, high = quant_min, quant_max
        elif reduce_range:
            low, high = low // 2, high // 2
        self.quant_min, self.quant_max = low, high
        self.qscheme, self.reduce_range = qscheme, reduce_range
        self.register_buffer("eps", ad.tensor([eps]))
        self.register_buffer("min_val", ad.tensor(float("inf")))
        self.register_buffer("max_val", ad.tensor(float("-inf")))

    eps: Tensor
    min_val: Tensor
    max_val: Tensor

    @property
    def steps(self) -> IntegerRange:
        """The whole numbers it proposes scales for."""
        return IntegerRange(self.quant_min, self.quant_max, HELD[self.dtype])

    def propose(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """The scale and the zero point of a range; only tensors, so that it can be compiled."""
        if self.qscheme is per_channel_affine_float_qparams:
            scale = (high - low) / (self.quant_max - self.quant_min)
            scale = scale.where(scale > self.eps, 1.0)
            return scale, -low / scale
        scale, zero = choose_scale(low, high, self.steps, self.qscheme.symmetric, self.eps)
        if self.qscheme.symmetric:
            signed = self.steps.dtype is not ad.uint8
            whole = (
                128 if not self.has_customized_qrange else (self.quant_min + self.quant_max) // 2
            )
            zero = ad.full_like(zero, 0 if signed else whole)
        return scale, zero

    def seen(self) -> tuple[Tensor, Tensor]:
        """The range that counts."""
        return self.min_val, self.max_val

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        if bool((self.min_val > self.max_val).any()):  # a NaN that was seen is one in the scale
            warnings.warn(
                "must run observer before calling calculate_qparams. Returning default values.",
                stacklevel=2,
            )
            return ad.tensor([1.0]), ad.tensor([0], dtype=ad.int32)
        scale, zero = self.propose(*self.seen())
        if self.qscheme.symmetric:
            zero = zero.to(ad.int64)  # as in PyTorch
        return (scale, zero) if scale.ndim else (scale.reshape(1), zero.reshape(1))

    @ad.no_grad()
    def reset_min_max_vals(self) -> None:
        """Forget what was seen."""
        self.min_val = ad.tensor(float("inf"))
        self.max_val = ad.tensor(float("-inf"))

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        for name in ("min_val", "max_val"):  # channels are known once they were seen
            given = state_dict.get(prefix + name)
            if given is not None and given.shape != getattr(self, name).shape:
                self.register_buffer(name, ad.zeros(given.shape, dtype=given.dtype))
        state_dict = {prefix + "eps": self.eps, **state_dict}  # which older files do not have
        super()._load_from_state_dict(state_dict, prefix, *args)


class MinMaxObserver(UniformQuantizationObserverBase):
    """The smallest and the largest number seen.

    Example:
        >>> observer = MinMaxObserver(qscheme=ad.per_tensor_symmetric, dtype=ad.qint8)
        >>> _ = observer(ad.tensor([-1.0, 2.55]))
        >>> observer.calculate_qparams()
        (tensor([0.0200]), tensor([0]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.qscheme.per_channel:
            raise NotImplementedError(
                f"{type(self).__name__}: {self.qscheme} is of channels. Use "
                "PerChannelMinMaxObserver."
            )

    @ad.no_grad()
    def forward(self, x_orig: Tensor) -> Tensor:
        if x_orig.numel():
            x = x_orig.detach().to(self.min_val.dtype)
            self.see(*self.extremes(x))
        return x_orig

    def extremes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The range of a tensor."""
        return x.amin(), x.amax()

    def see(self, low: Tensor, high: Tensor) -> None:
        """Take in the range of a tensor."""
        if self.min_val.shape != low.shape:
            self.min_val = ad.full_like(low, float("inf"))
            self.max_val = ad.full_like(high, float("-inf"))
        new_low, new_high = self.combined(low, high)
        self.min_val.copy_(new_low)
        self.max_val.copy_(new_high)

    def combined(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """The range with another taken in."""
        return ad.minimum(self.min_val, low), ad.maximum(self.max_val, high)


class MovingAverageMinMaxObserver(MinMaxObserver):
    """Running means of the smallest and the largest number of each tensor."""

    def __init__(self, averaging_constant: float = 0.01, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.averaging_constant = averaging_constant

    def combined(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        part = self.averaging_constant
        return running_mean(self.min_val, low, part), running_mean(self.max_val, high, part)


def running_mean(old: Tensor, new: Tensor, part: float) -> Tensor:
    """A mean with part of a new number in it; the first is taken as it is."""
    return ad.where(old.isinf(), new, old + part * (new - old))


class PerChannelMinMaxObserver(MinMaxObserver):
    """The smallest and the largest number of each channel.

    Args:
        ch_axis: the dimension that channels are along.
    """

    def __init__(
        self, ch_axis: int = 0, dtype: DType = ad.quint8, qscheme: Any = per_channel_affine,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        if not qscheme.per_channel:
            raise NotImplementedError(
                f"{type(self).__name__}: {qscheme} is of tensors. Use MinMaxObserver."
            )
        super(MinMaxObserver, self).__init__(dtype=dtype, qscheme=qscheme, **kwargs)
        self.ch_axis = ch_axis

    def extremes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if x.ndim == 1:
            return x, x
        axis = self.ch_axis % x.ndim
        rows = x.movedim(axis, 0).reshape((x.shape[axis], -1))
        return rows.amin(1), rows.amax(1)


class MovingAveragePerChannelMinMaxObserver(PerChannelMinMaxObserver):
    """Running means of the smallest and the largest number of each channel."""

    def __init__(self, averaging_constant: float = 0.01, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.averaging_constant = averaging_constant

    def combined(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        part = self.averaging_constant
        return running_mean(self.min_val, low, part), running_mean(self.max_val, high, part)


class PlaceholderObserver(ObserverBase):
    """Sees nothing: says only what dtype inputs are to be rounded to as they come."""

    def __init__(
        self, dtype: DType = ad.float32, custom_op_name: str = "", is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(dtype, is_dynamic or "compute_dtype" in kwargs)
        self.qscheme = kwargs.get("qscheme")
        self.reduce_range = bool(kwargs.get("reduce_range", False))

    def forward(self, x: Tensor) -> Tensor:
        return x

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        raise RuntimeError("calculate_qparams should not be called for PlaceholderObserver")


class NoopObserver(PlaceholderObserver):
    """Sees nothing."""


class FixedQParamsObserver(ObserverBase):
    """Proposes a scale and a zero point that are given."""

    def __init__(
        self, scale: float, zero_point: int, dtype: DType = ad.quint8, quant_min: int = 0,
        quant_max: int = 255, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(dtype)
        self.quant_min, self.quant_max, self.qscheme = quant_min, quant_max, per_tensor_affine
        self.register_buffer("scale", ad.tensor([scale]))
        self.register_buffer("zero_point", ad.tensor([zero_point], dtype=ad.int32))

    scale: Tensor
    zero_point: Tensor

    def forward(self, x: Tensor) -> Tensor:
        return x

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        return self.scale, self.zero_point


class RecordingObserver(ObserverBase):
    """Keeps every tensor it sees."""

    def __init__(self, dtype: DType = ad.quint8) -> None:
        super().__init__(dtype)
        self.tensor_val: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.tensor_val.append(x.clone())
        return x

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        raise RuntimeError("calculate_qparams should not be called for RecordingObserver")

    def get_tensor_value(self) -> list[Tensor]:
        """What was seen."""
        return self.tensor_val


_NARROW = {"quant_min": -127, "quant_max": 127, "eps": 2**-12}
default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_placeholder_observer = PlaceholderObserver
default_debug_observer = RecordingObserver
default_weight_observer = MinMaxObserver.with_args(dtype=ad.qint8, qscheme=per_tensor_symmetric)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(
    dtype=ad.qint8, qscheme=per_channel_symmetric
)
weight_observer_range_neg_127_to_127 = MinMaxObserver.with_args(
    dtype=ad.qint8, qscheme=per_tensor_symmetric, **_NARROW
)
per_channel_weight_observer_range_neg_127_to_127 = PerChannelMinMaxObserver.with_args(
    dtype=ad.qint8, qscheme=per_channel_symmetric, **_NARROW
)
default_dynamic_quant_observer = PlaceholderObserver.with_args(dtype=ad.quint8, is_dynamic=True)
default_float_qparams_observer = PerChannelMinMaxObserver.with_args(
    dtype=ad.quint8, qscheme=per_channel_affine_float_qparams, ch_axis=0
)
default_fixed_qparams_range_0to1_observer = FixedQParamsObserver.with_args(
    scale=1 / 256, zero_point=0
)
default_fixed_qparams_range_neg1to1_observer = FixedQParamsObserver.with_args(
    scale=2 / 256, zero_point=128
)


def __getattr__(name: str) -> Any:
    """The observer of histograms, which PyTorch has here, too; its module imports this one."""
    if name in ("HistogramObserver", "default_histogram_observer"):
        return getattr(importlib.import_module("adjoint.quantization.histogram"), name)
    raise lacking(__name__, name)
