"""The functions that quantised layers are made of."""

from __future__ import annotations

from adjoint.engine.ops.quantized.affine import dequantize_affine as dequantize_affine
from adjoint.engine.ops.quantized.affine import (
    fake_quantize_per_channel_affine as fake_quantize_per_channel_affine,
)
from adjoint.engine.ops.quantized.affine import (
    fake_quantize_per_tensor_affine as fake_quantize_per_tensor_affine,
)
from adjoint.engine.ops.quantized.affine import quantize_affine as quantize_affine
from adjoint.engine.ops.quantized.convolution import (
    quantized_convolution as quantized_convolution,
)
from adjoint.engine.ops.quantized.products import dequantize_groups as dequantize_groups
from adjoint.engine.ops.quantized.products import grouped_linear as grouped_linear
from adjoint.engine.ops.quantized.products import integer_matmul as integer_matmul
from adjoint.engine.ops.quantized.products import quantized_linear as quantized_linear
