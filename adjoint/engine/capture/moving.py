"""Numbers and tensors that a function puts somewhere else than where it read them."""

from __future__ import annotations

from typing import Any

from adjoint.engine.capture.python.plain import NUMBERS
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.host import HostScalar


def has_moved(before: Any, now: Any) -> bool:
    """Whether a function put another number or tensor where it had read one."""
    if is_tensor(before):
        return is_tensor(now) and now is not before and not _is_of_body(now)
    number = type(before) in NUMBERS and type(before) is not bool
    return number and (now is not before) and (type(now) in NUMBERS or is_host(now))


def _is_of_body(tensor: Any) -> bool:
    """Whether the body of a loop or branch made a tensor."""
    trace = tensor._storage.trace
    return trace is not None and trace.closes


def is_host(value: Any) -> bool:
    """Whether a value stands for a number of each call."""
    return isinstance(value, HostScalar)
