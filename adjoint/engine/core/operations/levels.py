"""The seam between dispatch and the transforms (vmap, jvp, grad).

Note [levels]
    A transform pushes a Level. Tensors it produces live in storages that carry the level and a
    payload: what the tensor stands for, in tensors of lower levels (a dual pair, a batched value,
    a taped value). An operation goes to the highest level among its operands, which expresses it
    in operations on payloads; those meet the next level down, and so on to the tape and the
    backend. Payloads are never mutated: a write replaces the payload of the storage, and windows
    on it are derived again from the new one (Note [windows]).

Note [arguments of transforms]
    An argument is a tensor that somebody outside holds: statistics of batch norms stacked for
    `vmap`, a cache. What the function writes to it must be seen there, so the storages of
    arguments are the exception: a write to one goes on to the tensor below, and by it, where that
    is an argument itself, further down.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

if TYPE_CHECKING:
    from adjoint.engine.core.operations.record import Record


class Level(ABC):
    """One active transform. `depth` orders levels; a deeper one handles an operation first."""

    __slots__ = ("active", "arguments", "depth", "outer_grad")

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.active = True
        self.outer_grad = True
        self.arguments: WeakSet[Any] | None = None  # storages, Note [arguments of transforms]

    @abstractmethod
    def process(self, record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Perform an operation of which some operand is at this level."""

    def attempt(self, record: Record, operands: Any, params: dict[str, Any]) -> Any:
        """What `process` gives, where that is one program; else None (Note [steps of levels])."""
        return None

    @abstractmethod
    def lift(self, tensor: Any) -> Any:
        """The payload of a tensor of a lower level, seen from this one."""

    @abstractmethod
    def window(self, payload: Any, record: Record, params: dict[str, Any]) -> Any:
        """The payload seen through one view operation."""

    @abstractmethod
    def scatter(self, payload: Any, chain: tuple[Any, ...], new: Any) -> Any:
        """The payload with what `chain` shows of it replaced by `new`."""

    @abstractmethod
    def tensors(self, payload: Any) -> tuple[Any, ...]:
        """The tensors of a payload, None for one that it does not have; its elements first."""

    @abstractmethod
    def overwrite(self, payload: Any, new: Any) -> Any:
        """Write what an argument became into what it stands for; its payload from then on."""

    def reveal(self, payload: Any) -> Any:
        """The tensor whose elements a payload has, or None where it stands for several."""
        return None
