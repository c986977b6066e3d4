"""Recording a function inside a recording: a branch of `cond`, the body of `scan`.

Note [closure conversion]
    A body is recorded by a trace of its own. Whatever it reaches from outside (a parameter, a value
    of the outer recording, a tensor of a transform around it, a host number) is exchanged at the
    door of every operation for a stand-in, an input of the body's graph, and becomes an operand of
    the node that holds the graph. Outside, that node is one operation like any other, so tape,
    levels and further bodies around it see its operands as they are. A body therefore never sees
    the transforms it is inside of: its graph is differentiated and batched as a whole.

    What a graph cannot say by itself is said by nodes: where gradients stop (`STOP`, for detach and
    no_grad) and where they would need a custom function's own rule (`CUSTOM`, which refuses).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from adjoint.engine.core.errors import CaptureError
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.core.promotion import common_dtype
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.core.tree import map_tree
from adjoint.engine.graph.ir import DataflowGraph, Value
from adjoint.engine.graph.record.trace import Trace
from adjoint.engine.ops.common.stop import CUSTOM, STOP
from adjoint.engine.tensor.storage import Storage
from adjoint.engine.tensor.tensor import Tensor, alias
from adjoint.engine.tensor.writing.mutation import leak_message


@dataclass(slots=True)
class LiftedInput:
    """Something from outside and the input of the body's graph that stands for it."""

    source: Any  # a tensor, or a HostScalar
    value: Value
    advance: int = 0  # of a host number: how much it grows with each iteration


class BodyTrace(Trace):
    """The recording of a body. `outer` is the trace around it; None for a graph made of graphs."""

    closes = True

    def __init__(self, outer: Trace | None, what: str) -> None:
        super().__init__(located=outer is not None and outer.located)
        self.outer = outer
        if outer is not None:
            self.locate, self.follow, self.item = outer.locate, outer.follow, outer.item
        self.pulls = None
        self.what = what
        self.around = CONTEXT.levels  # the transforms the body is inside of
        self.seals = outer is not None and CONTEXT.grad_enabled  # no_grad inside stops gradients
        self.lifted: dict[
            Any, LiftedInput
        ] = {}  # by id of a tensor, which is kept, or a number's key
        self.stand_ins: dict[int, Any] = {}  # by id of the tensor
        self.parameters: set[int] = set()  # the identities of the arguments' storages
        self.seeds: dict[Any, HostScalar] = {}
        # Random offsets: input, generator, place among the body's draws; the placeholder is kept.
        self.places: list[tuple[LiftedInput, Any, int, HostScalar]] = []

    # -- arguments and what is reached ---------------------------------------------------------

    def parameter(self, spec: Spec) -> Tensor:
        """A new argument."""
        tensor = self.wrap(self.graph.add_input(spec))
        self.parameters.add(tensor._storage.identity)
        return tensor

    def host(self, number: Any) -> HostScalar:
        """A new argument that is a number; `number` is one of its kind."""
        scalar = HostScalar(lambda: number)
        value = self.graph.add_input(Spec((), common_dtype((number,))), host=True)
        self.lifted[scalar.key] = LiftedInput(scalar, value)
        return scalar

    def run(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Call a function with this recording active and no transform around it."""
        with CONTEXT.having(capture=self, levels=(), saved_hooks=(), anomaly=False):
            return fn(*args)

    def passes(self, node: Any) -> None:
        """Note a node that is from outside for the trace around, too."""
        if self.outer is not None:
            self.outer.passes(node)

    def local(self, storage: Storage) -> bool:
        """Whether a storage belongs to the body."""
        if storage.level is not None:
            return storage.level in CONTEXT.levels
        return storage.trace is self

    def enter(self, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        """Operands with those from outside exchanged for stand-ins."""
        if all(not is_tensor(x) or self.local(x._storage) for x in operands):
            return operands
        return tuple([self.entered(x) if is_tensor(x) else x for x in operands])

    def entered(self, tensor: Tensor) -> Tensor:
        """A tensor as the body sees it."""
        if self.local(tensor._storage):
            return tensor
        stand_in = self.stand_ins.get(id(tensor))
        if stand_in is None:
            stand_in = self.stand_ins[id(tensor)] = self.lift(tensor)
        return stand_in

    def value_here(self, tensor: Tensor) -> Value:
        """The SSA value of a tensor, entered if it is from outside."""
        return self.value_of(self.entered(tensor))

    def lift(self, tensor: Tensor) -> Tensor:
        """A new input for a tensor from outside."""
        storage = tensor._storage
        outside = self.outer is not None or storage.buffer is not None  # else only constants
        if not outside or (storage.trace is not None and storage.trace not in self.ancestors()):
            raise RuntimeError(leak_message())
        stand_in = self.parameter(tensor._spec)
        self.lifted[id(tensor)] = LiftedInput(tensor, self.graph.inputs[-1])
        return stand_in

    def known(self, tensor: Tensor) -> Any:
        for trace in (self, *self.ancestors()):
            if tensor._storage.trace is trace:
                return Trace.known(trace, tensor)
        return None

    def origin(self, tensor: Tensor) -> str:
        identity = tensor._storage.identity
        if identity in self.parameters and not tensor._chain:
            return f"an argument of the body of {self.what}"
        if self.outer is not None and not self.local(tensor._storage):
            return self.outer.origin(tensor)
        return super().origin(tensor)

    def ancestors(self) -> Iterator[Trace]:
        """The recordings around this one."""
        trace = self.outer
        while trace is not None:
            yield trace
            trace = trace.outer if isinstance(trace, BodyTrace) else None

    def operand(self, x: Any) -> Any:
        """A node input for an operand; host numbers are lifted too."""
        if not isinstance(x, HostScalar):
            return super().operand(x)
        lifted_input = self.lifted.get(x.key)
        if lifted_input is None:
            if type(x.get()) is complex:  # no program takes one
                return x.pin()
            if self.outer is None:
                raise NotImplementedError(
                    f"{self.what}: a derivative computes with {x!r}, a number of the host, inside "
                    "a body. Make it a tensor before the loop or branch."
                )
            value = self.graph.add_input(Spec((), common_dtype((x.get(),))), host=True)
            lifted_input = self.lifted[x.key] = LiftedInput(x, value)
        return lifted_input.value

    def drop_inputs(self, count: int) -> dict[Value, Any]:
        """Take back all inputs but the first ones; what the others stood for."""
        gone = set(self.graph.inputs[count:])
        del self.graph.inputs[count:]
        dropped = {key: x for key, x in self.lifted.items() if x.value in gone}
        for key in dropped:
            del self.lifted[key]
            self.stand_ins.pop(key, None)
        return {x.value: x.source for x in dropped.values()}

    def finish(self, outputs: Sequence[Any]) -> DataflowGraph:
        """The graph, with the given tensors as its outputs."""
        self.graph.outputs = [self.value_of(self.entered(t)) for t in outputs]
        return self.graph

    def repeats(self) -> None:
        """None: operands from outside are exchanged one by one."""

    # -- where gradients stop ------------------------------------------------------------------

    def detach(self, tensor: Tensor) -> Tensor:
        """The tensor, constant; told to the graph."""
        tensor = self.entered(tensor)
        level = tensor._storage.level
        if level is not None:
            return level.detach(tensor)
        return STOP(tensor, tangents=False) if tensor.dtype.is_inexact else alias(tensor)

    def seal(self, record: Record, outs: Any) -> Any:
        """Results of an operation under no_grad, without gradients."""
        if not self.seals or CONTEXT.grad_enabled or record is STOP:
            return outs
        if record.is_view:
            return STOP(outs, tangents=True) if outs.dtype.is_inexact else outs
        for out in outs if isinstance(outs, tuple) else (outs,):
            if out.dtype.is_inexact:
                cell = self.cells[out._storage.identity]
                (cell.value,) = self.graph.add_node(
                    STOP, (cell.value,), {"tangents": True}, (cell.value.spec,)
                )
        return outs

    def custom(self, name: str, forward: Callable[[], Any]) -> Any:
        """Results of a custom function, marked as such; its own no_grad is not the user's."""
        before, self.seals = self.seals, False
        try:
            out = forward()
        finally:
            self.seals = before
        if not before or not CONTEXT.grad_enabled:
            return out
        return map_tree(
            lambda t: CUSTOM(t, name=name) if is_tensor(t) and t.dtype.is_inexact else t, out
        )

    # -- effects -------------------------------------------------------------------------------

    def refuse(self, what: str, remedy: str) -> Any:
        raise CaptureError(f"{self.what}: {what} inside a captured body. {remedy}")

    def check_write(self, target: Tensor) -> None:
        """Refuse to write to arguments and to what is outside."""
        identity = target._storage.identity
        if not self.local(target._storage) or identity in self.parameters:
            self.refuse(
                f"an in-place write to {describe(target)}, which the body did not make,",
                "Work on a clone, and carry the new value or return it.",
            )

    def touch(self, tensor: Tensor) -> None:
        if not self.local(tensor._storage):
            self.refuse(
                f"a change to {describe(tensor)} (its gradient, flags or place on the tape), which "
                "the body did not make,",
                "Do it outside, with what the body returns.",
            )
        super().touch(tensor)

    def read_grad(self, tensor: Tensor) -> Tensor | None:
        if self.local(tensor._storage) or self.outer is None:
            return super().read_grad(tensor)
        return self.outer.read_grad(tensor)

    def guard(self, holds: Callable[[], bool], reason: str) -> None:
        if self.outer is not None:
            self.outer.guard(holds, reason)

    def guard_host(self, test: HostScalar, outcome: Any) -> None:
        if self.outer is None:
            raise NotImplementedError(
                f"{self.what}: a derivative depends on a test of {test.name}, a number of the "
                "host, inside a body. Make it a tensor before the loop or branch."
            )
        self.outer.guard_host(test, outcome)

    def count(self, counter: Tensor) -> HostScalar:
        return self.refuse("a counter was advanced", "Advance it outside.")

    def take(self, generator: Any, count: int) -> int:
        for level in self.around:
            if getattr(level, "randomness", "same") != "same":
                self.refuse(
                    f"a random draw within vmap with randomness={level.randomness!r}",  # type: ignore[attr-defined]
                    "Draw outside and pass the numbers in, or use randomness='same'.",
                )
        if self.outer is None:
            raise RuntimeError(f"{self.what}: a derivative rule drew random numbers")
        return super().take(generator, count)

    def restart(self, generator: Any, seed: Any, offset: Any = 0) -> None:
        self.refuse("a generator was seeded, made or moved", "Do it outside.")

    def appeared(self, generator: Any) -> None:
        if self.outer is not None:
            self.outer.appeared(generator)

    def cloned(self, generator: Any, other: Any) -> None:
        """A clone is where its mark says; drawing from it is refused as seeding is."""

    def restart_all(self, generators: Any, seed: Any) -> None:
        self.refuse("generators were seeded", "Seed them outside.")

    def seed(self, generator: Any) -> HostScalar:
        if generator not in self.seeds:
            self.seeds[generator] = self.outer.seed(generator)  # type: ignore[union-attr]
        return self.seeds[generator]

    def place(self, generator: Any, start: int) -> HostScalar:
        """An offset whose source is known only when the body's draws have been counted."""
        offset = HostScalar(lambda: generator.position()[1], "offset")
        value = self.graph.add_input(Spec((), common_dtype((1,))), host=True)
        lifted = self.lifted[offset.key] = LiftedInput(offset, value)
        self.places.append((lifted, generator, start, offset))
        return offset

    def settle(self, begins: dict[Any, int]) -> None:
        """Connect the draws to the recording around the body, where they begin at `begins`.

        Each iteration draws anew, further along by as many as one takes.
        """
        for lifted, generator, start, _ in self.places:
            lifted.source = self.outer.place(generator, begins[generator] + start)  # type: ignore[union-attr]
            lifted.advance = self.draws[generator]


def describe(tensor: Tensor) -> str:
    """A tensor in an error message."""
    return f"a tensor ({tensor._spec})"
