"""Arrays from outside while a function is recorded: what it read of them, and what it wrote.

An array is known by the memory it shows. It is copied before the first write, reads that come later
are guarded by that copy, and each call does the writes again, after the program has run.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from adjoint.engine.capture.python.engine import elements_of
from adjoint.engine.capture.python.locations import Answer
from adjoint.engine.capture.tensors.arrays import is_array, restoring, root_of
from adjoint.engine.core.errors import CaptureError


class ArrayMemory:
    """The arrays that one recording meets."""

    def __init__(self, recorder: Any, trace: Any) -> None:
        self.recorder = recorder
        self.trace = trace
        self.before_writes: dict[int, tuple[Any, Any]] = {}  # arrays from outside, and copies

    def change(self, owner: Any, do: Any, args: tuple[Any, ...]) -> Any:
        """A change to something of C's: NumPy's arrays are put back and changed again."""
        recorder = self.recorder
        if is_array(owner):
            root = root_of(owner)
            if not recorder.is_fresh(root):
                if id(root) not in self.before_writes:
                    before = copy.copy(root)
                    self.before_writes[id(root)] = root, before
                    undo = restoring(root, before)
                    recorder.journal.field(root, "elements", undo)
                copies = [x.copy() if issubclass(type(x), np.ndarray) else x for x in args[1:]]
                recorder.effect(do, args[0], *copies)  # they may change until the call ends
            return do(*args)
        raise recorder.refuse(
            f"a change to a {type(owner).__name__}",
            "it is C's, and a recording cannot undo it",
            "Change it outside.",
        )

    def guard_elements(self, value: Any) -> None:
        """Have what is in an array guarded, as it was before the function wrote to it."""
        recorder = self.recorder
        root = root_of(value)
        if recorder.is_fresh(root):
            return
        if is_array(value):
            self._check_tensors_on(value)
            if id(root) in self.before_writes:
                before = self.before_writes[id(root)][1]
                recorder.guard(Answer(elements_of, (root,)), elements_of(before))
                return
        recorder.guard(Answer(elements_of, (value,)), elements_of(value))

    def is_changed(self, value: Any) -> bool:
        """Whether the function wrote to the elements of an array."""
        if not is_array(value):
            return False
        self._check_tensors_on(value)
        return id(root_of(value)) in self.before_writes

    def shares(self, value: Any) -> bool:
        """Whether a result of NumPy's shows the memory of an array from outside."""
        if not issubclass(type(value), np.ndarray):
            return False
        root = root_of(value)
        return root is not value and not self.recorder.is_fresh(root)

    def is_written(self, tensor: Any) -> bool:
        """Whether the function wrote to a tensor's memory."""
        cell = self.trace.cells.get(tensor._storage.identity)
        return cell is not None and cell.value is not cell.initial

    def _check_tensors_on(self, array: Any) -> None:
        """Refuse to read an array whose memory the recording wrote to as a tensor."""
        if type(array) is not np.ndarray:
            return
        for cell in self.trace.cells.values():
            buffer = None if cell.value is cell.initial else cell.storage.buffer
            if isinstance(buffer, np.ndarray) and np.may_share_memory(buffer, array):
                raise self.recorder.refuse(
                    "a NumPy array", "it is read after a tensor on its memory was written to",
                    "Read the tensor, or make the tensor of a copy.",
                )  # fmt: skip

    def check_written(self) -> None:
        """Refuse arrays that the function wrote to and tensors of it show as well.

        A call does what it did to arrays after the program has read its tensors.
        """
        buffers = [cell.storage.buffer for cell in self.trace.cells.values()]
        shown = [*buffers, *[t._array for t in self.trace.arguments.values()]]
        for root, _ in self.before_writes.values():
            if type(root) is np.ndarray and any(
                isinstance(x, np.ndarray) and np.may_share_memory(x, root) for x in shown
            ):
                raise CaptureError(
                    "compile: a NumPy array that the function writes to is the memory of a tensor "
                    "it uses. Write to the tensor instead, or make it of a copy."
                )
