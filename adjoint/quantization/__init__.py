"""Quantisation: models in 8 and 4 bits.

    from adjoint.quantization import quantize_, Int8DynamicActivationInt8WeightConfig
    quantize_(model, Int8DynamicActivationInt8WeightConfig())

`docs/quantization.md` is the guide.
"""

from adjoint.quantization.configs import (
    Int4WeightOnlyConfig as Int4WeightOnlyConfig,
)
from adjoint.quantization.configs import (
    Int8DynamicActivationInt4WeightConfig as Int8DynamicActivationInt4WeightConfig,
)
from adjoint.quantization.configs import (
    Int8DynamicActivationInt8WeightConfig as Int8DynamicActivationInt8WeightConfig,
)
from adjoint.quantization.configs import Int8WeightOnlyConfig as Int8WeightOnlyConfig
from adjoint.quantization.configs import IntxWeightOnlyConfig as IntxWeightOnlyConfig
from adjoint.quantization.configs import MappingType as MappingType
from adjoint.quantization.configs import PerAxis as PerAxis
from adjoint.quantization.configs import PerGroup as PerGroup
from adjoint.quantization.configs import PerRow as PerRow
from adjoint.quantization.configs import PerTensor as PerTensor
from adjoint.quantization.fake_quantize import FakeQuantize as FakeQuantize
from adjoint.quantization.fake_quantize import FakeQuantizeBase as FakeQuantizeBase
from adjoint.quantization.fake_quantize import FixedQParamsFakeQuantize as FixedQParamsFakeQuantize
from adjoint.quantization.fake_quantize import (
    FusedMovingAvgObsFakeQuantize as FusedMovingAvgObsFakeQuantize,
)
from adjoint.quantization.fake_quantize import default_fake_quant as default_fake_quant
from adjoint.quantization.fake_quantize import (
    default_fused_act_fake_quant as default_fused_act_fake_quant,
)
from adjoint.quantization.fake_quantize import (
    default_fused_per_channel_wt_fake_quant as default_fused_per_channel_wt_fake_quant,
)
from adjoint.quantization.fake_quantize import (
    default_fused_wt_fake_quant as default_fused_wt_fake_quant,
)
from adjoint.quantization.fake_quantize import (
    default_per_channel_weight_fake_quant as default_per_channel_weight_fake_quant,
)
from adjoint.quantization.fake_quantize import (
    default_weight_fake_quant as default_weight_fake_quant,
)
from adjoint.quantization.fake_quantize import disable_fake_quant as disable_fake_quant
from adjoint.quantization.fake_quantize import disable_observer as disable_observer
from adjoint.quantization.fake_quantize import enable_fake_quant as enable_fake_quant
from adjoint.quantization.fake_quantize import enable_observer as enable_observer
from adjoint.quantization.formats.files import load_quantized as load_quantized
from adjoint.quantization.formats.files import save_quantized as save_quantized
from adjoint.quantization.formats.gguf import GGUFFile as GGUFFile
from adjoint.quantization.formats.gguf import load_gguf as load_gguf
from adjoint.quantization.formats.gguf import read_gguf as read_gguf
from adjoint.quantization.formats.packed import load_packed as load_packed
from adjoint.quantization.fuse import fuse_modules as fuse_modules
from adjoint.quantization.fuse import fuse_modules_qat as fuse_modules_qat
from adjoint.quantization.histogram import HistogramObserver as HistogramObserver
from adjoint.quantization.histogram import default_histogram_observer as default_histogram_observer
from adjoint.quantization.observer import FixedQParamsObserver as FixedQParamsObserver
from adjoint.quantization.observer import MinMaxObserver as MinMaxObserver
from adjoint.quantization.observer import MovingAverageMinMaxObserver as MovingAverageMinMaxObserver
from adjoint.quantization.observer import (
    MovingAveragePerChannelMinMaxObserver as MovingAveragePerChannelMinMaxObserver,
)
from adjoint.quantization.observer import NoopObserver as NoopObserver
from adjoint.quantization.observer import ObserverBase as ObserverBase
from adjoint.quantization.observer import PerChannelMinMaxObserver as PerChannelMinMaxObserver
from adjoint.quantization.observer import PlaceholderObserver as PlaceholderObserver
from adjoint.quantization.observer import RecordingObserver as RecordingObserver
from adjoint.quantization.observer import (
    UniformQuantizationObserverBase as UniformQuantizationObserverBase,
)
from adjoint.quantization.observer import default_debug_observer as default_debug_observer
from adjoint.quantization.observer import (
    default_dynamic_quant_observer as default_dynamic_quant_observer,
)
from adjoint.quantization.observer import (
    default_fixed_qparams_range_0to1_observer as default_fixed_qparams_range_0to1_observer,
)
from adjoint.quantization.observer import (
    default_fixed_qparams_range_neg1to1_observer as default_fixed_qparams_range_neg1to1_observer,
)
from adjoint.quantization.observer import (
    default_float_qparams_observer as default_float_qparams_observer,
)
from adjoint.quantization.observer import default_observer as default_observer
from adjoint.quantization.observer import (
    default_per_channel_weight_observer as default_per_channel_weight_observer,
)
from adjoint.quantization.observer import (
    default_placeholder_observer as default_placeholder_observer,
)
from adjoint.quantization.observer import default_weight_observer as default_weight_observer
from adjoint.quantization.observer import (
    weight_observer_range_neg_127_to_127 as weight_observer_range_neg_127_to_127,
)
from adjoint.quantization.qconfig import QConfig as QConfig
from adjoint.quantization.qconfig import QConfigDynamic as QConfigDynamic
from adjoint.quantization.qconfig import (
    default_activation_only_qconfig as default_activation_only_qconfig,
)
from adjoint.quantization.qconfig import default_dynamic_qconfig as default_dynamic_qconfig
from adjoint.quantization.qconfig import default_per_channel_qconfig as default_per_channel_qconfig
from adjoint.quantization.qconfig import (
    default_per_channel_symmetric_qnnpack_qconfig as default_per_channel_symmetric_qnnpack_qconfig,
)
from adjoint.quantization.qconfig import default_qat_qconfig as default_qat_qconfig
from adjoint.quantization.qconfig import default_qat_qconfig_v2 as default_qat_qconfig_v2
from adjoint.quantization.qconfig import default_qconfig as default_qconfig
from adjoint.quantization.qconfig import (
    default_symmetric_qnnpack_qconfig as default_symmetric_qnnpack_qconfig,
)
from adjoint.quantization.qconfig import default_weight_only_qconfig as default_weight_only_qconfig
from adjoint.quantization.qconfig import (
    float_qparams_weight_only_qconfig as float_qparams_weight_only_qconfig,
)
from adjoint.quantization.qconfig import get_default_qat_qconfig as get_default_qat_qconfig
from adjoint.quantization.qconfig import get_default_qconfig as get_default_qconfig
from adjoint.quantization.qconfig import per_channel_dynamic_qconfig as per_channel_dynamic_qconfig
from adjoint.quantization.quantize import quantize_ as quantize_
from adjoint.quantization.stubs import DeQuantStub as DeQuantStub
from adjoint.quantization.stubs import FloatFunctional as FloatFunctional
from adjoint.quantization.stubs import QuantStub as QuantStub
from adjoint.quantization.stubs import QuantWrapper as QuantWrapper
from adjoint.quantization.tensor import QuantizedTensor as QuantizedTensor
from adjoint.quantization.workflow import add_quant_dequant as add_quant_dequant
from adjoint.quantization.workflow import convert as convert
from adjoint.quantization.workflow import (
    get_default_dynamic_quant_module_mappings as get_default_dynamic_quant_module_mappings,
)
from adjoint.quantization.workflow import (
    get_default_qat_module_mappings as get_default_qat_module_mappings,
)
from adjoint.quantization.workflow import (
    get_default_static_quant_module_mappings as get_default_static_quant_module_mappings,
)
from adjoint.quantization.workflow import prepare as prepare
from adjoint.quantization.workflow import prepare_qat as prepare_qat
from adjoint.quantization.workflow import propagate_qconfig_ as propagate_qconfig_
from adjoint.quantization.workflow import quantize as quantize
from adjoint.quantization.workflow import quantize_dynamic as quantize_dynamic
from adjoint.quantization.workflow import quantize_qat as quantize_qat
