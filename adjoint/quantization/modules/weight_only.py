"""Layers that keep their weights in 4 or 8 bits and compute in floats."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint.engine.ops.quantized.products import check_groups
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.quantization.functional import grouped_linear, quantize_affine
from adjoint.quantization.modules.kept import Kept, columns_of, put_bias, put_columns
from adjoint.quantization.outliers import Columns
from adjoint.quantization.ranges import INT8, choose_scale
from adjoint.quantization.weights import GroupedWeight


class _Grouped(Kept):
    """A grouped weight as buffers."""

    weight: Tensor
    scale: Tensor
    zero: Tensor | None

    def __init__(self, grouped: GroupedWeight) -> None:
        super().__init__()
        check_groups(
            type(self).__name__,
            grouped.weight,
            grouped.scale,
            grouped.zero,
            grouped.bits,
            grouped.group,
        )
        self.bits, self.group = grouped.bits, grouped.group
        self.register_buffer("weight", grouped.weight)
        self.register_buffer("scale", grouped.scale)
        self.register_buffer("zero", grouped.zero)

    def grouped(self) -> GroupedWeight:
        """The weight."""
        return GroupedWeight(self.weight, self.scale, self.zero, self.bits, self.group)

    def dequantize(self) -> Tensor:
        """The weight in float32."""
        return self.grouped().real()

    def options(self) -> dict[str, Any]:
        return {"bits": self.bits, "group": self.group}


def grouped_from(tensors: dict[str, Tensor], bits: int, group: int) -> GroupedWeight:
    """The weight that a file's tensors are."""
    return GroupedWeight(tensors["weight"], tensors["scale"], tensors.get("zero"), bits, group)


class WeightOnlyLinear(_Grouped):
    """A linear layer whose weight is kept in 4 or 8 bits; inputs and sums are floats.

    Shape:
        (..., in_features) -> (..., out_features)

    Example:
        >>> from adjoint.quantization.weights import group_weight
        >>> layer = WeightOnlyLinear(group_weight(ad.ones(3, 8), 4, 4, symmetric=False))
        >>> layer(ad.ones(1, 8))
        tensor([[8., 8., 8.]])
    """

    kind = "weight_only_linear"
    columns: Tensor | None
    column_weight: Tensor | None

    def __init__(
        self,
        grouped: GroupedWeight,
        bias: Tensor | None = None,
        order: Tensor | None = None,
        columns: Columns | None = None,
    ) -> None:
        super().__init__(grouped)
        self.out_features = int(grouped.weight.shape[0])
        self.in_features = int(grouped.weight.shape[1]) * (8 // grouped.bits)
        put_bias(self, bias)
        # Where groups are not of neighbouring features: which feature each column is of.
        self.register_buffer("order", order)
        put_columns(self, columns)

    @classmethod
    def empty(cls, tensors: dict[str, Tensor], **options: Any) -> WeightOnlyLinear:
        grouped = grouped_from(tensors, **options)
        return cls(grouped, tensors.get("bias"), tensors.get("order"), columns_of(tensors))

    def dequantize(self) -> Tensor:
        real = super().dequantize()
        if self.columns is None or self.column_weight is None:
            return real
        return real.index_copy(1, self.columns, self.column_weight)

    def forward(self, input: Tensor) -> Tensor:
        x = input if self.order is None else input.index_select(-1, self.order)
        out = grouped_linear(
            x, self.weight, self.scale, self.zero, self.bias, self.bits, self.group
        )
        if self.columns is None or self.column_weight is None:
            return out
        return out + Columns(self.columns, self.column_weight).product(x)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}, bits={self.bits}, group={self.group}"
        )


class WeightOnlyEmbedding(_Grouped):
    """An embedding whose rows are kept in 4 or 8 bits.

    Shape:
        whole numbers (...) -> (..., embedding_dim)
    """

    kind = "weight_only_embedding"

    def __init__(self, grouped: GroupedWeight, padding_idx: int | None = None) -> None:
        super().__init__(grouped)
        self.num_embeddings = int(grouped.weight.shape[0])
        self.embedding_dim = int(grouped.weight.shape[1]) * (8 // grouped.bits)
        self.padding_idx = padding_idx

    @classmethod
    def empty(cls, tensors: dict[str, Tensor], **options: Any) -> WeightOnlyEmbedding:
        padding = options.pop("padding_idx")
        return cls(grouped_from(tensors, **options), padding)

    def options(self) -> dict[str, Any]:
        return super().options() | {"padding_idx": self.padding_idx}

    def forward(self, input: Tensor) -> Tensor:
        picked = GroupedWeight(
            F.embedding(input, self.weight),
            F.embedding(input, self.scale),
            None if self.zero is None else F.embedding(input, self.zero),
            self.bits,
            self.group,
        )
        return picked.real()

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, bits={self.bits}, group={self.group}"


class DynamicGroupedLinear(WeightOnlyLinear):
    """A linear layer with a grouped weight whose inputs are rounded to 8 bits, row by row."""

    kind = "dynamic_grouped_linear"

    def forward(self, input: Tensor) -> Tensor:
        x = input.to(ad.float32)
        scale, zero = choose_scale(x.amin(-1, True), x.amax(-1, True), INT8, symmetric=False)
        steps = quantize_affine(x, scale, zero, INT8.low, INT8.high, ad.int8)
        real = (steps.to(ad.float32) - zero.to(ad.float32)) * scale
        return super().forward(real.to(input.dtype))
