"""A finished recording: graph, sources of its inputs, results and effects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from adjoint.core.context import CONTEXT
from adjoint.core.dispatch import mark_birth
from adjoint.core.epoch import EPOCH
from adjoint.core.host import HostScalar
from adjoint.core.record import is_tensor
from adjoint.core.tree import TreeDef, flatten, unflatten
from adjoint.graph.attributes import Attributes
from adjoint.graph.environment import Fingerprint
from adjoint.graph.execution import Executable, ExecutorFactory, Task
from adjoint.graph.ir import Graph
from adjoint.graph.sources import Argument, Source, State
from adjoint.graph.text import to_text
from adjoint.graph.trace import Trace
from adjoint.graph.verify import verify
from adjoint.ops.views import apply_chain
from adjoint.tensor.storage import Storage, Window
from adjoint.tensor.tensor import Tensor, meta_of, wrap


@dataclass(frozen=True, slots=True)
class Constant:
    """A result that is the same object at each call."""

    value: Any

    def make(self, call: Call) -> Any:
        return self.value.get() if isinstance(self.value, HostScalar) else self.value


@dataclass(frozen=True, slots=True)
class Passed:
    """An argument handed back."""

    position: int

    def make(self, call: Call) -> Any:
        return call.leaves[self.position]


@dataclass(frozen=True, slots=True)
class Shown:
    """A view of storage from outside, made again from what it views."""

    source: Source
    chain: tuple[Any, ...]

    def make(self, call: Call) -> Any:
        if isinstance(self.source, Argument) and not self.source.whole:
            base = call.leaves[self.source.position]
        else:
            base = wrap(self.source.array(call.leaves))
            base._storage = self.source.storage(call.leaves)
        return apply_chain(base, self.chain)


@dataclass(frozen=True, slots=True)
class Made:
    """A tensor the program computes: a window on one of its fresh results."""

    group: int  # results of one traced storage share memory
    output: int
    chain: tuple[Any, ...]

    def make(self, call: Call) -> Any:
        root = call.roots.get(self.group)
        if root is None:
            root = call.roots[self.group] = call.fresh(self.output)
        return apply_chain(root, self.chain) if self.chain else root


Recipe = Constant | Passed | Shown | Made


@dataclass(slots=True)
class Call:
    """One execution: the arguments, the graph's results, and what has been handed out."""

    leaves: list[Any]
    results: list[Any]
    roots: dict[int, Tensor] = field(default_factory=dict)

    def fresh(self, output: int) -> Tensor:
        """A result as a tensor."""
        tensor = wrap(self.results[output])
        mark_birth(tensor._storage)
        return tensor


@dataclass(slots=True)
class Program:
    """What `Captured` keeps per signature; calling it with the argument leaves runs it."""

    graph: Graph
    sources: list[Source]
    structure: TreeDef
    recipes: list[Recipe]
    writes: list[tuple[Source, int]]
    grads: list[tuple[Tensor, Recipe]]
    flags: list[tuple[Tensor, bool]]
    draws: list[tuple[Any, int]]
    guards: list[tuple[Callable[[], bool], str]]
    states: list[Storage]
    pattern: tuple[Any, ...]
    attributes: list[tuple[dict[str, Any], str, Tensor]]  # Note [assigned attributes]
    fingerprint: Fingerprint | None = None  # what the function could see; set after the trace
    executable: Executable | None = None  # runs the graph; made by `prepare`

    def valid(self, leaves: list[Any], seen: Fingerprint) -> bool:
        """Whether the recording stands for this call."""
        return (
            self.fingerprint == seen
            and alias_pattern(leaves, self.states) == self.pattern
            and all(holds() for holds, _ in self.guards)
        )

    def prepare(self, leaves: list[Any], factory: ExecutorFactory) -> None:
        """Have the executable made, once the trace is over; `leaves` are the arguments it had."""
        made = {r.output for r in [*self.recipes, *(r for _, r in self.grads)] if type(r) is Made}
        self.executable = factory(
            Task(
                graph=self.graph,
                sources=tuple(self.sources),
                writes=tuple(self.writes),
                returned=frozenset(made),
                examples=tuple([source.given(leaves) for source in self.sources]),
                targets=tuple([source.array(leaves) for source, _ in self.writes]),
            )
        )

    def __call__(self, leaves: list[Any]) -> Any:
        """Run the graph, then carry out the effects; an error before that changes nothing."""
        inputs = [source.given(leaves) for source in self.sources]
        targets = [source.array(leaves) for source, _ in self.writes]
        results = self.executable(inputs, targets)  # type: ignore[misc]
        call = Call(leaves, results)
        with CONTEXT.having(grad_enabled=False):
            outs = [recipe.make(call) for recipe in self.recipes]
            grads = [(tensor, recipe.make(call)) for tensor, recipe in self.grads]
        for source, _ in self.writes:
            source.storage(leaves).version += 1
        for tensor, grad in grads:
            meta_of(tensor).grad = grad
        for table, name, kept in self.attributes:
            if table.get(name) is not kept:
                table[name] = kept
                EPOCH.count += 1
        for tensor, flag in self.flags:
            tensor._requires_grad = flag
        for generator, count in self.draws:
            generator.advance(count)
        return unflatten(self.structure, outs)

    def text(self) -> str:
        """The graph as Python."""
        return to_text(self.graph)


def alias_pattern(leaves: list[Any], states: list[Storage]) -> tuple[Any, ...]:
    """For each argument tensor, which state it shares its storage with."""
    places = {s.identity: i for i, s in enumerate(states)}
    return tuple(places.get(x._storage.identity) for x in leaves if is_tensor(x))


class _Outputs:
    """Collects the graph's outputs and the recipes that refer to them."""

    def __init__(self, trace: Trace, leaves: list[Any]) -> None:
        self.trace = trace
        self.leaves = leaves
        self.groups: dict[Storage, int] = {}
        self.indices: dict[Any, int] = {}

    def index(self, value: Any) -> int:
        if value not in self.indices:
            self.indices[value] = len(self.indices)
        return self.indices[value]

    def recipe(self, x: Any) -> Recipe:
        if not is_tensor(x):
            return Constant(x)
        for i, leaf in enumerate(self.leaves):
            if x is leaf:
                return Passed(i)
        if type(x._array) is not Window and x._storage.trace is None:
            return Constant(x)  # a tensor from outside, itself
        cell = self.trace.cell(x)
        chain = self.trace._rest(x, cell)
        if cell.source is not None:
            return Shown(cell.source, chain)
        group = self.groups.setdefault(x._storage, len(self.groups))
        return Made(group, self.index(cell.value), chain)


def build(trace: Trace, result: Any, leaves: list[Any], attributes: Attributes) -> Program:
    """Turn a trace that has run to its end into a program (before the trace is undone)."""
    outputs = _Outputs(trace, leaves)
    flat, structure = flatten(result)
    recipes = [outputs.recipe(x) for x in flat]
    grads: list[tuple[Tensor, Recipe]] = []
    flags: list[tuple[Tensor, bool]] = []
    for tensor, (_, _, required, _, before) in trace.journal.items():
        if tensor._storage.trace is trace:
            continue
        now = None if tensor._meta is None else tensor._meta.grad
        if now is not before:
            grads.append((tensor, outputs.recipe(now)))
        if tensor._requires_grad != required and tensor._node is None:
            flags.append((tensor, tensor._requires_grad))
    writes: list[tuple[Source, int]] = [
        (cell.source, outputs.index(cell.value))
        for cell in trace.cells.values()
        if cell.source is not None and cell.value is not cell.initial
    ]
    writes += [(state, outputs.index(value)) for state, value in attributes.settle(trace)]
    trace.graph.outputs = list(outputs.indices)
    states = [s.held for s in trace.sources if isinstance(s, State)]
    verify(trace.graph)
    return Program(
        graph=trace.graph,
        sources=trace.sources,
        structure=structure,
        recipes=recipes,
        writes=writes,
        grads=grads,
        flags=flags,
        draws=list(trace.draws.items()),
        guards=trace.guards,
        states=states,
        pattern=alias_pattern(leaves, states),
        attributes=attributes.settled,
    )
