"""Recurrent layers under their own names: a scan whose body is a cell is an LSTM, GRU or RNN.

A layer is recorded as a product of all inputs with their weights, then a scan that does what
depends on the state. ONNX has both in one operator, with the gates in another order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.graph.sizes.extents import Extent
from adjoint.onnx.exporting.writer import NodeWriter
from adjoint.onnx.types import ARRAYS

# What the last node of a cell's body is: the operator, which of our gates are ONNX's first, second,
# ..., and its activations where they are not the usual ones.
CELLS: dict[str, tuple[str, tuple[int, ...], list[str] | None]] = {
    "lstm_gates": ("LSTM", (0, 3, 1, 2), None),  # ours i f g o, theirs i o f c
    "gru_gates": ("GRU", (1, 0, 2), None),  # ours r z n, theirs z r h
    "tanh": ("RNN", (0,), None),
    "relu": ("RNN", (0,), ["Relu"]),
}


@dataclass(frozen=True, slots=True)
class ExportedDirection:
    """One direction of one layer."""

    cell: str
    x: Value
    weights: tuple[Any, Any]  # of the input and of the state
    biases: tuple[Any, Any]
    states: tuple[Value, ...]
    reverse: bool

    @property
    def hidden(self) -> int:
        """The size of the state."""
        return int(self.weights[1].spec.shape[1])


def layer_of(node: Node) -> ExportedDirection | None:
    """The layer that a scan is, if it is one."""
    body, carries, xs = (node.params[k] for k in ("body", "carries", "xs"))
    nodes = list(body)
    cell = nodes[-1].record.name if nodes else ""
    if xs != 1 or cell not in CELLS or carries != (2 if cell == "lstm_gates" else 1):
        return None
    product, *between = nodes[:-1] or [None]
    last = nodes[-1]
    if product is None or product.record.name != "linear":
        return None
    constants = dict(zip(body.inputs[carries + 1 :], node.inputs[carries + 1 :], strict=True))
    state, weight, *bias = product.inputs
    if state is not body.inputs[0] or any(v not in constants for v in (weight, *bias)):
        return None
    step, sums = body.inputs[carries], product.outputs[0]
    if cell == "gru_gates":
        fits = not between and last.inputs == (step, sums, state)
    else:
        fits = len(between) == 1 and between[0].record.name == "add"
        fits = fits and between[0].inputs == (step, sums) and not (bias or between[0].params)
        rest = (body.inputs[1],) if carries == 2 else ()
        fits = fits and last.inputs == (between[0].outputs[0], *rest)
    hidden = last.outputs[0]
    if not fits or list(body.outputs) != [hidden, *last.outputs[1:carries], hidden]:
        return None
    whole = node.inputs[carries]
    before = whole.node if isinstance(whole, Value) else None
    if before is None or before.record.name != "linear" or len(before.inputs[0].spec.shape) != 3:
        return None
    x, outer, *outer_bias = before.inputs
    sizes = [n for w in (outer, constants[weight]) for n in w.spec.shape]
    if any(isinstance(n, Extent) for n in sizes) or sizes[0] != sizes[2]:
        return None
    return ExportedDirection(
        cell,
        x,
        (outer, constants[weight]),
        (outer_bias[0] if outer_bias else None, constants[bias[0]] if bias else None),
        tuple(node.inputs[:carries]),
        bool(node.params["reverse"]),
    )


def emit_layer(w: NodeWriter, layer: ExportedDirection) -> list[str]:
    """The final states, then the outputs of all steps."""
    operator, order, activations = CELLS[layer.cell]
    hidden, dtype = layer.hidden, layer.x.spec.dtype
    rows = [k * hidden + i for k in order for i in range(hidden)]

    def ordered(value: Any) -> str:
        """A matrix or vector of weights, gates in ONNX's order, as one direction's."""
        name = w.operand(value, dtype)
        if len(order) > 1:
            name = w.emit("Gather", name, w.ints(rows), axis=0)
        return str(name)

    def direction(name: str) -> str:
        return str(w.emit("Unsqueeze", name, w.ints([0])))

    zeros = np.zeros(len(rows), ARRAYS[dtype])
    biases = [w.constant(zeros) if b is None else ordered(b) for b in layer.biases]
    states = [direction(w.operand(s, dtype)) for s in layer.states]
    outputs = w.emit(
        operator,
        w.operand(layer.x, dtype),
        *[direction(ordered(weight)) for weight in layer.weights],
        direction(w.emit("Concat", *biases, axis=0)),
        "",
        *states,
        outputs=1 + len(states),
        hidden_size=hidden,
        direction="reverse" if layer.reverse else "forward",
        activations=activations,
        linear_before_reset=1 if operator == "GRU" else None,
    )
    finals = [w.emit("Squeeze", name, w.ints([0])) for name in outputs[1:]]
    return [*finals, w.emit("Squeeze", outputs[0], w.ints([1]))]
