"""What of a program's call is known beforehand."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from adjoint.engine.autodiff.tape.node import ErrorNode
from adjoint.engine.capture.program.hosts import checked_reader, reader
from adjoint.engine.capture.program.overlaps import Overlaps
from adjoint.engine.capture.program.recipes import Made
from adjoint.engine.core.identity.number_key import number_key
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.graph.execution import Executable
from adjoint.engine.graph.record.sources import Argument, GradOf, Host, Source, State
from adjoint.engine.tensor.storage import Storage, count_writes
from adjoint.engine.tensor.tensor import Tensor, meta_of, wrap_places

if TYPE_CHECKING:
    from adjoint.engine.capture.program.program import Program

UNREAD: list[Any] = []  # in the place of numbers that are read later
LATE = -2  # in the place of a root: made after tensors came to show other memory


def refusal(refused: tuple[str, str]) -> ErrorNode:
    """What is in the place of a node that was used up inside."""
    message, name = refused
    return ErrorNode(message, (), name)


def _outcome(outcome: Any) -> Any:
    """The outcome of a test for comparison: of a float, its key."""
    return number_key(outcome) if isinstance(outcome, (float, complex)) else outcome


def _keyed(test: HostScalar, outcome: Any) -> HostScalar:
    """A test that gives what `_outcome` compares."""
    floats = isinstance(outcome, (float, complex))
    return HostScalar.computed(number_key, test) if floats else test


class PreparedCall:
    """What of a program's call is known beforehand."""

    run: Executable
    overlaps: Overlaps | None = None
    count_writes: Callable[[tuple[Storage, ...], tuple[int, ...]], None]
    wrap: Callable[[list[Any], tuple[int, ...]], list[Tensor]]

    def __init__(self, program: Program) -> None:
        sources = program.sources
        self.fixed = [s.held.buffer for s in sources if isinstance(s, State)]
        arguments = [s for s in sources if isinstance(s, Argument)]
        simple = not any(s.whole for s in arguments)
        self.windows = [s.position for s in arguments] if simple else []
        self.others: list[Source] = [] if simple else list(arguments)
        self.others += [s for s in sources if isinstance(s, GradOf)]
        hosts = [s.scalar for s in sources if isinstance(s, Host)]
        self.host_count = len(hosts)
        self.read_hosts = reader(hosts)
        tests = [
            (_keyed(test, outcome), _outcome(outcome)) for test, outcome in program.host_guards
        ]
        # Counters that were alike in the trace, and must be so in every call.
        counters = [[c._array.item for c in g] for g in program.counters if len(g) > 1]
        self.test_hosts = checked_reader(tests, counters, [])
        # Numbers made from draws are known once the call has drawn.
        python = program.python
        self.early = python is None or not (python.replay.draws or python.tested)
        self.recall_hosts = (
            checked_reader(tests, counters, hosts) if self.early else self.test_hosts
        )
        written = [s for s, _ in program.writes]
        states = [s for s in written if isinstance(s, State)]
        self.targets = [s.held.buffer for s in states] if len(states) == len(written) else None
        counted = list(zip(written, program.write_counts, strict=True))
        self.written = tuple([s.held for s, _ in counted if isinstance(s, State)])
        self.write_counts = tuple([n for s, n in counted if isinstance(s, State)])
        self.count_writes, self.wrap = HOOKS.objects or (count_writes, wrap_places)
        self.written_others = [(s, n) for s, n in counted if not isinstance(s, State)]
        self.layouts = [(r.output, r.strides) for r in program.roots if r.strides is not None]
        self.root_outputs = tuple([root.output for root in program.roots])
        self.special = bool(program.places) or program.derivative is not None
        late = {i for step in program.late for i in step}
        self.shortcuts = [
            LATE if i in late
            else r.root if type(r) is Made and r.itself and not r.leaf
            else -1
            for i, r in enumerate(program.recipes)
        ]  # fmt: skip
        derivative = program.derivative
        self.inner_targets = [
            (k, t.result)
            for k, t in enumerate(() if derivative is None else derivative.targets)
            if t.result is not None
        ]
        self.effects = bool(program.flags or program.moves.any)
        self.for_inference = [k for k, root in enumerate(program.roots) if root.inference]
        self.wanting = [ref for ref, flag in program.flags if flag]
        self.roots_are_results = self.shortcuts == list(range(len(program.roots))) and not (
            program.rebound
            or program.detached
            or program.kinds
            or program.joined
            or self.for_inference
        )
        self.metas = [  # a tensor keeps the one it has
            (meta_of(ref.tensor), i)
            for ref, i in program.grads
            if ref.position is None and ref.tensor is not None
        ]
        self.argument_grads = [
            (ref.position, i) for ref, i in program.grads if ref.position is not None
        ]
        self.refusals = _refusals(program)
        self.single = program.structure.kind is None

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


def _refusals(program: Program) -> list[tuple[int, ErrorNode]] | None:
    """Nodes for roots whose part of the tape was used up inside; None if it was not.

    A second backward is refused as eager execution refuses it, and the result prints alike.
    """
    derivative = program.derivative
    if derivative is None or program.places or len(derivative.refused) < len(derivative.seeds):
        return None
    return [
        (i, refusal(derivative.refused[root.seed]))
        for i, root in enumerate(program.roots)
        if root.seed is not None
    ]
