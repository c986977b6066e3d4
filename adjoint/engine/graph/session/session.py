"""`Session`: runs of a graph. Each run computes what its fetches need, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.engine.core.errors import CaptureError
from adjoint.engine.core.identity.number_key import number_key
from adjoint.engine.core.operations.public import PUBLIC
from adjoint.engine.core.operations.record import HOOKS, is_tensor
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.tree import flatten, unflatten
from adjoint.engine.graph import ir
from adjoint.engine.graph.execution import Executable, ExecutorFactory, Task, interpreted
from adjoint.engine.graph.ir import Value
from adjoint.engine.graph.record.building import Building, Fed, Update
from adjoint.engine.graph.record.sources import CallArgument, Source
from adjoint.engine.graph.sizes.extents import Sizes, SizeScope
from adjoint.engine.graph.sizes.resizing import Rebuild, resized
from adjoint.engine.graph.sizes.sizing import Sizing
from adjoint.engine.tensor.storage import Window
from adjoint.engine.tensor.tensor import wrap

if TYPE_CHECKING:
    from adjoint.engine.graph.session.graph import Graph

_SIZES_KEPT = 64  # prepared runs of the same fetches at different sizes


@dataclass(slots=True)
class PreparedRun:
    """What runs of the same fetches and feeds have in common."""

    graph: ir.DataflowGraph
    sources: list[Source]
    writes: list[tuple[Source, int]]
    results: int  # the first outputs are those that are returned
    draws: list[tuple[Any, int]]
    sizing: Sizing | None = None  # where sizes are unknown: those of this run
    executable: Executable | None = None

    def __call__(self, leaves: list[Any], factory: ExecutorFactory) -> list[Any]:
        """Run, write what is to be written, return the results."""
        inputs = [source.given(leaves) for source in self.sources]
        targets = [source.array(leaves) for source, _ in self.writes]
        if self.executable is None:
            returned = frozenset(range(self.results))
            examples = (tuple(self.sources), tuple(self.writes), returned, tuple(inputs))
            self.executable = factory(Task(self.graph, *examples, tuple(targets), self.sizing))
        arrays = self.executable(inputs, targets)
        for source, _ in self.writes:
            source.storage(leaves).version += 1
        for generator, count in self.draws:
            generator.advance(count)
        return [wrap(array) for array in arrays[: self.results]]

    def at(self, sizes: Sizes, scope: SizeScope, common: dict[Any, Any]) -> PreparedRun:
        """The same at sizes of a run; `common` is what runs at all sizes have in common."""
        put = Rebuild(sizes, set())
        graph = put.graph(self.graph)
        sources = [put(source) for source in self.sources]
        draws = [(generator, put(count)) for generator, count in self.draws]
        sizing = Sizing(sizes, scope, self.graph, common)
        return PreparedRun(graph, sources, self.writes, self.results, draws, sizing)


class Session:
    """Runs a graph: `run(fetches, feeds)`.

    Args:
        graph: what to run.
        executor: what runs it: the reference interpreter unless given, by name ("native": compiled
            code, made at the first run of a set of fetches) or as a factory of executables.

    Example:
        >>> import adjoint as ad
        >>> with ad.Graph() as g:
        ...     x = ad.placeholder((3,), name="x")
        ...     y = g.name(x * x, "y")
        >>> with ad.Session(g) as session:
        ...     session.run({"square": y, "sum": "y"}, {x: [1.0, 2.0, 3.0]})
        {'square': tensor([1., 4., 9.]), 'sum': tensor([1., 4., 9.])}
    """

    def __init__(self, graph: Graph, *, executor: str | ExecutorFactory = interpreted) -> None:
        self.graph = graph
        self.executor = HOOKS.executor(executor) if isinstance(executor, str) else executor
        self._plans: dict[Any, PreparedRun] = {}
        self._sized: dict[Any, tuple[dict[Any, Any], dict[Any, PreparedRun]]] = {}
        self._closed = False

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of everything prepared; further runs are refused."""
        self._plans.clear()
        self._sized.clear()
        self._closed = True

    def run(self, fetches: Any, feeds: Mapping[Any, Any] | None = None) -> Any:
        """The fetched tensors, in the structure they are asked for.

        Args:
            fetches: a tensor of the graph, a name, an update (which gives None), or lists, tuples
                and dictionaries of them.
            feeds: for each placeholder the fetches need, by tensor or name, a tensor, an array or
                numbers. Any other value of the graph may be fed too and is then not computed.

        Every value read is the one at the start of the run; updates are written at its end, all of
        them or, if anything fails, none.
        """
        if self._closed:
            raise RuntimeError("Session.run: the session is closed. Make another.")
        if CONTEXT.levels or not isinstance(CONTEXT.capture, (Building, type(None))):
            raise CaptureError("Session.run: cannot be called inside a capture or transform.")
        leaves, structure = flatten(fetches)
        with CONTEXT.having(capture=None, grad_enabled=False, autocast=None):
            given, sizes = self._read_feeds(feeds or {})
            wanted = [self._resolve(x) for x in leaves]
            values = [x for x in wanted if isinstance(x, Value)]
            updates = [x for x in wanted if isinstance(x, Update)]
            key = (tuple(values), tuple(updates), tuple(given))
            plan = self._plans.get(key)
            if plan is None:
                plan = self._plans[key] = make_plan(self.graph.trace, values, updates, list(given))
            if self.graph.sizes:
                plan = self._at_sizes(key, plan, sizes, given)
            check_guards(self.graph.trace)
            results = iter(plan(list(given.values()), self.executor))
        return unflatten(structure, [next(results) if type(x) is Value else None for x in wanted])

    def _resolve(self, x: Any) -> Value | Update:
        if isinstance(x, Update):
            if self.graph.updates.get(x.name) is not x:
                raise ValueError(f"Session.run: {x!r} is not of this graph")
            return x
        if isinstance(x, str) and x in self.graph.updates:
            return self.graph.updates[x]
        try:
            return self.graph.value_of(x)
        except (KeyError, TypeError, ValueError) as error:
            raise type(error)(f"Session.run: cannot fetch this. {error.args[0]}") from None

    def _at_sizes(
        self, key: Any, plan: PreparedRun, said: Sizes, given: dict[Value, Any]
    ) -> PreparedRun:
        """A plan at the sizes of a run: one of those kept, or made now."""
        unknown = self.graph.sizes
        sizes = unknown.complete(said)
        for value, x in given.items():
            if not value.host and resized(value.spec.shape, sizes) != tuple(x.shape):
                raise _unfit(value.name, value, x._spec)
        common, runs = self._sized.setdefault(key, ({}, {}))
        which = tuple(sizes.items())
        prepared = runs.pop(which, None)
        if prepared is None:
            try:
                prepared = plan.at(sizes, unknown.scope, common)
            except KeyError as missing:
                raise unknown.not_said(missing.args[0]) from None
            if len(runs) >= _SIZES_KEPT:
                del runs[next(iter(runs))]
        runs[which] = prepared  # used last
        return prepared

    def _read_feeds(self, feeds: Mapping[Any, Any]) -> tuple[dict[Value, Any], dict[str, int]]:
        """What is fed for which value, and what it says of unknown sizes."""
        given: dict[Value, Any] = {}
        sizes: dict[str, int] = {}
        for key, x in feeds.items():
            try:
                value = self.graph.value_of(key)
            except (KeyError, TypeError, ValueError) as error:
                raise type(error)(f"Session.run: cannot feed this. {error.args[0]}") from None
            tensor = as_fed(self._name_of(key, value), value, x)
            if not value.host and not self.graph.sizes.read(value.spec.shape, tensor.shape, sizes):
                raise _unfit(self._name_of(key, value), value, tensor._spec)
            given[value] = tensor
        return given, sizes

    def _name_of(self, key: Any, value: Value) -> str:
        return key if isinstance(key, str) else value.name


def as_fed(name: str, value: Value, x: Any) -> Any:
    """What was fed, as a tensor (or number) of the right kind; an error naming it otherwise."""
    spec = value.spec
    if value.host:
        if not isinstance(x, (bool, int, float)):
            raise TypeError(f"Session.run: {name!r} is a number, received {type(x).__name__}")
        return _HostNumberFed(x)
    if is_tensor(x):
        if type(x._array) is Window:
            raise TypeError(
                f"Session.run: fed for {name!r}: a tensor of a graph, which has no elements. "
                "Run for it first, or connect the graphs."
            )
        tensor = x.detach()
    elif isinstance(x, (np.ndarray, np.generic)):
        tensor = PUBLIC["", "as_tensor"].fn(x)
    else:
        tensor = PUBLIC["", "tensor"].fn(x)
        if tensor.dtype.category <= spec.dtype.category:  # whole numbers will do for floats
            tensor = tensor.to(spec.device, spec.dtype)
    if (tensor.dtype, tensor.device) != (spec.dtype, spec.device):
        raise _unfit(name, value, tensor._spec)
    return tensor.contiguous()


def _unfit(name: str, value: Value, received: Spec) -> ValueError:
    return ValueError(f"Session.run: {name!r} is {value.spec}, received {received}. Convert it.")


class _HostNumberFed:
    """A number fed in place of the host's."""

    __slots__ = ("number",)

    def __init__(self, number: Any) -> None:
        self.number = number


class _FedNumber(Source):
    __slots__ = ("position",)

    def __init__(self, position: int) -> None:
        self.position = position

    def storage(self, args: Sequence[Any]) -> Any:
        raise TypeError("a number has no storage")

    def given(self, args: Sequence[Any]) -> Any:
        return args[self.position].number

    read = given


def make_plan(
    trace: Building, values: list[Value], updates: list[Update], fed: list[Value]
) -> PreparedRun:
    """The part of a graph that computes `values` and what `updates` write, given `fed`."""
    writes = merge_writes(updates)
    outputs = [*values, *(value for _, value in writes)]
    graph, inputs = cut(trace.graph, outputs, fed)
    places = {value: i for i, value in enumerate(fed)}
    known = dict(zip(trace.graph.inputs, trace.sources, strict=True))
    sources: list[Source] = []
    for value in inputs:
        if value in places:
            i = places[value]
            sources.append(_FedNumber(i) if value.host else CallArgument(i, whole=False))
            continue
        source = known[value]
        if isinstance(source, Fed):
            raise ValueError(
                f"Session.run: placeholder {source.name!r} ({value.spec}) is needed and was not "
                f"fed. Pass feeds={{{source.name!r}: ...}}."
            )
        sources.append(source)
    used = set(inputs)
    drawn = {d.generator for d in trace.drawn if used & trace.inputs_of(d)}
    draws = [(generator, trace.draws[generator]) for generator in drawn]
    places_of = [(source, len(values) + i) for i, (source, _) in enumerate(writes)]
    return PreparedRun(graph, sources, places_of, len(values), draws)


def merge_writes(updates: list[Update]) -> list[tuple[Source, Value]]:
    """What several updates write; an error where two write the same tensor."""
    seen: dict[int, str] = {}
    writes: list[tuple[Source, Value]] = []
    for update in dict.fromkeys(updates):
        for source, value in update.writes:
            if id(source) in seen:
                raise ValueError(
                    f"Session.run: updates {seen[id(source)]!r} and {update.name!r} write the same "
                    f"tensor ({value.spec}). Fetch them in separate runs."
                )
            seen[id(source)] = update.name
            writes.append((source, value))
    return writes


def cut(
    graph: ir.DataflowGraph, outputs: list[Value], fed: list[Value]
) -> tuple[ir.DataflowGraph, list[Value]]:
    """The nodes `outputs` need as a graph of their own, and the values that are its inputs.

    A fed value is an input, whatever would compute it.
    """
    given = set(fed)
    needed = set(outputs)
    nodes = []
    for node in reversed(graph.nodes):
        if any(v in needed and v not in given for v in node.outputs):
            nodes.append(node)
            needed.update(x for x in node.inputs if isinstance(x, Value))
    part = ir.DataflowGraph()
    inputs = [v for v in (*graph.inputs, *fed) if v in needed]
    inputs = list(dict.fromkeys(inputs))
    became = {v: part.add_input(v.spec, host=v.host) for v in inputs}
    for node in reversed(nodes):
        operands = tuple([became[x] if isinstance(x, Value) else x for x in node.inputs])
        specs = tuple([v.spec for v in node.outputs])
        outs = part.add_node(node.record, operands, node.params, specs, node.subgraph)
        for old, new in zip(node.outputs, outs, strict=True):
            became.setdefault(old, new)
    part.outputs = [became[v] for v in outputs]
    return part, inputs


def check_guards(trace: Building) -> None:
    """Refuse to run a graph whose recording depended on something that is otherwise now."""
    broken = [reason for holds, reason in trace.guards if not holds()]
    broken += [
        f"the {t.name}"
        for t, outcome in trace.host_guards.values()
        if number_key(t.get()) != number_key(outcome)
    ]
    broken += [
        f"{'a gradient of None' if grad is None else 'a gradient that is there'}"
        for tensor, grad in trace.grads_seen.items()
        if (tensor.grad is None) is not (grad is None)
    ]
    if broken:
        raise RuntimeError(
            f"Session.run: the graph was built for {broken[0]}, which has changed. Build it again."
        )
