"""One direction of a recurrent layer as one operation.

Step by step, a layer is a few launches for every moment of the sequence, each of which costs the
host more than it costs the processor or the GPU. As one operation it is one fragment forward and
one backward, whose launches are made in a row; products that need no order (the weight's gradient)
are one for all moments. On the CPU sequences of less than `LOOPED` gates, and halves, stay what
`recurrent` makes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from adjoint.engine.core.dtype import float32, float64
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS, is_large
from adjoint.engine.core.operations.record import HOOKS, Record
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.nn.gates import (
    GRU_BACKWARD,
    GRU_GATES,
    LSTM_BACKWARD,
    LSTM_GATES,
    _gru_backward,
    _lstm_backward,
    _or_zeros,
    gru_cotangents,
    gru_gated,
    lstm_gates_of_both,
)
from adjoint.engine.ops.products.linear import linear
from adjoint.engine.ops.shape.join import cat

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _before(rows: Tensor, first: Tensor, reverse: bool) -> Tensor:
    """The state that each moment began with."""
    start = first.unsqueeze(0)
    return cat([rows[1:], start]) if reverse else cat([start, rows[:-1]])


def _to_weights(sums: Tensor, states: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of the weight and of the bias, of all moments in one product."""
    rows = sums.flatten(0, 1)
    return rows.t() @ states.flatten(0, 1).to(w.dtype), rows.sum(0)


# -- long short-term memory ---------------------------------------------------------------------


def _lstm_layer(x: Tensor, h: Tensor, c: Tensor, w: Tensor, reverse: bool) -> tuple[Tensor, ...]:
    """(outputs, last h, last c, all c, activations) of projected inputs (T, B, 4H)."""

    narrow = w.dtype is not h.dtype  # autocast's: products read what the kernel before them wrote

    def step(state: Any, row: Tensor) -> Any:
        h, c = state
        sums = linear(h, w)
        if row.device.type == "cpu":  # where the product adds the row as it ends
            h, c, acts = LSTM_GATES((row + sums).to(c.dtype), c)
        else:
            h, c, acts = lstm_gates_of_both(row, sums, c)
        return (h.to(w.dtype), c), (h, c, acts)

    (h, c), (outputs, cells, acts) = HOOKS.scan(step, (h.to(w.dtype), c), x, reverse=reverse)
    if narrow:
        h = outputs[0 if reverse else -1]
    return outputs, h, c, cells, acts


def _lstm_layer_joint(
    gs: Sequence[Any], h: Tensor, c: Tensor, w: Tensor, outs: Any, reverse: bool
) -> tuple[Tensor, ...]:
    outputs, _, _, cells, acts = outs
    g_out, g_h, g_c, g_cells, g_acts = gs
    more = g_cells is not None or g_acts is not None  # a derivative of the derivative
    rows = [_or_zeros(g_out, outputs), acts, _before(cells, c, reverse), cells]
    if more:
        rows += [_or_zeros(g_cells, cells), _or_zeros(g_acts, acts)]

    def step(state: Any, row: Any) -> Any:
        gh, gc = state
        g, act, old, new, *rest = row
        if rest:
            sums, gc = _lstm_backward(act, old, new, gh + g, gc + rest[0], rest[1], w.dtype)
        elif w.dtype is not act.dtype:
            sums, gc = _lstm_backward(act, old, new, gh + g, gc, dtype=w.dtype)
        else:
            sums, gc = LSTM_BACKWARD(act, old, new, gh + g, gc)
        return ((sums @ w).to(h.dtype), gc), sums

    start = _or_zeros(g_h, h), _or_zeros(g_c, c)
    (gh, gc), sums = HOOKS.scan(step, start, rows, reverse=not reverse)
    return sums, gh, gc, _to_weights(sums, _before(outputs, h, reverse), w)[0]


# LSTM_LAYER(x, h, c, w) -> (outputs, last h, last c, all c, activations): the last for backward.
LSTM_LAYER: Record = composite(
    "lstm_layer",
    _lstm_layer,
    operands=("x", "h", "c", "w"),
    outputs=5,
    joint=_lstm_layer_joint,
    native_check=True,
    fragment="looped",
)


# -- gated recurrent unit -----------------------------------------------------------------------


def _gru_layer(x: Tensor, h: Tensor, w: Tensor, b: Tensor, reverse: bool) -> tuple[Tensor, ...]:
    """(outputs, last h, the state's sums, activations) of projected inputs (T, B, 3H)."""

    def step(h: Any, row: Tensor) -> Any:
        sums = linear(h, w, b)
        h, acts = GRU_GATES(row, sums, h)
        return h, (h, sums, acts)

    def narrow_step(state: Any, row: Tensor) -> Any:
        h, low = state  # the second in the precision of products
        x, y = ([s.to(h.dtype) for s in t.chunk(3, -1)] for t in (row, linear(low, w, b)))
        h, acts = gru_gated(x, y, h)
        return (h, h.to(w.dtype)), (h, cat(y, -1), acts)

    if w.dtype is h.dtype is x.dtype:
        h, (outputs, sums, acts) = HOOKS.scan(step, h, x, reverse=reverse)
    else:  # autocast's: one kernel of a GPU makes all that a moment has besides its product
        start = h, h.to(w.dtype)
        (h, _), (outputs, sums, acts) = HOOKS.scan(narrow_step, start, x, reverse=reverse)
    return outputs, h, sums, acts


def _gru_layer_joint(
    gs: Sequence[Any], x_spec: Any, h: Tensor, w: Tensor, outs: Any, reverse: bool
) -> tuple[Tensor, ...]:
    outputs, _, sums, acts = outs
    g_out, g_h, g_sums, g_acts = gs
    more = g_sums is not None or g_acts is not None
    states = _before(outputs, h, reverse)
    rows = [_or_zeros(g_out, outputs), acts, sums, states]
    if more:
        rows += [_or_zeros(g_sums, sums), _or_zeros(g_acts, acts)]
    elif h.device.type != "cpu":
        gx, gh, of_sums = _gru_pulled(rows, _or_zeros(g_h, h), w, reverse)
        return gx.to(x_spec.dtype), gh, *_to_weights(of_sums, states, w)

    def step(gh: Any, row: Any) -> Any:
        g, act, sum_row, old, *rest = row
        if rest:
            gx, gs, gh = _gru_backward(act, sum_row, old, gh + g, rest[1])
            gs = gs + rest[0]
        else:
            gx, gs, gh = GRU_BACKWARD(act, sum_row, old, gh + g)
        gs = gs.to(w.dtype)
        return gh + (gs @ w).to(h.dtype), (gx, gs)

    gh, (gx, of_sums) = HOOKS.scan(step, _or_zeros(g_h, h), rows, reverse=not reverse)
    return gx.to(x_spec.dtype), gh, *_to_weights(of_sums, states, w)


def _gru_pulled(
    rows: list[Tensor], gh: Tensor, w: Tensor, reverse: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The cotangents of inputs, of the first state and of the state's sums, in launches of a GPU.

    A moment is one kernel and one product, which the next moment's kernel adds: what both results
    of a moment share is stacked once, and what is stacked twice is rounded the second time.
    """
    narrow = w.dtype is not gh.dtype

    def step(state: Any, row: Any) -> Any:
        part, added = state
        g, act, sum_row, old = row
        back = part + added.to(part.dtype) + g
        dr, dz, dn, of_state, part = gru_cotangents(act, sum_row, old, back)
        of_sums = cat([d.to(w.dtype) for d in (dr, dz, of_state)], -1)
        return (part, of_sums @ w), (cat([dr, dz, dn], -1) if narrow else dn, of_sums)

    start = gh, _or_zeros(None, gh).to(w.dtype)
    (part, added), (gx, of_sums) = HOOKS.scan(step, start, rows, reverse=not reverse)
    if not narrow:
        gx = cat([of_sums[..., : 2 * gh.shape[-1]], gx], -1)
    return gx, part + added.to(part.dtype), of_sums


# GRU_LAYER(x, h, w, b) -> (outputs, last h, the state's sums, activations).
GRU_LAYER: Record = composite(
    "gru_layer",
    _gru_layer,
    operands=("x", "h", "w", "b"),
    outputs=4,
    joint=_gru_layer_joint,
    native_check=True,
    fragment="looped",
)


# -- plain recurrence ---------------------------------------------------------------------------


def _plain_layer(x: Tensor, h: Tensor, w: Tensor, reverse: bool, relu: bool) -> tuple[Tensor, ...]:
    """(outputs, last h) of projected inputs (T, B, H)."""

    def step(h: Any, row: Tensor) -> Any:
        sums = row + linear(h.to(w.dtype), w)
        h = (sums.relu() if relu else sums.tanh()).to(h.dtype)
        return h, h

    h, outputs = HOOKS.scan(step, h, x, reverse=reverse)
    return outputs, h


def _plain_layer_joint(
    gs: Sequence[Any], x_spec: Any, h: Tensor, w: Tensor, outs: Any, reverse: bool, relu: bool
) -> tuple[Tensor, ...]:
    outputs = outs[0]

    def step(gh: Any, row: Any) -> Any:
        g, out = row
        g = (gh + g) * ((out > 0).to(out.dtype) if relu else 1 - out * out)
        g = g.to(w.dtype)
        return (g @ w).to(h.dtype), g

    rows = (_or_zeros(gs[0], outputs), outputs)
    gh, sums = HOOKS.scan(step, _or_zeros(gs[1], h), rows, reverse=not reverse)
    gw, _ = _to_weights(sums, _before(outputs, h, reverse), w)
    return sums.to(x_spec.dtype), gh, gw


# PLAIN_LAYER(x, h, w) -> (outputs, last h), with tanh or relu.
PLAIN_LAYER: Record = composite(
    "plain_layer",
    _plain_layer,
    operands=("x", "h", "w"),
    outputs=2,
    joint=_plain_layer_joint,
    native_check=True,
    fragment="looped",
)


# -- which layers are one operation -------------------------------------------------------------


def _lstm(x: Tensor, state: Any, w: Tensor, b: Any, reverse: bool) -> tuple[Tensor, Any]:
    outputs, h, c, *_ = LSTM_LAYER(x, *state, w, reverse=reverse)
    return outputs, (h, c)


def _gru(x: Tensor, state: Any, w: Tensor, b: Any, reverse: bool) -> tuple[Tensor, Any]:
    bias = w.new_zeros(w.shape[0]) if b is None else b
    outputs, h, *_ = GRU_LAYER(x, state[0], w, bias, reverse=reverse)
    return outputs, (h,)


def _plain(relu: bool) -> Callable[..., tuple[Tensor, Any]]:
    def layer(x: Tensor, state: Any, w: Tensor, b: Any, reverse: bool) -> tuple[Tensor, Any]:
        outputs, h = PLAIN_LAYER(x, state[0], w, reverse=reverse, relu=relu)
        return outputs, (h,)

    return layer


WHOLE: dict[str, Callable[..., tuple[Tensor, Any]]] = {
    "_lstm_step": _lstm,
    "_gru_step": _gru,
    "_tanh_step": _plain(relu=False),
    "_relu_step": _plain(relu=True),
}


MOMENTS = 4096  # of a sequence on the CPU: beyond, a program that lists them takes seconds to make


def is_long(x: Tensor, kinds: set[Any]) -> bool:
    """Whether a sequence in the CPU's memory is worth a program of its own."""
    if kinds != {ndarray} or x.dtype not in (float32, float64) or x.shape[0] > MOMENTS:
        return False
    return is_large(x._array, LSTM_LAYER.large)


def is_whole(step: str, x: Tensor, state: Sequence[Tensor], w: Any, b: Any) -> bool:
    """Whether a layer's loop is one operation: eager, large, of states that keep their dtype."""
    if CONTEXT.capture is not None or CONTEXT.levels or CONTEXT.reference or CONTEXT.takers:
        return False
    given = [x, w, *state, *([] if b is None else [b])]
    kinds = {getattr(t, "_array", None).__class__ for t in given}
    if x.shape[0] < 2 or not (kinds <= DEVICE_LAYOUTS.keys() or is_long(x, kinds)):
        return False
    if not all(t.dtype.is_floating_point and t.dtype is s.dtype for t in given for s in state):
        # Autocast's halves: gates compute in the precision of the state, plain layers do not.
        gated = step in ("_lstm_step", "_gru_step")
        return gated and x.dtype.is_half and all(t.dtype is float32 for t in (w, *state))
    return True
