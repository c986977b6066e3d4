"""Linear layers of int8 whose inputs are rounded as they come."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint.engine.tensor.tensor import Tensor
from adjoint.quantization.functional import quantize_affine, quantized_linear
from adjoint.quantization.modules.kept import Kept, put_bias
from adjoint.quantization.ranges import INT8, choose_scale
from adjoint.quantization.weights import group_weight


class DynamicLinear(Kept):
    """A linear layer that multiplies in int8: inputs are rounded by the range they have.

    Args:
        weight: (out, in) of int8.
        scale: (out,).
        bias: (out,), or none.
        per_row: whether each row of the input has a range of its own, or all have one.
        symmetric: whether zero is in the middle of the range.

    Shape:
        (..., in_features) -> (..., out_features)

    Example:
        >>> layer = DynamicLinear.of(ad.nn.Linear(64, 8))
        >>> layer(ad.randn(2, 64)).shape
        adjoint.Size([2, 8])
    """

    kind = "dynamic_linear"
    weight: Tensor
    scale: Tensor
    weight_sums: Tensor

    def __init__(
        self,
        weight: Tensor,
        scale: Tensor,
        bias: Tensor | None = None,
        per_row: bool = True,
        symmetric: bool = True,
    ) -> None:
        super().__init__()
        self.out_features, self.in_features = int(weight.shape[0]), int(weight.shape[1])
        self.per_row, self.symmetric = per_row, symmetric
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale)
        put_bias(self, bias)
        sums = weight.sum(1, dtype=ad.int32)
        self.register_buffer("weight_sums", sums, persistent=False)
        self.register_load_state_dict_post_hook(_sum_again)

    @classmethod
    def of(
        cls, layer: Any, per_row: bool = True, symmetric: bool = True, per_channel: bool = True
    ) -> DynamicLinear:
        """The layer of a linear one's weights, rounded to 8 bits."""
        weight = layer.weight.detach()
        rows = weight if per_channel else weight.reshape((1, weight.numel()))
        kept = group_weight(rows, 8)
        scale = kept.scale.reshape(-1).expand((weight.shape[0],)).contiguous()
        return cls(kept.weight.reshape(weight.shape), scale, layer.bias, per_row, symmetric)

    @classmethod
    def empty(cls, tensors: dict[str, Tensor], **options: Any) -> DynamicLinear:
        return cls(tensors["weight"], tensors["scale"], tensors.get("bias"), **options)

    def options(self) -> dict[str, Any]:
        return {"per_row": self.per_row, "symmetric": self.symmetric}

    def dequantize(self) -> Tensor:
        """The weight in float32."""
        return self.weight.to(ad.float32) * self.scale.unsqueeze(-1)

    def forward(self, input: Tensor) -> Tensor:
        x = input.detach().to(ad.float32)
        if self.per_row:
            low, high = x.amin(-1, True), x.amax(-1, True)
        else:
            low, high = x.amin(), x.amax()
        scale, zero = choose_scale(low, high, INT8, self.symmetric)
        steps = quantize_affine(x, scale, zero, INT8.low, INT8.high, ad.int8)
        out = quantized_linear(
            steps, scale, zero, self.weight, self.scale, self.weight_sums, self.bias
        )
        return out.to(input.dtype)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}, per_row={self.per_row}, symmetric={self.symmetric}"
        )


def _sum_again(module: DynamicLinear, _: Any) -> None:
    """The sums of weights that were just loaded."""
    with ad.no_grad():
        dims = tuple(range(1, module.weight.ndim))
        module.weight_sums.copy_(module.weight.sum(dims, dtype=ad.int32))
