"""What of a program's call is known beforehand: its inputs, what it changes, what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from adjoint.engine.autodiff.tape.node import ErrorNode
from adjoint.engine.capture.backward.derivative import Derivative
from adjoint.engine.capture.program.conditions import Conditions
from adjoint.engine.capture.program.effects import Effects
from adjoint.engine.capture.program.hosts import checked_reader, reader
from adjoint.engine.capture.program.overlaps import Overlaps
from adjoint.engine.capture.program.python_state import PythonState
from adjoint.engine.capture.program.recipes import CallResults, Made
from adjoint.engine.core.identity.number_key import number_key
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.graph.record.sources import CallArgument, GradOf, Host, Source, State
from adjoint.engine.tensor.storage import Storage, count_writes
from adjoint.engine.tensor.tensor import Tensor, meta_of, wrap_places

UNREAD: list[Any] = []  # in the place of numbers that are read later
LATE = -2  # in the place of a root: made after tensors came to show other memory


class ReadyInputs:
    """Where the graph's inputs come from, and the host's numbers with their tests."""

    def __init__(
        self, sources: Sequence[Source], conditions: Conditions, python: PythonState | None
    ) -> None:
        self.fixed = [s.own_storage.buffer for s in sources if isinstance(s, State)]
        arguments = [s for s in sources if isinstance(s, CallArgument)]
        simple = not any(s.whole for s in arguments)
        self.windows = [s.position for s in arguments] if simple else []
        self.others: list[Source] = [] if simple else list(arguments)
        self.others += [s for s in sources if isinstance(s, GradOf)]
        hosts = [s.scalar for s in sources if isinstance(s, Host)]
        self.hosts = hosts
        self.host_count = len(hosts)
        self.tests = [
            (_keyed(test, outcome), _outcome(outcome)) for test, outcome in conditions.host_tests
        ]
        # Counters that were alike in the trace, and must be so in every call.
        self.counters = [[c._array.item for c in g] for g in conditions.counters if len(g) > 1]
        # Numbers made from draws are known once the call has drawn.
        self.early = python is None or not (python.replay.draws or python.tested)

    # Each is written out when it is asked for: the first call reads the numbers alone.

    @cached_property
    def read_hosts(self) -> Callable[[], list[Any]]:
        """Reads the host's numbers."""
        return reader(self.hosts)

    @cached_property
    def test_hosts(self) -> Callable[[], list[Any] | None]:
        """Tests what must be as in the recording."""
        return checked_reader(self.tests, self.counters, [])

    @cached_property
    def recall_hosts(self) -> Callable[[], list[Any] | None]:
        """Does both, as far as the numbers are known before the call."""
        if not self.early:
            return self.test_hosts
        return checked_reader(self.tests, self.counters, self.hosts)

    def numbers(self) -> list[Any] | None:
        """The host's numbers for a call, None where the tests of them come out otherwise.

        `UNREAD`: they are known, or raise, when the call runs.
        """
        try:
            numbers = self.recall_hosts()
            return numbers if self.early or numbers is None else UNREAD
        except (ArithmeticError, ValueError):
            pass
        try:  # a test that another keeps from failing
            return None if self.test_hosts() is None else UNREAD
        except (ArithmeticError, ValueError):  # Python did not come to it, or raises it itself
            return None


class ReadyEffects:
    """What is changed of tensors, by how a call finds them."""

    __slots__ = (
        "after", "argument_grads", "count_writes", "metas", "moves", "targets", "unwanting",
        "wanting", "write_counts", "written", "written_others",
    )  # fmt: skip
    count_writes: Callable[[tuple[Storage, ...], tuple[int, ...]], None]

    def __init__(self, effects: Effects, retained: list[int]) -> None:
        written = [s for s, _ in effects.writes]
        states = [s for s in written if isinstance(s, State)]
        self.targets = (
            [s.own_storage.buffer for s in states] if len(states) == len(written) else None
        )
        counted = list(zip(written, effects.write_counts, strict=True))
        self.written = tuple([s.own_storage for s, _ in counted if isinstance(s, State)])
        self.write_counts = tuple([n for s, n in counted if isinstance(s, State)])
        self.written_others = [(s, n) for s, n in counted if not isinstance(s, State)]
        self.count_writes = HOOKS.objects[0] if HOOKS.objects else count_writes
        self.wanting = [ref for ref, flag in effects.flags if flag]
        self.unwanting = [ref for ref, flag in effects.flags if not flag]
        self.moves = effects.moves if effects.moves.any else None
        self.metas = [  # a tensor keeps the one it has
            (meta_of(ref.tensor), i)
            for ref, i in effects.grads
            if ref.position is None and ref.tensor is not None
        ]
        self.argument_grads = [
            (ref.position, i) for ref, i in effects.grads if ref.position is not None
        ]
        # Whether anything is done once the results are there.
        self.after = bool(
            effects.grads or effects.result_grads or retained or self.unwanting or self.moves
        )


class ReadyResults:
    """How results are made, the most common ones by a shortcut."""

    __slots__ = (
        "for_inference", "inner_targets", "layouts", "refusals", "root_outputs",
        "roots_are_results", "shortcuts", "single", "special", "wrap",
    )  # fmt: skip
    wrap: Callable[[list[Any], tuple[int, ...]], list[Tensor]]

    def __init__(
        self, results: CallResults, effects: Effects, derivative: Derivative | None
    ) -> None:
        self.layouts = [(r.output, r.strides) for r in results.roots if r.strides is not None]
        self.root_outputs = tuple([root.output for root in results.roots])
        self.wrap = HOOKS.objects[1] if HOOKS.objects else wrap_places
        self.special = bool(effects.places) or derivative is not None
        late = {i for step in results.late for i in step}
        self.shortcuts = [
            LATE if i in late
            else r.root if type(r) is Made and r.itself and not r.leaf
            else -1
            for i, r in enumerate(results.recipes)
        ]  # fmt: skip
        self.inner_targets = [
            (k, t.result)
            for k, t in enumerate(() if derivative is None else derivative.targets)
            if t.result is not None
        ]
        self.for_inference = [k for k, root in enumerate(results.roots) if root.inference]
        changed = effects.rebound or effects.detached or effects.joined
        self.roots_are_results = self.shortcuts == list(range(len(results.roots))) and not (
            changed or results.kinds or self.for_inference
        )
        self.refusals = _refusals(results, effects, derivative)
        self.single = results.leaves[0] if results.structure.kind is None else None


def _refusals(
    results: CallResults, effects: Effects, derivative: Derivative | None
) -> list[tuple[int, ErrorNode]] | None:
    """Nodes for roots whose part of the tape was used up inside; None if it was not.

    A second backward is refused as eager execution refuses it, and the result prints alike.
    """
    if derivative is None or effects.places or len(derivative.refused) < len(derivative.seeds):
        return None
    return [
        (i, refusal(derivative.refused[root.seed]))
        for i, root in enumerate(results.roots)
        if root.seed is not None
    ]


def refusal(refused: tuple[str, str]) -> ErrorNode:
    """What is in the place of a node that was used up inside."""
    message, name = refused
    return ErrorNode(message, (), name)


MOST_LASTING = 256 << 20  # bytes of the inputs of which something may be kept, all together


def lasting_inputs(sources: Sequence[Source], effects: Effects) -> frozenset[int]:
    """The inputs that are state which the program does not write, unless they are too large.

    What is made of weights takes about as much memory as they do, or twice that.
    """
    written = {id(s.own_storage.buffer) for s, _ in effects.writes if isinstance(s, State)}
    found = {
        k: source.own_storage.buffer
        for k, source in enumerate(sources)
        if isinstance(source, State) and id(source.own_storage.buffer) not in written
    }
    if any(not isinstance(s, State) for s, _ in effects.writes):
        return frozenset()  # a write to an argument: it may be one of them
    nbytes = sum(int(getattr(buffer, "nbytes", 0)) for buffer in found.values())
    return frozenset(found) if nbytes <= MOST_LASTING else frozenset()


def overlaps_of(sources: Sequence[Source], effects: Effects) -> Overlaps | None:
    """What calls have to look at before they write (Note [overlaps])."""
    if not effects.writes:
        return None
    changed = {id(source) for source, _ in effects.writes}
    given = {
        k: id(source) in changed
        for k, source in enumerate(sources)
        if isinstance(source, (CallArgument, GradOf))
    }
    states = [s.own_storage.buffer for s in sources if isinstance(s, State)]
    written = [s.own_storage.buffer for s, _ in effects.writes if isinstance(s, State)]
    return Overlaps(states, written, given)


def _outcome(outcome: Any) -> Any:
    """The outcome of a test for comparison: of a float, its key."""
    return number_key(outcome) if isinstance(outcome, (float, complex)) else outcome


def _keyed(test: HostScalar, outcome: Any) -> HostScalar:
    """A test that gives what `_outcome` compares."""
    floats = isinstance(outcome, (float, complex))
    return HostScalar.computed(number_key, test) if floats else test
