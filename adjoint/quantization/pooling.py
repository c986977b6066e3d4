"""Functions of quantised tensors under PyTorch's top-level names."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.quantization.tensor import QuantizedTensor, quantize_per_tensor


def _pooled(
    name: str, input: QuantizedTensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool,
) -> QuantizedTensor:  # fmt: skip
    """The largest whole numbers: scale and zero point keep their order."""
    if not isinstance(input, QuantizedTensor):
        raise RuntimeError(f"{name}: expected a quantized tensor, received {type(input).__name__}")
    scale, zero = input.q_scale(), input.q_zero_point()
    ints = input.int_repr()
    pool = F.max_pool1d if name.endswith("1d") else F.max_pool2d
    most = pool(
        ints.double(), kernel_size, stride or None, padding, dilation, ceil_mode=bool(ceil_mode)
    )
    device = ints.device
    return QuantizedTensor(
        most.to(ints.dtype), ad.tensor(scale, device=device),
        ad.tensor(zero, dtype=ad.int32, device=device),
    )  # fmt: skip


def quantized_max_pool1d(
    input: QuantizedTensor, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False,
) -> QuantizedTensor:  # fmt: skip
    """`max_pool1d` of a quantised tensor.

    >>> x = quantize_per_tensor(ad.tensor([[0.1, 0.4, 0.2, 0.3]]), 0.1, 10, ad.quint8)
    >>> quantized_max_pool1d(x, [2]).int_repr()
    tensor([[14, 13]], dtype=adjoint.uint8)
    """
    return _pooled("quantized_max_pool1d", input, kernel_size, stride, padding, dilation, ceil_mode)


def quantized_max_pool2d(
    input: QuantizedTensor, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False,
) -> QuantizedTensor:  # fmt: skip
    """`max_pool2d` of a quantised tensor."""
    return _pooled("quantized_max_pool2d", input, kernel_size, stride, padding, dilation, ceil_mode)


def quantized_batch_norm(
    input: QuantizedTensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, var: Tensor,
    eps: float, output_scale: float, output_zero_point: int,
) -> QuantizedTensor:  # fmt: skip
    """Batch normalisation by given statistics, quantised by another scale and zero point."""
    if not isinstance(input, QuantizedTensor):
        raise RuntimeError(
            f"quantized_batch_norm: expected a quantized tensor, received {type(input).__name__}"
        )
    input.q_scale()  # one scale for all
    kinds = {ad.uint8: ad.quint8, ad.int8: ad.qint8, ad.int32: ad.qint32}
    normal = F.batch_norm(input.dequantize(), mean, var, weight, bias, False, 0.0, eps)
    kind = kinds[input.int_repr().dtype]
    return quantize_per_tensor(normal, output_scale, output_zero_point, kind)
