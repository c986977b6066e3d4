"""The derivative of a captured program: what puts its results on the tape.

Note [program nodes]
    A program whose results want gradients is one node of the tape. At the end of the trace, the
    tape inside it is followed backward (Note [backward graphs]): that makes a second graph, from
    cotangents and residuals to the gradients of everything the function reached outside. Residuals
    are values of the forward graph that the backward graph uses: inputs by reference, with the
    version they had, and so what the program wrote to memory from outside; views and constants made
    again; all other values as extra outputs of the forward graph.

Note [separate backwards]
    Results may be differentiated one after the other. In eager execution the second backward is
    refused if it comes through a node that the first has freed, so for each result (a seed of the
    program's node) the results it shares such nodes with are known: it spoils those and itself.
    What a program has used up itself, by a backward inside it or by writing over what was saved,
    is refused from the start, and other results are not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from adjoint.engine.autodiff.tape.node import BackwardNode, Edge
from adjoint.engine.autodiff.tape.saved import FreedError
from adjoint.engine.capture.program.layouts import permuted_strides
from adjoint.engine.capture.program.outputs import Outputs
from adjoint.engine.capture.program.recipes import OutsideTensor
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.backward_graph import backward_graph, outward
from adjoint.engine.graph.execution import Executable
from adjoint.engine.graph.ir import DataflowGraph, Value
from adjoint.engine.graph.record.sources import Source
from adjoint.engine.graph.record.trace import StorageCell, Trace
from adjoint.engine.graph.sizes.sizing import Sizing
from adjoint.engine.tensor.tensor import Tensor

Strides = tuple[int, ...] | None  # None: row-major


@dataclass(slots=True)
class GradientTarget:
    """Where a gradient goes: to a tensor from outside, or along an edge that is always the same."""

    edge: Edge | None  # None where the tensor is known: it is asked at each call
    ref: OutsideTensor | None
    source: Source | None = None  # the graph's input that shows the tensor
    chain: tuple[Any, ...] = ()  # the views from that input to the tensor
    seed: int | None = None  # or to this result of the program's own (`separating`)
    result: int | None = None  # or to a leaf made inside, by the number of its recipe


class Tape:
    """A trace whose tape can be followed again, and how its ends were found."""

    def __init__(
        self,
        trace: Trace,
        outputs: Outputs,
        reached: Sequence[Tensor],
        ends: list[Edge],
        written: set[int],
        copied: set[Value],
    ) -> None:
        self.trace = trace
        self.written = written
        self.copied = copied
        self.graph: DataflowGraph | None = None  # what the trace has recorded; None: its graph
        self.positions = dict(outputs.positions)
        self.made_leaves = dict(outputs.made_leaves)
        self.indices = dict(outputs.indices)  # numbers of the program's outputs
        self.seeds = [(edge, _spec_of(outputs, k)) for edge, k in outputs.seeds]
        self.reached = reached
        self.ends = ends  # one per target
        cells = [cell for cell in trace.cells.values() if cell.source is not None]
        counted = dict.fromkeys([*[cell.storage for cell in cells], *trace.versions])
        self.versions = [(storage, storage.version) for storage in counted]
        self.fields = [(t, _fields_of(t)) for t in trace.journal]

    @contextmanager
    def resumed(self) -> Iterator[None]:
        """A block in which tensors are where they were on the tape when the trace ended."""
        versions = [(storage, storage.version) for storage, _ in self.versions]
        fields = [(tensor, _fields_of(tensor)) for tensor, _ in self.fields]
        trace = self.trace
        recorded = trace.graph, trace.sources  # the program's: to be left as they are
        trace.graph = (self.graph or trace.graph).copy()
        trace.sources = list(trace.sources)
        _put(self.versions, self.fields)
        try:
            with CONTEXT.having(capture=trace, grad_enabled=True, autocast=None):
                yield
        finally:
            _put(versions, fields)
            trace.graph, trace.sources = recorded


class TapeRoute:
    """Where a derivative follows a tape: to follow it from some of the seeds alone (`missing`)."""

    def __init__(self, tape: Tape, edges: list[Edge], stops: Collection[Edge] = ()) -> None:
        self.tape = tape
        self.edges = edges  # where its gradients arrive
        self.stops = stops  # edges it does not follow
        self.partly: dict[frozenset[int], Any] = {}  # by the seeds that have a cotangent


def _fields_of(tensor: Tensor) -> tuple[Any, ...]:
    on_the_tape = tensor._node, tensor._nr, tensor._requires_grad, tensor._base
    return *on_the_tape, tensor._array, tensor._storage, tensor._chain


def _put(versions: list[tuple[Any, int]], fields: list[tuple[Tensor, tuple[Any, ...]]]) -> None:
    for storage, version in versions:
        storage.version = version
    for tensor, values in fields:
        tensor._node, tensor._nr, tensor._requires_grad, tensor._base = values[:4]
        tensor._array, tensor._storage, tensor._chain = values[4:]


@dataclass(slots=True)
class Derivative:
    """The backward half of a program."""

    graph: DataflowGraph  # cotangents, then residuals, to gradients
    seeds: list[int]  # the forward outputs that cotangents are of
    targets: list[GradientTarget]  # one per gradient
    residuals: list[tuple[str, int]]  # ("input" or "output", number), in the order of inputs
    depends: list[frozenset[int]]  # per gradient: the seeds it comes from
    strides: list[Strides]  # per gradient: as it lies in eager execution (`gradient_strides`)
    executable: Executable | None = None  # made at the first backward
    factory: Callable[..., Any] | None = None
    # By the cotangents that are given where some are missing (`missing`).
    partly: dict[frozenset[int], Any] = field(default_factory=dict, compare=False)
    route: TapeRoute | None = field(default=None, compare=False)
    # Seeds nothing can be asked of any more: what to raise, the name of the node they came from.
    refused: dict[int, tuple[str, str]] = field(default_factory=dict)
    spoils: list[frozenset[int]] = field(default_factory=list)  # Note [separate backwards]
    inner: frozenset[int] = frozenset()  # seeds that others were made of
    # Outputs among the residuals that are kept by reference: what the program left in this memory.
    written: dict[int, Source] = field(default_factory=dict)
    # Another for each of those by itself (`separating`), once they were asked for.
    parts: Any = field(default=None, compare=False)
    # To differentiate it once more (`lifting`): what that takes, what it gave, and what gives
    # that the sizes of a call.
    tape: Tape | None = field(default=None, compare=False)
    lifted: dict[Any, Any] | None = field(default=None, compare=False)  # by strides, and seeds
    resized: Callable[[Any], Any] | None = field(default=None, compare=False)
    sizing: Sizing | None = None
    strides_by_cotangents: dict[Any, list[Strides]] | None = field(default=None, compare=False)


def differentiate(
    trace: Trace, outputs: Outputs, reached: Sequence[Tensor], written: set[int]
) -> Derivative | None:
    """The derivative of what has been traced; `outputs` gets the residuals.

    `reached` are tensors the function can see: an edge to one of them is looked up at each call.
    `written` are the identities of states the program writes.
    """
    if not outputs.seeds:
        return None
    read_from: dict[Value, list[StorageCell]] = {}
    refused: dict[int, tuple[str, str]] = {}

    strides: dict[Edge, Strides] = {}

    def follow(cotangents: list[Tensor]) -> dict[Edge, Value]:
        trace.read_from = read_from
        try:
            roots = [(edge, g) for (edge, _), g in zip(outputs.seeds, cotangents, strict=True)]
            gradients = _followed(trace, roots, refused)
            strides.update({edge: permuted_strides(g) for edge, g in gradients.items()})
            return {edge: trace.value_of(g) for edge, g in gradients.items()}
        finally:
            trace.read_from = None

    specs = [_spec_of(outputs, k) for _, k in outputs.seeds]
    backward = backward_graph(trace, specs, follow, costs_more_to_make)
    backward.graph.outputs += backward.gradients.values()
    edges = list(backward.gradients)
    copied = {value for value, cells in read_from.items() if _copied(value, cells)}
    residuals = residuals_of(trace, outputs, backward.needs, written, copied)
    reached_from = [nodes_behind(edge, trace.start) for edge, _ in outputs.seeds]
    behind = [nodes for nodes, _ in reached_from]
    pairs = list(zip(outputs.seeds, behind, strict=True))
    tape = Tape(trace, outputs, reached, edges, written, copied) if edges else None
    return Derivative(
        graph=backward.graph,
        seeds=[k for _, k in outputs.seeds],
        targets=[target(trace, outputs, edge, reached) for edge in edges],
        residuals=residuals,
        depends=dependence(edges, [ends for _, ends in reached_from]),
        strides=[strides[edge] for edge in edges],
        refused=refused,
        spoils=_spoils(behind),
        inner=frozenset(
            j
            for j, (edge, _) in enumerate(outputs.seeds)
            if any(edge[0] in nodes and edge[0] is not root[0] for (root, _), nodes in pairs)
        ),
        written=_left_in(outputs, residuals, read_from),
        tape=tape,
        route=None if tape is None else TapeRoute(tape, edges),
    )


def _copied(value: Value, cells: list[StorageCell]) -> bool:
    """Whether a value was read only where a copy of it was written."""
    return all(cell.initial is not value for cell in cells)


def _left_in(
    outputs: Outputs, residuals: list[tuple[str, int]], read_from: dict[Value, list[StorageCell]]
) -> dict[int, Source]:
    """Residuals that were read as what memory from outside holds, by their numbers.

    The same value may be that of a tensor made inside, too: a copy of that was written there.
    """
    values = list(outputs.indices)
    sources: dict[int, Source] = {}
    for k in [k for kind, k in residuals if kind == "output"]:
        cells = read_from.get(values[k], [])
        source = cells[0].source if cells else None
        if source is not None and all(cell is cells[0] for cell in cells):
            sources[k] = source
    return sources


def _followed(
    trace: Trace, roots: list[tuple[Edge, Any]], refused: dict[int, tuple[str, str]]
) -> dict[Edge, Tensor]:
    """The gradients of everything outside; `refused` gets roots that cannot be asked, and why."""
    try:
        return _outward(trace, roots)
    except FreedError as error:
        first = str(error)
    for i, root in enumerate(roots):
        try:
            if len(roots) > 1:
                _outward(trace, [root])
                continue
        except FreedError as error:
            first = str(error)
        refused[i] = first, root[0][0].name()
    return _outward(trace, [r for i, r in enumerate(roots) if i not in refused])


def _outward(trace: Trace, roots: list[tuple[Edge, Any]]) -> dict[Edge, Tensor]:
    with CONTEXT.having(grad_enabled=False):
        return outward(trace, roots)


def nodes_behind(
    edge: Edge, start: int, stops: Collection[Edge] = ()
) -> tuple[set[BackwardNode], frozenset[Edge]]:
    """The nodes of a trace that an edge leads to, and the edges at which it leaves the trace."""
    nodes: set[BackwardNode] = set()
    ends: set[Edge] = set()
    pending = [edge]
    while pending:
        top = pending.pop()
        if is_tensor(top[0]) or top[0].sequence <= start or top in stops:
            ends.add(top)
        elif top[0] not in nodes:
            nodes.add(top[0])
            pending += [e for e in top[0].edges if e is not None]
    return nodes, frozenset(ends)


def _spoils(behind: list[set[BackwardNode]]) -> list[frozenset[int]]:
    """For each set of nodes, which of them share a saved value with it (itself included)."""
    saving = [{x for x in nodes if getattr(x, "saved", None)} for nodes in behind]
    return [
        frozenset({i}.union(j for j, other in enumerate(saving) if not savers.isdisjoint(other)))
        for i, savers in enumerate(saving)
    ]


def dependence(edges: Iterable[Edge], ends: Sequence[frozenset[Edge]]) -> list[frozenset[int]]:
    """For each end of the tape where a gradient arrives, from which roots it is led to.

    The backward graph does not tell: a gradient that is always zero is made of no cotangent.
    """
    return [frozenset(i for i, led in enumerate(ends) if edge in led) for edge in edges]


def _spec_of(outputs: Outputs, k: int) -> Any:
    return list(outputs.indices)[k].spec


def target(trace: Trace, outputs: Outputs, edge: Edge, reached: Sequence[Tensor]) -> GradientTarget:
    """How later calls find the end of an edge."""
    tensor, _ = edge
    if not is_tensor(tensor):
        argument = trace.edges.get(edge)
        if argument is None:
            return _found_target(trace, outputs, edge, reached)
        tensor = argument
    elif not outputs.is_outside(tensor):
        return GradientTarget(None, None, result=outputs.made_leaves.get(id(tensor)))
    cell = trace.cells.get(tensor._storage.identity)
    if cell is None or cell.source is None:
        return GradientTarget(None, outputs.ref(tensor))
    return GradientTarget(None, outputs.ref(tensor), cell.source, tensor._chain[len(cell.skip) :])


def _found_target(
    trace: Trace, outputs: Outputs, edge: Edge, reached: Sequence[Tensor]
) -> GradientTarget:
    """The target for an edge to a node: that of a tensor the function can see, if there is one."""
    for tensor in reached:
        node, nr, *_ = trace.journal.get(tensor, (tensor._node, tensor._nr))
        if (node, nr) == edge:
            trace.guard(lambda t=tensor, n=node: t._node is n, "a tensor's place on the tape")  # type: ignore[misc]
            cell = trace.cells.get(tensor._storage.identity)
            if cell is not None and cell.source is not None:
                chain = tensor._chain[len(cell.skip) :]
                return GradientTarget(None, outputs.ref(tensor), cell.source, chain)
    return GradientTarget(edge, None)


def costs_more_to_make(value: Value) -> bool:
    """Whether making a forward value again costs more than keeping it."""
    node: Any = value.node
    return not node.record.is_view and any(isinstance(x, Value) for x in node.inputs)


def residuals_of(
    trace: Trace,
    outputs: Outputs,
    needs: Iterable[Value],
    written: set[int],
    copied: set[Value],
) -> list[tuple[str, int]]:
    """What a backward graph needs: inputs of the program where they stay as they are, or outputs.

    `written` are the identities of states the program writes; `copied` values were read only where
    a copy of them was written.
    """
    inputs = {value: i for i, value in enumerate(trace.graph.inputs)}
    gone = copied | {
        cell.initial
        for cell in trace.cells.values()
        if cell.value is not cell.initial or cell.storage.identity in written
    }
    return [
        ("input", inputs[value])
        if value in inputs and value not in gone
        else ("output", outputs.index(value))
        for value in needs
    ]
