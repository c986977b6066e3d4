"""What a program is, and how what it gives is written down for comparison."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad

Wrap = Callable[..., Any]
Play = Callable[[Wrap], Any]
PROGRAMS: dict[str, Play] = {}


def program(play: Play) -> Play:
    """Put a program on the table: it is given what wraps its function, and gives what it saw."""
    subject = play.__module__.rpartition(".")[2]
    PROGRAMS[f"{subject}: {play.__name__.rstrip('_')}"] = play
    return play


def told(value: Any) -> Any:
    """A value as something that can be compared: of tensors elements, shape, dtype and tape."""
    if isinstance(value, ad.Tensor):
        held = value.detach().to(ad.float64) if value.dtype.is_floating_point else value.detach()
        numbers = np.round(held.numpy().astype(float), 4).tolist()
        tape = value.requires_grad, value.grad_fn is None, value.is_leaf
        return numbers, str(value.dtype), tuple(value.stride()), *tape
    if isinstance(value, dict):
        return type(value).__name__, [(told(k), told(v)) for k, v in value.items()]
    if isinstance(value, (list, tuple, deque)):
        return type(value).__name__, [told(v) for v in value]
    if isinstance(value, (set, frozenset)):
        return type(value).__name__, sorted(map(repr, value))
    if isinstance(value, BaseException):
        return type(value).__name__, str(value)
    if isinstance(value, np.ndarray):
        return "array", np.round(value.astype(float), 4).tolist()
    if isinstance(value, float):
        return "float", round(value, 4)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields: dict[str, Any] = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        own: dict[str, Any] = getattr(value, "__dict__", {})
        return type(value).__name__, told(fields | own)
    return type(value).__name__, repr(value)


def tried(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a call gives, or the exception it raises."""
    try:
        return fn(*args, **kwargs)
    except Exception as error:
        return error.with_traceback(None)


def ones(*shape: int) -> Any:
    """Ones."""
    return ad.ones(*shape)


def ramp(*shape: int) -> Any:
    """0, 1, 2 and so on."""
    count = 1
    for size in shape:
        count *= size
    return ad.arange(float(count)).reshape(shape)


def changed(wrap: Wrap, fn: Any, *changes: Callable[[], Any], x: Any = None) -> Any:
    """Call, change, call twice, and so on."""
    run = wrap(fn)
    given = ones(2) if x is None else x
    out = [tried(run, given), tried(run, given)]
    for change in changes:
        change()
        out += [tried(run, given), tried(run, given)]
    return out


def times(run: Any, *args: Any, n: int = 4) -> list[Any]:
    return [tried(run, *(args or (ones(2),))) for _ in range(n)]
