"""PyTorch's marks on code that is compiled: what they ask for, in terms of recordings."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from adjoint.engine.capture.capture import is_compiling
from adjoint.engine.capture.recordings.retracing import name_of
from adjoint.engine.compiler.api import compile
from adjoint.engine.compiler.modules import is_module
from adjoint.engine.core.errors import CaptureError


def disable(
    fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None
) -> Any:
    """Mark a function or module that must run as Python, never as part of a recording.

    A recording is whole, so a compiled function that calls it says so instead of leaving it out.

    Example:
        >>> import adjoint as ad
        >>> @ad.compiler.disable
        ... def report(x):
        ...     return float(x.sum())
        >>> report(ad.ones(3))
        3.0
        >>> ad.compile(lambda x: report(x))(ad.ones(3))
        Traceback (most recent call last):
        ...
        adjoint.errors.CaptureError: compile: report is marked ...
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if is_module(fn):
        fn.forward = disable(fn.forward, reason=reason)  # type: ignore[attr-defined]
        return fn
    function = fn
    why = f" ({reason})" if reason else ""

    @functools.wraps(function)
    def eager(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            raise CaptureError(
                f"compile: {name_of(function)} is marked with compiler.disable{why} and cannot be "
                "recorded. Call it outside the compiled function, or compile the parts around it."
            )
        return function(*args, **kwargs)

    return eager


def allow_in_graph(fn: Any) -> Any:
    """The function itself: whatever a recorded function calls is recorded with it."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """The function itself: what it returns while being recorded is kept by the recording."""
    return fn


def cudagraph_mark_step_begin() -> None:
    """Nothing: results of a compiled call are memory of their own, and outlive the next call."""


def is_dynamo_compiling() -> bool:
    """The same as `is_compiling`."""
    return is_compiling()


def is_exporting() -> bool:
    """False: there is no export besides recording."""
    return False


def graph_break(msg: str = "") -> None:
    """Where a recording must stop: in a compiled function what follows cannot be recorded."""
    if is_compiling():
        raise CaptureError(f"compile: graph_break({msg!r}): a recording is whole and has no breaks")


def mark_static(t: Any, index: Any = None, **_: Any) -> None:
    """Nothing: every size is part of a recording unless it is marked dynamic."""


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Nothing: a program reads each tensor where it lies at the call."""


def optimize(backend: Any = None, **options: Any) -> Any:
    """`compile` as a decorator, under the name it had first."""
    return compile(backend=backend, **options)
