"""What a function changed of tensors from outside, besides their elements."""

from __future__ import annotations

from adjoint.engine.capture.program.outputs import Outputs
from adjoint.engine.capture.program.recipes import OutsideTensor
from adjoint.engine.core.errors import CaptureError, users_line
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


class Effects:
    """What the function changed in Python, besides elements."""

    def __init__(self, trace: Trace, outputs: Outputs) -> None:
        self.grads: list[tuple[OutsideTensor, int]] = []
        self.result_grads: list[tuple[int, int]] = []
        self.places: list[tuple[OutsideTensor, int]] = []
        self.flags: list[tuple[OutsideTensor, bool]] = []
        self.detached: list[OutsideTensor] = []
        self.joined: list[tuple[OutsideTensor, OutsideTensor]] = []
        reshaped = {id(step.tensor) for step in trace.rebound if step.how == "window"}
        for tensor, (node, _, required, _, before, _) in trace.journal.items():
            now = None if tensor._grad_meta is None else tensor._grad_meta.grad
            if not outputs.is_outside(tensor):
                if now is not None and outputs.returns(tensor):
                    self.result_grads.append((outputs.recipe(tensor), outputs.recipe(now)))
                continue  # made inside
            if now is not before or tensor in trace.grads_set:
                self.grads.append((outputs.ref(tensor), outputs.recipe(now)))
            if id(tensor) in reshaped:
                _check_off_tape(tensor)
                continue
            if tensor._node is not node and tensor._base is None:
                seed = outputs.seed(tensor, trace.value_of(tensor))
                if seed is not None:
                    self.places.append((outputs.ref(tensor), seed))
                    continue
                if tensor._node is not None:
                    self.joined.append((outputs.ref(tensor), _place_from(tensor, trace, outputs)))
                    continue
                self.detached.append(outputs.ref(tensor))
            if tensor._requires_grad != required and tensor._node is None:
                self.flags.append((outputs.ref(tensor), tensor._requires_grad))


def times_written(trace: Trace, storage: Storage) -> int:
    """How often the function wrote to a storage from outside, as its version tells."""
    return max(storage.version - trace.versions.get(storage, storage.version), 1)
