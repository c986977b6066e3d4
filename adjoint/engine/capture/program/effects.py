"""What a recorded function changed, for calls to change it again."""

from __future__ import annotations

from dataclasses import dataclass

from adjoint.engine.capture.program.outputs import Outputs
from adjoint.engine.capture.program.python_state import PythonState
from adjoint.engine.capture.program.recipes import OutsideTensor
from adjoint.engine.core.errors import CaptureError, users_line
from adjoint.engine.graph.record.sources import Source
from adjoint.engine.graph.record.streams import Moves
from adjoint.engine.graph.record.trace import Trace
from adjoint.engine.tensor.storage import Storage
from adjoint.engine.tensor.tensor import Tensor


def _check_off_tape(tensor: Tensor) -> None:
    if tensor.requires_grad:
        raise CaptureError(
            f"compile: {users_line()}: a tensor from outside whose shape is changed in place is "
            "put on the tape too, which cannot be done again. Use the form without '_' and go on "
            "with its result."
        )


def _place_from(tensor: Tensor, trace: Trace, outputs: Outputs) -> OutsideTensor:
    """The tensor from outside whose place on the tape another one was given: `h.copy_(x)`."""
    place = (tensor._node, tensor._nr)
    other = trace.edges.get(place)
    other = outputs.at_place(place) if other is None else other
    if other is None or other in trace.journal:
        raise CaptureError(
            f"compile: {users_line()}: a tensor from outside, {tensor._spec}, is given a place on "
            "the tape that cannot be found again. Write a clone() into it, or do it before calling "
            "the function."
        )
    return outputs.ref(other)


@dataclass(frozen=True, slots=True)
class Effects:
    """What a program's call changes."""

    writes: list[tuple[Source, int]]  # memory from outside: which output it holds from then on
    write_counts: list[int]  # how often each of them was written to
    grads: list[tuple[OutsideTensor, int]]  # tensors and the recipes of their new gradients
    result_grads: list[tuple[int, int]]  # the same for results, by their recipes
    places: list[tuple[OutsideTensor, int]]  # tensors written on the tape: which seed they become
    flags: list[tuple[OutsideTensor, bool]]  # tensors that want gradients from then on, or none
    detached: list[OutsideTensor]  # tensors that were taken off the tape
    joined: list[tuple[OutsideTensor, OutsideTensor]]  # tensors and whose place there they take
    rebound: list[tuple[OutsideTensor, int, str]]  # tensors and the recipes of what they show now
    moves: Moves  # where generators are left
    python: PythonState | None  # what is done to Python's state

    @property
    def any(self) -> bool:
        """Whether a call changes anything besides making results."""
        tensors = self.writes or self.grads or self.places or self.rebound or self.flags
        return bool(tensors or self.detached or self.joined or self.python or self.moves.any)


def effects_of(trace: Trace, outputs: Outputs, python: PythonState | None) -> Effects:
    """What the function changed, told before the trace is undone."""
    effects = Effects(
        writes=[],
        write_counts=[],
        grads=[],
        result_grads=[],
        places=[],
        flags=[],
        detached=[],
        joined=[],
        rebound=[(outputs.ref(t), outputs.recipe(shown), how) for t, shown, how in trace.rebound],
        moves=trace.moves(),
        python=python,
    )
    _add_fields(effects, trace, outputs)
    for cell in trace.cells.values():
        if cell.source is not None and cell.value is not cell.initial:
            effects.writes.append((cell.source, outputs.index(cell.value)))
            effects.write_counts.append(_times_written(trace, cell.storage))
    return effects


def _add_fields(effects: Effects, trace: Trace, outputs: Outputs) -> None:
    """What changed of tensors besides their elements: gradients, flags, places on the tape."""
    reshaped = {id(step.tensor) for step in trace.rebound if step.how == "window"}
    for tensor, (node, _, required, _, before, _) in trace.journal.items():
        now = None if tensor._grad_meta is None else tensor._grad_meta.grad
        if not outputs.is_outside(tensor):
            if now is not None and outputs.returns(tensor):
                effects.result_grads.append((outputs.recipe(tensor), outputs.recipe(now)))
            continue  # made inside
        if now is not before or tensor in trace.grads_set:
            effects.grads.append((outputs.ref(tensor), outputs.recipe(now)))
        if id(tensor) in reshaped:
            _check_off_tape(tensor)
            continue
        if tensor._node is not node and tensor._base is None:
            seed = outputs.seed(tensor, trace.value_of(tensor))
            if seed is not None:
                effects.places.append((outputs.ref(tensor), seed))
                continue
            if tensor._node is not None:
                effects.joined.append((outputs.ref(tensor), _place_from(tensor, trace, outputs)))
                continue
            effects.detached.append(outputs.ref(tensor))
        if tensor._requires_grad != required and tensor._node is None:
            effects.flags.append((outputs.ref(tensor), tensor._requires_grad))


def _times_written(trace: Trace, storage: Storage) -> int:
    """How often the function wrote to a storage from outside, as its version tells."""
    return max(storage.version - trace.versions.get(storage, storage.version), 1)
