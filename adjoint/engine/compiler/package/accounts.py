"""Accounts: what each entry of a program's table does, for profiles and pages about programs.

A program found on disk has forgotten its nodes. They are planned again when somebody asks, which
gives the same plan: planning depends on the task, the target and the options alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adjoint.engine.compiler.memory.footprint import AtSizes
from adjoint.engine.compiler.package.counts import (
    Shares,
    launch_flops,
    node_flops,
    nodes_of,
    shares_of_flops,
)
from adjoint.engine.compiler.package.draft import Draft
from adjoint.engine.compiler.schedule.steps import (
    EagerCall,
    Entry,
    Launch,
    entries_of,
    label_text,
    launches_of,
)
from adjoint.engine.core.origins import Where
from adjoint.engine.graph.ir import Node


@dataclass(frozen=True, slots=True)
class Account:
    """What an entry is: the operations in it, where they come from, what it costs."""

    step: str  # its step's number, as `explain` counts
    name: str
    kind: str  # "kernel", "template", "call", "test"
    function: str  # the name of its machine code
    operations: tuple[str, ...]
    places: tuple[Where, ...]  # each once, in the order of the operations
    reason: str  # why it is not part of the kernel before it
    read: int  # bytes
    written: int
    flops: int

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules it works for, each once."""
        return tuple(dict.fromkeys(w.module for w in self.places if w.module))


def accounts(draft: Draft, at_sizes: AtSizes) -> list[list[Account]]:
    """By segment, an account of every entry; a call of the eager table is a segment of its own."""
    numbers: dict[int, str] = {}
    calls = []
    for number, step in enumerate(draft.plan.steps, 1):
        numbers |= {id(entry): str(number) for entry in entries_of(step)}
        if isinstance(step, EagerCall):
            calls.append(_call(step, str(number), at_sizes))
    called = iter(calls)
    launches = [launch for step in draft.plan.steps for launch in launches_of(step)]
    shares = shares_of_flops(launches, at_sizes)
    return [
        [next(called)]
        if segment is None
        else [account(name, e, numbers[id(e)], at_sizes, shares) for name, _, e in segment]
        for segment in draft.segments
    ]


def _call(step: EagerCall, number: str, at_sizes: AtSizes) -> Account:
    return Account(
        number, label_text(step.label, at_sizes), "call", "", (step.node.record.name,),
        _places([step.node]), step.reason, _bytes(step.reads, at_sizes),
        _bytes(step.writes, at_sizes), node_flops(step.node, at_sizes),
    )  # fmt: skip


def account(
    function: str,
    entry: Entry,
    number: str,
    at_sizes: AtSizes,
    shares: Shares,
) -> Account:
    """What one entry does; of a template's node, its share of the operations."""
    if not isinstance(entry, Launch):
        return Account(number, "test", "test", "", (), (), "", 0, 0, 0)
    nodes, label = nodes_of(entry), label_text(entry.label, at_sizes)
    return Account(
        number,
        label,
        "kernel" if entry.form is not None else "template",
        function,
        tuple(node.record.name for node in nodes),
        _places(nodes),
        entry.reason,
        _bytes(entry.reads, at_sizes),
        _bytes(entry.writes, at_sizes),
        launch_flops(entry, shares, at_sizes),
    )


def _places(nodes: list[Node]) -> tuple[Where, ...]:
    return tuple(dict.fromkeys(node.where for node in nodes if node.where is not None))


def _bytes(touches: Any, at_sizes: AtSizes) -> int:
    return sum(at_sizes(t.high - t.low) * t.buffer.dtype.itemsize for t in touches)
