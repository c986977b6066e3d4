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
from adjoint.quantization.files import load_quantized as load_quantized
from adjoint.quantization.files import save_quantized as save_quantized
from adjoint.quantization.quantize import quantize_ as quantize_
