"""compile: a function that is recorded once and from then on runs as a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.compiler.executors import DEFAULT, factory_for
from adjoint.graph.capture import Captured
from adjoint.graph.execution import ExecutorFactory


def compile(
    fn: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = True,
    dynamic: bool | None = None,
    backend: str | ExecutorFactory | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Record a function at its first call; later calls run what was recorded.

    A whole training step may be compiled: forward, backward, optimizer, random numbers. The
    function is recorded again for arguments of another shape or dtype, and when something it
    depends on has changed.

    Args:
        fn: a function, method or module; without it, a decorator is returned.
        fullgraph: accepted for PyTorch's sake; a recording is always whole.
        dynamic: whether one program serves many sizes.
        backend: what runs the programs: a name of `compiler.list_backends()`, or an executor
            factory (`graph.ExecutorFactory`).
        mode: PyTorch's modes.
        options: passed on to the backend.
        disable: leave the function as it is.

    Example:
        >>> import adjoint as ad
        >>> @ad.compile
        ... def square_sum(x):
        ...     return (x * x).sum()
        >>> square_sum(ad.tensor([1.0, 2.0]))
        tensor(5.)
    """
    if fn is None:
        return lambda fn: compile(
            fn,
            fullgraph=fullgraph,
            dynamic=dynamic,
            backend=backend,
            mode=mode,
            options=options,
            disable=disable,
        )
    if disable:
        return fn
    factory = factory_for(
        DEFAULT if backend is None else backend, mode or "default", dict(options or {})
    )
    return Captured(fn, factory)
