"""Validation: the first call of a program, launch by launch, against the reference interpreter.

Note [validation]
    The driver's walk is done here, one entry at a time. Before a launch, what its works read is
    copied; after it, what they left in memory is compared with what the eager table makes of
    those copies (Note [tolerance]). So each kernel is checked on what it was really given, and the
    results of the call are the program's own: nothing is applied or drawn twice.

    The kernels in bodies of loops and branches are checked in the same way, at every turn that is
    taken. At its end the loop or branch is checked as a whole, which sees to what was carried from
    turn to turn. Nodes that the eager table does are the reference already; they run once.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from adjoint.engine.backends.array.dtypes import NUMPY_OF
from adjoint.engine.backends.llvm.runtime.peeking import slow_address
from adjoint.engine.backends.llvm.runtime.pool import DriverStep as Entry
from adjoint.engine.backends.llvm.runtime.pool import DriverTable
from adjoint.engine.backends.threads import get_num_threads
from adjoint.engine.compiler.memory.places import ARENA, INPUT, RESULT, Place
from adjoint.engine.compiler.package.draft import Draft, concrete
from adjoint.engine.compiler.package.tolerance import Noise, differing, is_float, noises, spread_of
from adjoint.engine.compiler.package.work import PlannedWork, Substitution, parameters, settled
from adjoint.engine.compiler.schedule.calls import HostCall
from adjoint.engine.compiler.schedule.steps import (
    Flow,
    HostNumber,
    Launch,
    Test,
    entries_of,
    label_text,
)
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.validation import ValidationError
from adjoint.engine.graph.ir import DataflowGraph, Node, Value, subgraphs

Key = tuple[int, ...]  # a work and its substitutions


class Validated:
    """A native executable whose first call is checked."""

    concurrent = True

    def __init__(self, native: Any, draft: Draft, sizes: Mapping[str, int]) -> None:
        self.native, self.draft = native, draft
        self.at_sizes = concrete(sizes)
        self.checked = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.native, name)

    def __call__(self, inputs: list[Any], targets: list[Any]) -> list[Any]:
        """Run; the first time, check."""
        if self.checked:
            results: list[Any] = self.native(inputs, targets)
            return results
        with self.native.lock:
            before = [x.copy() for x in targets]
            try:
                results = CheckedCall(self, inputs, targets).run()
            except BaseException:
                for target, old in zip(targets, before, strict=True):
                    if target.flags.writeable:
                        target[...] = old
                raise
            self.checked = True
            return results


@dataclass(eq=False, slots=True)
class Doing:
    """A work that has begun: how many launches it still waits for, what it was given and made."""

    left: int
    given: dict[Value, Any] = field(default_factory=dict)
    results: dict[Value, Any] = field(default_factory=dict)


class CheckedCall:
    """One call, checked."""

    def __init__(self, program: Validated, inputs: list[Any], targets: list[Any]) -> None:
        self.native, self.draft, self.at_sizes = program.native, program.draft, program.at_sizes
        self.inputs, self.targets = inputs, targets
        self.results: list[Any] = self.native.fill(inputs, targets)
        starts, _ = self.draft.packed(self.at_sizes)
        self.starts = {
            buffer: self.native.origin + starts[k] for buffer, k in self.draft.block_of.items()
        }
        everything = [e for segment in self.draft.segments for _, _, e in segment or ()]
        self.launches = Counter(
            key_of(work, launch.substitutions)
            for launch in everything
            if isinstance(launch, Launch)
            for work in launch.works
        )
        self.step_of = {
            id(entry): (number, step)
            for number, step in enumerate(self.draft.plan.steps, 1)
            for entry in entries_of(step)
        }
        self.doing: dict[Key, Doing] = {}
        self.now = 0  # the step's number

    def run(self) -> list[Any]:
        """All segments in order."""
        segments = zip(self.draft.segments, self.native.segments, strict=True)
        for number, (entries, ready) in enumerate(segments):
            if isinstance(ready, HostCall):
                ready(self.inputs, self.results)
            else:
                self.segment(number, [entry for _, _, entry in entries or ()])
        return self.results

    def segment(self, number: int, entries: list[Launch | Test]) -> None:
        """A native table, entry by entry (Note [entries])."""
        at = 0
        while at < len(entries):
            self.now, step = self.step_of[id(entries[at])]
            if not isinstance(step, Flow):
                at = self.entry(number, at, entries[at])
                continue
            whole = Launch("", [], step.reads, step.writes, 1, 0, step.label, works=step.works)
            self.before(whole)
            while at < len(entries) and self.step_of[id(entries[at])][1] is step:
                at = self.entry(number, at, entries[at])
            self.after(whole)

    def entry(self, number: int, at: int, entry: Launch | Test) -> int:
        """Run an entry of a segment and check it; returns which one is next."""
        name, start, everyone, skip = self.native.image.segments[number][at]
        if isinstance(entry, Test):
            condition = ctypes.c_uint8.from_address(int(self.native.words[start])).value
            return at + 1 if condition else at + 1 + skip
        self.before(entry)
        self.launch(name, start, len(entry.words), everyone)
        self.after(entry)
        return int(at + 1 + skip)

    def launch(self, name: str, start: int, count: int, everyone: bool) -> None:
        """Run one launch by itself."""
        native = self.native
        words = native.words
        function = native.functions[name].address
        table = DriverTable([Entry(function, words.ctypes.data + 8 * start, everyone)])
        status = [at for at, _ in native.image.status if start <= at < start + count]
        before = words[status]
        words[status] = table.status_address
        workers = get_num_threads() if native.parallel else 1
        code = native.pool.run(table.address, table.count, workers)
        words[status] = before
        if code:
            raise native.image.fault(code)

    # -- memory ---------------------------------------------------------------------------------

    def array(self, value: Value, place: Place, substitutions: tuple[Substitution, ...]) -> Any:
        """A copy of what a value's place holds."""
        place = settled(place, substitutions)
        shape = tuple(map(self.at_sizes, place.shape))
        dtype = NUMPY_OF[value.spec.dtype]
        if 0 in shape:
            return np.empty(shape, dtype)
        strides = [self.at_sizes(s) * dtype.itemsize for s in place.strides]
        start = self.address(place) + self.at_sizes(place.offset) * dtype.itemsize
        reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
        low = sum(r for r in reach if r < 0)
        high = sum(r for r in reach if r > 0) + dtype.itemsize
        memory = (ctypes.c_char * (high - low)).from_address(start + low)
        return np.ndarray(shape, dtype, memory, -low, strides).copy()

    def address(self, place: Place) -> int:
        """Where a place's buffer begins."""
        buffer = place.buffer
        if buffer.kind == ARENA:
            return int(self.starts[buffer])
        arrays = {INPUT: self.inputs, RESULT: self.results}.get(buffer.kind, self.targets)
        return slow_address(arrays[buffer.number])

    # -- works ----------------------------------------------------------------------------------

    def before(self, launch: Launch) -> None:
        """Copy what a launch is about to read.

        What it adds to may have been copied to where the result belongs: it is found there, since
        its own place may serve others already.
        """
        read = {touch.buffer for touch in launch.reads}
        for work in launch.works:
            key = key_of(work, launch.substitutions)
            doing = self.doing.get(key)
            if doing is None:
                doing = self.doing[key] = Doing(self.launches[key] or 1)
            begun = {
                value.node.inputs[0]: place
                for value, place in work.stores
                if value.node is not None and value.node.inputs and place.buffer in read
            }
            for value, place in work.loads().items():
                if place.buffer not in read:
                    place = begun.get(value, place)
                if place.buffer in read and value not in doing.given:
                    doing.given[value] = self.array(value, place, launch.substitutions)

    def after(self, launch: Launch) -> None:
        """Copy what a launch has written, and check the works that are complete."""
        written = {touch.buffer for touch in launch.writes}
        for work in launch.works:
            key = key_of(work, launch.substitutions)
            doing = self.doing[key]
            for value, place in work.stores:
                if place.buffer in written:
                    doing.results[value] = self.array(value, place, launch.substitutions)
            doing.left -= 1
            if not doing.left:
                del self.doing[key]
                for value, place in work.loads().items():
                    if value not in doing.given:  # made where it belongs: nothing had to be read
                        doing.given[value] = self.array(value, place, launch.substitutions)
                self.check(work, doing, launch)

    def check(self, work: PlannedWork, doing: Doing, launch: Launch) -> None:
        """Compare what a work has left in memory with what the reference makes."""
        quiet = CONTEXT.having(capture=None, grad_enabled=False, autocast=None, reference=True)
        with quiet, np.errstate(all="ignore"):
            reference = EagerReference(work, doing.given, self.number_of(launch), self.at_sizes)
            want = reference.run(None)
            assert want is not None
            off = {v: x for v, x in doing.results.items() if not same(x, want[v]._array)}
            noisy = reference.noisy_runs(want) if off else []
            others = [other for other in noisy if other is not None]
            if len(others) < len(noisy):
                return  # how often the loop turns depends on rounding; its kernels were checked
            for value, actual in off.items():
                expected = want[value]._array
                wrong = differing(actual, expected, [other[value]._array for other in others])
                if wrong.any():
                    raise ValidationError(
                        self.difference_text(work, launch, value, actual, expected, wrong)
                    )

    def number_of(self, launch: Launch) -> Callable[[Value], Any]:
        """What the host gives for a value that is its number."""

        def find(value: Value) -> Any:
            plus = 0
            for setting in launch.substitutions:
                given = setting.numbers.get(value)
                if given is None:
                    continue
                if not isinstance(given, HostNumber):
                    return given + plus
                value, plus = given.value, plus + self.at_sizes(given.plus)
            number = self.inputs[self.draft.hosts[value]]
            return number + plus if plus else number

        return find

    def difference_text(
        self, work: PlannedWork, launch: Launch, value: Value, actual: Any, want: Any, wrong: Any
    ) -> str:  # fmt: skip
        """The error: which kernel, of which lines, and the first element that differs."""
        first = tuple(int(i) for i in np.argwhere(wrong)[0])
        lines = []
        for node in work.nodes:
            at = f"{node.where[0]}:{node.where[1]}" if node.where else "(no line of yours)"
            lines.append(f"  {node.record.name:<12} {at}")
        label = label_text(launch.label, self.at_sizes)
        return (
            f"compile: validation: step {self.now} ({label}) does not compute what "
            f"the reference interpreter does of the same operands. Element {first} of its result "
            f"{value.name} ({value.spec.dtype.name}{list(actual.shape)}, made by "
            f"{value.node.record.name if value.node else 'an input'}): received {actual[first]!r}, "
            f"expected {want[first]!r}; {int(wrong.sum())} of {wrong.size} elements differ. "
            "It does\n" + "\n".join(lines) + "\n"
            "Please report this; until it is mended, use backend='interpret' for this function."
        )


class NoisyLoop(Exception):
    """A noisy loop that goes on for much longer than without noise."""


class EagerReference:
    """A work done by the eager table."""

    def __init__(
        self,
        work: PlannedWork,
        given: dict[Value, Any],
        number: Callable[[Value], Any],
        at_sizes: Callable[[Any], Any],
    ) -> None:
        self.nodes = list(work.schedule())
        self.given, self.number, self.at_sizes = given, number, at_sizes
        self.graphs, self.limit = 0, 0  # bodies run; how many may be
        self.off: dict[Node, Any] = {}  # how far noise takes what a node tests for equality

    def run(self, noise: Noise | None) -> dict[Value, Any] | None:
        """All values of a work, or None where they come to no end.

        With noise, they are off by what rounding may do.
        """
        wrap = HOOKS.array.wrap
        env: dict[Value, Any] = {value: wrap(array.copy()) for value, array in self.given.items()}
        self.graphs = 0
        try:
            self.nodes_run(self.nodes, env, noise)
        except NoisyLoop:
            return None
        if noise is None:
            self.limit = 2 * self.graphs + 16
        return env

    def noisy_runs(self, want: dict[Value, Any]) -> list[dict[Value, Any] | None]:
        """Runs with noise, and one in which what noise can bring close is equal."""
        runs = [self.run(noise) for noise in noises()]
        there = [env for env in runs if env is not None]
        tests = [n for n in self.nodes if n.record.name in ("eq", "ne")]
        for node in tests if len(there) == len(runs) else ():
            values = [x for x in node.inputs if x in want and is_float(want[x])]
            if values:
                self.off[node] = sum(
                    spread_of(want[x]._array, [env[x]._array for env in there]) for x in values
                )
        if self.off:
            runs.append(self.run(noises()[0]))
        return runs

    def nodes_run(self, nodes: Iterable[Node], env: dict[Value, Any], noise: Noise | None) -> None:
        """Run nodes in order."""
        for node in nodes:
            record = node.record
            operands = [self.operand(x, env) for x in node.inputs]
            params = {k: sizes_in(v, self.at_sizes) for k, v in parameters(node).items()}
            if noise is not None:
                operands = noise.operands(record, operands, params)
            if subgraphs(node):
                run = partial(self.graph_run, noise=noise)
                results = record.decompose(*operands, **params, run=run)  # type: ignore[misc]
            elif noise is not None and composition(node) is not None:
                results = self.composed(node, env, noise)
            else:
                results = record(*operands, **params)
            many = results if isinstance(results, tuple) else (results,)
            if noise is not None and not subgraphs(node) and composition(node) is None:
                off = self.off.get(node)
                many = tuple(noise.result(record, operands, params, x, off) for x in many)
            env.update(zip(node.outputs, many, strict=True))

    def composed(self, node: Node, env: dict[Value, Any], noise: Noise) -> tuple[Any, ...]:
        """A composite that was kept whole, with noise in all that it is made of."""
        graph = composition(node)
        assert graph is not None
        given = [self.operand(x, env) for x in node.inputs if isinstance(x, Value)]
        inner: dict[Value, Any] = dict(zip(graph.inputs, given, strict=True))
        self.nodes_run(graph, inner, noise)
        return tuple(inner[v] for v in graph.outputs)

    def graph_run(
        self, graph: DataflowGraph, inputs: Sequence[Any], noise: Noise | None
    ) -> list[Any]:
        """Run the body of a loop or branch."""
        self.graphs += 1
        if noise is not None and self.graphs > self.limit:
            raise NoisyLoop
        env: dict[Value, Any] = dict(zip(graph.inputs, inputs, strict=True))
        self.nodes_run(graph, env, noise)
        return [env[v] for v in graph.outputs]

    def operand(self, x: Any, env: dict[Value, Any]) -> Any:
        if not isinstance(x, Value):
            return self.at_sizes(x)
        if x in env:
            return env[x]
        return self.number(x)


def composition(node: Node) -> DataflowGraph | None:
    """What a composite is made of; None for all else."""
    return None if node.record.compose is None else node.subgraph


def key_of(work: PlannedWork, substitutions: tuple[Substitution, ...]) -> Key:
    """What tells the works of a walk apart."""
    return (id(work), *map(id, substitutions))


def same(actual: Any, want: Any) -> bool:
    """Whether all elements are equal; NaN is equal to NaN, and -0 to 0."""
    equal = actual == want
    if actual.dtype.kind not in "biu":
        equal |= (actual != actual) & (want != want)
    return bool(np.all(equal))


def sizes_in(x: Any, at_sizes: Callable[[Any], Any]) -> Any:
    """A parameter with numbers in the place of extents."""
    if isinstance(x, (tuple, list)) and type(x) in (tuple, list):
        return type(x)(sizes_in(item, at_sizes) for item in x)
    if isinstance(x, dict):
        return {key: sizes_in(item, at_sizes) for key, item in x.items()}
    return at_sizes(x)
