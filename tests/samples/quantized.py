"""Samples of quantised numbers and their products."""

import adjoint as ad
from tests.samples import S, T

F = "quantization.functional."
BYTES = {"low": -128, "high": 128, "kind": "int8"}
SCALE = T(kind="positive", grad=False)
ZERO = T(kind="int", low=-3, high=4)
# Rounding is no smooth function: what gradients there are is tested in test_quantization.py.
ROWS = [
    S("fake_quantize_per_tensor_affine", T(3, 4), 0.1, 2, -8, 7, _grad=False),
    S("fake_quantize_per_channel_affine", T(3, 4), T(4, kind="positive", grad=False),
      T(4, kind="int", low=-3, high=4), 1, -8, 7, _grad=False, _vmap=False),
    S("_fake_quantize_learnable_per_tensor_affine", T(3, 4), T(1, kind="positive"), T(1),
      -8, 7, 1.0, _grad=False, _vmap=False),
    S("_fake_quantize_learnable_per_channel_affine", T(3, 4), T(3, kind="positive"), T(3),
      0, -8, 7, 1.0, _grad=False, _vmap=False),
    S(f"{F}quantize_affine", T(3, 4), SCALE, ZERO, -128, 127, ad.int8, _grad=False, _vmap=False),
    S(f"{F}dequantize_affine", T(3, 4, **BYTES), SCALE, ZERO, _grad=False, _vmap=False),
    S(f"{F}integer_matmul", T(3, 40, **BYTES), T(40, 5, **BYTES), _grad=False),
    S(f"{F}integer_matmul", T(2, 3, 40, **BYTES), T(40, 5, **BYTES), _grad=False),
    S("_int_mm", T(3, 8, **BYTES), T(8, 2, **BYTES), _grad=False),
    S(f"{F}quantized_linear", T(2, 3, 8, **BYTES), SCALE, ZERO, T(4, 8, **BYTES),
      T(4, kind="positive", grad=False), T(4, kind="int32", low=-9, high=9), T(4, grad=False),
      T(4, kind="int", low=-9, high=9), _grad=False, _vmap=False),
    S(f"{F}quantized_convolution", T(2, 4, 5, 6, **BYTES), SCALE, ZERO, T(6, 2, 3, 2, **BYTES),
      T(6, kind="positive", grad=False), T(6, kind="int32", low=-9, high=9), None, (2, 1), 1, 1, 2,
      _grad=False, _vmap=False),
    S(f"{F}dequantize_groups", T(3, 8, **BYTES), T(3, 2, kind="positive", grad=False), None, 8, 4,
      _grad=False, _vmap=False),
    S(f"{F}grouped_linear", T(2, 8), T(3, 8, **BYTES), T(3, 2, kind="positive", grad=False), None,
      T(3), 8, 4, _vmap=False),
]  # fmt: skip
