"""Recording once what is done to many tensors alike.

Note [repeats]
    An optimizer applies one rule to every parameter of a model, and a model's layers are alike, so
    backward applies the same rules to tensors of the same kind. Recording a rule costs far more
    than the nodes it leaves, and for tensors like earlier ones these are the same nodes on other
    values. So a rule runs once for each kind of tensors, and for others of the kind its nodes are
    added again with their values exchanged. This is right only for a rule that sees nothing of its
    tensors but their elements and specs, which no recording can tell: those who call this vouch
    for it, and do so for rules of the package only (those of records, of its optimizers, of
    clipping). Nor may the rule do anything else that a trace notes: where it does (draws, guards,
    gradients read, other tensors written), it runs every time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.ownership import is_own
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.ir import Node, Value, frozen
from adjoint.engine.tensor.tensor import Tensor, root_of

if TYPE_CHECKING:
    from adjoint.engine.graph.record.trace import Trace

Count = tuple[Any, int, int]  # of a counter: its value, how often it had been advanced, and is now


class Repeats:
    """What a rule has recorded so far, by kind of tensors; None where it must run every time."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.by_kind: dict[Any, Recorded | None] = {}

    def run(
        self,
        key: Any,
        tensors: Sequence[Tensor],
        rule: Callable[[], Any],
        *,
        elementwise: bool = False,
    ) -> Any:
        """Run the rule, or add again what it recorded for tensors like these.

        `key` is what else decides the recording. The rule may read and write the tensors and return
        tensors: these, ones it made, and views of either. One that is `elementwise` does the same
        to tensors of every shape (Note [any shape]).
        """
        trace = self.trace
        constants = trace.constants
        if (
            not _ordinary()
            or not all(map(_is_own_kind, {type(t) for t in tensors}))
            or (constants and any(t._storage.identity in constants for t in tensors))
        ):
            return rule()
        values = [trace.value_of(t) for t in tensors]
        specs = [t._spec for t in tensors]
        base = (frozen(key), *map(values.index, values))
        shape = _common_shape(specs) if elementwise else None
        recordings = self.by_kind
        try:
            if shape is not None:
                loose = (base, *[(bool(s.shape), s.dtype, s.device) for s in specs])
                recorded = recordings.get(loose)
                if recorded is not None and recorded.fits(trace, tensors):
                    return recorded.again(trace, tensors, values, shape)
            strict = (base, *specs, *[t.stride() for t in tensors])
            met = strict in recordings
        except TypeError:  # something in it has no hash
            return rule()
        if met:
            recorded = recordings[strict]
            if recorded is not None and recorded.fits(trace, tensors):
                return recorded.again(trace, tensors, values)
            return rule()
        attempt = _Attempt(trace, tensors, values)
        result = rule()
        recording = recordings[strict] = attempt.recorded(result)
        if shape is not None and recording is not None and recording.takes_any_shape(shape):
            recordings.setdefault(loose, recording)  # unless it is to be forgotten
        return result

    def forget(self) -> None:
        """Have the rule run for every kind met so far: it did something no trace notes."""
        self.by_kind = dict.fromkeys(self.by_kind)


def _is_own_kind(kind: type) -> bool:
    """Whether operations on tensors of a class are the package's."""
    return is_own(kind)


def _common_shape(specs: list[Spec]) -> tuple[int, ...] | None:
    """The one shape of all tensors that are more than a number; None where there is none."""
    shapes = {s.shape for s in specs if s.shape}
    if len(shapes) != 1:
        return None
    (shape,) = shapes
    return shape if all(n.__class__ is int for n in shape) else None


def _ordinary() -> bool:
    """Whether nobody but the trace looks at operations."""
    context = CONTEXT
    return not (
        context.grad_enabled
        or context.levels
        or context.autocast is not None
        or context.observers
        or context.saved_hooks
        or context.before_write is not None
    )


class _Attempt:
    """A trace before a rule runs, to tell afterwards what the rule did."""

    def __init__(self, trace: Trace, tensors: Sequence[Tensor], values: list[Value]) -> None:
        self.trace, self.tensors, self.values = trace, tensors, values
        self.versions = [t._storage.version for t in tensors]
        self.counts = [trace.counts.get(t, 0) for t in tensors]
        self.start = len(trace.graph.nodes)
        self.changes = len(trace.changed)
        self.noted = self.notes()

    def notes(self) -> list[Any]:
        """What else a trace notes; it must not grow."""
        trace = self.trace
        others = (trace.guards, trace.grads_seen, trace.journal, trace.constants, trace.edges)
        return [*map(len, others), dict(trace.draws)]

    def recorded(self, result: Any) -> Recorded | None:
        """What the rule recorded, if it can be recorded again."""
        trace = self.trace
        nodes = trace.graph.nodes[self.start :]
        writes = self.writes(set(nodes))
        if writes is None or self.notes() != self.noted:
            return None
        counts: dict[int, Count] = {}
        for i, tensor in enumerate(self.tensors):
            done = trace.counts.get(tensor, 0)
            if done != self.counts[i]:
                counts[i] = (tensor._array.item(), self.counts[i], done)
        recording = Recorded(nodes, self.values, writes, counts)
        try:
            recording.result = self.described(result, recording)
        except _Unrepeatable:
            return None
        return recording

    def writes(self, nodes: set[Node]) -> list[tuple[int, Value, int]] | None:
        """Which tensors have new values, and how often they were written; None if others have."""
        cells = self.trace.cells
        own = {t._storage.identity: i for i, t in enumerate(self.tensors)}
        written: dict[int, tuple[int, Value, int]] = {}
        for cell in self.trace.changed[self.changes :]:
            i = own.get(cell.storage.identity)
            if i is None:
                if cell.initial.node in nodes:
                    continue  # the rule's own
                return None
            if not all_own(self.trace, self.tensors, [i]):
                return None
            count = cell.storage.version - self.versions[i]
            written[i] = (i, cells[cell.storage.identity].value, count)
        return list(written.values())

    def described(self, result: Any, recording: Recorded) -> Any:
        """What the rule returned, in terms of its tensors and values."""
        if isinstance(result, (tuple, list)):
            return [self.described(x, recording) for x in result]
        if not is_tensor(result):
            return result
        for i, tensor in enumerate(self.tensors):
            if result is tensor:
                return _ReturnedView(i, ())
            chain, depth = result._chain, len(tensor._chain)
            part = result._storage is tensor._storage and len(chain) >= depth
            if part and all(map(is_, chain, tensor._chain)):  # as far as the shorter goes
                return _ReturnedView(i, chain[depth:])
        cell = self.trace.cells.get(result._storage.identity)
        root = result if result._base is None else root_of(result)
        if cell is None or cell.source is not None or root._storage is not result._storage:
            raise _Unrepeatable
        if root._chain or cell.value.node is None:
            raise _Unrepeatable
        identity = result._storage.identity
        known = [k for k, (seen, _, _) in enumerate(recording.roots) if seen == identity]
        if not known:
            recording.roots.append((identity, cell.value, root.stride()))
            known = [len(recording.roots) - 1]
        return _ReturnedView(-1 - known[0], result._chain)


def all_own(trace: Trace, tensors: Sequence[Tensor], places: Sequence[int]) -> bool:
    """Whether tensors at these places are all of their storages, and no others are on them."""
    storages = [t._storage.identity for t in tensors]
    return not any(
        storages.count(storages[i]) > 1 or trace._rest(tensors[i], trace.cell(tensors[i]))
        for i in places
    )


class _Unrepeatable(Exception):
    """A rule returned what cannot be told in terms of its operands."""


class _ReturnedView:
    """A returned tensor: a view (perhaps of nothing less) of tensor i, or of root -1 - i."""

    __slots__ = ("chain", "index")

    def __init__(self, index: int, chain: tuple[Any, ...]) -> None:
        self.index, self.chain = index, chain


class Recorded:
    """The nodes a rule left, and what became of its tensors."""

    def __init__(
        self,
        nodes: list[Node],
        given: list[Value],
        writes: list[tuple[int, Value, int]],
        counts: dict[int, Count],
    ) -> None:
        self.nodes, self.given = nodes, given
        self.writes, self.counts = writes, counts
        self.roots: list[tuple[int, Value, tuple[int, ...]]] = []  # of returned tensors it made
        self.result: Any = None
        self.specs: dict[Any, list[tuple[Spec, ...]]] = {}  # of the nodes' results, by shape

    def fits(self, trace: Trace, tensors: Sequence[Tensor]) -> bool:
        """Whether tensors that are written may be, and counters stand where they stood then.

        Where none is a view, tensors on one storage have one value, as those recorded had.
        """
        if any(t._chain for t in tensors) and not all_own(
            trace, tensors, [i for i, *_ in self.writes]
        ):
            return False
        return all(
            trace.counts.get(tensors[i], 0) == before and tensors[i]._array.item() == value
            for i, (value, before, _) in self.counts.items()
        )

    def takes_any_shape(self, shape: tuple[int, ...]) -> bool:
        """Whether the nodes are right for tensors of other shapes than this one.

        Note [any shape]
            A rule that promises to work element by element (an optimizer's, that of clipping) may
            be recorded for one parameter and repeated for all. The nodes are looked at as well:
            each must be elementwise, without parameters that could hold a shape, and meet nothing
            from outside but single numbers. Its result then has the shape of the tensors, or none.
        """
        own = set(self.given)
        for node in self.nodes:
            values = [x for x in node.inputs if x.__class__ is Value]
            if (
                node.record.family != "elementwise"
                or any(isinstance(p, (tuple, list, dict)) for p in node.params.values())
                or any(v.spec.shape and v not in own for v in values)
                or any(v.spec.shape not in ((), shape) for v in node.outputs)
            ):
                return False
            own.update(node.outputs)
        return not self.roots and _whole(self.result)

    def specs_for(self, shape: tuple[int, ...] | None) -> list[tuple[Spec, ...]]:
        """What the nodes' results look like for tensors of a shape; None: of the one recorded."""
        specs = self.specs.get(shape)
        if specs is None:
            specs = self.specs[shape] = [
                tuple(
                    [
                        v.spec
                        if shape is None or not v.spec.shape
                        else v.spec._replace(shape=shape)
                        for v in node.outputs
                    ]
                )
                for node in self.nodes
            ]
        return specs

    def again(
        self,
        trace: Trace,
        tensors: Sequence[Tensor],
        values: list[Value],
        shape: tuple[int, ...] | None = None,
    ) -> Any:
        """Add the nodes for other tensors, perhaps of a shape of their own; do what else it did."""
        new: dict[Any, Any] = dict(zip(self.given, values, strict=True))
        get = new.get
        trace.relocate()
        trace.graph.add_again(self.nodes, self.specs_for(shape), new)
        for i, value, count in self.writes:
            cell, storage = trace.cell(tensors[i]), tensors[i]._storage
            trace.versions.setdefault(storage, storage.version)
            storage.version += count
            cell.value = get(value, value)
            trace.changed.append(cell)
        for i, (_, before, after) in self.counts.items():
            for _ in range(before, after):
                trace.advance(tensors[i])
        roots = [trace.wrap(get(value, value), strides) for _, value, strides in self.roots]
        return _returned(self.result, tensors, roots)


def _whole(described: Any) -> bool:
    """Whether a result is made of the given tensors, not of views, and of no others."""
    if isinstance(described, list):
        return all(map(_whole, described))
    return not isinstance(described, _ReturnedView) or (
        described.index >= 0 and not described.chain
    )


def _returned(described: Any, tensors: Sequence[Tensor], roots: list[Tensor]) -> Any:
    """What the rule would have returned."""
    if isinstance(described, list):
        return [_returned(x, tensors, roots) for x in described]
    if not isinstance(described, _ReturnedView):
        return described
    index = described.index
    returned: Any = tensors[index] if index >= 0 else roots[-1 - index]
    for record, params in described.chain:
        returned = record(returned, **params)
    return returned
