"""Recording and compiling rules that write to large tensors in place (Note [updates])."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy import ndarray

from adjoint.engine.core.errors import raised_outside
from adjoint.engine.core.promotion import common_dtype
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.graph.eager.fragment import Unfit
from adjoint.engine.graph.eager.fragments import FRAGMENTS
from adjoint.engine.graph.eager.recorded import OperationTrace, example_of, native, root
from adjoint.engine.graph.eager.updates import CompiledRule, Numbers, Rule, WorkingOut
from adjoint.engine.graph.execution import Task
from adjoint.engine.graph.ir import DataflowGraph, Value
from adjoint.engine.graph.record.body import LiftedInput
from adjoint.engine.graph.record.sources import CallArgument
from adjoint.engine.tensor.tensor import Tensor


class UpdateRecording(OperationTrace):
    """Of a rule that writes to its operands and computes with numbers of the host."""

    def __init__(self, numbers: Numbers, numbered: dict[int, int]) -> None:
        super().__init__(None, "an update")
        self.given = [HostScalar(_constant(x), key=("given", i)) for i, x in enumerate(numbers)]
        self.numbered = numbered  # of stand-ins that count: which number is their value
        self.counted: dict[int, int] = {}  # by stand-in
        self.tests: dict[Any, tuple[HostScalar, Any]] = {}
        self.hosts: list[HostScalar] = []

    def operand(self, x: Any) -> Any:
        if type(x) is HostScalar and x.key not in self.lifted:
            value = self.graph.add_input(Spec((), common_dtype((x.get(),))), host=True)
            self.lifted[x.key] = LiftedInput(x, value)
            self.hosts.append(x)
        return super().operand(x)

    def guard_host(self, test: HostScalar, outcome: Any) -> None:
        self.tests[test.key] = test, outcome

    def guard(self, holds: Callable[[], bool], reason: str) -> None:
        raise Unfit(reason)

    def count(self, counter: Tensor) -> HostScalar:
        times = self.counted[id(counter)] = self.counted.get(id(counter), 0) + 1
        return self.given[self.numbered[id(counter)]] + times


def _constant(x: float) -> Callable[[], float]:
    return lambda: x


def written_out(tests: Sequence[HostScalar], hosts: Sequence[HostScalar], count: int) -> WorkingOut:
    """A function of the numbers given that works out host scalars, each part of them once."""
    names: dict[Any, str] = {("given", i): f"given{i}" for i in range(count)}
    scope: dict[str, Any] = {}
    lines: list[str] = []

    def constant(x: Any) -> str:
        name = f"constant{len(scope)}"
        scope[name] = x
        return name

    def named(x: Any) -> str:
        if type(x) is not HostScalar:
            return constant(x)
        if x.key not in names:
            fn, args = x.parts  # type: ignore[misc]  # the others are given
            text = f"{constant(fn)}({', '.join(map(named, args))})"
            names[x.key] = f"made{len(lines)}"
            lines.append(f" {names[x.key]} = {text}")
        return names[x.key]

    both = [f"({''.join(f'{named(x)}, ' for x in xs)})" for xs in (tests, hosts)]
    head = f"def numbers({', '.join(f'given{i}' for i in range(count))}):"
    text = "\n".join([head, *lines, f" return {', '.join(both)}"])
    return WorkingOut(text, scope)


def compiled(
    tensors: Sequence[Tensor], numbers: Numbers, counters: dict[int, int], rule: Rule
) -> CompiledRule:
    """Record and compile what a rule does to tensors."""
    stand_ins: list[Tensor] = []
    body = UpdateRecording(numbers, {})
    before = CONTEXT.every_field()
    try:
        with CONTEXT.having(grad_enabled=False):
            stand_ins += [body.entered(t) for t in tensors]
            body.numbered.update({id(stand_ins[k]): number for k, number in counters.items()})
            body.run(rule, stand_ins, body.given)
    except Exception as error:  # as it is, it succeeds or says what is wrong
        if raised_outside(error):
            raise
        raise Unfit from error
    finally:
        CONTEXT.__dict__.update(before)  # an interrupt may have left them
    values = [body.cells[t._storage.identity].value for t in stand_ins]
    inputs = [body.lifted[id(t)].value for t in tensors]
    graph = body.graph
    apart = counted_on_host(body, tensors, stand_ins, counters)
    if apart:
        gone = take_out(graph, [inputs[k] for k, _ in apart])
        if not all(advances(values[k], inputs[k]) == times for k, times in apart):
            raise Unfit
        if any(id(values[k]) in gone for k in range(len(values)) if k not in dict(apart)):
            raise Unfit
    written = [
        k for k, value in enumerate(values) if value is not inputs[k] and k not in dict(apart)
    ]
    graph.outputs = [values[k] for k in written]
    if not written or any(root(value).node is None for value in graph.outputs):
        raise Unfit
    given = {id(value): k for k, value in enumerate(inputs)}
    given |= {id(body.lifted[h.key].value): len(tensors) + k for k, h in enumerate(body.hosts)}
    places = tuple([given[id(value)] for value in graph.inputs])
    tests = [*body.tests.values()]
    working_out = written_out([test for test, _ in tests], body.hosts, len(numbers))
    examples: list[Any] = [example_of(t._array) for t in tensors]
    examples += working_out.numbers(*numbers)[1]
    task = Task(
        graph=graph,
        sources=tuple([CallArgument(k, whole=False) for k in range(len(places))]),
        writes=tuple(
            [(CallArgument(places.index(k), whole=False), n) for n, k in enumerate(written)]
        ),
        returned=frozenset(),
        examples=tuple([examples[k] for k in places]),
        targets=tuple([examples[k] for k in written]),
        shared=FRAGMENTS.shared,
        fragment=True,
    )
    executable = native(task, FRAGMENTS.shared)
    return CompiledRule(
        executable,
        places,
        working_out,
        tuple([outcome for _, outcome in tests]),
        tuple(written),
        tuple([stand_ins[k]._storage.version for k in written]),
        apart,
    )


def counted_on_host(
    body: UpdateRecording,
    tensors: Sequence[Tensor],
    stand_ins: Sequence[Tensor],
    counters: dict[int, int],
) -> tuple[tuple[int, int], ...]:
    """Counters on the CPU beside tensors on another device, and by how much they advance."""
    if all(t._array.__class__ is ndarray for t in tensors):
        return ()
    on_host = [k for k in counters if tensors[k]._array.__class__ is ndarray]
    return tuple([(k, body.counted.get(id(stand_ins[k]), 0)) for k in on_host])


def take_out(graph: DataflowGraph, inputs: Sequence[Value]) -> set[int]:
    """Leave inputs, and all that follows from them, out of a graph; the ids of those values."""
    gone = set(map(id, inputs))
    nodes = []
    for node in graph.nodes:
        if any(id(x) in gone for x in node.inputs):
            gone.update(map(id, node.outputs))
        else:
            nodes.append(node)
    graph.nodes = nodes
    graph.inputs = [v for v in graph.inputs if id(v) not in gone]
    return gone


def advances(value: Value, start: Value) -> int:
    """How often one was added to a counter; -1 where something else was done to it."""
    times = 0
    while value is not start:
        node = value.node
        if node is None or node.record.name != "add" or node.inputs[1] != 1:
            return -1
        value = node.inputs[0]
        times += 1
    return times
