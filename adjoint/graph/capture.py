"""capture: run a function once, keep its graph, and replay it for calls of the same signature."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

from adjoint.core.context import CONTEXT
from adjoint.core.record import is_tensor
from adjoint.core.tree import TreeDef, flatten, unflatten
from adjoint.graph.attributes import Attributes
from adjoint.graph.environment import Environment, Fingerprint, Numbers, plain
from adjoint.graph.execution import ExecutorFactory, interpreted
from adjoint.graph.program import Program, build
from adjoint.graph.trace import Realias, Trace


def describe_tensor(tensor: Any) -> tuple[Any, ...]:
    """What of an argument tensor a program depends on."""
    return (tensor._spec, tensor.stride(), tensor.requires_grad)


def share_counts(leaves: list[Any]) -> Counter[int]:
    """How many arguments each storage stands behind, by its identity."""
    return Counter(leaf._storage.identity for leaf in leaves if is_tensor(leaf))


def signature(leaves: list[Any], structure: TreeDef) -> tuple[Any, ...]:
    """The key under which a program is kept: structure, specs, aliasing, statics and modes."""
    parts: list[Any] = []
    counts = share_counts(leaves)
    groups: dict[int, int] = {}
    for leaf in leaves:
        if not is_tensor(leaf):
            try:
                hash(leaf)
            except TypeError as error:
                raise TypeError(
                    f"capture: an argument of type {type(leaf).__name__} cannot be hashed. Pass a "
                    "tensor, or a plain value that can serve as a static argument."
                ) from error
            parts.append((type(leaf), leaf))
            continue
        identity = leaf._storage.identity
        group = groups.setdefault(identity, len(groups))
        window: tuple[Any, ...] = ()
        if counts[identity] > 1:  # where in the storage matters only to those who share it
            window = (leaf.storage_offset(), tuple(leaf._storage.buffer.shape))
        parts.append((*describe_tensor(leaf), group, window))
    modes = (CONTEXT.grad_enabled, CONTEXT.inference, CONTEXT.autocast)
    return (structure, tuple(parts), modes)


def _opaque(leaves: list[Any]) -> list[Any]:
    """The arguments that are neither tensors nor plain values."""
    return [x for x in leaves if not is_tensor(x) and not plain(x)]


class Captured:
    """A function that is traced once per signature and replayed by an executor.

    Results are equal to the function's own, as are its effects: tensors written in place,
    gradients, random generators.

    >>> import adjoint as ad
    >>> from adjoint.graph import capture
    >>> twice = capture(lambda x: x * 2)
    >>> twice(ad.tensor([1.0, 2.0]))
    tensor([2., 4.])
    >>> print(twice.graph_text().split("\\n\\n\\n")[1])
    def graph(x0):
        # %x0: float32[2]
        v1 = ops.mul(x0, 2)  # float32[2]
        return (v1,)
    <BLANKLINE>
    """

    def __init__(self, fn: Callable[..., Any], factory: ExecutorFactory = interpreted) -> None:
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.factory = factory  # makes what runs a program: the reference interpreter, or better
        self.environment = Environment(fn)
        self.programs: dict[Any, list[Program]] = {}
        self.traces = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if CONTEXT.capture is not None or CONTEXT.levels:
            return self.fn(*args, **kwargs)  # part of an outer trace or transform
        leaves, structure = flatten((args, kwargs))
        key = signature(leaves, structure)
        seen = self.look(leaves)
        for program in self.programs.get(key, ()):
            if program.valid(leaves, seen):
                return program(leaves)
        program = self.trace(leaves, structure, seen)
        self.programs.setdefault(key, []).append(program)
        return program(leaves)

    def look(self, leaves: list[Any]) -> Fingerprint:
        """What the function can see now; an object passed as an argument is looked into too."""
        return self.environment.look(_opaque(leaves))

    def numbers(self, leaves: list[Any]) -> Numbers:
        """The host's numbers the function could change."""
        return Numbers(self.fn, _opaque(leaves))

    def trace(self, leaves: list[Any], structure: TreeDef, seen: Fingerprint) -> Program:
        """Record the function for these arguments, leaving every tensor as it was."""
        self.traces += 1
        counts = share_counts(leaves)
        how = {identity: "window" if n == 1 else "whole" for identity, n in counts.items()}
        reached = {storage.identity for storage in seen.storages()}
        how |= {identity: "state" for identity in counts if identity in reached}
        while True:
            trace = Trace()
            attributes = Attributes(self.environment.owners())
            try:
                for i, leaf in enumerate(leaves):
                    if is_tensor(leaf):
                        trace.argument(i, leaf, how[leaf._storage.identity])
                args, kwargs = unflatten(structure, leaves)
                before = self.numbers(leaves)
                with CONTEXT.having(capture=trace):
                    result = self.fn(*args, **kwargs)
                    before.check_unchanged(self.numbers(leaves))
                    program = build(trace, result, leaves, attributes, seen.tensors())
            except Realias as clash:
                how[clash.storage.identity] = "state"
                continue
            finally:
                attributes.undo(trace)
                trace.undo()
            # State the function made for itself counts; flags of tensors are as they were before.
            program.fingerprint = seen if attributes.replaced else self.look(leaves)
            program.prepare(leaves, self.factory)
            return program

    def capture_children(self) -> list[tuple[str, Any]]:
        """What a capture that reaches this one depends on: the function, not what is kept of it."""
        return [("fn", self.fn)]

    @property
    def latest(self) -> Program:
        """The program of the most recent trace."""
        return list(self.programs.values())[-1][-1]

    def graph_text(self) -> str:
        """The latest program's graph as Python."""
        return self.latest.text()


def capture(fn: Callable[..., Any], factory: ExecutorFactory = interpreted) -> Captured:
    """Wrap a function so that calls replay its recorded graph (see `Captured`)."""
    return Captured(fn, factory)
