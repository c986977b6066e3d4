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


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Nothing: a program reads each tensor where it lies at the call."""


def optimize(backend: Any = None, *, nopython: bool | None = None, **options: Any) -> Any:
    """`compile` as a decorator, under the name it had first; `nopython` is `fullgraph`."""
    if nopython is not None:
        options["fullgraph"] = nopython
    return compile(backend=backend, **options)


def forbid_in_graph(fn: Any) -> Any:
    """Mark functions that no recording may call: one that does ends with AssertionError.

    Example:
        >>> import adjoint as ad
        >>> @ad.compiler.forbid_in_graph
        ... def report(x):
        ...     return x
        >>> report(1)
        1
    """
    if isinstance(fn, (list, tuple)):
        return [forbid_in_graph(one) for one in fn]
    if not callable(fn):
        raise AssertionError("forbid_in_graph applies only to callables")

    @functools.wraps(fn)
    def outside(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            raise AssertionError(f"compile: {name_of(fn)} is forbidden in recordings")
        return fn(*args, **kwargs)

    return outside


def nested_compile_region(
    fn: Any = None, *, options: Any = None, max_reuse_entries: int = 8, reuse_hash_fn: Any = None
) -> Any:
    """The function itself: equal parts of a recording share their machine code without a mark."""
    if options is not None or reuse_hash_fn is not None:
        raise NotImplementedError("nested_compile_region: options of a region are not taken")
    return (lambda given: given) if fn is None else fn


def substitute_in_graph(
    original_fn: Any,
    *,
    can_constant_fold_through: bool = False,
    skip_signature_check: bool = False,
    is_embedded_type: bool = False,
) -> Any:
    """A decorator that gives the function itself: recordings follow the original as it runs."""
    if not callable(original_fn):
        raise TypeError(
            f"substitute_in_graph expects a function but got {type(original_fn).__name__}"
        )
    return lambda traceable: traceable
