"""Graphs made of graphs: the forward, reverse and batched forms of a subgraph.

Each is found by running the graph again, node by node, while another recording is active: with
duals, on the tape, or with batches. What comes out is an ordinary graph, so every form can be
derived of every other.

Note [residuals]
    For the reverse form the graph runs on the tape, which is then followed backward (Note [backward
    graphs]); whatever backward asks of the forward is an input of its graph: a residual. A residual
    that is an input of the graph costs nothing, one made of constants alone or a view of an input
    is computed again, and the rest is what the forward form must return in addition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from adjoint.engine.autodiff.levels.jvp_level import Dual, JvpLevel
from adjoint.engine.autodiff.levels.vmap_level import VmapLevel
from adjoint.engine.autodiff.tape.node import edge_of
from adjoint.engine.core.operations.families import primitive
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.backward_graph import backward_graph, outward
from adjoint.engine.graph.ir import DataflowGraph, Value, extract
from adjoint.engine.graph.record.body import BodyTrace, LiftedInput
from adjoint.engine.graph.verify import as_operand
from adjoint.engine.ops.create.creation import zeros
from adjoint.engine.tensor.tensor import Tensor
from adjoint.engine.tensor.writing.mutation import make_level_tensor, payload

# How operations with subgraphs are performed so that their own residuals are kept.
BIND: dict[Record, Callable[[Sequence[Any], dict[str, Any]], Any]] = {}


def flow_record(
    name: str,
    infer: Callable[..., Any],
    *,
    joint: Callable[..., Any],
    push: Callable[..., Any],
    batch: Callable[..., Any],
    run: Callable[..., Any],
) -> Record:
    """The record of an operation with subgraphs; `batch` is told which operands are batched."""
    return primitive(
        name,
        infer,
        None,
        operands=("*operands",),
        outputs=0,
        joint=joint,
        push=push,
        batch_mixed=batch,
        batch=lambda size, *full, **params: batch(size, list(full), [True] * len(full), **params),
        decompose=run,
    )


def replay(graph: DataflowGraph, operands: Sequence[Any]) -> list[Any]:
    """The graph's outputs, each node performed as the present context has it."""
    env: dict[Value, Any] = dict(zip(graph.inputs, operands, strict=True))
    for node in graph:
        given = [env[x] if isinstance(x, Value) else x for x in node.inputs]
        keeping = BIND.get(node.record)
        if keeping is not None:
            results = keeping(given, node.params)
        else:
            results = node.record(*given, **node.params)
        many = results if isinstance(results, tuple) else (results,)
        env.update(zip(node.outputs, many, strict=True))
    return [env[v] for v in graph.outputs]


@contextmanager
def recording(
    body: BodyTrace, *, grad: bool = False, levels: tuple[Any, ...] = ()
) -> Iterator[None]:
    """The body's recording active, and nothing else."""
    with CONTEXT.having(
        capture=body,
        levels=levels,
        grad_enabled=grad,
        inference=False,
        autocast=None,
        anomaly=False,
        saved_hooks=(),
        observers=(),
    ):
        yield


def opened(graph: DataflowGraph, what: str) -> tuple[BodyTrace, list[Any]]:
    """A recording with one argument per input of a graph."""
    body = BodyTrace(None, what)
    return body, [
        body.host(as_operand(v)) if v.host else body.parameter(v.spec) for v in graph.inputs
    ]


def extras(body: BodyTrace) -> list[LiftedInput]:
    """Constants that rules brought in."""
    return [x for x in body.lifted.values() if is_tensor(x.source)]


def reached(graph: DataflowGraph, sources: set[Value]) -> set[Value]:
    """The values through which a derivative by any of `sources` may flow."""
    values = set(sources)
    for node in graph:
        flows = node.record.differentiable or node.record.compose is not None
        if flows and any(isinstance(x, Value) and x in values for x in node.inputs):
            values.update(v for v in node.outputs if v.spec.dtype.is_inexact)
    return values


def carried(graph: DataflowGraph, carries: int, wanted: Sequence[bool]) -> tuple[bool, ...]:
    """`wanted` inputs, and those carries that come to depend on them."""
    now = list(wanted)
    while True:
        dependent = reached(graph, {v for v, w in zip(graph.inputs, now, strict=True) if w})
        new = [i for i in range(carries) if graph.outputs[i] in dependent and not now[i]]
        if not new:
            return tuple(now)
        for i in new:
            now[i] = True


# -- reverse ------------------------------------------------------------------------------------


class Pulled(NamedTuple):
    """A backward graph: its inputs are cotangents and what it needs of the forward."""

    graph: DataflowGraph
    cotangents: list[Value]
    needs: dict[Value, Value]  # forward value -> input of the graph
    outputs: dict[int, Value]  # operand -> its cotangent, where there is one
    constants: list[LiftedInput]  # of rules


class Reverse:
    """The reverse derivative of a graph with respect to the `wanted` inputs.

    `free` inputs are the same at every use, so that what depends on them alone is computed again;
    `available` inputs will be there when backward runs.
    """

    def __init__(
        self,
        graph: DataflowGraph,
        wanted: Sequence[bool],
        free: Sequence[bool],
        available: Sequence[bool],
        *,
        checkpoint: bool = False,
    ) -> None:
        self.trace, self.inputs = opened(graph, "forward")
        self.wanted = [i for i, w in enumerate(wanted) if w]
        for i in self.wanted:
            self.inputs[i]._requires_grad = True
        with recording(self.trace, grad=True):
            self.outs = replay(graph, self.inputs)
            self.values = [self.trace.value_of(self.trace.entered(t)) for t in self.outs]
            self.tracked = [edge_of(t) is not None for t in self.outs]
        self.checkpoint = checkpoint
        inputs = self.trace.graph.inputs
        self.constants = [x.source for x in extras(self.trace)]
        self.position = {v: i for i, v in enumerate(inputs)}
        count = len(graph.inputs)
        self.free = {v for i, v in enumerate(inputs) if i >= count or free[i]}
        self.available = {v for i, v in enumerate(inputs) if i >= count or available[i]}
        self.steady: dict[Value, bool] = {}

    def keeps(self, value: Value) -> bool:
        """Whether a value is kept for backward rather than computed again."""
        if self.checkpoint or self.is_steady(value):
            return False
        while value.node is not None and value.node.record.is_view:
            value = value.node.inputs[0]
        return value not in self.available

    def is_steady(self, value: Value) -> bool:
        """Whether a value depends on free inputs alone."""
        if value not in self.steady:
            for node in self.trace.graph:
                steady = all(
                    self.steady.get(x, x in self.free) for x in node.inputs if isinstance(x, Value)
                )
                for out in node.outputs:
                    self.steady[out] = steady
        return self.steady[value]

    def pull(self, given: Sequence[bool], must: Sequence[int] = ()) -> Pulled:
        """Backward from the outputs whose cotangents are `given`.

        Operands that `must` have a cotangent get zeros for none.
        """
        outs = [out for out, g in zip(self.outs, given, strict=True) if g]
        specs = [value.spec for value, g in zip(self.values, given, strict=True) if g]

        def follow(cotangents: list[Tensor]) -> dict[int, Value]:
            pairs = zip(map(edge_of, outs), cotangents, strict=True)
            with recording(self.trace):
                gradients = outward(
                    self.trace, [(edge, g) for edge, g in pairs if edge is not None]
                )
                arrived = {i: gradients.get((self.inputs[i], 0)) for i in self.wanted}
                for i in must:
                    arrived[i] = self.zeros(i) if arrived[i] is None else arrived[i]
                shown = {i: self.trace.entered(g) for i, g in arrived.items() if g is not None}
                return {i: self.trace.value_of(g) for i, g in shown.items()}

        known = len(self.trace.graph.inputs)
        pulled = backward_graph(self.trace, specs, follow, self.keeps)
        constants = self.trace.drop_inputs(known)
        needs = {v: mine for v, mine in pulled.needs.items() if v not in constants}
        brought = [
            LiftedInput(constants[v], mine) for v, mine in pulled.needs.items() if v in constants
        ]
        return Pulled(pulled.graph, pulled.cotangents, needs, pulled.gradients, brought)

    def zeros(self, position: int) -> Any:
        """A cotangent of nothing."""
        spec = self.inputs[position]._spec
        return zeros(spec.shape, dtype=spec.dtype, device=spec.device)

    def forward(self, residuals: Sequence[Value]) -> DataflowGraph:
        """The graph, returning residuals after its outputs."""
        graph = self.trace.graph
        return extract(graph, graph.inputs, [*self.values, *residuals])


# -- forward ------------------------------------------------------------------------------------


class Pushed(NamedTuple):
    """A graph on duals: inputs are the primals, then the tangents, then constants of rules."""

    graph: DataflowGraph
    constants: list[Any]
    tangents: list[bool]  # which outputs have one


def push(graph: DataflowGraph, has: Sequence[bool], must: Sequence[int] = ()) -> Pushed:
    """The graph with tangents of the inputs that have one; outputs: values, then tangents.

    Outputs that `must` have a tangent get zeros for none.
    """
    body, operands = opened(graph, "jvp")
    level = JvpLevel(1)
    with recording(body, levels=(level,)):
        for i, h in enumerate(has):
            if h:
                spec = operands[i]._spec
                dual = Dual(operands[i], body.parameter(spec))
                operands[i] = make_level_tensor(level, spec, dual)
        duals = [level.dual(t) for t in replay(graph, operands)]
    with recording(body):
        tangents = [
            d.primal.new_zeros(d.primal.shape) if d.tangent is None and i in must else d.tangent
            for i, d in enumerate(duals)
        ]
        shown = [*(d.primal for d in duals), *(t for t in tangents if t is not None)]
        values = [body.value_of(body.entered(t)) for t in shown]
    level.active = False
    graph_of_both = extract(body.graph, body.graph.inputs, values)
    constants = [x.source for x in extras(body)]
    return Pushed(graph_of_both, constants, [t is not None for t in tangents])


# -- batching -----------------------------------------------------------------------------------


class BatchedGraph(NamedTuple):
    """A graph on batches in front; inputs as before, then constants of rules."""

    graph: DataflowGraph
    constants: list[Any]
    batched: list[bool]  # which outputs have the batch


def batch(
    graph: DataflowGraph, has: Sequence[bool], size: int, must: Sequence[int] = ()
) -> BatchedGraph:
    """The graph for inputs that `have` a batch; outputs that `must` have one are expanded."""
    body = BodyTrace(None, "vmap")
    level = VmapLevel(1, size, "same")
    with recording(body, levels=(level,)):
        operands: list[Any] = []
        for v, h in zip(graph.inputs, has, strict=True):
            if v.host:
                operands.append(body.host(as_operand(v)))
                continue
            shape = (size, *v.spec.shape) if h else v.spec.shape
            tensor = body.parameter(v.spec._replace(shape=shape))
            operands.append(level.wrap_payload(tensor) if h else tensor)
        outs = replay(graph, operands)
    with recording(body):
        batched = [t._storage.level is level for t in outs]
        shown = [
            payload(t) if b else level.lift(body.entered(t)) if i in must else t
            for i, (t, b) in enumerate(zip(outs, batched, strict=True))
        ]
        values = [body.value_of(body.entered(t)) for t in shown]
    level.active = False
    batched_graph = extract(body.graph, body.graph.inputs, values)
    constants = [x.source for x in extras(body)]
    return BatchedGraph(batched_graph, constants, [b or i in must for i, b in enumerate(batched)])
