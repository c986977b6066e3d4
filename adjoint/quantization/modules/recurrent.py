"""Recurrent layers whose products are of int8, with inputs and states rounded as they come.

A layer is the float one's class with `DynamicLinear` layers where its weights were; sums of gates,
sigmoids and states stay in float32.
"""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint import nn
from adjoint.engine.core.dtype import DType
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.rnn import RNNBase
from adjoint.nn.modules.rnn_cells import RNNCellBase
from adjoint.quantization.modules.dynamic import DynamicLinear
from adjoint.quantization.modules.kept import Kept

Products = dict[str, DynamicLinear]


class _Weights:
    """A weight and a bias of a recurrent layer, as a linear layer has them."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight, self.bias = weight, bias


def products_of(layer: Any, per_channel: bool) -> Products:
    """The products of a float layer by name: `ih_l0` of its `weight_ih_l0` and bias."""
    products = {}
    for name, weight in layer.named_parameters():
        if name.startswith("weight_"):
            own = name.removeprefix("weight_")
            bias = getattr(layer, f"bias_{own}", None)
            pair = _Weights(weight, None if bias is None else bias.detach())
            products[own] = DynamicLinear.of(pair, False, False, per_channel)
    return products


def products_in(tensors: dict[str, Tensor]) -> Products:
    """The same from a file's tensors."""
    parts: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        own, _, part = name.partition(".")
        parts.setdefault(own, {})[part] = tensor
    return {
        own: DynamicLinear.empty(tensors, per_row=False, symmetric=False)
        for own, tensors in parts.items()
    }


def check_products(layer: Any, products: Products, wanted: dict[str, tuple[int, int]]) -> None:
    """Refuse products of other names or sizes than the layer has."""
    sizes = {name: (linear.out_features, linear.in_features) for name, linear in products.items()}
    if sizes != wanted:
        raise ValueError(f"{type(layer).__name__}: expected products {wanted}, received {sizes}")
    for name, product in products.items():
        layer.add_module(name, product)


class _DynamicRecurrent(Kept, RNNBase):
    """A recurrent layer over sequences; `products` by name, the rest as the float layer's."""

    def __init__(self, products: Products, **options: Any) -> None:
        if not 0 < options["num_layers"] <= len(products):  # a file may say anything
            raise ValueError(f"{len(products)} products for {options['num_layers']} layers")
        self.__dict__["_wanted"] = {}  # before there is a module to set it on
        RNNBase.__init__(self, **options)
        check_products(self, products, self.__dict__.pop("_wanted"))

    def _make_weights(self, suffix: str, layer: int, device: Any, dtype: DType | None) -> None:
        names = []
        for name, shape in self._weight_shapes(layer).items():
            if name.startswith("weight_"):
                names.append(name.removeprefix("weight_") + suffix)
                self._wanted[names[-1]] = shape
        self._all_weights.append(names)

    def reset_parameters(self) -> None:
        """Nothing to draw: weights are given."""

    @property
    def _input_dtype(self) -> DType:
        return ad.float32

    def _run(self, input: Tensor, sizes: list[int] | None, states: Any) -> Any:
        return self._run_with(False, input, sizes, states)  # products have their biases

    @classmethod
    def of(cls, layer: Any, per_channel: bool = False) -> Any:
        """The layer of a float one's weights, rounded to 8 bits."""
        options = {name: getattr(layer, name) for name in RNNBase.__constants__}
        layer_of_bytes = cls(products_of(layer, per_channel), **options)
        return layer_of_bytes.train(layer.training)

    @classmethod
    def empty(cls, tensors: dict[str, Tensor], **options: Any) -> Any:
        return cls(products_in(tensors), **options)

    def options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in RNNBase.__constants__}


class DynamicRNN(_DynamicRecurrent):
    """An Elman network with products of int8; see `nn.RNN`."""

    kind = "dynamic_rnn"


class DynamicLSTM(_DynamicRecurrent):
    """A long short-term memory with products of int8; see `nn.LSTM`.

    Example:
        >>> layer = DynamicLSTM.of(nn.LSTM(8, 4))
        >>> out, (h, c) = layer(ad.randn(5, 2, 8))
        >>> out.shape, c.shape
        (adjoint.Size([5, 2, 4]), adjoint.Size([1, 2, 4]))
    """

    kind = "dynamic_lstm"


class DynamicGRU(_DynamicRecurrent):
    """A gated recurrent unit with products of int8; see `nn.GRU`."""

    kind = "dynamic_gru"


class _DynamicCell(Kept, RNNCellBase):
    """One step; `products` are `ih` and `hh`, the rest as the float cell's."""

    ih: DynamicLinear
    hh: DynamicLinear

    def __init__(self, products: Products, **options: Any) -> None:
        super().__init__(**options)
        rows = self._rows
        wanted = {"ih": (rows, self.input_size), "hh": (rows, self.hidden_size)}
        check_products(self, products, wanted)

    def _make_weights(self, rows: int, device: Any, dtype: DType | None) -> None:
        self._rows = rows

    def reset_parameters(self) -> None:
        """Nothing to draw: weights are given."""

    def _weights(self) -> tuple[Any, ...]:
        return self.ih, self.hh, None, None

    @classmethod
    def of(cls, layer: Any, per_channel: bool = False) -> Any:
        """The cell of a float one's weights, rounded to 8 bits."""
        options = {name: getattr(layer, name) for name in layer.__constants__}
        return cls(products_of(layer, per_channel), **options).train(layer.training)

    @classmethod
    def empty(cls, tensors: dict[str, Tensor], **options: Any) -> Any:
        return cls(products_in(tensors), **options)

    def options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__constants__}


class DynamicRNNCell(_DynamicCell, nn.RNNCell):
    """One step of an Elman network with products of int8; see `nn.RNNCell`."""

    kind = "dynamic_rnn_cell"


class DynamicLSTMCell(_DynamicCell, nn.LSTMCell):
    """One step of a long short-term memory with products of int8; see `nn.LSTMCell`."""

    kind = "dynamic_lstm_cell"


class DynamicGRUCell(_DynamicCell, nn.GRUCell):
    """One step of a gated recurrent unit with products of int8; see `nn.GRUCell`."""

    kind = "dynamic_gru_cell"


# What each float layer becomes; PyTorch leaves `nn.RNN` in floats unless it is asked for.
RECURRENT: dict[type, Any] = {
    nn.LSTM: DynamicLSTM,
    nn.GRU: DynamicGRU,
    nn.LSTMCell: DynamicLSTMCell,
    nn.GRUCell: DynamicGRUCell,
    nn.RNNCell: DynamicRNNCell,
    nn.RNN: DynamicRNN,
}
