"""What `quantize_` makes of layers: torchao's configurations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from adjoint import nn
from adjoint.engine.tensor.tensor import Tensor
from adjoint.quantization.modules.dynamic import DynamicLinear
from adjoint.quantization.modules.weight_only import (
    DynamicGroupedLinear,
    WeightOnlyEmbedding,
    WeightOnlyLinear,
)
from adjoint.quantization.outliers import Columns, most_apart, split_columns
from adjoint.quantization.weights import GroupedWeight, group_weight


class MappingType(Enum):
    """Where zero is in a range: in the middle, or anywhere."""

    SYMMETRIC = auto()
    ASYMMETRIC = auto()


@dataclass(frozen=True, slots=True)
class PerRow:
    """One scale to a row."""


@dataclass(frozen=True, slots=True)
class PerAxis:
    """One scale to each index along an axis; rows are the axis of weights."""

    axis: int = 0


@dataclass(frozen=True, slots=True)
class PerTensor:
    """One scale for all."""


@dataclass(frozen=True, slots=True)
class PerGroup:
    """One scale to so many neighbours in a row."""

    group_size: int


def parameters_of(layer: Any) -> tuple[Tensor, Tensor | None]:
    """The weight, (out, in), and the bias of a layer."""
    if hasattr(layer, "linear_parameters"):
        weight, bias = layer.linear_parameters()
        return weight, bias
    return layer.weight, layer.bias


@dataclass(frozen=True, slots=True)
class _Made:
    """The weight and bias of a layer that a module is made of."""

    weight: Tensor
    bias: Tensor | None


SHARED = "shared"  # in the memory: weights, by identity, that several layers have


class Config:
    """Says what a layer becomes; the memory holds weights that were quantised already."""

    def replace(self, layer: nn.Module, memory: dict[Any, Any]) -> nn.Module:
        """The quantised layer."""
        raise NotImplementedError

    def kept(
        self, weight: Tensor, memory: dict[Any, Any], bits: int, group: int | None, **how: Any
    ) -> GroupedWeight:
        """A weight in few bits; one that several layers share stays shared."""
        key = (id(weight), bits, group, *sorted(how.items()))
        if key not in memory:
            memory[key] = (group_weight(weight, bits, group, **how), weight)
        shared: GroupedWeight = memory[key][0]
        return shared

    def split(self, weight: Tensor, memory: dict[Any, Any]) -> tuple[Tensor, Columns | None]:
        """A weight without the columns that stand out, and those; a shared one stays whole."""
        if id(weight) in memory.get(SHARED, ()):
            return weight, None
        key = ("split", id(weight))
        if key not in memory:
            memory[key] = (*split_columns(weight), weight)
        rest, columns, _ = memory[key]
        return rest, columns


def embedding_of(layer: nn.Embedding, weight: GroupedWeight) -> WeightOnlyEmbedding:
    """An embedding with a weight in few bits."""
    if layer.max_norm is not None:
        raise NotImplementedError(
            "quantize_: an embedding with max_norm rewrites its weight as it is used, which "
            "quantised ones cannot. Leave it out with filter_fn."
        )
    return WeightOnlyEmbedding(weight, layer.padding_idx)


class _WeightOnly(Config):
    """Weights in few bits, all else in floats."""

    @property
    def apart(self) -> bool:
        """Whether columns that stand out are kept in floats."""
        return False

    def bits_and_group(self, weight: Tensor) -> tuple[int, int | None, dict[str, Any]]:
        """How a weight is kept."""
        raise NotImplementedError

    def replace(self, layer: nn.Module, memory: dict[Any, Any]) -> nn.Module:
        if isinstance(layer, nn.Embedding):
            bits, group, how = self.bits_and_group(layer.weight)
            return embedding_of(layer, self.kept(layer.weight, memory, bits, group, **how))
        weight, bias = parameters_of(layer)
        bits, group, how = self.bits_and_group(weight)
        rest, columns = self.split(weight, memory) if self.apart else (weight, None)
        grouped = self.kept(rest, memory, bits, group, **how)
        return WeightOnlyLinear(grouped, bias, columns=columns)


@dataclass(frozen=True)
class Int8WeightOnlyConfig(_WeightOnly):
    """Weights in int8, symmetric, a scale to each row, or to each group of one.

    With a scale to a row, columns that stand out are kept in floats (`outliers`): one weight much
    larger than its row's others would coarsen them all.

    Example:
        >>> from adjoint import nn
        >>> from adjoint.quantization import quantize_
        >>> model = nn.Sequential(nn.Linear(16, 4))
        >>> quantize_(model, Int8WeightOnlyConfig())
        >>> model[0].weight.dtype
        adjoint.int8
    """

    group_size: int | None = None
    outliers: bool = True

    @property
    def apart(self) -> bool:
        return self.outliers and self.group_size is None

    def bits_and_group(self, weight: Tensor) -> tuple[int, int | None, dict[str, Any]]:
        return 8, self.group_size, {}


@dataclass(frozen=True)
class Int4WeightOnlyConfig(_WeightOnly):
    """Weights in 4 bits, two to a byte; each group of a row has a scale and a zero point.

    `search` looks for the range with the least square error for each group (slower to quantise).
    """

    group_size: int = 128
    search: bool = True

    def bits_and_group(self, weight: Tensor) -> tuple[int, int | None, dict[str, Any]]:
        return 4, self.group_size, {"symmetric": False, "search": self.search}


@dataclass(frozen=True)
class IntxWeightOnlyConfig(_WeightOnly):
    """Weights in `bits` (4 or 8), by a granularity and a mapping."""

    bits: int = 8
    granularity: PerAxis | PerRow | PerGroup = PerAxis(0)
    mapping_type: MappingType = MappingType.SYMMETRIC

    def bits_and_group(self, weight: Tensor) -> tuple[int, int | None, dict[str, Any]]:
        if self.bits not in (4, 8):
            raise ValueError(f"IntxWeightOnlyConfig: bits must be 4 or 8, received {self.bits}")
        group = self.granularity.group_size if isinstance(self.granularity, PerGroup) else None
        return self.bits, group, {"symmetric": self.mapping_type is MappingType.SYMMETRIC}


@dataclass(frozen=True)
class Int8DynamicActivationInt8WeightConfig(Config):
    """Products in int8: weights by rows, inputs row by row as they come.

    Inputs use all of their range (torchao's default, SYMMETRIC, loses three times as much with
    MiniLM). Embeddings, which have no inputs to round, keep their weights in int8. With `outliers`,
    columns of weights that stand out are kept in floats, and the features of inputs that stand out
    most in a call (one of 128) are multiplied in floats: results of rows then depend, within the
    error of rounding, on the other rows.
    """

    act_mapping_type: MappingType = MappingType.ASYMMETRIC
    granularity: PerRow | PerTensor = PerRow()
    outliers: bool = True

    def replace(self, layer: nn.Module, memory: dict[Any, Any]) -> nn.Module:
        if isinstance(layer, nn.Embedding):
            return embedding_of(layer, self.kept(layer.weight, memory, 8, None))
        weight, bias = parameters_of(layer)
        rest, columns = self.split(weight, memory) if self.outliers else (weight, None)
        grouped = self.kept(rest, memory, 8, None)
        return DynamicLinear(
            grouped.weight,
            _flat(grouped, memory),
            bias,
            per_row=isinstance(self.granularity, PerRow),
            symmetric=self.act_mapping_type is MappingType.SYMMETRIC,
            outliers=most_apart(weight.shape[1]) if self.outliers else 0,
            columns=columns,
        )


def _flat(grouped: GroupedWeight, memory: dict[Any, Any]) -> Tensor:
    """The scales of rows, in one dimension; one tensor where layers share them."""
    key = ("flat", id(grouped.scale))
    if key not in memory:
        memory[key] = grouped.scale.reshape(-1).clone()
    scales: Tensor = memory[key]
    return scales


@dataclass(frozen=True)
class Int8DynamicActivationInt4WeightConfig(Config):
    """Weights in 4 bits by groups, inputs rounded to 8 bits row by row as they come."""

    group_size: int = 32
    mapping_type: MappingType = MappingType.SYMMETRIC

    def replace(self, layer: nn.Module, memory: dict[Any, Any]) -> nn.Module:
        how = {"symmetric": self.mapping_type is MappingType.SYMMETRIC}
        if isinstance(layer, nn.Embedding):
            return embedding_of(layer, self.kept(layer.weight, memory, 4, self.group_size, **how))
        weight, bias = parameters_of(layer)
        return DynamicGroupedLinear(self.kept(weight, memory, 4, self.group_size, **how), bias)


def is_linear(module: nn.Module, name: str) -> bool:
    """What `quantize_` takes by itself: linear layers, but for those attention reads into."""
    if isinstance(module, nn.modules.linear.NonDynamicallyQuantizableLinear):
        return False
    return isinstance(module, nn.Linear) or hasattr(module, "linear_parameters")
