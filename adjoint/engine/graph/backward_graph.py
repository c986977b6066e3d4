"""The derivative of a recording, as a graph: the one way from a graph to its backward graph.

Note [backward graphs]
    What a recording did is on the tape as well. Following that tape backward from symbolic
    cotangents, with the recording still active, adds nodes to its graph; what was added becomes a
    graph of its own, from cotangents and values of the recording to gradients. Which values those
    are, the caller decides: one that is not handed over is computed again.

    A compiled function has its tape from being recorded (`capture/backward`). The body of a loop or
    branch is a graph already, which is performed once more to have one (`flow/derive.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from adjoint.engine.autodiff.tape.engine import Backward
from adjoint.engine.autodiff.tape.node import Edge
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.spec import Spec
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.record.trace import Trace
from adjoint.engine.tensor.tensor import Tensor

Key = TypeVar("Key", bound=Hashable)


class BackwardGraph(NamedTuple):
    """A graph from cotangents, and what it needs of a recording, to gradients."""

    graph: DataflowGraph  # its outputs are left to the caller
    cotangents: list[Value]
    needs: dict[Value, Value]  # a value of the recording -> the input that stands for it
    gradients: dict[Any, Value]


def backward_graph(
    trace: Trace,
    cotangents: Sequence[Spec],
    follow: Callable[[list[Tensor]], dict[Key, Value]],
    handed_over: Callable[[Value], bool],
) -> BackwardGraph:
    """What `follow` makes of cotangents while a recording is active; the recording stays as it was.

    Args:
        trace: the recording; its graph and tape are at their end.
        cotangents: what they look like.
        follow: goes along the tape (`outward`); the values of gradients, by where they arrive.
        handed_over: whether a value that the recording computed is an input of the backward graph.
    """
    graph = trace.graph
    first, mark = len(graph.inputs), len(graph.nodes)
    given = [trace.wrap(graph.add_input(spec)) for spec in cotangents]
    # Cotangents are no inputs of the recording; what is read from outside from here on is.
    values = graph.inputs[first:]
    del graph.inputs[first:]
    gradients = follow(given)
    copy = GraphCopy(values, graph.nodes[:mark], handed_over)
    copies = {key: copy.value(value) for key, value in gradients.items()}
    del graph.nodes[mark:]
    return BackwardGraph(copy.graph, [copy.values[v] for v in values], copy.needs, copies)


class GraphCopy:
    """Copies of values into a graph of their own, as far back as what is handed over."""

    def __init__(
        self,
        given: Iterable[Value] = (),
        recorded: Iterable[Node] = (),
        handed_over: Callable[[Value], bool] = lambda value: False,
    ) -> None:
        self.graph = DataflowGraph()
        self.needs: dict[Value, Value] = {}
        self.values = {v: self.graph.add_input(v.spec, host=v.host) for v in given}
        self.recorded = set(map(id, recorded))
        self.handed_over = handed_over

    def value(self, value: Value) -> Value:
        """The copy of a value."""
        stack = [value]
        while stack:  # depth first without recursion: graphs are deep
            top = stack[-1]
            if top in self.values:
                stack.pop()
                continue
            node = top.node
            if node is None or (id(node) in self.recorded and self.handed_over(top)):
                copied = self.graph.add_input(top.spec, host=top.host)
                self.values[top] = self.needs[top] = copied
                continue
            missing = [x for x in node.inputs if isinstance(x, Value) and x not in self.values]
            if missing:
                stack += missing
                continue
            inputs = tuple([self.values[x] if isinstance(x, Value) else x for x in node.inputs])
            specs = tuple([o.spec for o in node.outputs])
            self.graph.where = node.where
            outs = self.graph.add_node(node.record, inputs, node.params, specs, node.composition)
            self.values.update(zip(node.outputs, outs, strict=True))
        return self.values[value]


class _Outward(Backward):
    """A backward run that stops at everything older than the trace, hooks and all."""

    joins_pieces = False
    sends_zeros = True

    def __init__(self, start: int, *, create_graph: bool, stops: Collection[Edge]) -> None:
        super().__init__(
            retain_graph=True, create_graph=create_graph, targets=None, accumulate=False, level=None
        )
        self.start = start
        self.stops = stops  # further edges not to be followed

    def send(self, edges: Sequence[Edge | None], grads: Sequence[Any]) -> None:
        inner: list[tuple[Edge, Any]] = []
        for edge, grad in zip(edges, grads, strict=False):
            if edge is None:
                continue
            if is_tensor(edge[0]) or edge[0].sequence <= self.start or edge in self.stops:
                if grad is None:
                    continue
                earlier = self.gradients.get(edge)
                self.gradients[edge] = grad if earlier is None else earlier + grad
            else:
                inner.append((edge, grad))
        super().send([e for e, _ in inner], [g for _, g in inner])


def outward(
    trace: Trace,
    roots: Sequence[tuple[Edge, Any]],
    *,
    create_graph: bool = False,
    stops: Collection[Edge] = (),
) -> dict[Edge, Any]:
    """What arrives at everything older than a trace, or at `stops`, for cotangents of roots."""
    run = _Outward(trace.start, create_graph=create_graph, stops=stops)
    run.run(roots)
    return run.gradients
