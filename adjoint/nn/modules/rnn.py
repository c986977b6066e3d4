"""Recurrent layers over sequences."""

from __future__ import annotations

import numbers
import warnings
from functools import partial
from math import sqrt
from typing import Any

from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import DTypeValueError, ShapeError, ShapeValueError
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.create.creation import empty
from adjoint.engine.ops.nn.recurrent import Layers
from adjoint.engine.ops.nn.recurrent_networks import GATES, run
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import init
from adjoint.nn.modules.module import Module
from adjoint.nn.modules.rnn_cells import GRUCell as GRUCell
from adjoint.nn.modules.rnn_cells import LSTMCell as LSTMCell
from adjoint.nn.modules.rnn_cells import RNNCell as RNNCell
from adjoint.nn.modules.rnn_cells import RNNCellBase as RNNCellBase
from adjoint.nn.parameter import Parameter
from adjoint.nn.utils.rnn import PackedSequence, integers_of


def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    """A state's sequences in another order; copies of the layers below call it."""
    warnings.warn(
        "apply_permutation is deprecated, please use tensor.index_select(dim, permutation) instead",
        FutureWarning,
        stacklevel=2,
    )
    return _apply_permutation(tensor, permutation, dim)


def _apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    return tensor.index_select(dim, permutation)


class RNNBase(Module):
    """What recurrent layers have in common: parameters by layer and direction, and the call.

    Args:
        mode: "RNN_TANH", "RNN_RELU", "LSTM" or "GRU".
        input_size: size of each input.
        hidden_size: size of the state.
        num_layers: how many layers, each reading the outputs of the one before.
        bias: whether there are biases.
        batch_first: whether inputs and outputs are (B, T, ...) rather than (T, B, ...).
        dropout: probability of dropping outputs between layers, in training.
        bidirectional: whether each layer also runs from the end.
        proj_size: LSTM only: size the state's h is projected to; 0 for none.
    """

    __constants__ = [
        "mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout",
        "bidirectional", "proj_size",
    ]  # fmt: skip

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if mode not in GATES:
            raise ValueError(f"Unrecognized RNN mode: {mode}")
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._check_options(dropout)
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            for suffix in ("", "_reverse")[: self._directions]:
                self._make_weights(f"_l{layer}{suffix}", layer, device, dtype)
        self.reset_parameters()

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def _output_size(self) -> int:
        return self.proj_size or self.hidden_size

    def _check_options(self, dropout: Any) -> None:
        if (
            not isinstance(dropout, numbers.Number)
            or isinstance(dropout, bool)
            or not (0 <= self.dropout <= 1)
        ):
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an "
                f"element being zeroed, received {dropout!r}"
            )
        if self.dropout > 0 and self.num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero "
                f"dropout expects num_layers greater than 1, but got dropout={dropout} and "
                "num_layers=1",
                UserWarning,
                stacklevel=4,
            )
        for name in ("hidden_size", "num_layers"):
            value = getattr(self, name)
            if name == "hidden_size" and not isinstance(value, int):
                raise TypeError(f"{name} should be of type int, got: {type(value).__name__}")
            if value <= 0:
                raise ValueError(f"{name} must be greater than zero, received {value}")
        if self.proj_size < 0:
            raise ValueError(
                "proj_size should be a positive integer or zero to disable projections, received "
                f"{self.proj_size}"
            )
        if self.proj_size >= self.hidden_size:
            raise ValueError(
                f"proj_size has to be smaller than hidden_size, received {self.proj_size} and "
                f"{self.hidden_size}"
            )

    def _weight_shapes(self, layer: int) -> dict[str, tuple[int, ...]]:
        gates = GATES[self.mode] * self.hidden_size
        width = self.input_size if layer == 0 else self._output_size * self._directions
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih": (gates, width),
            "weight_hh": (gates, self._output_size),
        }
        if self.bias:
            shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        return shapes

    def _make_weights(self, suffix: str, layer: int, device: Any, dtype: DType | None) -> None:
        shapes = self._weight_shapes(layer)
        for name, shape in shapes.items():
            setattr(self, name + suffix, Parameter(empty(shape, device=device, dtype=dtype)))
        self._all_weights.append([name + suffix for name in shapes])

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights(self) -> list[Parameter]:
        return [getattr(self, name) for names in self._all_weights for name in names]

    def __getstate__(self) -> dict[str, Any]:
        """With the lists that PyTorch's layers keep, which read files of whole modules too."""
        names = [name for names in self._all_weights for name in names]
        lists = {"_flat_weights_names": names, "_flat_weights": self._flat_weights}
        return super().__getstate__() | lists

    def __setstate__(self, state: dict[str, Any]) -> None:
        lists = ("_flat_weights_names", "_flat_weights", "_flat_weight_refs")
        super().__setstate__({k: v for k, v in state.items() if k not in lists})

    @property
    def _input_dtype(self) -> DType:
        dtype: DType = getattr(self, self._all_weights[0][0]).dtype
        return dtype

    def flatten_parameters(self) -> None:
        """Nothing to do: parameters are used where they are."""

    def reset_parameters(self) -> None:
        r"""Draw all parameters from a uniform law within $1/\sqrt{hidden\_size}$ of zero."""
        bound = 1.0 / sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Refuse inputs of another shape or dtype."""
        wanted_dtype = self._input_dtype
        if input.dtype is not wanted_dtype and CONTEXT.autocast is None:
            raise DTypeValueError(
                f"{type(self).__name__}: input must have the type {wanted_dtype}, got type "
                f"{input.dtype}"
            )
        wanted = 2 if batch_sizes is not None else 3
        if input.ndim != wanted:
            raise ShapeError(f"input must have {wanted} dimensions, got {input.ndim}")
        if input.shape[-1] != self.input_size:
            raise ShapeError(
                f"{type(self).__name__}: input.size(-1) must be equal to input_size. Expected "
                f"{self.input_size}, got {input.shape[-1]}"
            )

    def get_expected_hidden_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape of h for an input."""
        batch = self._batch(input, batch_sizes)
        return (self.num_layers * self._directions, batch, self._output_size)

    def _batch(self, input: Tensor, batch_sizes: Tensor | None) -> int:
        if batch_sizes is not None:
            return integers_of(batch_sizes, type(self).__name__)[0]
        return input.shape[0] if self.batch_first else input.shape[1]

    def check_hidden_size(
        self,
        hx: Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        """Refuse a state of another shape."""
        if tuple(hx.shape) != tuple(expected_hidden_size):
            raise ShapeError(msg.format(tuple(expected_hidden_size), list(hx.shape)))

    def _state_shapes(self, batch: int) -> list[tuple[int, int, int]]:
        first = self.num_layers * self._directions
        shapes = [(first, batch, self._output_size)]
        return [*shapes, (first, batch, self.hidden_size)] if self.mode == "LSTM" else shapes

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Refuse an input or a state of another shape."""
        self.check_input(input, batch_sizes)
        states = hidden if self.mode == "LSTM" else (hidden,)
        batch = self._batch(input, batch_sizes)
        messages = (
            ("Expected hidden[0] size {}, got {}", "Expected hidden[1] size {}, got {}")
            if self.mode == "LSTM"
            else ("Expected hidden size {}, got {}",)
        )
        for state, shape, message in zip(states, self._state_shapes(batch), messages, strict=True):
            self.check_hidden_size(state, shape, message)

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """A state with its batch in another order."""
        if permutation is None:
            return hx
        if isinstance(hx, tuple):
            return tuple(h.index_select(1, permutation) for h in hx)
        return hx.index_select(1, permutation)

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """Outputs at every step, and the final state; see the class for shapes."""
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        name = type(self).__name__
        if input.ndim not in (2, 3):
            raise ShapeValueError(
                f"{name}: Expected input to be 2D or 3D, got {input.ndim}D tensor instead"
            )
        batched = input.ndim == 3
        states = self._given_states(hx, 3 if batched else 2)
        if not batched:
            input = input.unsqueeze(0 if self.batch_first else 1)
            states = None if states is None else tuple(s.unsqueeze(1) for s in states)
        if states is None:
            self.check_input(input, None)
            states = partial(self._zero_states, input, self._batch(input, None))
        else:
            self.check_forward_args(input, self._shown(states), None)
        steps = input.transpose(0, 1) if self.batch_first else input
        out, states = self._run(steps, None, states)
        if self.batch_first:
            out = out.transpose(0, 1)
        if not batched:
            out = out.squeeze(0 if self.batch_first else 1)
            states = tuple(s.squeeze(1) for s in states)
        return out, self._shown(states)

    def _forward_packed(self, input: PackedSequence, hx: Any) -> tuple[Any, Any]:
        data, batch_sizes, order, back = input
        states: Any
        if hx is None:
            self.check_input(data, batch_sizes)
            states = partial(self._zero_states, data, self._batch(data, batch_sizes))
        else:
            hx = self.permute_hidden(tuple(hx) if self.mode == "LSTM" else hx, order)
            states = hx if self.mode == "LSTM" else (hx,)
            self.check_forward_args(data, self._shown(states), batch_sizes)
        out, states = self._run(data, integers_of(batch_sizes, type(self).__name__), states)
        final = self.permute_hidden(self._shown(states), back)
        return PackedSequence(out, batch_sizes, order, back), final

    def _run(self, input: Tensor, sizes: list[int] | None, states: Any) -> Any:
        return self._run_with(self.bias, input, sizes, states)

    def _run_with(self, biases: bool, input: Tensor, sizes: list[int] | None, states: Any) -> Any:
        layers = Layers(biases, self.num_layers, self.dropout, self.training, self.bidirectional)
        return run(self.mode, input, sizes, states, self._flat_weights, layers)

    def _shown(self, states: Any) -> Any:
        return tuple(states) if self.mode == "LSTM" else states[0]

    def _zero_states(self, like: Tensor, batch: int) -> tuple[Tensor, ...]:
        return tuple(like.new_zeros(shape) for shape in self._state_shapes(batch))

    def _given_states(self, hx: Any, rank: int) -> Any:
        if hx is None:
            return None
        states = tuple(hx) if self.mode == "LSTM" else (hx,)
        for state in states:
            if state.ndim != rank:
                kind = "batched 3-D" if rank == 3 else "unbatched 2-D"
                which = "hx and cx" if self.mode == "LSTM" else "hx"
                raise ShapeError(
                    f"For {kind} input, {which} should also be {rank}-D but got "
                    f"{tuple(s.ndim for s in states) if len(states) > 1 else state.ndim}-D tensor"
                )
        return states

    def extra_repr(self) -> str:
        shown = [f"{self.input_size}, {self.hidden_size}"]
        defaults = {
            "proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0,
            "bidirectional": False,
        }  # fmt: skip
        for name, default in defaults.items():
            if getattr(self, name) != default:
                shown.append(f"{name}={getattr(self, name)}")
        return ", ".join(shown)


class RNN(RNNBase):
    r"""An Elman network: $h_t = \tanh(W_{ih} x_t + b_{ih} + W_{hh} h_{t-1} + b_{hh})$.

    Args:
        input_size: size of each input.
        hidden_size: size of the state.
        num_layers: how many layers.
        nonlinearity: "tanh" or "relu".
        bias: whether there are biases.
        batch_first: whether inputs and outputs are (B, T, ...).
        dropout: probability of dropping outputs between layers, in training.
        bidirectional: whether each layer also runs from the end.

    Shape:
        (T, B, input_size), (T, input_size) or packed; state (layers * directions, B, hidden_size)
        -> (T, B, directions * hidden_size), state.

    Example:
        >>> import adjoint as ad
        >>> out, h = ad.nn.RNN(10, 20, 2)(ad.randn(5, 3, 10))
        >>> out.shape, h.shape
        (adjoint.Size([5, 3, 20]), adjoint.Size([2, 3, 20]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        super().__init__(
            f"RNN_{nonlinearity.upper()}",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            0,
            device,
            dtype,
        )
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    r"""Long short-term memory: a state (h, c) whose c gates keep, fill and show.

    $i, f, o = \sigma(W x_t + U h_{t-1} + b)$ each with its own weights, $g = \tanh(\ldots)$,
    $c_t = f c_{t-1} + i g$, $h_t = o \tanh(c_t)$, then projected if `proj_size` is given.

    Args:
        input_size: size of each input.
        hidden_size: size of c, and of h without a projection.
        num_layers: how many layers.
        bias: whether there are biases.
        batch_first: whether inputs and outputs are (B, T, ...).
        dropout: probability of dropping outputs between layers, in training.
        bidirectional: whether each layer also runs from the end.
        proj_size: size that h is projected to; 0 for none.

    Shape:
        (T, B, input_size), (T, input_size) or packed -> (T, B, directions * size), (h, c), where
        h is (layers * directions, B, size) and c (layers * directions, B, hidden_size).

    Example:
        >>> import adjoint as ad
        >>> out, (h, c) = ad.nn.LSTM(10, 20, batch_first=True)(ad.randn(3, 5, 10))
        >>> out.shape, c.shape
        (adjoint.Size([3, 5, 20]), adjoint.Size([1, 3, 20]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(
            "LSTM",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            proj_size,
            device,
            dtype,
        )


class GRU(RNNBase):
    r"""Gated recurrent units: $h_t = (1 - z) n + z h_{t-1}$.

    $r, z = \sigma(W x_t + U h_{t-1} + b)$, $n = \tanh(W_n x_t + b_n + r (U_n h_{t-1} + b_{hn}))$.

    Args:
        input_size: size of each input.
        hidden_size: size of the state.
        num_layers: how many layers.
        bias: whether there are biases.
        batch_first: whether inputs and outputs are (B, T, ...).
        dropout: probability of dropping outputs between layers, in training.
        bidirectional: whether each layer also runs from the end.

    Shape:
        (T, B, input_size), (T, input_size) or packed; state (layers * directions, B, hidden_size)
        -> (T, B, directions * hidden_size), state.

    Example:
        >>> import adjoint as ad
        >>> out, h = ad.nn.GRU(10, 20, bidirectional=True)(ad.randn(5, 3, 10))
        >>> out.shape, h.shape
        (adjoint.Size([5, 3, 40]), adjoint.Size([2, 3, 20]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(
            "GRU",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            0,
            device,
            dtype,
        )
