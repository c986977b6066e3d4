"""Recording a graph that is made by hand.

Note [hand-made graphs]
    While a `Graph` is open, operations on its tensors add nodes instead of computing. A placeholder
    is an input to be fed; every other tensor the operations meet (a variable, a module's parameter)
    is state, read anew at each run. State does not change while a graph is built: what a run is to
    write is stated as an update, and reading state means its value at the start of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from adjoint.engine.core.errors import CaptureError
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.graph.ir import Value
from adjoint.engine.graph.record.sources import Host, Source, State
from adjoint.engine.graph.record.trace import StorageCell, Trace
from adjoint.engine.tensor.storage import Storage
from adjoint.engine.tensor.tensor import Tensor, symbolic


class Fed(Source):
    """A placeholder: every run that needs it is given a tensor for it."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def storage(self, args: Sequence[Any]) -> Storage:
        raise TypeError(f"placeholder {self.name!r} has no storage of its own")


class Update:
    """What a run writes if it is asked to: new values for tensors outside the graph."""

    __slots__ = ("name", "writes")

    def __init__(self, name: str) -> None:
        self.name = name
        self.writes: list[tuple[Source, Value]] = []

    def __repr__(self) -> str:
        return f"<update {self.name!r} of {len(self.writes)} tensors>"


class GeneratorPosition:
    """A place in a generator's stream, from the place it has at the start of the run."""

    __slots__ = ("generator", "numbers", "start")

    def __init__(self, generator: Any, start: int, numbers: tuple[HostScalar, HostScalar]) -> None:
        self.generator = generator
        self.start = start
        self.numbers = numbers  # seed and offset, as the graph's inputs have them


class Building(Trace):
    """The recording behind a graph that is made by hand."""

    def __init__(self, owner: Any) -> None:
        super().__init__()
        self.owner = owner  # the Graph
        self.updating = False
        self.drawn: list[GeneratorPosition] = []

    def add_input(self, spec: Spec, source: Source, *, host: bool = False) -> Value:
        """A new input of the graph."""
        self.sources.append(source)
        return self.graph.add_input(spec, host=host)

    def present(self, value: Value) -> Tensor:
        """A tensor that stands for a value."""
        storage = Storage(None, trace=self)
        known = dict(zip(self.graph.inputs, self.sources, strict=True))
        self.cells[storage.identity] = StorageCell(value, known.get(value), (), storage)
        return symbolic(value.spec, storage)

    def operand_for(self, value: Value) -> Any:
        """What an operation is given for an input of the graph: a tensor or a host scalar."""
        source = self.sources[self.graph.inputs.index(value)]
        if isinstance(source, Host):
            return source.scalar
        if not isinstance(source, State):
            return self.present(value)
        tensor = HOOKS.array.wrap(source.own_storage.buffer)
        tensor._storage = source.own_storage
        return tensor

    def write(self, target: Tensor, value: Tensor) -> None:
        """Refuse what no fetch could ask for."""
        cell = self.cell(target)
        if isinstance(cell.source, Fed):
            raise RuntimeError(
                f"Graph: placeholder {cell.source.name!r} is written in place. Compute a new "
                "tensor from it instead."
            )
        if cell.source is not None and not self.updating:
            raise RuntimeError(
                f"Graph: a tensor from outside ({cell.value.spec}) is written in place while the "
                "graph is built. State it as an update, which a run can ask for: "
                "graph.assign(tensor, value), or `with graph.update() as train:`."
            )
        super().write(target, value)

    def random(self, generator: Any, count: int) -> tuple[HostScalar, HostScalar]:
        """Seed and offset of a draw; each run draws anew."""
        start = self.draws.get(generator, 0)
        numbers = super().random(generator, count)
        self.drawn.append(GeneratorPosition(generator, start, numbers))
        return numbers

    def made(self, generator: Any, seed: Any, offset: Any = 0) -> None:
        """A generator that was made while the graph is built is one from outside."""

    def cloned(self, generator: Any, other: Any) -> None:
        """A clone is where its mark says."""

    def restart(self, generator: Any, seed: Any, offset: Any = 0) -> None:
        """Refuse: a run would do it, or not, by what it fetches."""
        raise CaptureError(
            "Graph: a generator is seeded or moved while the graph is built, which a run would do "
            "depending on what it fetches. Seed it before building or before running the graph."
        )

    def restart_all(self, generators: Any, seed: Any) -> None:
        """Refuse, as for one of them."""
        self.restart(None, seed)

    def inputs_of(self, draw: GeneratorPosition) -> set[Value]:
        """The inputs that place a draw."""
        places = [self.host_values.get(number.key) for number in draw.numbers]
        return {value for value in places if value is not None}

    @contextmanager
    def update(self, update: Update) -> Iterator[None]:
        """Collect what is written to tensors from outside; afterwards they are as before."""
        if self.updating:
            raise RuntimeError("Graph.update: updates do not nest. End the first before the next.")
        before = {identity: cell.value for identity, cell in self.cells.items()}
        journal, versions = self.journal, self.versions
        counts, counters = dict(self.counts), {k: list(v) for k, v in self.counters.items()}
        self.journal, self.versions, self.updating = {}, {}, True
        try:
            yield
            for cell in self._changed(before):
                update.writes.append((cell.source, cell.value))  # type: ignore[arg-type]
        finally:
            for cell in self._changed(before):
                cell.value = before.get(cell.storage.identity, cell.initial)
            self.undo()
            self.journal, self.versions, self.updating = (
                {**self.journal, **journal},
                versions,
                False,
            )
            self.counts, self.counters = counts, counters

    def _changed(self, before: dict[int, Value]) -> list[StorageCell]:
        return [
            cell
            for identity, cell in self.cells.items()
            if cell.source is not None and cell.value is not before.get(identity, cell.initial)
        ]

    def undo(self) -> None:
        """Put back the fields of tensors from outside; the graph's own keep theirs."""
        own = {t: fields for t, fields in self.journal.items() if t._storage.trace is self}
        self.journal = {t: fields for t, fields in self.journal.items() if t not in own}
        super().undo()
        self.journal, self.versions = own, {}
