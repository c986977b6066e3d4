"""Recurrent cells: one step of a recurrent layer."""

from __future__ import annotations

from math import sqrt
from typing import Any

from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import ShapeError, ShapeValueError
from adjoint.engine.ops.create.creation import empty
from adjoint.engine.ops.nn.recurrent import gru_cell, lstm_cell, rnn_relu_cell, rnn_tanh_cell
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import init
from adjoint.nn.modules.module import Module
from adjoint.nn.parameter import Parameter


class RNNCellBase(Module):
    """What recurrent cells have in common.

    Args:
        input_size: size of the input.
        hidden_size: size of the state.
        bias: whether there are biases.
        num_chunks: how many gates there are.
    """

    __constants__ = ["input_size", "hidden_size", "bias"]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        self._make_weights(num_chunks * hidden_size, device, dtype)
        self.reset_parameters()

    def _make_weights(self, rows: int, device: Any, dtype: DType | None) -> None:
        self.weight_ih = Parameter(empty((rows, self.input_size), device=device, dtype=dtype))
        self.weight_hh = Parameter(empty((rows, self.hidden_size), device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            if self.bias:
                setattr(self, name, Parameter(empty(rows, device=device, dtype=dtype)))
            else:
                self.register_parameter(name, None)

    def reset_parameters(self) -> None:
        r"""Draw all parameters from a uniform law within $1/\sqrt{hidden\_size}$ of zero."""
        bound = 1.0 / sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        shown = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            shown += f", bias={self.bias}"
        if self.__dict__.get("nonlinearity", "tanh") != "tanh":
            shown += f", nonlinearity={self.nonlinearity}"
        return shown

    def _weights(self) -> tuple[Any, ...]:
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def _prepare(self, input: Tensor, states: Any, count: int) -> tuple[bool, Tensor, list[Tensor]]:
        """Whether there is a batch, the input with one, and as many states."""
        name = type(self).__name__
        if input.ndim not in (1, 2):
            raise ShapeValueError(
                f"{name}: Expected input to be 1D or 2D, got {input.ndim}D instead"
            )
        given = list(states) if states is not None else []
        for i, state in enumerate(given):
            if state.ndim not in (1, 2):
                which = f"hx[{i}]" if count > 1 else "hidden"
                raise ShapeValueError(
                    f"{name}: Expected {which} to be 1D or 2D, got {state.ndim}D instead"
                )
        batched = input.ndim == 2
        if not batched:
            input = input.unsqueeze(0)
            given = [s.unsqueeze(0) for s in given]
        if input.shape[1] != self.input_size:
            raise ShapeError(
                f"{name}: input has inconsistent input_size: got {input.shape[1]} expected "
                f"{self.input_size}"
            )
        if not given:
            zeros = input.new_zeros((input.shape[0], self.hidden_size))
            given = [zeros] * count
        for i, state in enumerate(given):
            if tuple(state.shape) != (input.shape[0], self.hidden_size):
                raise ShapeError(
                    f"{name}: hidden{i} has inconsistent hidden_size: got {tuple(state.shape)}, "
                    f"expected {(input.shape[0], self.hidden_size)}"
                )
        return batched, input, given


class RNNCell(RNNCellBase):
    r"""One step of an Elman network: $h' = \tanh(W_{ih} x + b_{ih} + W_{hh} h + b_{hh})$.

    Args:
        input_size: size of the input.
        hidden_size: size of the state.
        bias: whether there are biases.
        nonlinearity: "tanh" or "relu".

    Shape:
        (B, input_size), (B, hidden_size) -> (B, hidden_size); B may be missing.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.RNNCell(10, 20)(ad.randn(3, 10)).shape
        adjoint.Size([3, 20])
    """

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        batched, input, (h,) = self._prepare(input, None if hx is None else (hx,), 1)
        cells = {"tanh": rnn_tanh_cell, "relu": rnn_relu_cell}
        if self.nonlinearity not in cells:
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        out = cells[self.nonlinearity](input, h, *self._weights())
        return out if batched else out.squeeze(0)


class LSTMCell(RNNCellBase):
    """One step of a long short-term memory; see `nn.LSTM`.

    Args:
        input_size: size of the input.
        hidden_size: size of h and c.
        bias: whether there are biases.

    Shape:
        (B, input_size), two of (B, hidden_size) -> two of (B, hidden_size); B may be missing.

    Example:
        >>> import adjoint as ad
        >>> h, c = ad.nn.LSTMCell(10, 20)(ad.randn(3, 10))
        >>> h.shape
        adjoint.Size([3, 20])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        batched, input, states = self._prepare(input, hx, 2)
        h, c = lstm_cell(input, states, *self._weights())
        return (h, c) if batched else (h.squeeze(0), c.squeeze(0))


class GRUCell(RNNCellBase):
    """One step of a gated recurrent unit; see `nn.GRU`.

    Args:
        input_size: size of the input.
        hidden_size: size of the state.
        bias: whether there are biases.

    Shape:
        (B, input_size), (B, hidden_size) -> (B, hidden_size); B may be missing.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.GRUCell(10, 20)(ad.randn(3, 10)).shape
        adjoint.Size([3, 20])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        batched, input, (h,) = self._prepare(input, None if hx is None else (hx,), 1)
        out = gru_cell(input, h, *self._weights())
        return out if batched else out.squeeze(0)
