"""Recurrent layers: RNN, GRU, LSTM, with their activations, peepholes, clips and lengths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import adjoint as ad
from adjoint.engine.graph.sizes.extents import is_extent
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.onnx.reading import OnnxError
from adjoint.onnx.table import operator
from adjoint.onnx.types import Value

Activation = Callable[[Tensor], Tensor]

_ACTIVATIONS: dict[str, Callable[[float | None, float | None], Activation]] = {
    "relu": lambda a, b: ad.relu,
    "tanh": lambda a, b: ad.tanh,
    "sigmoid": lambda a, b: ad.sigmoid,
    "softsign": lambda a, b: F.softsign,
    "softplus": lambda a, b: F.softplus,
    "affine": lambda a, b: lambda x: (1.0 if a is None else a) * x + (b or 0.0),
    "leakyrelu": lambda a, b: lambda x: F.leaky_relu(x, 0.01 if a is None else a),
    "thresholdedrelu": lambda a, b: (
        lambda x: ad.where(x > (1.0 if a is None else a), x, ad.zeros_like(x))
    ),
    "scaledtanh": lambda a, b: (
        lambda x: (1.0 if a is None else a) * ad.tanh((1.0 if b is None else b) * x)
    ),
    "hardsigmoid": lambda a, b: (
        lambda x: ad.clamp((0.2 if a is None else a) * x + (0.5 if b is None else b), 0, 1)
    ),
    "elu": lambda a, b: lambda x: F.elu(x, 1.0 if a is None else a),
}


def _activations(
    names: list[str], alphas: list[float] | None, betas: list[float] | None
) -> list[Activation]:
    first, second = iter(alphas or []), iter(betas or [])
    functions = []
    for name in names:
        key = name.lower()
        if key not in _ACTIVATIONS:
            raise OnnxError(
                f"onnx: activation {name!r} of a recurrent layer is not known: "
                f"{sorted(_ACTIVATIONS)}."
            )
        takes = key in {
            "affine",
            "leakyrelu",
            "thresholdedrelu",
            "scaledtanh",
            "hardsigmoid",
            "elu",
        }
        both = key in {"affine", "scaledtanh", "hardsigmoid"}
        functions.append(
            _ACTIVATIONS[key](
                next(first, None) if takes else None, next(second, None) if both else None
            )
        )
    return functions


@dataclass(frozen=True, slots=True)
class Direction:
    """The weights of one direction and what its step needs."""

    w: Tensor
    r: Tensor
    wb: Tensor | float
    rb: Tensor | float
    peephole: Tensor | None
    activations: list[Activation]
    clip: float | None
    hidden: int
    flags: int  # linear_before_reset of a GRU, input_forget of an LSTM

    def bounded(self, x: Tensor) -> Tensor:
        return x if self.clip is None else ad.clamp(x, -self.clip, self.clip)


State = tuple[Tensor, ...]


def _rnn_step(x: Tensor, state: State, at: Direction) -> State:
    (h,) = state
    return (at.activations[0](at.bounded(x @ at.w.T + h @ at.r.T + at.wb + at.rb)),)


def _gru_step(x: Tensor, state: State, at: Direction) -> State:
    (h,) = state
    f, g = at.activations[:2]
    n = at.hidden
    inner = x @ at.w.T + at.wb
    gates = (
        inner[:, : 2 * n]
        + h @ at.r[: 2 * n].T
        + (at.rb if isinstance(at.rb, float) else at.rb[: 2 * n])
    )
    gates = f(at.bounded(gates))
    z, r = gates[:, :n], gates[:, n:]
    last = at.rb if isinstance(at.rb, float) else at.rb[2 * n :]
    if at.flags:
        new = r * (h @ at.r[2 * n :].T + last)
    else:
        new = (r * h) @ at.r[2 * n :].T + last
    candidate = g(at.bounded(inner[:, 2 * n :] + new))
    return ((1 - z) * candidate + z * h,)


def _lstm_step(x: Tensor, state: State, at: Direction) -> State:
    h, c = state
    f, g, last = at.activations[:3]
    n = at.hidden
    gates = x @ at.w.T + h @ at.r.T + at.wb + at.rb
    i, o, forget, candidate = (gates[:, k * n : (k + 1) * n] for k in range(4))
    p = at.peephole
    i = f(at.bounded(i if p is None else i + p[:n] * c))
    forget = f(at.bounded(forget if p is None else forget + p[2 * n :] * c))
    forget = 1 - i if at.flags else forget
    c = forget * c + i * g(at.bounded(candidate))
    o = f(at.bounded(o if p is None else o + p[n : 2 * n] * c))
    return o * last(c), c


def _directions(direction: str) -> list[bool]:
    return {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]


def _run(
    x: Tensor,
    lengths: Value,
    state: State,
    backwards: bool,
    step: Callable[[Tensor, State, Direction], State],
    at: Direction,
) -> tuple[Tensor, State]:
    """One direction over (T, B, I): outputs (T, B, H), and the last state."""
    if is_extent(x.shape[0]):
        return _scanned(x, lengths, state, backwards, step, at)
    steps = int(x.shape[0])
    rows: list[Tensor | None] = [None] * steps
    for t in reversed(range(steps)) if backwards else range(steps):
        after = step(x[t], state, at)
        if lengths is not None:
            live = (lengths.long() > t)[:, None]
            rows[t] = ad.where(live, after[0], ad.zeros_like(after[0]))
            state = tuple(ad.where(live, new, old) for new, old in zip(after, state, strict=True))
        else:
            rows[t], state = after[0], after
    return ad.stack([row for row in rows if row is not None]), state


def _scanned(
    x: Tensor,
    lengths: Value,
    state: State,
    backwards: bool,
    step: Callable[[Tensor, State, Direction], State],
    at: Direction,
) -> tuple[Tensor, State]:
    """The same over a length that is open, as one loop."""

    def once(state: State, row: tuple[Tensor, Tensor]) -> tuple[State, Tensor]:
        now, t = row
        after = step(now, state, at)
        if lengths is None:
            return after, after[0]
        live = (lengths.long() > t)[:, None]
        carried = tuple(ad.where(live, new, old) for new, old in zip(after, state, strict=True))
        return carried, ad.where(live, after[0], ad.zeros_like(after[0]))

    last, rows = ad.scan(once, state, (x, ad.arange(x.shape[0])), reverse=backwards)
    return rows, last


def _recurrent(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Value,
    lengths: Value,
    initial: list[Value],
    peepholes: Value,
    step: Callable[[Tensor, State, Direction], State],
    defaults: list[str],
    activations: list[str] | None,
    alphas: list[float] | None,
    betas: list[float] | None,
    clip: float | None,
    direction: str,
    layout: int,
    flags: int = 0,
) -> tuple[Tensor, ...]:
    ways = _directions(direction)
    if layout:
        x = x.transpose(0, 1)
        initial = [None if s is None else s.transpose(0, 1) for s in initial]
    hidden = int(r.shape[2])
    functions = _activations(activations or defaults * len(ways), alphas, betas)
    outputs, states = [], []
    for k, backwards in enumerate(ways):
        own = functions[k * len(defaults) : (k + 1) * len(defaults)]
        half = int(w.shape[1])
        wb, rb = (0.0, 0.0) if b is None else (b[k, :half], b[k, half:])
        at = Direction(
            w[k],
            r[k],
            wb,
            rb,
            None if peepholes is None else peepholes[k],
            own,
            clip,
            hidden,
            flags,
        )
        state = tuple(x.new_zeros(x.shape[1], hidden) if s is None else s[k] for s in initial)
        out, last = _run(x, lengths, state, backwards, step, at)
        outputs.append(out)
        states.append(last)
    whole = ad.stack(outputs, 1)  # (T, directions, B, H)
    finals = [ad.stack(rows) for rows in zip(*states, strict=True)]
    if layout:
        whole = whole.permute(2, 0, 1, 3)
        finals = [s.transpose(0, 1) for s in finals]
    return (whole, *finals)


@operator("RNN")
def rnn(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Value = None,
    lengths: Value = None,
    initial_h: Value = None,
    *,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    activations: list[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int = 0,
    layout: int = 0,
    output_sequence: int = 0,
) -> tuple[Tensor, ...]:
    """A simple recurrent layer."""
    return _recurrent(
        x,
        w,
        r,
        b,
        lengths,
        [initial_h],
        None,
        _rnn_step,
        ["Tanh"],
        activations,
        activation_alpha,
        activation_beta,
        clip,
        direction,
        layout,
    )


@operator("GRU")
def gru(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Value = None,
    lengths: Value = None,
    initial_h: Value = None,
    *,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    activations: list[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int = 0,
    layout: int = 0,
    linear_before_reset: int = 0,
    output_sequence: int = 0,
) -> tuple[Tensor, ...]:
    """A gated recurrent layer."""
    return _recurrent(
        x,
        w,
        r,
        b,
        lengths,
        [initial_h],
        None,
        _gru_step,
        ["Sigmoid", "Tanh"],
        activations,
        activation_alpha,
        activation_beta,
        clip,
        direction,
        layout,
        linear_before_reset,
    )


@operator("LSTM")
def lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Value = None,
    lengths: Value = None,
    initial_h: Value = None,
    initial_c: Value = None,
    p: Value = None,
    *,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    activations: list[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int = 0,
    input_forget: int = 0,
    layout: int = 0,
    output_sequence: int = 0,
) -> tuple[Tensor, ...]:
    """A layer of long short-term memory."""
    return _recurrent(
        x,
        w,
        r,
        b,
        lengths,
        [initial_h, initial_c],
        p,
        _lstm_step,
        ["Sigmoid", "Tanh", "Tanh"],
        activations,
        activation_alpha,
        activation_beta,
        clip,
        direction,
        layout,
        input_forget,
    )
