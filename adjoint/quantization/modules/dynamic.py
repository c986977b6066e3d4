"""Linear layers of int8 whose inputs are rounded as they come."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint.engine.tensor.tensor import Tensor
from adjoint.quantization.functional import quantize_affine, quantized_linear
from adjoint.quantization.modules.kept import (
    Called,
    Kept,
    columns_of,
    put_bias,
    put_columns,
    sum_again,
)
from adjoint.quantization.outliers import Columns, standing_out, without
from adjoint.quantization.ranges import INT8, choose_scale
from adjoint.quantization.tensor import QuantizedTensor
from adjoint.quantization.weights import group_weight


class DynamicLinear(Kept):
    """A linear layer that multiplies in int8: inputs are rounded by the range they have.

    Args:
        weight: (out, in) of int8.
        scale: (out,).
        bias: (out,), or none.
        per_row: whether each row of the input has a range of its own, or all have one.
        symmetric: whether zero is in the middle of the range.
        outliers: how many features of the inputs, those that stand out most, are multiplied in
            floats, so that they do not coarsen the steps of all others.
        columns: columns of the weight that are kept in floats; the weight has zeros there.

    Shape:
        (..., in_features) -> (..., out_features)

    Example:
        >>> layer = DynamicLinear.of(ad.nn.Linear(64, 8))
        >>> layer(ad.randn(2, 64)).shape
        adjoint.Size([2, 8])
    """

    kind = "dynamic_linear"
    weight: Any  # a tensor; below, a method
    bias: Any
    scale: Tensor
    weight_sums: Tensor
    columns: Tensor | None
    column_weight: Tensor | None

    def __init__(
        self,
        weight: Tensor,
        scale: Tensor,
        bias: Tensor | None = None,
        per_row: bool = True,
        symmetric: bool = True,
        outliers: int = 0,
        columns: Columns | None = None,
    ) -> None:
        super().__init__()
        self.out_features, self.in_features = int(weight.shape[0]), int(weight.shape[1])
        if not 0 <= outliers <= self.in_features:
            raise ValueError(
                f"DynamicLinear: outliers must be from 0 to {self.in_features}, received {outliers}"
            )
        self.per_row, self.symmetric, self.outliers = per_row, symmetric, outliers
        self.put(weight, bias)
        self.register_buffer("scale", scale)
        put_columns(self, columns)

    @classmethod
    def of(
        cls, layer: Any, per_row: bool = True, symmetric: bool = True, per_channel: bool = True
    ) -> DynamicLinear:
        """The layer of a linear one's weights, rounded to 8 bits."""
        weight = layer.weight.detach()
        rows = weight if per_channel else weight.reshape((1, weight.numel()))
        grouped = group_weight(rows, 8)
        scale = grouped.scale.reshape(-1).expand((weight.shape[0],)).contiguous()
        bias = None  # of what is rounded nothing is trained
        if layer.bias is not None:
            bias = ad.nn.Parameter(layer.bias.detach(), requires_grad=False)
        return cls(grouped.weight.reshape(weight.shape), scale, bias, per_row, symmetric)

    @classmethod
    def empty(cls, tensors: dict[str, Tensor], **options: Any) -> DynamicLinear:
        columns = columns_of(tensors)
        weight, scale, bias = tensors["weight"], tensors["scale"], tensors.get("bias")
        return cls(weight, scale, bias, columns=columns, **options)

    def options(self) -> dict[str, Any]:
        options = {"per_row": self.per_row, "symmetric": self.symmetric}
        return options | ({"outliers": self.outliers} if self.outliers else {})

    def put(self, weight: Tensor, bias: Tensor | None) -> None:
        """Keep both, and the sums of the weight's rows."""
        self.register_buffer("weight", weight)
        put_bias(self, bias)
        sums = weight.sum(1, dtype=ad.int32)
        self.register_buffer("weight_sums", sums, persistent=False)
        self.register_load_state_dict_post_hook(sum_again)

    def dequantize(self) -> Tensor:
        """The weight in float32."""
        real = self.held("weight").to(ad.float32) * self.scale.unsqueeze(-1)
        if self.columns is None or self.column_weight is None:
            return real
        return real.index_copy(1, self.columns, self.column_weight)

    def forward(self, input: Tensor) -> Tensor:
        rest, apart = self._apart(input.detach().to(ad.float32))
        out = self._rounded(rest)
        return (out if apart is None else out + apart).to(input.dtype)

    def _apart(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Inputs with zeros at the features that are multiplied in floats, and their products."""
        out: Tensor | None = None
        if self.columns is not None and self.column_weight is not None:
            out = Columns(self.columns, self.column_weight).product(x)
            x = without(x, self.columns)
        if self.outliers and x.numel():
            features = standing_out(x, self.outliers)
            steps = self.held("weight").index_select(1, features).to(ad.float32)
            products = Columns(features, steps * self.scale.unsqueeze(-1)).product(x)
            out = products if out is None else out + products
            x = without(x, features)
        return x, out

    def _rounded(self, x: Tensor) -> Tensor:
        if self.per_row:
            low, high = x.amin(-1, True), x.amax(-1, True)
        else:
            low, high = x.amin(), x.amax()
        scale, zero = choose_scale(low, high, INT8, self.symmetric)
        steps = quantize_affine(x, scale, zero, INT8.low, INT8.high, ad.int8)
        return quantized_linear(
            steps,
            scale,
            zero,
            self.held("weight"),
            self.scale,
            self.weight_sums,
            self._parameters["bias"],
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self._parameters['bias'] is not None}, per_row={self.per_row}, "
            f"symmetric={self.symmetric}" + (f", outliers={self.outliers}" if self.outliers else "")
        )


class CalledLinear(Called, DynamicLinear):
    """The linear layer of `quantize_dynamic`: as PyTorch's it has its weight and bias as methods.

    Example:
        >>> layer = CalledLinear.of(ad.nn.Linear(64, 8), per_channel=False)
        >>> layer.weight().dtype, tuple(layer.bias().shape)
        (adjoint.qint8, (8,))
    """

    kind = "called_linear"

    def by_channel(self) -> QuantizedTensor:
        if self.columns is not None:  # of which the integers have zeros
            raise NotImplementedError("CalledLinear.weight: some columns are kept in floats")
        scale = self.scale.to(ad.float32)
        zeros = scale.new_zeros(scale.shape, dtype=ad.int32)
        return QuantizedTensor(self.held("weight"), scale, zeros, 0)
