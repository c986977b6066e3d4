"""On which calls a program stands: what its recording found out, looked at before each call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from adjoint.engine.capture.program.numbers import NumberSlot
from adjoint.engine.capture.program.outputs import Outputs
from adjoint.engine.capture.program.recipes import OutsideTensor
from adjoint.engine.capture.program.sharing import alias_pattern, base_of, bases, grad_pattern
from adjoint.engine.capture.python.guards.guards import Guards
from adjoint.engine.capture.python.plain import same
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.graph.record.trace import Trace
from adjoint.engine.tensor.storage import Storage
from adjoint.engine.tensor.tensor import Tensor

GradLook = tuple[Any, tuple[int, ...]]  # spec and strides


@dataclass(frozen=True, slots=True)
class Sharing:
    """What arguments have in common with each other and with what is reached otherwise."""

    states: list[Storage]  # memory that the function reaches by itself
    pattern: tuple[Any, ...] = ()  # see `alias_pattern`
    grad_pattern: tuple[Any, ...] = ()
    pinned: tuple[tuple[int, Tensor], ...] = ()  # arguments reached otherwise too
    # Of arguments that are put on the tape, whether and of what they are views.
    bases: tuple[tuple[int, Tensor | None], ...] = ()
    apart: frozenset[int] = frozenset()  # tensors it reaches that are no arguments, by id


@dataclass(frozen=True, slots=True)
class Conditions:
    """What has to be as it was, and what each call reads anew of the host."""

    guards: Guards  # what Python read
    tests: list[tuple[Callable[[], bool], str]]  # with the reason for each
    host_tests: list[tuple[HostScalar, Any]]  # tests of host numbers, and how they came out
    counters: list[list[Tensor]]  # step counts read as one
    # None, or what the gradient that was there looks like.
    grads_seen: list[tuple[OutsideTensor, GradLook | None]]
    # What the function asked tensors, and the answers.
    looks: list[tuple[OutsideTensor, Callable[[Any], Any], Any]]
    numbers: list[NumberSlot]  # arguments and numbers of arrays that are read at each call
    sharing: Sharing

    @property
    def particular(self) -> bool:
        """Whether there is anything that few functions look at."""
        sharing = self.sharing
        asked = sharing.pinned or sharing.bases or self.looks or self.numbers
        return bool(asked or self.grads_seen or self.tests)

    def particulars_hold(self, leaves: Sequence[Any]) -> bool:
        """Whether what few functions look at is as it was; numbers of the call are put in place."""
        for position, tensor in self.sharing.pinned:
            if leaves[position] is not tensor:
                return False
        for position, base in self.sharing.bases:
            if base_of(leaves[position]) is not base:
                return False
        for ref, read, answer in self.looks:
            if not same(read(ref.of(leaves)), answer):
                return False
        for slot in self.numbers:
            slot.value = leaves[slot.place]
        if self.grads_seen and not self._grads_hold(leaves):
            return False
        return not self.tests or self.tests_hold()

    def tests_hold(self) -> bool:
        """Whether the tests come out as they did."""
        return all(holds() for holds, _ in self.tests)

    def _grads_hold(self, leaves: Sequence[Any]) -> bool:
        """Whether gradients that were looked for are there, or not, as they were."""
        there = []
        for ref, expected in self.grads_seen:
            meta = ref.of(leaves)._grad_meta
            grad = None if meta is None else meta.grad
            if grad is None or expected is None:
                if grad is not expected:
                    return False
                continue
            if (grad._spec, grad.stride()) != expected:
                return False
            there.append(grad)
        sharing = self.sharing
        return not there or grad_pattern(leaves, sharing.states, there) == sharing.grad_pattern


def conditions_of(trace: Trace, outputs: Outputs, states: list[Storage]) -> Conditions:
    """What a trace found out; the rest is known once it is undone (`completed`)."""
    return Conditions(
        guards=Guards(()),
        tests=trace.guards,
        host_tests=list(trace.host_guards.values()),
        counters=list(trace.counters.values()),
        grads_seen=[
            (outputs.ref(t), None if g is None else (g._spec, g.stride()))
            for t, g in trace.grads_seen.items()
        ],
        looks=[(outputs.ref(t), read, None) for t, read in trace.looks.values()],
        numbers=[],
        sharing=Sharing(states),
    )


def completed(
    conditions: Conditions,
    trace: Trace,
    leaves: Sequence[Any],
    *,
    guards: Guards,
    numbers: Sequence[NumberSlot],
    placed: Sequence[OutsideTensor],
    met: dict[int, Tensor],
) -> Conditions:
    """With what is known once tensors are as the call found them.

    Args:
        conditions: those of the trace.
        trace: the recording, undone.
        leaves: the arguments it was made for.
        guards: what Python read.
        numbers: where numbers of each call are put.
        placed: tensors that the function puts on the tape.
        met: tensors that it reached, by id.
    """
    states, positions = conditions.sharing.states, trace.positions
    grads = [grad for grad in trace.grads_seen.values() if grad is not None]
    return replace(
        conditions,
        guards=guards,
        numbers=list(numbers),
        looks=[(ref, read, read(ref.of(leaves))) for ref, read, _ in conditions.looks],
        sharing=Sharing(
            states,
            alias_pattern(leaves, states),
            grad_pattern(leaves, states, grads),
            tuple([(place, met[key]) for key, place in positions.items() if key in met]),
            tuple(bases(placed, leaves)),
            frozenset(met.keys() - positions.keys()),
        ),
    )
