"""QConfig: what watches a layer's output and its weight, and PyTorch's defaults."""

from __future__ import annotations

from typing import Any, NamedTuple

import adjoint as ad
from adjoint.quantization.fake_quantize import (
    FakeQuantize,
    FusedMovingAvgObsFakeQuantize,
    default_fake_quant,
    default_fused_act_fake_quant,
    default_fused_per_channel_wt_fake_quant,
    default_fused_wt_fake_quant,
    default_per_channel_weight_fake_quant,
    default_weight_fake_quant,
)
from adjoint.quantization.histogram import HistogramObserver
from adjoint.quantization.observer import (
    MovingAverageMinMaxObserver,
    default_dynamic_quant_observer,
    default_float_qparams_observer,
    default_observer,
    default_per_channel_weight_observer,
    default_placeholder_observer,
    default_weight_observer,
)
from adjoint.quantization.observer import (
    per_channel_weight_observer_range_neg_127_to_127 as _narrow_channels,
)
from adjoint.quantization.observer import weight_observer_range_neg_127_to_127 as _narrow


class QConfig(NamedTuple):
    """How a layer is quantised: makers of the observers of its output and its weight.

    Example:
        >>> from adjoint.quantization import MinMaxObserver
        >>> QConfig(MinMaxObserver, MinMaxObserver.with_args(dtype=ad.qint8)).weight().dtype
        adjoint.qint8
    """

    activation: Any
    weight: Any


QConfigDynamic = QConfig
BACKENDS = ("x86", "fbgemm", "qnnpack", "onednn")

default_qconfig = QConfig(default_observer, default_weight_observer)
default_per_channel_qconfig = QConfig(default_observer, default_per_channel_weight_observer)
default_dynamic_qconfig = QConfig(default_dynamic_quant_observer, default_weight_observer)
per_channel_dynamic_qconfig = QConfig(
    default_dynamic_quant_observer, default_per_channel_weight_observer
)
float_qparams_weight_only_qconfig = QConfig(
    default_placeholder_observer, default_float_qparams_observer
)
default_weight_only_qconfig = QConfig(ad.nn.Identity, default_weight_fake_quant)
default_activation_only_qconfig = QConfig(default_fake_quant, ad.nn.Identity)
default_qat_qconfig = QConfig(default_fake_quant, default_weight_fake_quant)
default_qat_qconfig_v2 = QConfig(default_fused_act_fake_quant, default_fused_wt_fake_quant)
_signed = HistogramObserver.with_args(dtype=ad.qint8, reduce_range=False, eps=2**-12)
default_symmetric_qnnpack_qconfig = QConfig(_signed, _narrow)
default_per_channel_symmetric_qnnpack_qconfig = QConfig(_signed, _narrow_channels)


def _backend(name: str, given: str) -> None:
    if given not in BACKENDS:
        raise AssertionError(
            f"{name}: backend {given!r} not supported, must be one of {list(BACKENDS)}"
        )


def get_default_qconfig(backend: str = "x86", version: int = 0) -> QConfig:
    """What PyTorch observes with before static quantisation, by the engine it is for.

    The names differ in the bits of activations ("x86" and "fbgemm" use 7) and in whether weights
    have a scale to each channel ("qnnpack": not). Here any of them runs anywhere.
    """
    _backend("get_default_qconfig", backend)
    activation = HistogramObserver.with_args(reduce_range=backend in ("x86", "fbgemm"))
    weight = (
        default_weight_observer if backend == "qnnpack" else default_per_channel_weight_observer
    )
    return QConfig(activation, weight)


def get_default_qat_qconfig(backend: str = "x86", version: int | None = 1) -> QConfig:
    """The same for training that feels the rounding."""
    _backend("get_default_qat_qconfig", backend)
    fused = version == 1
    activation = (FusedMovingAvgObsFakeQuantize if fused else FakeQuantize).with_args(
        observer=MovingAverageMinMaxObserver,
        quant_min=0,
        quant_max=255,
        reduce_range=backend in ("x86", "fbgemm"),
    )
    if backend == "qnnpack":
        weight = default_fused_wt_fake_quant if fused else default_weight_fake_quant
    elif fused:
        weight = default_fused_per_channel_wt_fake_quant
    else:
        weight = default_per_channel_weight_fake_quant
    return QConfig(activation, weight)
