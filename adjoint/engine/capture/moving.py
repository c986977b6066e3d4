"""Numbers and tensors that a function puts somewhere else than where it read them."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

from adjoint.engine.capture.python.locations import Location
from adjoint.engine.capture.python.plain import NUMBERS
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.core.value import TensorBase
from adjoint.engine.tensor.tensor import root_of


class ReboundTensor(Location):
    """A tensor that a function gives other memory: given to each call, wherever it is kept."""

    __slots__ = ()

    def __init__(self, tensor: Any) -> None:
        super().__init__(weakref.ref(tensor), id(tensor))

    def token(self) -> tuple[Any, ...]:
        return self.__class__, self.key

    def now(self) -> Any:
        return self.owner()

    def way(self) -> str:
        return " itself"


def has_moved(before: Any, now: Any) -> bool:
    """Whether a function put another number or tensor where it had read one."""
    if is_tensor(before):
        return is_tensor(now) and now is not before and not _is_of_body(now)
    if holds_state(before):
        return now is not before and type(now) is type(before) and holds_state(now)
    number = type(before) in NUMBERS and type(before) is not bool
    return number and (now is not before) and (type(now) in NUMBERS or is_host(now))


def holds_state(value: Any, depth: int = 4) -> bool:
    """Whether a value is a list, tuple or dict of tensors: state that goes from call to call.

    Such a container is replaced as a tensor is (`self.hidden = (h, c)`), and given to each call
    as arguments are (Note [given containers]). None may stand in it where a tensor is missing.
    Deep ones are not looked through: a list may hold itself.
    """
    kind = type(value)
    if kind is dict:
        if not all(type(key) is str for key in value):
            return False
        parts = value.values()
    elif kind is list or kind is tuple:
        parts = value
    else:
        return False
    return any(part is not None for part in parts) and all(
        part is None
        or (is_tensor(part) and not _is_of_body(part))
        or (depth > 1 and holds_state(part, depth - 1))
        for part in parts
    )


def _is_of_body(tensor: Any) -> bool:
    """Whether the body of a loop or branch made a tensor."""
    trace = tensor._storage.trace
    return trace is not None and trace.closes


def is_host(value: Any) -> bool:
    """Whether a value stands for a number of each call."""
    return isinstance(value, HostScalar)


def tensors_in(value: Any) -> Iterator[Any]:
    """The tensors that a value is or, not to be changed itself, holds; of views, the bases too.

    A view learns of a write to its base when somebody asks where it is on the tape.
    """
    kind = type(value)  # what it claims to be would be asked of its own code
    if issubclass(kind, TensorBase):
        yield value
        if value._base is not None:
            yield root_of(value)
    elif issubclass(kind, (tuple, frozenset)):
        for part in value:
            yield from tensors_in(part)
