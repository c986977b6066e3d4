"""The executors `compile(backend=...)` chooses from, by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from adjoint.engine.compiler.options import Options
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.loading import bring, brought
from adjoint.engine.graph.execution import Executable, ExecutorFactory, Task, interpreted

# Given the `mode` and `options` of `compile`, the factory that makes executables.
Maker = Callable[[str, dict[str, Any]], ExecutorFactory]

# Given a program and the options, what runs it.
CompileTask = Callable[..., Executable]

_COMPILERS: dict[str, CompileTask] = {}
_MAKERS: dict[str, Maker] = {"interpret": lambda mode, options: interpreted}
# PyTorch's names for much the same: its compiler, and running without it.
ALIASES = {"inductor": "native", "eager": "interpret", "aot_eager": "interpret"}
DEFAULT = "native"
GRAPH_BACKENDS = "adjoint.fx.backends"  # what runs programs by functions of graph modules
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def register_backend(name: str, maker: Maker) -> None:
    """Make `compile(backend=name)` mean the factory that `maker(mode, options)` returns."""
    _MAKERS[name] = maker


def register_compiler(device: str, compile_task: CompileTask) -> None:
    """Have programs whose tensors are on a type of device compiled by a function."""
    _COMPILERS[device] = compile_task


def compiler_for(device: str) -> CompileTask:
    """What compiles programs on a type of device; the interpreter, where nothing does."""
    if device not in _COMPILERS and device in HOOKS.devices:
        bring([HOOKS.devices[device]])  # it registers itself
    return _COMPILERS.get(device, interpreted_with)


def interpreted_with(task: Task, options: Options) -> Executable:
    """A task interpreted, whatever the options."""
    return interpreted(task)


def list_backends() -> list[str]:
    """The names `compile(backend=...)` takes.

    >>> "interpret" in list_backends()
    True
    """
    return sorted({*_MAKERS, *HOOKS.backends})


class _Chosen:
    """What `compile` uses where it is not told."""

    backend: Any = None


def set_default_backend(backend: str | ExecutorFactory | None) -> None:
    """Choose what `compile` uses where it is not told; None for Adjoint's own compiler.

    Example:
        >>> set_default_backend("interpret")
        >>> get_default_backend()
        'interpret'
        >>> set_default_backend(None)
    """
    if backend is not None and not callable(backend):
        factory_for(backend, "default", {})  # which says what there is
    _Chosen.backend = backend


def get_default_backend() -> Any:
    """What `compile` uses where it is not told."""
    return DEFAULT if _Chosen.backend is None else _Chosen.backend


def factory_for(
    backend: str | ExecutorFactory,
    mode: str,
    options: dict[str, Any],
    validate: bool | None = None,
) -> Any:
    """The executor factory that `compile`'s arguments choose."""
    if mode not in MODES:
        raise RuntimeError(
            f"compile: unrecognized mode {mode!r}, should be one of: {', '.join(MODES)}"
        )
    if not isinstance(backend, str):
        if validate:
            refuse_to_validate(getattr(backend, "__name__", repr(backend)))
        return brought(GRAPH_BACKENDS).delegate(backend, options) if of_graphs(backend) else backend
    if backend not in _MAKERS:
        backend = ALIASES.get(backend, backend)
    if backend not in _MAKERS and backend in HOOKS.backends:
        bring([HOOKS.backends[backend]])  # it registers itself
    if backend not in _MAKERS:
        raise RuntimeError(
            f"compile: there is no backend {backend!r}. Available: {', '.join(list_backends())}."
        )
    if validate is not None and backend == DEFAULT:
        options = {**options, "validate": validate}
    elif validate and backend != "interpret":  # which is what others are checked against
        refuse_to_validate(backend)
    return _MAKERS[backend](mode, options)


def of_graphs(backend: Callable[..., Any]) -> bool:
    """Whether a backend is PyTorch's kind: `backend(graph_module, example_inputs)`."""
    try:
        parameters = inspect.signature(backend).parameters.values()
    except (TypeError, ValueError):
        return False
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len([p for p in places if p.default is p.empty]) == 2


def refuse_to_validate(backend: str) -> None:
    """Refuse to check what knows of no kernels."""
    raise RuntimeError(
        f"compile: validate=True checks the kernels of the {DEFAULT} backend, received "
        f"backend={backend!r}. Leave out one of the two."
    )
