"""Where a captured program's inputs come from at each call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.tensor.storage import Storage
from adjoint.engine.tensor.tensor import Tensor


class Source(ABC):
    """Finds the array behind an input; the same array is written when the program changes it."""

    __slots__ = ()
    is_state = False  # whether it is the same array at each call

    @abstractmethod
    def storage(self, args: Sequence[Any]) -> Storage:
        """The storage the input shows (part of)."""

    def array(self, args: Sequence[Any]) -> Any:
        """The array the input shows."""
        return self.storage(args).buffer

    def given(self, args: Sequence[Any]) -> Any:
        """What an executable is given: that array, or a number."""
        return self.array(args)

    def read(self, args: Sequence[Any]) -> Any:
        """The input's value for the interpreter: a tensor on that array, or a number."""
        return HOOKS.array.wrap(self.array(args))


class CallArgument(Source):
    """A tensor among the call's arguments: its window, or its whole storage."""

    __slots__ = ("position", "whole")

    def __init__(self, position: int, *, whole: bool) -> None:
        self.position = position
        self.whole = whole

    def storage(self, args: Sequence[Any]) -> Storage:
        return args[self.position]._storage

    def array(self, args: Sequence[Any]) -> Any:
        tensor = args[self.position]
        return tensor._storage.buffer if self.whole else tensor._array


class State(Source):
    """A storage the function reached by itself: a parameter, a buffer, a constant."""

    __slots__ = ("made", "own_storage")
    is_state = True

    def __init__(self, storage: Storage) -> None:
        self.own_storage = storage
        self.made = False  # whether the recording made it, of Python's numbers, for itself

    def storage(self, args: Sequence[Any]) -> Storage:
        return self.own_storage


class GradOf(Source):
    """Whatever a tensor's `.grad` is at the time of the call; the tensor may be an argument."""

    __slots__ = ("position", "tensor")

    def __init__(self, tensor: Tensor, position: int | None = None) -> None:
        self.position = position
        self.tensor = tensor if position is None else None

    def storage(self, args: Sequence[Any]) -> Storage:
        holder: Any = self.tensor if self.position is None else args[self.position]
        grad = holder.grad
        assert grad is not None  # a guard saw to it
        return grad._storage


class Host(Source):
    """A number read from the host."""

    __slots__ = ("scalar",)

    def __init__(self, scalar: HostScalar) -> None:
        self.scalar = scalar

    def storage(self, args: Sequence[Any]) -> Storage:
        raise TypeError("a host number has no storage")

    def given(self, args: Sequence[Any]) -> Any:
        return self.scalar.get()

    read = given
