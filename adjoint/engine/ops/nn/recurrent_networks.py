"""Whole recurrent networks: in eager mode on a GPU one operation, where a library has it.

Moment by moment (`recurrent`) a network is a few launches for each moment of each layer, and as
many calls around them; cuDNN has one for all layers, directions and moments. The composition stays
what the operation means, and what its derivatives of higher order are taken of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import DType, bfloat16, float32, uint8
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import HOOKS, Record, is_tensor
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.nn.attention import dropout_factors
from adjoint.engine.ops.nn.recurrent import CELLS, Layers, State, over_layers
from adjoint.engine.ops.shape.join import cat

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

Shape = tuple[int, ...]
GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


@dataclass(frozen=True, slots=True)
class RecurrentNetwork:
    """A kind of network without projections: (T, B, inputs) to (T, B, directions * hidden).

    With `sizes` a sequence is packed: (sum of sizes, ...), so many rows of a batch at each moment.
    """

    cell: str  # of CELLS
    dtype: str
    length: int
    batch: int
    inputs: int
    hidden: int
    layers: int
    directions: int
    biases: bool
    sizes: Shape = ()
    tf32: bool = False  # of float32: whether 10 bits of a factor will do
    algorithm: int = 0  # a library's, which chooses it

    @property
    def states(self) -> int:
        """How many states are carried: h, and c of an LSTM."""
        return 2 if self.cell == "LSTM" else 1

    @property
    def out_shape(self) -> Shape:
        """That of the outputs."""
        rows = (sum(self.sizes),) if self.sizes else (self.length, self.batch)
        return *rows, self.directions * self.hidden

    @property
    def lengths(self) -> list[int]:
        """Moments of each sequence.

        >>> RecurrentNetwork("GRU", "float32", 3, 4, 1, 1, 1, 1, True, sizes=(4, 2, 1)).lengths
        [3, 2, 1, 1]
        """
        if not self.sizes:
            return [self.length] * self.batch
        return [sum(size > b for size in self.sizes) for b in range(self.batch)]

    @property
    def state_shape(self) -> Shape:
        """That of a state."""
        return self.layers * self.directions, self.batch, self.hidden

    def weight_shapes(self) -> list[Shape]:
        """Those of parameters: of the input and of the state, and two biases, in each direction.

        >>> RecurrentNetwork(
        ...     "GRU", "float32", 9, 2, inputs=5, hidden=4, layers=1, directions=1, biases=True
        ... ).weight_shapes()
        [(12, 5), (12, 4), (12,), (12,)]
        """
        rows = GATES[self.cell] * self.hidden
        biases: list[Shape] = [(rows,), (rows,)] if self.biases else []
        shapes: list[Shape] = []
        for layer in range(self.layers):
            width = self.directions * self.hidden if layer else self.inputs
            shapes += [(rows, width), (rows, self.hidden), *biases] * self.directions
        return shapes


# By type of device, filled by backends: the network with what a library chose for it on a device,
# by its number; None where no library runs it.
CHOOSE: dict[str, Callable[[RecurrentNetwork, int], RecurrentNetwork | None]] = {}
# Of what was chosen: bytes that the library keeps for backward; None where a compiled program is
# quicker moment by moment.
KEPT: dict[str, Callable[[RecurrentNetwork, int], int | None]] = {}


def _composed(
    network: RecurrentNetwork, x: Tensor, states: State, weights: Sequence[Tensor]
) -> Any:
    """(outputs, *last states), moment by moment; no states are zeros."""
    if not states:
        states = tuple(x.new_zeros(network.state_shape) for _ in range(network.states))
    n = network
    sizes = list(n.sizes) or None
    layers = Layers(n.biases, n.layers, both=n.directions == 2)
    out, last = over_layers(CELLS[n.cell], x, sizes, states, weights, layers)
    return out, *last


def _network(
    x: Tensor, *rest: Tensor, network: RecurrentNetwork, given: int, training: bool, kept: int = 0
) -> Any:
    """(outputs, what a library keeps for backward, *last states)."""
    out, *last = _composed(network, x, rest[:given], rest[given:])
    return out, x.new_zeros((kept,), dtype=uint8), *last


def _specs(
    x: Spec, *rest: Spec, network: RecurrentNetwork, given: int, training: bool, kept: int = 0
) -> tuple[Spec, ...]:
    state = Spec(network.state_shape, x.dtype, x.device)
    out, block = Spec(network.out_shape, x.dtype, x.device), Spec((kept,), uint8, x.device)
    return out, block, *[state] * network.states


def _gradient_specs(
    *xs: Spec,
    got: tuple[bool, ...],
    wanted: tuple[bool, ...],
    network: RecurrentNetwork,
    given: int,
) -> tuple[Spec, ...]:
    return tuple(x for x, w in zip(xs[sum(got) + 2 :], wanted, strict=True) if w)


def _pulled(
    *xs: Tensor,
    got: tuple[bool, ...],
    wanted: tuple[bool, ...],
    network: RecurrentNetwork,
    given: int,
) -> tuple[Tensor, ...]:
    """The composition's gradients by what is wanted, all of it taken once more."""
    count = sum(got)
    cotangents, operands = iter(xs[:count]), xs[count + 2 :]
    gs = [next(cotangents) if g else None for g in got]

    def follow(*chosen: Tensor) -> Any:
        some = iter(chosen)
        x, *rest = (next(some) if w else t for t, w in zip(operands, wanted, strict=True))
        return _composed(network, x, tuple(rest[:given]), rest[given:])

    outs, pull = HOOKS.vjp(follow, *(t for t, w in zip(operands, wanted, strict=True) if w))
    filled = tuple(o.new_zeros(o.shape) if g is None else g for g, o in zip(gs, outs, strict=True))
    pulled: tuple[Tensor, ...] = pull(filled)
    return pulled


def _dense(x: Tensor) -> Tensor:
    """`contiguous()` of a tensor that is no capture's."""
    return x if x._array.flags.c_contiguous else x.contiguous()


def _pull(
    gs: Sequence[Any],
    first_outs: Sequence[Tensor],
    x: Tensor,
    rest: Sequence[Tensor],
    needed: Sequence[bool],
    network: RecurrentNetwork,
    given: int,
) -> list[Tensor | None]:
    of_results = [gs[0], *gs[2:]]
    got = tuple(g is not None for g in of_results)
    wanted = tuple(map(bool, needed))
    cotangents = [g for g in of_results if g is not None]
    how: dict[str, Any] = {"got": got, "wanted": wanted, "network": network, "given": given}
    if CONTEXT.plain:
        operands = (*map(_dense, cotangents), *first_outs, x, *rest)
        gradients = iter(RECURRENT_GRADIENT(*operands, **how))
    else:
        operands = (*(g.contiguous() for g in cotangents), *first_outs, x, *rest)
        is_recorded = CONTEXT.capture is not None and 0 not in first_outs[1].shape
        with CONTEXT.having(autocast=None):  # precision is settled by what was handed over
            pulled = RECURRENT_GRADIENT if CONTEXT.plain or is_recorded else _pulled
            gradients = iter(pulled(*operands, **how))
    return [next(gradients) if w else None for w in wanted]


# RECURRENT_NETWORK(x, *states, *weights) -> (outputs, kept bytes, *last states); `given` says how
# many states there are, none for zeros, and `kept` how many bytes, where a program is recorded.
RECURRENT_NETWORK: Record = composite(
    "recurrent_network",
    _network,
    operands=("x", "*rest"),
    outputs=0,
    joint=_pull,
    by_library=True,
    infer_specs=_specs,
)
# (*cotangents, outputs, kept bytes, x, *states, *weights) -> the gradients that are wanted
RECURRENT_GRADIENT: Record = composite(
    "recurrent_network_gradient",
    _pulled,
    operands=("*xs",),
    outputs=0,
    by_library=True,
    infer_specs=_gradient_specs,
)


def _chosen(
    cell: str,
    x: Tensor,
    sizes: list[int] | None,
    states: State,
    params: Sequence[Any],
    layers: Layers,
) -> RecurrentNetwork | None:
    """The network as a library will run it; None where the composition runs."""
    capture = CONTEXT.capture
    if CONTEXT.autocast is not None or CONTEXT.levels:
        return None
    if capture is not None and not capture.runs_here:
        return None
    if CONTEXT.reference or CONTEXT.takers or CONTEXT.anomaly or CONTEXT.observers:
        return None
    given = (x, *states, *params)
    device = x.device
    choose = CHOOSE.get(device.type)
    if choose is None or not all(map(is_tensor, given)):
        return None
    shapes = _shapes(given) if capture is None else _recorded_shapes(given)
    if shapes is None or any(type(n) is not int for n in sizes or ()):
        return None
    options = (layers.depth, layers.directions, layers.biases, tuple(sizes or ()))
    network = _network_of(cell, x.dtype.name, shapes, len(states), *options)
    chosen = None if network is None else choose(network, device.index or 0)
    if capture is None or chosen is None:
        return chosen
    return None if KEPT[device.type](chosen, device.index or 0) is None else chosen


def _shapes(tensors: Sequence[Tensor]) -> tuple[Shape, ...] | None:
    """Those of tensors of one dtype on one GPU; None where some are others."""
    arrays = [t._array for t in tensors]
    first = arrays[0]
    one, dtype = first.__class__, first.dtype
    if one not in DEVICE_LAYOUTS:
        return None
    place = DEVICE_LAYOUTS[one]
    index, _ = place(first)
    for a in arrays:
        if a.__class__ is not one or a.dtype != dtype or place(a)[0] != index:
            return None
    return tuple([a.shape for a in arrays])


def _recorded_shapes(tensors: Sequence[Tensor]) -> tuple[Shape, ...] | None:
    """The same while a program is recorded; None where a size is not known."""
    specs = [t._spec for t in tensors]
    if any(s.dtype is not specs[0].dtype or s.device != specs[0].device for s in specs):
        return None
    if any(type(n) is not int for s in specs for n in s.shape):
        return None
    return tuple([tuple(s.shape) for s in specs])


@lru_cache(maxsize=1024)
def _network_of(
    cell: str,
    dtype: str,
    shapes: tuple[Shape, ...],
    given: int,
    layers: int,
    directions: int,
    biases: bool,
    sizes: Shape,
) -> RecurrentNetwork | None:
    """The kind of network whose input, `given` states and parameters have these shapes."""
    x, weights = shapes[0], shapes[1 + given :]
    if len(x) != (2 if sizes else 3) or len(weights) < 2 or len(weights[1]) != 2:
        return None
    if 0 in (*x, weights[1][1]):
        return None
    moments = _packed(sizes, x[0]) if sizes else x[:2]
    if moments is None:
        return None
    length, batch = moments
    network = RecurrentNetwork(
        cell, dtype, length, batch, x[-1], weights[1][1], layers, directions, biases, sizes
    )
    wanted = [network.state_shape] * given + network.weight_shapes()
    return network if list(shapes[1:]) == wanted else None


def _packed(sizes: Shape, rows: int) -> Shape | None:
    """Moments and sequences of a packed batch; None where it is none."""
    falls = all(a >= b for a, b in pairwise(sizes))
    is_one = sizes and falls and sizes[-1] > 0 and sum(sizes) == rows
    return (len(sizes), sizes[0]) if is_one else None


def _run_whole(
    network: RecurrentNetwork, x: Tensor, states: State, params: Sequence[Tensor]
) -> tuple[Tensor, State]:
    given = (x, *states, *params)
    training = CONTEXT.grad_enabled and any(t.requires_grad for t in given)
    kept: int | None = 0
    if CONTEXT.capture is None:
        operands = [*map(_dense, given)]
    else:
        operands = [t.contiguous() for t in given]
        if training:
            kept = KEPT[x.device.type](network, x.device.index or 0)
    out, _, *last = RECURRENT_NETWORK(
        *operands, network=network, given=len(states), training=training, kept=kept
    )
    return out, tuple(last)


def run(
    cell: str,
    input: Tensor,
    sizes: list[int] | None,
    states: State | Callable[[], State],
    params: Sequence[Tensor],
    layers: Layers,
) -> tuple[Tensor, State]:
    """All layers: input (T, B, I) or packed (sum, I), states (layers * directions, B, H).

    `states` may be a function that makes zeros, which is not called where nobody reads them.
    """
    if CONTEXT.autocast is not None and cell == "LSTM" and not _grows(sizes):
        lowered = _lowered(input, states, params, layers.depth * layers.directions)
        if lowered is not None:
            with CONTEXT.having(autocast=None):
                return run(cell, lowered[0], sizes, lowered[1], lowered[2], layers)
    half = _half_on_device(input)
    if half is None:
        return _run(cell, input, sizes, states, params, layers)
    out, last = _run(cell, input, sizes, states, params, layers)
    return out.to(half), tuple(s.to(half) for s in last)


def _run(
    cell: str,
    input: Tensor,
    sizes: list[int] | None,
    states: State | Callable[[], State],
    params: Sequence[Tensor],
    layers: Layers,
) -> tuple[Tensor, State]:
    """The same; under a GPU's autocast the results may be wider than the region's dtype."""
    if CHOOSE.get(input.device.type) is not None:
        if layers.drops and CONTEXT.capture is None:
            return _run_dropping(cell, input, sizes, states, params, layers)
        first = () if callable(states) else states
        halves = (
            None
            if layers.drops or CONTEXT.capture is not None
            else _in_halves(input, first, params)
        )
        if halves is not None:
            with CONTEXT.having(autocast=None):
                network = _chosen(cell, halves[0], sizes, halves[1], halves[2], layers)
                if network is not None:
                    return _run_whole(network, *halves)
        network = None if layers.drops else _chosen(cell, input, sizes, first, params, layers)
        if network is not None:
            return _run_whole(network, input, first, params)
    start = states() if callable(states) else states
    return over_layers(CELLS[cell], input, sizes, start, params, layers)


def _half_on_device(x: Tensor) -> DType | None:
    """The dtype to which a GPU's autocast lowers a network over `x`; None where it does not.

    There PyTorch casts what a network is given and calls cuDNN, so its results are halves.
    """
    active: Any = CONTEXT.autocast
    if active is None or x.device.type != "cuda" or not active.settings.cuda.enabled:
        return None
    half: DType = active.settings.cuda.dtype
    return half if x.dtype is float32 or x.dtype.is_half else None


def _in_halves(
    x: Tensor, states: State, params: Sequence[Tensor]
) -> tuple[Tensor, State, Sequence[Tensor]] | None:
    """What such a network is given, cast."""
    half = _half_on_device(x)
    if half is None or not all(map(is_tensor, params)):
        return None
    active: Any = CONTEXT.autocast
    cast, *rest = active.cast_each([x, *states, *params], half, "cuda")
    return cast, tuple(rest[: len(states)]), rest[len(states) :]


def _grows(sizes: list[int] | None) -> bool:
    """Whether sequences of a packed one differ in length."""
    return sizes is not None and bool(sizes) and sizes[0] != sizes[-1]


def _lowered(
    x: Tensor, states: State | Callable[[], State], params: Sequence[Tensor], count: int
) -> tuple[Tensor, State, Sequence[Tensor]] | None:
    """What autocast casts of an LSTM over even sequences on the CPU; None where it does not.

    PyTorch's CPUs have such a layer as one function of oneDNN's, which autocast lowers, while it
    leaves cells, other networks, uneven sequences and projected states as they are.
    """
    active: Any = CONTEXT.autocast
    setting = active.settings.cpu
    is_meant = x.device.type == "cpu" and setting.enabled and setting.dtype is bfloat16
    projected = len(params) // count % 2 == 1
    if not is_meant or projected or x.dtype not in (float32, bfloat16) or 0 in x.shape:
        return None
    given = [x, *(states() if callable(states) else states), *params]
    if not all(map(is_tensor, given)):
        return None
    cast, *rest = active.cast_each(given, bfloat16, "cpu")
    return cast, tuple(rest[: -len(params)]), rest[-len(params) :]


def _of_layer(states: State | Callable[[], State], here: slice) -> State:
    return tuple(s[here] for s in (states() if callable(states) else states))


def _run_dropping(
    cell: str,
    x: Tensor,
    sizes: list[int] | None,
    states: State | Callable[[], State],
    params: Sequence[Tensor],
    layers: Layers,
) -> tuple[Tensor, State]:
    """Layer by layer, with what `over_layers` drops between them."""
    each, ways = -(-len(params) // layers.depth), layers.directions
    one = layers._replace(depth=1)
    finals: list[State] = []
    for layer in range(layers.depth):
        here = slice(layer * ways, (layer + 1) * ways)
        start = partial(_of_layer, states, here) if callable(states) else _of_layer(states, here)
        mine = params[layer * each : (layer + 1) * each]
        x, final = run(cell, x, sizes, start, mine, one)
        finals.append(final)
        if layer < layers.depth - 1:
            x = x * dropout_factors(x.shape, layers.dropout, x)
    return x, tuple(cat(list(parts), 0) for parts in zip(*finals, strict=True))


def _called(cell: str, args: tuple[Any, ...], kwargs: dict[str, Any], several: bool) -> Any:
    """Both forms: (input, hx, params, ..., batch_first) and (data, batch_sizes, hx, ...)."""
    padded = ("input", "hx", "params", "has_biases", "num_layers", "dropout", "train",
              "bidirectional", "batch_first")  # fmt: skip
    packed = ("data", "batch_sizes", *padded[1:-1])
    place = 1 if several else 2  # of what is a list of tensors in one form, a tensor in the other
    is_packed = "data" in kwargs or (len(args) > place and is_tensor(args[place]))
    given = dict(zip(packed if is_packed else padded, args, strict=False)) | kwargs
    states = tuple(given["hx"]) if several else (given["hx"],)
    params, layers = given[padded[2]], Layers(*[given[name] for name in padded[3:-1]])
    if is_packed:
        out, final = run(cell, given["data"], given["batch_sizes"].tolist(), states, params, layers)
        return out, *final
    x = given["input"].transpose(0, 1) if given["batch_first"] else given["input"]
    out, final = run(cell, x, None, states, params, layers)
    return (out.transpose(0, 1) if given["batch_first"] else out), *final


@public()
def rnn_tanh(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """A network of `rnn_tanh_cell`s over a sequence; `nn.RNN` has the arguments by name.

    (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first), or
    (data, batch_sizes, hx, ...) for a packed sequence, which has no batch_first.
    """
    return _called("RNN_TANH", args, kwargs, several=False)


@public()
def rnn_relu(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """A network of `rnn_relu_cell`s over a sequence; arguments as for `rnn_tanh`."""
    return _called("RNN_RELU", args, kwargs, several=False)


@public()
def gru(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """A network of `gru_cell`s over a sequence; arguments as for `rnn_tanh`."""
    return _called("GRU", args, kwargs, several=False)


@public()
def lstm(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor, Tensor]:
    """A network of `lstm_cell`s over a sequence; as `rnn_tanh`, with hx = (h, c)."""
    return _called("LSTM", args, kwargs, several=True)
