"""What quantised layers have in common: how they are written to files and made again."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import adjoint as ad
from adjoint import nn
from adjoint.engine.tensor.tensor import Tensor
from adjoint.quantization.outliers import Columns
from adjoint.quantization.tensor import QuantizedTensor

KINDS: dict[str, type[Kept]] = {}


class Kept(nn.Module):
    """A layer that a file describes: its kind, plain values of `options`, and its tensors."""

    kind: ClassVar[str] = ""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "kind" in cls.__dict__:  # compiled modules are of classes below theirs
            KINDS[cls.kind] = cls

    def options(self) -> dict[str, Any]:
        """What an empty layer of this kind is made with: plain values."""
        raise NotImplementedError

    @classmethod
    def empty(cls, tensors: dict[str, Tensor], **options: Any) -> Kept:
        """The layer of these options, with tensors of these shapes."""
        raise NotImplementedError

    def held(self, name: str) -> Tensor:
        """A buffer, where a method may have its name."""
        return cast(Tensor, self._buffers[name])

    @classmethod
    def in_place_of(cls, layer: nn.Module, tensors: dict[str, Tensor], **options: Any) -> Kept:
        """The layer a file describes, for a model that has this one there in floats."""
        return cls.empty(tensors, **options)


class Called(Kept):
    """A layer whose weight, of int8, and bias are asked for by calls, as PyTorch's are.

    `layer.weight()` and `layer.bias()` are methods; the tensors are in the tables under their
    names, where states and files have them.
    """

    weight_sums: Tensor

    def put(self, weight: Tensor, bias: Tensor | None) -> None:
        """Keep both, and the sums of the weight's rows."""
        self._buffers["weight"] = weight  # register_buffer refuses the name of a method
        self._parameters["bias"] = None if bias is None else as_parameter(bias)
        sums = weight.sum(tuple(range(1, weight.ndim)), dtype=ad.int32)
        self.register_buffer("weight_sums", sums, persistent=False)
        self.register_load_state_dict_post_hook(sum_again)

    def by_channel(self) -> QuantizedTensor:
        """The weight, quantised, each channel by a scale of its own."""
        raise NotImplementedError

    def weight(self) -> QuantizedTensor:
        """The weight, quantised: by one scale where all channels have the same."""
        whole = self.by_channel()
        scales, zeros = whole._scale, whole._zero
        if bool((scales == scales[0]).all() & (zeros == zeros[0]).all()):
            return QuantizedTensor(whole._ints, scales[0], zeros[0])
        return whole

    def bias(self) -> Tensor | None:
        """The bias as it was, or none."""
        return self._parameters["bias"]


def as_parameter(tensor: Tensor) -> nn.Parameter:
    """A tensor as a parameter: itself where it is one."""
    return tensor if isinstance(tensor, nn.Parameter) else nn.Parameter(tensor)


def put_bias(module: nn.Module, bias: Tensor | None) -> None:
    """A bias kept as it was: a parameter, or none."""
    module.register_parameter("bias", None if bias is None else as_parameter(bias))


def sum_again(module: Any, _: Any) -> None:
    """The sums of weights that were just loaded."""
    with ad.no_grad():
        weight = module.held("weight")
        module.weight_sums.copy_(weight.sum(tuple(range(1, weight.ndim)), dtype=ad.int32))


def put_columns(module: Any, columns: Columns | None) -> None:
    """Columns kept in floats, as buffers of a layer that has weight (out, in)."""
    if columns is not None:
        columns.check(module.out_features, module.in_features)
    module.register_buffer("columns", None if columns is None else columns.features)
    module.register_buffer("column_weight", None if columns is None else columns.weight)


def columns_of(tensors: dict[str, Tensor]) -> Columns | None:
    """The columns that a file's tensors are; where there is one of the two, there are both."""
    if "columns" not in tensors and "column_weight" not in tensors:
        return None
    return Columns(tensors["columns"], tensors["column_weight"])
