"""Recurrent networks: cells, and their layers over whole sequences, moment by moment.

All inputs of a layer are projected in one product; the loop over time then does only what depends
on the state. A sequence is a list of steps, each a batch; in a packed one the batch shrinks as
sequences end (`nn.utils.rnn`), and states join and leave as it changes. In a captured function the
loop is one `scan`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from adjoint.engine.core.operations.public import PUBLIC, public
from adjoint.engine.core.operations.record import HOOKS, is_tensor
from adjoint.engine.core.promotion import common_dtype
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.nn.attention import dropout_factors
from adjoint.engine.ops.nn.gates import GRU_GATES, LSTM_GATES, STEPS
from adjoint.engine.ops.nn.recurrent_layers import WHOLE, is_whole
from adjoint.engine.ops.products.linear import linear
from adjoint.engine.ops.shape.join import cat, stack

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

State = tuple[Any, ...]  # (h,) or (h, c)
# (projected input, state, weight_hh, bias_hh, weight_hr) -> state
Step = Callable[[Any, State, Any, Any, Any], State]


def product(x: Tensor, weight: Any, bias: Any = None) -> Tensor:
    """A linear layer; what is given for its weight may be a layer itself, as quantised ones are."""
    out: Tensor = linear(x, weight, bias) if is_tensor(weight) else weight(x)
    return out


def _tanh_step(x: Tensor, state: State, w: Tensor, b: Any, _: Any) -> State:
    return ((x + product(state[0], w, b)).tanh(),)


def _relu_step(x: Tensor, state: State, w: Tensor, b: Any, _: Any) -> State:
    return ((x + product(state[0], w, b)).relu(),)


def _lstm_step(x: Tensor, state: State, w: Tensor, b: Any, projection: Any) -> State:
    h, c = state
    sums = x + product(h, w, b)
    if sums.dtype is not c.dtype:  # autocast mixes them
        wide = common_dtype((sums, c))
        sums, c = sums.to(wide), c.to(wide)
    h, c, _ = LSTM_GATES(sums, c)
    return (h if projection is None else product(h, projection)), c


def _gru_step(x: Tensor, state: State, w: Tensor, b: Any, _: Any) -> State:
    (h,) = state
    sums = product(h, w, b)
    if not x.dtype is sums.dtype is h.dtype:
        wide = common_dtype((x, sums, h))
        x, sums, h = x.to(wide), sums.to(wide), h.to(wide)
    return (GRU_GATES(x, sums, h)[0],)


def _over_time(
    step: Step, inputs: Sequence[Tensor], state: State, weights: State
) -> tuple[list[Tensor], State]:
    outputs = []
    for x in inputs:
        state = step(x, state, *weights)
        outputs.append(state[0])
    return outputs, state


def _over_shrinking(
    step: Step, inputs: Sequence[Tensor], state: State, weights: State
) -> tuple[list[Tensor], State]:
    """Forward over a packed sequence: the states of sequences that end are set aside."""
    outputs: list[Tensor] = []
    ended: list[State] = []
    for x in inputs:
        size = x.shape[0]
        if size < state[0].shape[0]:
            ended.append(tuple(s[size:] for s in state))
            state = tuple(s[:size] for s in state)
        state = step(x, state, *weights)
        outputs.append(state[0])
    ended.append(state)
    final = tuple(cat(list(parts), 0) for parts in zip(*reversed(ended), strict=True))
    return outputs, final


def _over_growing(
    step: Step, inputs: Sequence[Tensor], start: State, weights: State
) -> tuple[list[Tensor], State]:
    """Backward over a packed sequence, given from its end: sequences join with their start."""
    outputs: list[Tensor] = []
    state = tuple(s[: inputs[0].shape[0]] for s in start)
    for x in inputs:
        have, size = state[0].shape[0], x.shape[0]
        if size > have:
            state = tuple(
                cat([s, first[have:size]], 0) for s, first in zip(state, start, strict=True)
            )
        state = step(x, state, *weights)
        outputs.append(state[0])
    return outputs, state


def _scan_over_time(
    step: Step, inputs: Tensor, state: State, weights: State, reverse: bool
) -> tuple[Tensor, State]:
    """The loop of a captured function: one operation, whatever the number of steps."""

    def body(state: State, x: Tensor) -> tuple[State, Tensor]:
        state = step(x, state, *weights)
        return state, state[0]

    final, outputs = HOOKS.scan(body, state, inputs, reverse=reverse)
    return outputs, final


def _scan_over_packed(
    sizes: list[int], step: Step, inputs: Tensor, state: State, weights: State, reverse: bool
) -> tuple[Tensor, State]:
    """The same for a packed sequence: padded again, with states that stay where one has ended."""
    batch = sizes[0]
    starts = [0, *accumulate(sizes)]
    here = [[b < n for b in range(batch)] for n in sizes]
    rows = [starts[t] + b if b < n else 0 for t, n in enumerate(sizes) for b in range(batch)]
    places = [t * batch + b for t, n in enumerate(sizes) for b in range(n)]

    def index(values: list[Any]) -> Any:
        return PUBLIC["", "tensor"].fn(values, device=inputs.device)

    def body(state: State, at: tuple[Tensor, Tensor]) -> tuple[State, Tensor]:
        x, alive = at
        new = step(x, state, *weights)
        return tuple(n.where(alive, s) for n, s in zip(new, state, strict=True)), new[0]

    padded = inputs.index_select(0, index(rows)).unflatten(0, (len(sizes), batch))
    alive = index(here).unsqueeze(-1)
    final, outputs = HOOKS.scan(body, state, (padded, alive), reverse=reverse)
    return outputs.flatten(0, 1).index_select(0, index(places)), final


def _direction(
    step: Step, input: Tensor, sizes: list[int] | None, state: State, weights: State, reverse: bool
) -> tuple[Tensor, State]:
    """One direction of one layer: (outputs in the order of the input, final state)."""
    w_ih, w_hh, b_ih, b_hh, w_hr = weights
    if b_hh is not None and step is not _gru_step:  # the gru scales its state's part, bias included
        b_ih, b_hh = b_ih + b_hh, None
    projected = product(input, w_ih, b_ih)
    if CONTEXT.capture is not None:
        weights = (w_hh, b_hh, w_hr)
        if CONTEXT.autocast is not None and projected.dtype.is_half:
            # What products would cast at every step is cast once, the first state with it where
            # later ones are what a product gives: a loop's state keeps its dtype.
            weights = tuple(x.to(projected.dtype) if is_tensor(x) else x for x in weights)
            if step in (_tanh_step, _relu_step) or w_hr is not None:
                state = (state[0].to(projected.dtype), *state[1:])
        rest = (step, projected, state, weights, reverse)
        return _scan_over_time(*rest) if sizes is None else _scan_over_packed(sizes, *rest)
    if sizes is None and w_hr is None and is_whole(step.__name__, projected, state, w_hh, b_hh):
        half = projected.dtype if CONTEXT.autocast is not None else w_hh.dtype
        with CONTEXT.having(autocast=None):  # precision is settled by what is handed over
            bias = None if b_hh is None else b_hh.to(half)
            return WHOLE[step.__name__](projected, state, w_hh.to(half), bias, reverse)
    steps = list(STEPS(projected, sizes=sizes))
    if reverse:
        steps.reverse()
    over = _over_time if sizes is None else _over_growing if reverse else _over_shrinking
    outputs, final = over(step, steps, state, (w_hh, b_hh, w_hr))
    if reverse:
        outputs.reverse()
    return (stack(outputs, 0) if sizes is None else cat(outputs, 0)), final


def _split_weights(
    params: Sequence[Tensor], has_biases: bool, projected: bool, count: int
) -> list[State]:
    """(weight_ih, weight_hh, bias_ih, bias_hh, weight_hr) per layer and direction."""
    per_layer = 2 + 2 * has_biases + projected
    if len(params) != per_layer * count:
        raise RuntimeError(f"rnn: expected {per_layer * count} parameters, received {len(params)}")
    weights = []
    for i in range(count):
        mine = list(params[i * per_layer : (i + 1) * per_layer])
        last = mine.pop() if projected else None
        weights.append((*mine, *(() if has_biases else (None, None)), last))
    return weights


class Layers(NamedTuple):
    """The layers of a network: all that is to be said of it besides its cell and its parameters."""

    biases: bool
    depth: int
    dropout: float = 0.0  # of what goes from one layer to the next
    training: bool = False  # whether anything is dropped
    both: bool = False  # whether sequences are read backward, too

    @property
    def directions(self) -> int:
        """How often each layer reads a sequence."""
        return 1 + self.both

    @property
    def drops(self) -> bool:
        """Whether anything is dropped between layers."""
        return bool(self.dropout) and self.training and self.depth > 1


def over_layers(
    step: Step,
    input: Tensor,
    sizes: list[int] | None,
    states: State,
    params: Sequence[Tensor],
    layers: Layers,
) -> tuple[Tensor, State]:
    """All layers: input (T, B, I) or packed (sum, I), states (layers * directions, B, H)."""
    directions = layers.directions
    projected = len(states) == 2 and states[0].shape[-1] != states[1].shape[-1]
    weights = _split_weights(params, layers.biases, projected, layers.depth * directions)
    starts = list(zip(*(s.unbind(0) for s in states), strict=True))
    if not input.shape[0]:
        raise RuntimeError("rnn: expected sequence length to be larger than 0 in RNN")
    even = sizes is not None and sizes[0] == sizes[-1]  # they never grow: nothing is packed
    if sizes is not None and even:
        input, sizes = input.reshape((len(sizes), sizes[0], *input.shape[1:])), None
    finals: list[State] = []
    for layer in range(layers.depth):
        outputs = []
        for d in range(directions):
            at = layer * directions + d
            out, final = _direction(step, input, sizes, starts[at], weights[at], bool(d))
            outputs.append(out)
            finals.append(final)
        input = outputs[0] if directions == 1 else cat(outputs, -1)
        if layers.drops and layer < layers.depth - 1:
            input = input * dropout_factors(input.shape, layers.dropout, input)
    if even:
        input = input.flatten(0, 1)
    return input, tuple(stack(list(parts), 0) for parts in zip(*finals, strict=True))


CELLS: dict[str, Step] = {
    "RNN_TANH": _tanh_step,
    "RNN_RELU": _relu_step,
    "LSTM": _lstm_step,
    "GRU": _gru_step,
}


def _cell(
    step: Step, input: Tensor, state: State, w_ih: Tensor, w_hh: Tensor, b_ih: Any, b_hh: Any
) -> State:
    return step(product(input, w_ih, b_ih), state, w_hh, b_hh, None)


@public()
def rnn_tanh_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """One step of an Elman network: tanh(W_ih x + b_ih + W_hh h + b_hh)."""
    return _cell(_tanh_step, input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


@public()
def rnn_relu_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """One step of an Elman network with relu."""
    return _cell(_relu_step, input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


@public()
def gru_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """One step of a gated recurrent unit."""
    return _cell(_gru_step, input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


@public()
def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One step of a long short-term memory: (h, c)."""
    h, c = _cell(_lstm_step, input, tuple(hx), w_ih, w_hh, b_ih, b_hh)
    return h, c
