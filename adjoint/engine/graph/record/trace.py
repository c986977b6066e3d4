"""Recording: what stands in `CONTEXT.capture` while a function is traced.

Note [capture]
    Existing tensors never hold symbolic values. The trace keeps a table from each Storage to its
    current SSA value: reading a storage from outside makes it an input, a write makes a new value,
    and windows are derived from the current one. Python-visible fields the function changes (.grad,
    requires_grad, places on the tape, version counters) are noted in a journal before the first
    change and put back when the trace ends, well or badly; what they came to is kept as effects,
    which a call of the captured program carries out.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from adjoint.engine.autodiff.tape.node import sequence_now
from adjoint.engine.core.errors import CaptureError, users_line
from adjoint.engine.core.operations.record import HOOKS, Record, is_tensor
from adjoint.engine.core.origins import Where, place_now
from adjoint.engine.core.promotion import check_whole_numbers, common_dtype
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state import forks
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.host import HostScalar, fits_a_word, may_outgrow
from adjoint.engine.graph.ir import DataflowGraph, Value
from adjoint.engine.graph.record.aliasing import Picked, Realias, Rebinds, Rebound
from adjoint.engine.graph.record.composites import record_composite, specs_of
from adjoint.engine.graph.record.repeats import Repeats
from adjoint.engine.graph.record.reshapes import Reshapes
from adjoint.engine.graph.record.settling import settled
from adjoint.engine.graph.record.sources import CallArgument, GradOf, Host, Source, State
from adjoint.engine.graph.record.streams import Streams
from adjoint.engine.ops.index.index import INDEX
from adjoint.engine.ops.shape.convert import CLONE
from adjoint.engine.ops.shape.views import VIEW_SCATTER, apply_chain
from adjoint.engine.tensor.storage import Storage, Window
from adjoint.engine.tensor.strides import result_strides
from adjoint.engine.tensor.tensor import (
    DTYPE_OF,
    Tensor,
    mark_view,
    meta_of,
    symbolic,
    symbolic_view,
)
from adjoint.engine.tensor.writing.mutation import leak_message

# A trace changes fields of tensors for its duration: one at a time, and nobody looks meanwhile.
TRACING = forks.reentrant(forks.LockOrder.TRACING)


class StorageCell:
    """A storage as the trace sees it: its current value, and where it came from."""

    __slots__ = ("initial", "picked", "skip", "source", "storage", "value", "window")

    def __init__(
        self, value: Value, source: Source | None, skip: tuple[Any, ...], storage: Storage
    ) -> None:
        self.value = value
        self.initial = value
        self.source = source  # None: made inside the trace
        self.skip = skip  # the chain of the tensor the value stands for
        self.storage = storage  # kept, so that its identity stays its own
        self.picked: Picked | None = None  # of what it is a view where nothing is recorded
        self.window: Window | None = None  # of what was made on it first, which shows all of it


class Trace(Streams):
    """One recording in progress."""

    observed = False  # whether it records what a function does, for calls that do it again
    closes = False  # whether operands from outside become inputs: graph.record.body
    keeps_strides = False  # whether operands lie in memory as they say, and not row by row
    runs_here = False  # whether it is for this process alone, with the devices that are there
    # How a recorded function puts something into a dict of the framework's that was there before.
    assign: Callable[[Any, Any, Any], None] | None = None
    has_assigned: Callable[[Any, Any], bool] | None = None  # whether it did, under a key
    # How a recorded function has an optimizer make a step that may be undone: the optimizer, its
    # step, and what says which tensors can be put back.
    take_step: Callable[[Any, Callable[[], Any], Callable[[], list[Tensor]]], Any] | None = None
    # A function of the user's, kept by the framework, as one whose reads and writes are observed.
    follow: Callable[[Any], Any] | None = None
    item: Callable[[Any, Any], Any] | None = None  # what such a dict holds: depended on

    def __init__(self, *, located: bool = False) -> None:
        super().__init__()
        self.graph = DataflowGraph()
        self.located = located  # whether nodes are told the user's line and module
        self.locate: Callable[[], Where | None] = place_now
        self.origins: dict[int, Where] = {}  # of nodes of the tape, by sequence: where they began
        self.pulled: Where | None = None  # during backward: that of the node whose rule runs
        self.start = sequence_now()  # nodes of the tape after this are the trace's own
        self.edges: dict[Any, Tensor] = {}  # places on the tape of arguments that are no leaves
        self.sources: list[Source] = []  # one per graph input
        self.arguments: dict[int, Tensor] = {}  # by id, with aliases the trace made of them
        self.positions: dict[int, int] = {}  # of arguments, by id
        self.aliases: dict[int, Tensor] = {}  # made in the trace of tensors that were there
        self.rebound: list[Rebound] = []  # tensors from outside that came to show other memory
        self.rebound_ids: set[int] = set()
        self.cells: dict[int, StorageCell] = {}  # by the identity of the storage
        self.guards: list[tuple[Callable[[], bool], str]] = []
        self.host_values: dict[Any, Value] = {}  # by the key of the host scalar
        self.host_guards: dict[Any, tuple[HostScalar, Any]] = {}  # test and outcome, by its key
        self.counters: dict[Any, list[Tensor]] = {}  # by count at the start and times advanced
        self.constants: dict[int, tuple[Value, Any]] = {}  # by identity: value made of an array
        self.picks: list[Picked] = []
        self.reshapes = Reshapes()
        self.views: dict[tuple[Value, int], tuple[Value, Any]] = {}
        self.journal: dict[Tensor, tuple[Any, ...]] = {}
        self.versions: dict[Storage, int] = {}
        # While the derivative is made: of values, the cells they were read as the content of.
        self.read_from: dict[Value, list[StorageCell]] | None = None
        self.changed: list[StorageCell] = []  # one for each write
        self.grads_seen: dict[Tensor, Tensor | None] = {}
        self.passed: dict[Any, Any] = {}  # nodes from outside in a backward, what they kept before
        self.grads_set: set[Tensor] = set()  # tensors that were given a gradient, or none
        self.grad_of: dict[Storage, Tensor] = {}
        # Of composites, by what decides them: composition, specs of results, whether many.
        self.compositions: dict[Any, tuple[Any, tuple[Spec, ...], bool]] = {}
        self.pulls: Repeats | None = Repeats(self)  # what backward's rules recorded
        # Told of each test of host numbers: it may refuse.
        self.before_host_guard: Callable[[HostScalar], None] | None = None
        self.counts: dict[Tensor, int] = {}  # counter -> how often it was advanced
        # What the function asked tensors from outside that signatures do not say.
        self.looks: dict[tuple[int, Any], tuple[Tensor, Callable[[Any], Any]]] = {}

    # -- reading ------------------------------------------------------------------------------

    def argument(self, position: int, tensor: Tensor, how: str) -> None:
        """Make an argument an input: its "window"; its "whole" storage, if arguments share it; or
        "state", if the function reaches that storage by another way too.
        """
        self.arguments[id(tensor)] = tensor
        self.positions.setdefault(id(tensor), position)
        if tensor.requires_grad and tensor._node is not None:
            self.edges.setdefault((tensor._node, tensor._nr), tensor)
        storage = tensor._storage
        if storage.identity in self.cells:
            return
        if how == "state":
            self._adopt(storage, State(storage), self._root_spec(tensor), ())
        elif how == "whole":
            self._adopt(storage, CallArgument(position, whole=True), self._root_spec(tensor), ())
        else:
            self._adopt(storage, CallArgument(position, whole=False), tensor._spec, tensor._chain)

    def stand_in(self, position: int, spec: Spec, *, requires_grad: bool) -> Tensor:
        """A tensor of the trace for an argument of which only the spec is known."""
        value = self.graph.add_input(spec)
        self.sources.append(CallArgument(position, whole=False))
        storage = Storage(None, trace=self)
        self.cells[storage.identity] = StorageCell(value, self.sources[-1], (), storage)
        tensor = symbolic(spec, storage)
        tensor._requires_grad = requires_grad
        self.arguments[id(tensor)] = tensor
        self.positions[id(tensor)] = position
        return tensor

    def derive(self, alias: Tensor, source: Tensor) -> None:
        """Note that one tensor was made in the trace as another window like `source`."""
        self.aliases[id(alias)] = alias
        if id(source) in self.arguments:
            self.arguments[id(alias)] = alias

    def _root_spec(self, tensor: Tensor) -> Spec:
        buffer = tensor._storage.buffer
        return Spec(tuple(buffer.shape), DTYPE_OF[buffer.dtype], tensor.device)

    def _adopt(
        self, storage: Storage, source: Source, spec: Spec, skip: tuple[Any, ...]
    ) -> StorageCell:
        value = self.graph.add_input(spec)
        self.sources.append(source)
        cell = self.cells[storage.identity] = StorageCell(value, source, skip, storage)
        return cell

    def cell(self, tensor: Tensor) -> StorageCell:
        """The cell of a tensor's storage, adopting a storage from outside."""
        storage = tensor._storage
        cell = self.cells.get(storage.identity)
        if cell is None:
            if storage.buffer is None or (storage.trace is not None and storage.trace is not self):
                raise RuntimeError(leak_message())
            holder = self.grad_of.get(storage)
            source: Source = State(storage)
            if holder is not None:
                source = GradOf(holder, self.positions.get(id(holder)))
            cell = self._adopt(storage, source, self._root_spec(tensor), ())
        elif cell.source.__class__ is CallArgument and self._from_outside(tensor):
            raise Realias(storage)
        if cell.picked is not None:
            self._pick_again(cell, cell.picked)
        if self.reshapes.pairs and storage.trace is not None:
            self.reshapes.check(tensor)
        return cell

    def _check_way(self, source: Tensor) -> None:
        """A view shows an argument's storage; not if it is taken of what was reached otherwise."""
        cell = self.cells.get(source._storage.identity)
        if (
            cell is not None
            and cell.source.__class__ is CallArgument
            and self._from_outside(source)
        ):
            raise Realias(source._storage)

    def _from_outside(self, tensor: Tensor) -> bool:
        """Whether a tensor existed before the trace and is none of the arguments."""
        return type(tensor._array) is not Window and id(tensor) not in self.arguments

    def _rest(self, tensor: Tensor, cell: StorageCell) -> tuple[Any, ...]:
        """The part of a tensor's chain beyond what the cell's value already shows."""
        skip = cell.skip
        if not skip:
            return tensor._chain
        if len(tensor._chain) < len(skip) or any(
            a is not b for a, b in zip(tensor._chain, skip, strict=False)
        ):
            raise Realias(tensor._storage)
        return tensor._chain[len(skip) :]

    def value_of(self, tensor: Tensor) -> Value:
        """The SSA value a tensor shows now."""
        cell = self.cell(tensor)
        value = cell.value
        if self.read_from is not None:
            self.read_from.setdefault(value, []).append(cell)
        rest = self._rest(tensor, cell) if cell.skip else tensor._chain
        for record, params in rest:
            key = (value, id(params))
            view = self.views.get(key)
            if view is None:
                spec = record.infer(value.spec, **params)
                (seen,) = self.graph.add_node(record, (value,), params, (spec,))
                view = self.views[key] = (seen, params)  # keeping params keeps its id
            value = view[0]
        return value

    def pick(self, out: Tensor, source: Tensor, index: Tensor, dim: int) -> None:
        """Note that `out`, recorded as a copy, is eagerly a view of `source` at an index."""
        cell = self.cells.get(out._storage.identity)
        if cell is not None and cell.source is None:
            position = self.wrap(self.value_here(index))  # what it is now, whoever writes to it
            cell.picked = Picked(out, source, position, dim, self.value_here(source))
            self.picks.append(cell.picked)

    def value_here(self, tensor: Tensor) -> Value:
        """The SSA value of a tensor that may be from around a body."""
        return self.value_of(tensor)

    def picked(self, tensor: Tensor) -> Picked | None:
        """What a tensor's storage stands for a view of, if it does."""
        cell = self.cells.get(tensor._storage.identity)
        return None if cell is None else cell.picked

    def _pick_again(self, cell: StorageCell, picked: Picked) -> None:
        """Bring a copy that stands for a view up to date with writes to what it was taken from."""
        now = self.value_here(picked.source)
        if now is picked.seen:
            return
        if picked.out.requires_grad or picked.source.requires_grad:
            raise CaptureError(
                f"compile: {users_line()}: a tensor was indexed by a 0-d tensor and then written "
                "to, and what the index gave is read again, which gradients cannot follow here. "
                "Index again after the write, or keep a clone() of what the index gave."
            )
        inputs = (now, self.value_of(picked.index))
        (cell.value,) = self.graph.add_node(
            INDEX, inputs, {"dims": (picked.dim,)}, (cell.value.spec,)
        )
        picked.seen = now

    def root_tensor(self, storage: Storage) -> Tensor:
        """A tensor of its own for the present value of a storage."""
        value = self.cells[storage.identity].value
        return self.wrap(value)

    def operand(self, x: Any) -> Any:
        """A node input for an operand."""
        if is_tensor(x):
            return self.value_of(x)
        if isinstance(x, HostScalar):
            if x.key not in self.host_values:
                number = x.get()
                if type(number) is complex:  # no program takes one
                    return x.pin()
                if type(number) is int and may_outgrow(x):
                    within = HostScalar.computed(fits_a_word, x)
                    self.guard_host(within, fits_a_word(number))
                    if not fits_a_word(number):
                        return x.pin()
                spec = Spec((), common_dtype((number,)))
                self.host_values[x.key] = self.graph.add_input(spec, host=True)
                self.sources.append(Host(x))
            return self.host_values[x.key]
        return x

    # -- recording ----------------------------------------------------------------------------

    def wrap(self, value: Value, strides: tuple[int, ...] | None = None) -> Tensor:
        """A new tensor of the trace for a value."""
        storage = Storage(None, trace=self)
        cell = self.cells[id(storage)] = StorageCell(value, None, (), storage)
        made = symbolic(value.spec, storage, strides)
        cell.window = made._array
        return made

    def record(self, record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Add a node for an operation; a view only makes a window."""
        if params:
            params = settled(params)
        inferred = record.infer(*specs_of(operands), **params)
        self.relocate()
        if record.is_view:
            source = operands[0]
            if source._storage.trace is None:
                self._check_way(source)
            out = symbolic_view(source, inferred, record, params)
            mark_view(out, source)
            return out
        many = not isinstance(inferred, Spec)
        out_specs = tuple(inferred) if many else (inferred,)
        inputs = tuple([self.operand(x) for x in operands])
        if int in map(type, inputs):
            promoted = inputs[record.promotes_from :]
            specs = [x.spec if isinstance(x, Value) else x for x in promoted]
            check_whole_numbers(record.promotion, specs)
        values = self.graph.add_node(record, inputs, params, out_specs)
        strides = result_strides(record, operands, params, out_specs[0].shape)
        outs = tuple([self.wrap(v, strides) for v in values])
        if params.get("strides", "same") == "same" and not record.lies_in_rows:
            self.reshapes.doubt(operands, outs)
        return outs if many else outs[0]

    def record_composite(self, record: Record, operands: tuple[Any, ...], params: Any) -> Any:
        """Add one node for a composite, with its composition as a subgraph."""
        return record_composite(self, record, operands, params)

    @staticmethod
    def apart() -> Trace:
        """Another recording, which knows nothing of this one."""
        return Trace()

    def constant(self, tensor: Tensor) -> Tensor:
        """A tensor made of Python's numbers inside the trace: made at each call, elements known.

        A copy is recorded, or writes to it would be writes to the array that was made once.
        """
        copy: Tensor = CLONE(tensor)
        cell = self.cells[copy._storage.identity]
        self.constants[copy._storage.identity] = cell.value, tensor._array
        made = self.cells.get(tensor._storage.identity)  # in a body it belongs to the trace around
        if made is not None and isinstance(made.source, State):
            made.source.made = True
        return copy

    def known(self, tensor: Tensor) -> Any:
        """The elements of a constant nobody has written to, else None."""
        identity = tensor._storage.identity
        value, array = self.constants.get(identity, (None, None))
        if value is None or self.cells[identity].value is not value:
            return None
        with CONTEXT.having(capture=None, grad_enabled=False):
            return apply_chain(HOOKS.array.wrap(array), tensor._chain)._array

    def origin(self, tensor: Tensor) -> str:
        """Where a tensor comes from, in an error message."""
        cell = self.cells.get(tensor._storage.identity)
        if tensor._chain and (cell is None or tensor._chain != cell.skip):
            seen = f"a view ({tensor._chain[-1][0].name}) of "
        else:
            seen = ""
        if cell is None or (cell.value.node is None and not isinstance(cell.source, CallArgument)):
            return f"{seen}a tensor from outside"
        node = cell.value.node
        return f"{seen}an argument" if node is None else f"{seen}the result of {node.record.name}"

    def repeats(self) -> Repeats | None:
        """Keeps what a rule records for one of many tensors alike; None where it cannot."""
        return Repeats(self)

    # -- writing ------------------------------------------------------------------------------

    def write(self, target: Tensor, value: Tensor) -> None:
        """Make `value` what `target` shows; the version counter is the caller's to advance."""
        new = self.value_of(value)
        cell = self.cell(target)
        rest = self._rest(target, cell)
        self.versions.setdefault(target._storage, target._storage.version)
        if rest:
            (new,) = self.graph.add_node(
                VIEW_SCATTER, (cell.value, new), {"chain": rest}, (cell.value.spec,)
            )
        cell.value = new
        self.changed.append(cell)
        if self.picks:
            self._count_picks(target._storage)
        if self.reshapes.pairs and target._storage.trace is not None:
            self.reshapes.written(target)

    def _count_picks(self, written: Storage) -> None:
        """A write to what copies stand for views of is one to them: gradients must know."""
        written_too = {written}
        for picked in self.picks:
            storage = picked.out._storage
            if picked.source._storage in written_too and storage not in written_too:
                written_too.add(storage)
                storage.version += 1

    def relocate(self) -> None:
        """Note for the nodes to come which line and module they are of."""
        if self.located:
            self.graph.where = self.pulled or self.locate()

    def attached(self, sequence: int) -> None:
        """A node of the tape was made for the operation that was recorded last."""
        where = self.graph.where
        if where is not None:
            self.origins[sequence] = where._replace(backward=True)

    def touch(self, tensor: Tensor) -> None:
        """Note the fields of a tensor before the first change to them."""
        if tensor not in self.journal:
            grad = None if tensor._grad_meta is None else tensor._grad_meta.grad
            self.journal[tensor] = (
                tensor._node,
                tensor._nr,
                tensor._requires_grad,
                tensor._base,
                grad,
                (tensor._array, tensor._storage, tensor._chain),
            )

    def was_there(self, tensor: Tensor) -> bool:
        """Whether a tensor existed before the trace; arguments that are stand-ins did not."""
        if id(tensor) in self.rebound_ids:
            return True
        return type(tensor._array) is not Window and id(tensor) not in self.aliases

    def rebinds(self, tensor: Tensor, shown: Tensor, how: str) -> None:
        """Note that a tensor is about to show the memory that `shown` does.

        One from outside has to be an argument: what it shows is another memory at each call.
        """
        position = self.positions.get(id(tensor))
        if position is None and not self.was_there(tensor):
            if type(shown._array) is not Window:  # it looks like one from outside from now on
                self.aliases[id(tensor)] = tensor
            return
        if not self.observed or self.closes or (how == "window" and tensor.requires_grad):
            raise CaptureError(
                f"compile: {users_line()}: an in-place change of the shape of a tensor from "
                "outside the function cannot be recorded where the tensor is on the tape, or in "
                "the body of a loop or branch. Use the form without '_' and go on with its "
                "result, or make the change before calling the function."
            )
        if position is None:
            raise Rebinds(tensor)
        self.touch(tensor)
        self.rebound_ids.add(id(tensor))
        self.rebound.append(Rebound(tensor, shown, how))

    def passes(self, node: Any) -> None:
        """Note that a backward is about to go through a node, if that is from outside."""
        if node.sequence <= self.start and node not in self.passed:
            self.passed[node] = node.kept()

    def touch_grad(self, tensor: Tensor) -> None:
        """Note that a tensor is given a gradient, or none: a call does so whatever it had."""
        self.touch(tensor)
        self.grads_set.add(tensor)

    def read_grad(self, tensor: Tensor) -> Tensor | None:
        """A tensor's gradient; whether an outside tensor has one becomes a guard."""
        grad = None if tensor._grad_meta is None else tensor._grad_meta.grad
        known = tensor in self.grads_set or tensor in self.grads_seen
        inside = tensor._storage.trace is self and id(tensor) not in self.rebound_ids
        if known or inside:
            return grad
        self.grads_seen[tensor] = grad
        if grad is not None:
            self.grad_of[grad._storage] = tensor
        return grad

    def look(self, tensor: Tensor, read: Callable[[Any], Any]) -> None:
        """Have the recording depend on what `read` says of a tensor, if it is from outside."""
        if id(tensor) in self.positions or self.was_there(tensor):
            self.looks.setdefault((id(tensor), read), (tensor, read))

    def look_at_memory(self, tensor: Tensor, read: Callable[[Any], Any]) -> None:
        """The same of a tensor and of every argument on its memory: it may be a view of one."""
        identity = tensor._storage.identity
        for other in (tensor, *self.arguments.values()):
            if other._storage.identity == identity:
                self.look(other, read)

    def shown_of_memory(self, tensor: Tensor) -> tuple[int, int] | None:
        """From where to where arguments show the memory of a tensor; None: it is no argument's."""
        identity = tensor._storage.identity
        alike = [t for t in self.arguments.values() if t._storage.identity == identity]
        if not alike:
            return None
        begins = [t.storage_offset() for t in alike]
        ends = [
            begin + sum((n - 1) * step for n, step in zip(t.shape, t.stride(), strict=True)) + 1
            for begin, t in zip(begins, alike, strict=True)
        ]
        return min(begins), max(ends)

    # -- the host -----------------------------------------------------------------------------

    def guard(self, holds: Callable[[], bool], reason: str) -> None:
        """The recording is valid only while `holds()` is true."""
        self.guards.append((holds, reason))

    def guard_host(self, test: HostScalar, outcome: Any) -> None:
        """The recording is valid only while a test of host numbers comes out the same."""
        if self.before_host_guard is not None:
            self.before_host_guard(test)
        self.host_guards[test.key] = test, outcome

    def count(self, counter: Tensor) -> HostScalar:
        """Note that a counter outside advances by one; its value then, read at each call."""
        first = self.advance(counter)
        number = HostScalar(lambda: first._array.item(), "count", key=("count", id(first)))
        return HostScalar.computed(operator.add, number, self.counts[counter])

    def advance(self, counter: Tensor) -> Tensor:
        """Note that a counter outside advances by one; the counter that is read for it.

        Counters that stand alike are read as one, guarded: parameters of one optimizer then share
        every number made from them.
        """
        done = self.counts[counter] = self.counts.get(counter, 0) + 1
        alike = self.counters.setdefault((counter._array.item(), done, counter._spec), [])
        alike.append(counter)
        return alike[0]

    # -- the end ------------------------------------------------------------------------------

    def undo(self) -> None:
        """Put back every Python-visible field the function changed."""
        for passed, fields in self.passed.items():
            passed.put(fields)
        self.passed = {}
        for storage, version in self.versions.items():
            storage.version = version
        for tensor, (node, nr, requires_grad, base, grad, window) in self.journal.items():
            tensor._node, tensor._nr = node, nr
            tensor._requires_grad, tensor._base = requires_grad, base
            tensor._array, tensor._storage, tensor._chain = window
            if tensor._grad_meta is not None or grad is not None:
                meta_of(tensor).grad = grad
